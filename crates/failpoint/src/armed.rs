//! The armed steps of this process; compiled only with the feature `testing`.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use crate::Action;

struct Armed {
    action: Action,
    /// How many hits still pass before the action takes place.
    passes: u32,
}

static ARMED: LazyLock<Mutex<HashMap<String, Armed>>> = LazyLock::new(Mutex::default);

/// Arms a step: after `passes` harmless hits, every further hit does `action`.
pub fn arm(name: &str, action: Action, passes: u32) {
    let mut armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner);
    armed.insert(name.to_owned(), Armed { action, passes });
}

/// Takes the action of a step away.
pub fn disarm(name: &str) {
    let mut armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner);
    armed.remove(name);
}

/// Arms steps from text such as `db.before_commit=crash:3,audit.before_sync=delay(200)`: the action, then after a
/// colon how many hits pass first.
pub fn arm_from(text: &str) -> Result<(), String> {
    for item in text.split(',').filter(|item| !item.is_empty()) {
        let (name, rest) = item.split_once('=').ok_or_else(|| format!("'{item}' is not NAME=ACTION[:PASSES]"))?;
        let (action, passes) = rest.split_once(':').unwrap_or((rest, "0"));
        let passes = passes.parse().map_err(|_| format!("'{passes}' in '{item}' is not a number"))?;
        let action = match action {
            "crash" => Action::Crash,
            "fail" => Action::Fail,
            other => parse(other)
                .ok_or_else(|| format!("'{other}' is not crash, fail or delay(MILLISECONDS), nor hold(FILE)"))?,
        };
        arm(name, action, passes);
    }
    Ok(())
}

/// An action with what it is given.
fn parse(text: &str) -> Option<Action> {
    let (name, given) = text.strip_suffix(')')?.split_once('(')?;
    match name {
        "delay" => given.parse().ok().map(Duration::from_millis).map(Action::Delay),
        // Armed once in the life of a process.
        "hold" => Some(Action::Hold(given.to_owned().leak())),
        _ => None,
    }
}

/// The process is at the step `name`.
pub fn hit(name: &'static str) {
    let _ = check(name);
}

/// The process is at the step `name`, which may fail.
pub fn check(name: &'static str) -> std::io::Result<()> {
    let action = {
        let mut armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner);
        match armed.get_mut(name) {
            None => return Ok(()),
            Some(step) if step.passes > 0 => {
                step.passes -= 1;
                return Ok(());
            }
            Some(step) => step.action,
        }
    };
    match action {
        Action::Crash => {
            // The test looks for this line to know that the process died here and not elsewhere. It is one write, so that
            // nothing that another thread prints to the same file comes in between.
            let _ = std::io::stderr().write_all(format!("failpoint: crashed at {name}\n").as_bytes());
            std::process::abort();
        }
        Action::Delay(time) => {
            std::thread::sleep(time);
            Ok(())
        }
        Action::Hold(file) => {
            while !std::path::Path::new(file).exists() {
                std::thread::sleep(Duration::from_millis(10));
            }
            Ok(())
        }
        Action::Fail => Err(std::io::Error::other(format!("injected at {name}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_passes_then_fails_then_is_disarmed() {
        arm_from("failpoint.test=fail:2").unwrap();
        assert!(check("failpoint.test").is_ok());
        assert!(check("failpoint.test").is_ok());
        assert_eq!(check("failpoint.test").unwrap_err().to_string(), "injected at failpoint.test");
        disarm("failpoint.test");
        assert!(check("failpoint.test").is_ok());
    }

    #[test]
    fn a_held_step_goes_on_when_the_file_is_there() {
        let file = std::env::temp_dir().join(format!("failpoint-{}", std::process::id()));
        arm_from(&format!("failpoint.held=hold({})", file.display())).unwrap();
        let held = std::thread::spawn(|| check("failpoint.held"));
        assert!(!held.is_finished());
        std::fs::write(&file, "").unwrap();
        held.join().unwrap().unwrap();
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (text, fault) in [("a", "NAME=ACTION"), ("a=b", "crash, fail or delay"), ("a=crash:x", "not a number")] {
            assert!(arm_from(text).unwrap_err().contains(fault), "{text}");
        }
    }
}
