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
            other => {
                let millis = other.strip_prefix("delay(").and_then(|text| text.strip_suffix(')'));
                let millis = millis.and_then(|text| text.parse().ok());
                Action::Delay(Duration::from_millis(
                    millis.ok_or_else(|| format!("'{other}' is not crash, fail or delay(MILLISECONDS)"))?,
                ))
            }
        };
        arm(name, action, passes);
    }
    Ok(())
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
    fn nonsense_is_refused_by_name() {
        for (text, fault) in [("a", "NAME=ACTION"), ("a=b", "crash, fail or delay"), ("a=crash:x", "not a number")] {
            assert!(arm_from(text).unwrap_err().contains(fault), "{text}");
        }
    }
}
