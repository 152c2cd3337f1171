//! The order of system calls: SQLite's log is synced between each COMMIT and its acknowledgement.

use std::collections::HashMap;
use std::process::Command;

use crate::child::{self, IN_TURN, Role};
use crate::place::Place;

#[test]
fn every_commit_is_synced_before_it_is_acknowledged() {
    let trace = trace(Role::WriteInTurn);
    assert_eq!(check(&trace), Ok(IN_TURN), "{trace}");
}

#[test]
fn the_check_of_the_order_fails_when_nothing_is_synced() {
    let trace = trace(Role::WriteInTurnUnsynced);
    assert!(check(&trace).unwrap_err().contains("not synced"), "{trace}");
}

fn trace(role: Role) -> String {
    let place = Place::sqlite();
    let Place::Sqlite(path) = &place else { unreachable!() };
    let output = format!("{path}.trace");
    let mut program = Command::new("/usr/bin/strace");
    program.args(["-f", "-y", "-e", "trace=write,fdatasync,fsync,pwrite64", "-o", &output]);
    program.arg(std::env::current_exe().unwrap());
    child::command(&mut program, role, &place, "t", "");
    let ended = program.output().expect("strace (Debian package strace) is needed");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    std::fs::read_to_string(output).unwrap()
}

/// The number of acknowledgements, each after a write to the log and a finished sync of it.
fn check(trace: &str) -> Result<usize, String> {
    #[derive(Clone, Copy, PartialEq)]
    enum Log {
        Untouched,
        Written,
        Synced,
    }
    let mut log = Log::Untouched;
    let mut acknowledged = 0;
    // A call that another thread interrupts is shown in two lines; the second has no file name.
    let mut syncing: HashMap<&str, bool> = HashMap::new();
    for line in trace.lines() {
        let Some((pid, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        let of_log = call.contains("-wal>");
        if call.starts_with("pwrite64(") && of_log {
            log = Log::Written;
        } else if call.starts_with("fdatasync(") || call.starts_with("fsync(") {
            if call.contains("<unfinished") {
                syncing.insert(pid, of_log);
            } else if of_log && call.ends_with("= 0") && log == Log::Written {
                log = Log::Synced;
            }
        } else if call.starts_with("<... fdatasync resumed") || call.starts_with("<... fsync resumed") {
            if syncing.remove(pid) == Some(true) && call.ends_with("= 0") && log == Log::Written {
                log = Log::Synced;
            }
        } else if call.starts_with("write(1") && call.contains("\"ack ") {
            match log {
                Log::Synced => acknowledged += 1,
                Log::Written => return Err(format!("not synced before: {line}")),
                Log::Untouched => return Err(format!("not written before: {line}")),
            }
            log = Log::Untouched;
        }
    }
    Ok(acknowledged)
}
