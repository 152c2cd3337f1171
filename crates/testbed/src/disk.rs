//! A small disk that can be filled up: a tmpfs, for which tests need to be root.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::unmount_at_the_end;

/// A file system of its own; unmounted when dropped, or with the test run.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one of `size` (as tmpfs takes it: `4m`) at a directory, which is made if need be.
    pub fn mount(at: &Path, size: &str) -> SmallDisk {
        fs::create_dir_all(at).expect("create the mount point");
        let options = format!("size={size},mode=0700");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at).status();
        assert!(mounted.is_ok_and(|status| status.success()), "failed to mount a tmpfs, which only root may");
        unmount_at_the_end(at);
        SmallDisk(at.to_owned())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Takes all space that is left.
    pub fn fill(&self) {
        File::create(self.0.join("filler")).expect("make the filler");
        self.fill_rest();
    }

    /// Takes what has become free since [`SmallDisk::fill`].
    pub fn fill_rest(&self) {
        let mut filler = File::options().append(true).open(self.0.join("filler")).expect("open the filler");
        for size in [4096, 1] {
            while filler.write_all(&vec![1; size]).is_ok() {}
        }
    }

    /// Gives the space back.
    pub fn free(&self) {
        fs::remove_file(self.0.join("filler")).expect("remove the filler");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
