//! Runs the real binary with an environment of its own.

use std::path::Path;
use std::process::{Command, Output};

/// The binary, with no variable of this process but PATH, and a HOME that is nobody's.
pub(crate) fn stateward(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stateward"));
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", "/nowhere")
        .args(arguments);
    command
}

/// The real client in a workspace, with nothing of this process but PATH.
pub(crate) fn tofu(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(testbed::peer("tofu").expect("tofu"));
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", directory)
        .env("CHECKPOINT_DISABLE", "1")
        .current_dir(directory)
        .args(arguments);
    command
}

/// A program, and arguments before the program that it runs, which finds these files where a Pod has those of its
/// ServiceAccount.
pub(crate) fn in_pod(files: &Path) -> (&'static str, [String; 5]) {
    let script = format!(
        "mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io/serviceaccount && \
         cp {}/* /run/secrets/kubernetes.io/serviceaccount/ && exec \"$@\"",
        files.display()
    );
    ("unshare", ["--mount", "sh", "-c", &script, "sh"].map(str::to_owned))
}

/// What a run gave.
#[derive(Debug)]
pub(crate) struct Run {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Run {
    pub(crate) fn of(command: &mut Command) -> Run {
        let Output { status, stdout, stderr } = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Run { code: status.code(), out: text(stdout), err: text(stderr) }
    }

    /// Checks that it ended well and said nothing beside its data.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert!(self.code == Some(0) && self.err.is_empty(), "{self:#?}");
        self.out
    }

    /// Checks that it failed with this code, this text in the error and a hint at the end, and no data.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, text: &str) {
        assert!(self.code == Some(code) && self.out.is_empty() && self.err.contains(text), "{self:#?}");
        let last = self.err.trim_end().lines().last().unwrap_or_default();
        assert!(last.starts_with("hint: ") || last.starts_with("For more information"), "{self:#?}");
    }
}

/// The root of the repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
