//! Every change to a log is found, and told apart from what is no tampering.

use std::fs;
use std::path::{Path, PathBuf};

use access::audit::{Fault, Head, Key, Report, Witness, verify};
use testbed::scale;

use super::{Place, act, decision, files, told};

/// Lines, each with the file that it is in.
type Lines = Vec<(usize, String)>;

/// A closed log as a list of lines.
struct Specimen {
    place: Place,
    names: Vec<String>,
    lines: Lines,
    key: Key,
    head: Head,
    copy: PathBuf,
}

impl Specimen {
    async fn grow(name: &str, entries: usize, rotate_bytes: u64) -> Specimen {
        Specimen::grow_at(Place::new(name).rotating_at(rotate_bytes), entries).await
    }

    async fn grow_at(place: Place, entries: usize) -> Specimen {
        let audit = place.open().await;
        for i in 0..entries {
            match i % 3 {
                0 => audit.record(decision(&format!("d{i}"))).await,
                _ => drop(audit.commit(act(&format!("a{i}"))).await.unwrap()),
            }
        }
        audit.close().await;
        let (names, contents): (Vec<_>, Vec<_>) = files(&place.directory()).into_iter().unzip();
        let lines = contents.iter().enumerate();
        let lines = lines.flat_map(|(file, text)| text.lines().map(move |line| (file, line.to_owned()))).collect();
        let (key, head) = (place.key(), place.head().await.unwrap());
        let copy = place.root.join("copy");
        let specimen = Specimen { place, names, lines, key, head, copy };
        let report = specimen.check(&specimen.lines);
        assert!(!report.tampered(), "{}", told(&report));
        assert_eq!((report.lines, report.last), (specimen.lines.len() as u64, Some(head)));
        specimen
    }

    fn write(&self, lines: &[(usize, String)]) {
        let _ = fs::remove_dir_all(&self.copy);
        fs::create_dir(&self.copy).unwrap();
        for (index, name) in self.names.iter().enumerate() {
            let content = lines.iter().filter(|(file, _)| *file == index).map(|(_, line)| format!("{line}\n"));
            fs::write(self.copy.join(name), content.collect::<String>()).unwrap();
        }
    }

    fn check(&self, lines: &[(usize, String)]) -> Report {
        self.write(lines);
        self.verify(&self.copy)
    }

    fn verify(&self, directory: &Path) -> Report {
        verify(directory, &self.key, &[(Witness::Database, self.head)]).unwrap()
    }

    /// Checks a changed log and that the change is found as one of `faults`.
    fn finds(&self, what: &str, lines: &[(usize, String)], faults: &[Fault]) {
        let report = self.check(lines);
        assert!(report.tampered(), "{what}: not found");
        let named = report.evidence().any(|finding| faults.contains(&finding.fault));
        assert!(named, "{what}: none of {faults:?} in\n{}", told(&report));
    }
}

/// A line with another content and the code that it had.
fn edited(line: &str) -> String {
    line.replacen("\"kind\":\"", "\"kind\" :\"", 1)
}

/// A line that looks like the log's own, written by somebody without the key.
fn forged(line: &str) -> String {
    let (body, mac) = line.rsplit_once(",\"mac\":\"").unwrap();
    let other = |c: char| c.to_digit(10).map_or(c, |digit| char::from_digit(9 - digit, 10).unwrap_or(c));
    let mac: String = mac.chars().map(other).collect();
    format!("{body},\"mac\":\"{mac}")
}

