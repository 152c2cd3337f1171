//! Where a log lives, as a name that the database keeps, so that a log that was taken away with everything that names it is
//! missed by whoever starts in its place.
//!
//! The name tells machines apart, and the directories of one machine, also those that several containers see under the
//! same path. A directory that goes with its container has another name each time: nobody is asked for a log that could not
//! stay. Nothing is read from the directory itself, which may be gone.

use std::path::Path;
use std::{fs, path};

use aws_lc_rs::digest;

use super::error::{Doing, Error};
use crate::hex;

/// The name of the place of the log in `directory`.
pub(super) fn name(directory: &Path) -> Result<String, Error> {
    let read = |path: &str| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let path = path::absolute(directory).doing("find", directory)?;
    let path = on_its_mount(&read("/proc/self/mountinfo"), &path.to_string_lossy());
    Ok(of(&read("/proc/sys/kernel/hostname"), &read("/etc/machine-id"), &path))
}

/// Short enough for an index, however long the path is.
fn of(host: &str, machine: &str, path: &str) -> String {
    let place = format!("{}\n{}\n{path}", host.trim(), machine.trim());
    hex(digest::digest(&digest::SHA256, place.as_bytes()).as_ref())
}

/// The path, with its path within the file system if that is another, as that of a volume is, and with the upper layer of an
/// overlay. A directory that is mounted on itself, as service managers do, is what it is elsewhere on the machine.
fn on_its_mount(mounts: &str, path: &str) -> String {
    let escaped = path.replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011").replace('\n', "\\012");
    let mounted = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(3);
        let (root, point) = (fields.next()?.trim_end_matches('/'), fields.next()?.trim_end_matches('/'));
        let below = escaped.strip_prefix(point).filter(|below| below.is_empty() || below.starts_with('/'))?;
        let mut file_system = line.split_once(" - ")?.1.split(' ');
        let layers = if file_system.next() == Some("overlay") { file_system.nth(1) } else { None };
        let upper = layers.and_then(|layers| layers.split(',').find_map(|layer| layer.strip_prefix("upperdir=")));
        let within = format!("{root}{below}");
        let within = if escaped.ends_with(&within) { "" } else { within.as_str() };
        Some((point.len(), format!("{}{within}", upper.unwrap_or_default())))
    });
    // Of those that hide each other, the last is seen.
    let (_, mounted) = mounted.max_by_key(|(length, _)| *length).unwrap_or_default();
    format!("{mounted}:{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_told_from_the_same_path_on_another_mount() {
        let machine = "22 27 0:21 / /proc rw - proc proc rw\n27 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
                       31 27 8:17 / /srv rw - xfs /dev/sdb1 rw\n32 27 8:1 /home/a\\040b /srv/c\\040d rw - ext4 /dev/sda1 rw";
        let upper = "50 1 0:60 / / rw - overlay overlay rw,lowerdir=/l/1:/l/2,upperdir=/snapshots/7/fs,workdir=/w";
        let volume = format!("{upper}\n51 50 8:1 /volumes/x /data rw master:1 - ext4 /dev/sda1 rw");
        let hidden = format!("{volume}\n52 50 8:1 /volumes/y /data rw - ext4 /dev/sda1 rw");
        let itself = format!("{machine}\n40 27 8:1 /var/lib/stateward /var/lib/stateward rw - ext4 /dev/sda1 rw");
        let apart = "41 1 8:2 / /var rw - ext4 /dev/sda2 rw\n42 41 8:2 /lib/s /var/lib/s rw - ext4 /dev/sda2 rw";
        let subvolume = "43 1 0:50 /@ / rw - btrfs /dev/sda1 rw,subvol=/@";
        let in_unit = format!("{subvolume}\n44 43 0:50 /@/var/lib/s /var/lib/s rw - btrfs /dev/sda1 rw,subvol=/@");
        let table: &[(&str, &str, &str)] = &[
            (&itself, "/var/lib/stateward/audit", ":/var/lib/stateward/audit"),
            (apart, "/var/lib/s/audit", ":/var/lib/s/audit"),
            (subvolume, "/var/lib/s/audit", "/@/var/lib/s/audit:/var/lib/s/audit"),
            (&in_unit, "/var/lib/s/audit", "/@/var/lib/s/audit:/var/lib/s/audit"),
            (machine, "/var/lib/stateward/audit", ":/var/lib/stateward/audit"),
            (machine, "/srv/audit", ":/srv/audit"),
            (machine, "/srv2/audit", ":/srv2/audit"),
            (machine, "/srv/c d/audit", "/home/a\\040b/audit:/srv/c d/audit"),
            (upper, "/data/audit", "/snapshots/7/fs:/data/audit"),
            (&volume, "/data/audit", "/volumes/x/audit:/data/audit"),
            (&volume, "/database/audit", "/snapshots/7/fs:/database/audit"),
            (&hidden, "/data/audit", "/volumes/y/audit:/data/audit"),
            ("", "/data/audit", ":/data/audit"),
            ("what is this", "/data/audit", ":/data/audit"),
        ];
        for (mounts, path, expected) in table {
            assert_eq!(on_its_mount(mounts, path), *expected, "{path} with {mounts}");
        }
    }

    #[test]
    fn a_place_has_one_name_whether_it_is_there_or_not_and_another_has_another() {
        let gone = Path::new("/nowhere/at/all/audit");
        assert_eq!(name(gone).unwrap(), name(gone).unwrap());
        assert_ne!(name(gone).unwrap(), name(Path::new("/nowhere/at/audit")).unwrap());
        assert_eq!(of("node-1\n", "4f1e\n", ":/data/audit"), of("node-1", "4f1e", ":/data/audit"));
        let others =
            [("node-2", "4f1e", ":/data/audit"), ("node-1", "77aa", ":/data/audit"), ("node-1", "", ":/x/audit")];
        for (host, machine, path) in others {
            assert_ne!(of("node-1", "4f1e", ":/data/audit"), of(host, machine, path), "{host} {machine} {path}");
        }
    }
}
