//! `stateward state diff`

use std::fmt::Write as _;
use std::io::IsTerminal as _;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::target::Target;
use crate::cli::failure::{Ended, Exit};
use crate::cli::output::{self, Format, plain};
use crate::client::Client;
use crate::config::Environment;

/// Show what changed between two versions
///
/// Resources by their address and the paths of changed attributes, never their values; outputs with their values unless
/// one of the versions marks them as sensitive. Ends with 0, or with --exit-code with 9 if there are differences.
#[derive(Args)]
pub struct Diff {
    #[command(flatten)]
    target: Target,
    /// The older version; the one before the newer if left out
    #[arg(value_name = "FROM")]
    from: Option<u64>,
    /// The newer version; the current one if left out
    #[arg(value_name = "TO")]
    to: Option<u64>,
    /// End with 9 if there are differences
    #[arg(long)]
    exit_code: bool,
}

#[derive(Deserialize, Serialize)]
struct Answer {
    from: u64,
    to: u64,
    resources: Vec<Resource>,
    outputs: Vec<Output>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Change {
    Added,
    Changed,
    Removed,
}

#[derive(Deserialize, Serialize)]
struct Resource {
    address: String,
    change: Change,
    paths: Option<Vec<String>>,
}

#[derive(Deserialize, Serialize)]
struct Output {
    name: String,
    change: Change,
    #[serde(default)]
    sensitive: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Box<RawValue>>,
}

/// Whether escape sequences for colours are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Colour {
    On,
    Off,
}

impl Diff {
    pub async fn run(self, client: &Client, format: Format, environment: &Environment) -> anyhow::Result<()> {
        let target = &self.target;
        let (from, to) = (self.from.map(|number| number.to_string()), self.to.map(|number| number.to_string()));
        let query = [target.store_query(), ("from", from.as_deref()), ("to", to.as_deref())];
        let diff: Answer = client.get_exactly(&target.path(&["diff"]), &query).await?;
        let plain = environment.non_empty("NO_COLOR").is_some() || !std::io::stdout().is_terminal();
        let colour = if plain { Colour::Off } else { Colour::On };
        output::show_exactly(format, &diff, || text(&diff, colour))?;
        if self.exit_code && !(diff.resources.is_empty() && diff.outputs.is_empty()) {
            return Err(Ended(Exit::Different as u8).into());
        }
        Ok(())
    }
}

fn text(diff: &Answer, colour: Colour) -> String {
    let mut text = format!("version {} to {}\n", diff.from, diff.to);
    if diff.resources.is_empty() && diff.outputs.is_empty() {
        text.push_str("no differences in resources and outputs\n");
        return text;
    }
    for resource in &diff.resources {
        line(&mut text, colour, resource.change, &plain(&resource.address));
        for path in resource.paths.iter().flatten() {
            let _ = writeln!(text, "      {}", plain(path));
        }
    }
    for output in &diff.outputs {
        let values = match (output.sensitive, &output.before, &output.after) {
            (true, _, _) => " (sensitive)".to_owned(),
            (_, Some(before), Some(after)) => format!(": {before} -> {after}"),
            (_, None, Some(value)) | (_, Some(value), None) => format!(": {value}"),
            (_, None, None) => String::new(),
        };
        line(&mut text, colour, output.change, &plain(&format!("output {}{values}", output.name)));
    }
    text
}

fn line(text: &mut String, colour: Colour, change: Change, what: &str) {
    let (sign, code) = match change {
        Change::Added => ('+', 32),
        Change::Changed => ('~', 33),
        Change::Removed => ('-', 31),
    };
    let _ = match colour {
        Colour::On => writeln!(text, "\u{1b}[{code}m  {sign} {what}\u{1b}[0m"),
        Colour::Off => writeln!(text, "  {sign} {what}"),
    };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn example() -> Answer {
        let answer = json!({
            "from": 1, "to": 3,
            "resources": [
                {"address": "a.b[0]", "change": "changed", "paths": ["tags.Name"]},
                {"address": "a.c", "change": "removed", "paths": null},
            ],
            "outputs": [
                {"name": "open", "change": "changed", "sensitive": false, "before": "x\u{1b}[2J", "after": 2},
                {"name": "secret", "change": "added", "sensitive": true},
            ],
        });
        serde_json::from_str(&answer.to_string().replace(r#""after":2"#, r#""after":1.50"#)).unwrap()
    }

    #[test]
    fn every_change_has_its_line_and_no_value_drives_the_terminal() {
        let shown = text(&example(), Colour::Off);
        let expected = "version 1 to 3\n  ~ a.b[0]\n      tags.Name\n  - a.c\n  ~ output open: \"x\\u001b[2J\" -> 1.50\n  \
                        + output secret (sensitive)\n";
        assert_eq!(shown, expected);
        assert!(text(&example(), Colour::On).contains("\u{1b}[31m  - a.c\u{1b}[0m\n"));
    }
}