#[tokio::test]
async fn every_change_at_every_position_is_found_and_named() {
    let specimen = Specimen::grow("positions", 36, 3000).await;
    assert!(specimen.names.len() >= 4, "three rotated files and the current one: {:?}", specimen.names);
    let original = &specimen.lines;
    for (at, (file, line)) in original.iter().enumerate() {
        let with = |change: &dyn Fn(&mut Lines)| {
            let mut lines = original.clone();
            change(&mut lines);
            lines
        };
        let last = at + 1 == original.len();

        let edit = with(&|lines| lines[at].1 = edited(line));
        specimen.finds(&format!("edit of {at}"), &edit, &[Fault::Edited]);
        let edit = with(&|lines| lines[at].1 = forged(line));
        specimen.finds(&format!("new code of {at}"), &edit, &[Fault::Edited, Fault::HeadMismatch]);
        let edit = with(&|lines| lines[at].1 = "garbage".to_owned());
        specimen.finds(&format!("garbage at {at}"), &edit, &[Fault::Edited]);
        let edit = with(&|lines| lines[at].1.clear());
        specimen.finds(&format!("blank at {at}"), &edit, &[Fault::Edited]);

        let insert = with(&|lines| lines.insert(at, (*file, forged(line))));
        specimen.finds(&format!("forged line before {at}"), &insert, &[Fault::Inserted]);
        let insert = with(&|lines| lines.insert(at, (*file, "garbage".to_owned())));
        specimen.finds(&format!("garbage before {at}"), &insert, &[Fault::Inserted]);
        let repeat = with(&|lines| lines.insert(at, (*file, line.clone())));
        specimen.finds(&format!("{at} twice"), &repeat, &[Fault::Inserted]);

        let remove = with(&|lines| drop(lines.remove(at)));
        let faults = if last { [Fault::Truncated; 2] } else { [Fault::Removed, Fault::MissingFile] };
        specimen.finds(&format!("removal of {at}"), &remove, &faults);
        if !last {
            let swap = with(&|lines| {
                let (above, below) = lines.split_at_mut(at + 1);
                std::mem::swap(&mut above[at].1, &mut below[0].1);
            });
            specimen.finds(&format!("swap of {at} and the next"), &swap, &[Fault::Reordered]);
        }
        for (from, (_, other)) in original.iter().enumerate() {
            let repeat = with(&|lines| lines.insert(at, (*file, other.clone())));
            specimen.finds(&format!("{from} repeated before {at}"), &repeat, &[Fault::Inserted]);
        }
        let cut = with(&|lines| lines.truncate(at));
        specimen.finds(&format!("end from {at} cut off"), &cut, &[Fault::Truncated]);
        if at > 0 {
            let cut = with(&|lines| drop(lines.drain(..at)));
            specimen.finds(&format!("beginning before {at} cut off"), &cut, &[Fault::MissingFile, Fault::Removed]);
        }
    }
}

#[tokio::test]
async fn what_is_added_behind_the_last_line_is_found_and_is_not_taken_for_a_torn_end() {
    let specimen = Specimen::grow("behind", 12, 1 << 20).await;
    let (file, last) = specimen.lines.last().unwrap();
    let long = "x".repeat(9000);
    let unsigned = last.rsplit_once(",\"mac\"").unwrap().0.to_owned() + "}";
    for added in [&forged(last), last, &unsigned, "{\"n\":999,\"kind\":\"act\"}", "garbage", "", &long] {
        let mut lines = specimen.lines.clone();
        lines.push((*file, added.to_owned()));
        specimen.finds(&format!("{added:?} at the end"), &lines, &[Fault::Inserted, Fault::Edited]);
        // Nobody remembers a head.
        assert!(verify(&specimen.copy, &specimen.key, &[]).unwrap().tampered(), "{added:?}");
    }
}

#[tokio::test]
async fn every_change_to_a_log_whose_beginning_expired_is_found() {
    let specimen = Specimen::grow_at(Place::new("expired").rotating_at(2000).keeping(2), 40).await;
    let original = &specimen.lines;
    assert!(specimen.names.len() == 3 && !original[0].1.starts_with("{\"n\":1,"), "{:?}", specimen.names);
    let found = |what: &str, at: usize, lines: &[(usize, String)]| {
        assert!(specimen.check(lines).tampered(), "{what} {at}: not found");
    };
    for (at, (file, line)) in original.iter().enumerate() {
        let changed = |text: String| {
            let mut lines = original.clone();
            lines[at].1 = text;
            lines
        };
        found("edit", at, &changed(edited(line)));
        found("new code", at, &changed(forged(line)));
        found("garbage", at, &changed("garbage".to_owned()));
        for (from, (_, other)) in original.iter().enumerate() {
            let mut lines = original.clone();
            lines.insert(at, (*file, other.clone()));
            found("repeat before", at, &lines);
            if from != at {
                found("replacement of", at, &changed(other.clone()));
            }
        }
        for through in at..original.len() {
            let mut lines = original.clone();
            lines.drain(at..=through);
            found("removal from", at, &lines);
        }
    }
}

#[tokio::test]
async fn random_changes_of_a_larger_log_are_found() {
    let specimen = Specimen::grow("random", scale().of(300, 3000), 20_000).await;
    let mut random = fastrand::Rng::with_seed(testbed::seed("random_changes_of_a_larger_log_are_found"));
    for round in 0..scale().of(150, 1500) {
        let mut lines = specimen.lines.clone();
        let changes = random.usize(1..4);
        for _ in 0..changes {
            let (at, other) = (random.usize(..lines.len()), random.usize(..lines.len()));
            match random.u8(..5) {
                0 => drop(lines.remove(at)),
                1 => {
                    let copy = (lines[at].0, lines[other].1.clone());
                    lines.insert(at, copy);
                }
                2 => {
                    let line = lines.remove(at);
                    lines.insert(other.min(lines.len()), line);
                    lines.sort_by_key(|(file, _)| *file);
                }
                3 => {
                    let mut bytes = lines[at].1.clone().into_bytes();
                    let byte = random.usize(..bytes.len());
                    bytes[byte] = if bytes[byte] == b'x' { b'y' } else { b'x' };
                    lines[at].1 = String::from_utf8(bytes).unwrap();
                }
                _ => {
                    let cut = random.usize(..lines[at].1.len());
                    lines[at].1.truncate(cut);
                }
            }
        }
        let report = specimen.check(&lines);
        assert_eq!(report.tampered(), lines != specimen.lines, "round {round}\n{}", told(&report));
    }
}

#[tokio::test]
async fn a_deleted_file_is_found_by_name_and_a_checkpoint_is_not_tampering() {
    let specimen = Specimen::grow("deleted", 36, 3000).await;
    for name in &specimen.names {
        specimen.write(&specimen.lines);
        fs::remove_file(specimen.copy.join(name)).unwrap();
        let report = specimen.verify(&specimen.copy);
        let fault = if name == "audit.log" { Fault::Truncated } else { Fault::MissingFile };
        assert!(report.has(fault) && report.tampered(), "{name}: {}", told(&report));
    }
    // The same log goes on with an expiry: the oldest files go, and nothing is wrong.
    let place = Place::at(specimen.place.root.clone()).rotating_at(3000).keeping(1);
    let audit = place.open().await;
    for i in 0..20 {
        let _receipt = audit.commit(act(&format!("more{i}"))).await.unwrap();
    }
    audit.close().await;
    let report = place.verify().await;
    assert!(!report.tampered() && report.has(Fault::Expired) && report.first > 1, "{}", told(&report));
    assert_eq!(files(&place.directory()).len(), 2);
    // A checkpoint covers what it names and no more.
    let oldest = files(&place.directory()).swap_remove(0).0;
    fs::remove_file(place.directory().join(oldest)).unwrap();
    let report = place.verify().await;
    assert!(report.tampered() && report.has(Fault::MissingFile), "{}", told(&report));
}

#[tokio::test]
async fn a_half_written_end_is_torn_beyond_the_head_and_tampering_before_it() {
    let specimen = Specimen::grow("torn", 12, 1 << 20).await;
    let whole = specimen.lines.iter().flat_map(|(_, line)| [line.as_str(), "\n"]).collect::<String>();
    let last = specimen.lines.last().unwrap().1.len() + 1;
    let before = Head { n: specimen.head.n - 1, ..head_of(&specimen.lines[specimen.lines.len() - 2].1) };
    for cut in whole.len() - last + 1..whole.len() {
        fs::write(specimen.copy.join("audit.log"), &whole[..cut]).unwrap();
        let report = specimen.verify(&specimen.copy);
        assert!(report.tampered() && report.has(Fault::Truncated), "{cut}: {}", told(&report));
        let report = verify(&specimen.copy, &specimen.key, &[(Witness::Database, before)]).unwrap();
        assert!(!report.tampered() && report.has(Fault::Torn), "{cut}: {}", told(&report));
        let report = verify(&specimen.copy, &specimen.key, &[]).unwrap();
        assert!(!report.tampered() && report.has(Fault::Torn), "{cut}: {}", told(&report));
    }
    // A hole before good lines, as a power cut leaves it: torn where no head knows the lines, tampering where one does.
    let hole = whole.len() - last - 10;
    let mut bytes = whole.clone().into_bytes();
    bytes[hole..hole + 5].fill(0);
    fs::write(specimen.copy.join("audit.log"), &bytes).unwrap();
    let known = head_of(&specimen.lines[specimen.lines.len() - 3].1);
    let report = verify(&specimen.copy, &specimen.key, &[(Witness::Lease, known)]).unwrap();
    assert!(!report.tampered() && report.has(Fault::Torn), "{}", told(&report));
    assert!(specimen.verify(&specimen.copy).tampered());
}

fn head_of(line: &str) -> Head {
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    Head { n: line["n"].as_u64().unwrap(), mac: line["mac"].as_str().unwrap().parse().unwrap() }
}

#[tokio::test]
async fn a_wrong_key_and_a_rewritten_log_are_named() {
    let specimen = Specimen::grow("key", 12, 1 << 20).await;
    let other = Specimen::grow("other-key", 12, 1 << 20).await;
    let report = verify(&specimen.place.directory(), &other.key, &[]).unwrap();
    assert!(report.tampered() && report.has(Fault::WrongKey), "{}", told(&report));
    // Written anew with the right key by somebody who has it: only the head outside tells.
    let head = Head { mac: other.head.mac, ..specimen.head };
    let report = verify(&specimen.place.directory(), &specimen.key, &[(Witness::Lease, head)]).unwrap();
    assert!(report.tampered() && report.has(Fault::HeadMismatch), "{}", told(&report));
}
