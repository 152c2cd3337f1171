//! The flags of the configuration, made from its table of keys.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use crate::config::keys::{GROUPS, KEYS, Key};
use crate::config::kind::Kind;
use crate::config::{DEFAULT_FILE, Given};

/// `--config` and a flag for every key.
pub struct KeyFlags(pub Given);

impl Args for KeyFlags {
    fn augment_args(command: Command) -> Command {
        let config =
            Arg::new("config").long("config").value_name("FILE").value_parser(clap::value_parser!(PathBuf)).help(
                format!(
                    "YAML file with the configuration [env: STATEWARD_CONFIG] [default: {DEFAULT_FILE} if it exists]"
                ),
            );
        KEYS.iter().fold(command.arg(config), |command, key| command.arg(flag(key)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        KeyFlags::augment_args(command)
    }
}

impl FromArgMatches for KeyFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<KeyFlags, clap::Error> {
        let given = |key: &'static Key| {
            matches.get_many::<String>(key.path).map(|texts| (key.path, texts.cloned().collect::<Vec<_>>()))
        };
        let flags: BTreeMap<_, _> = KEYS.iter().filter_map(given).collect();
        Ok(KeyFlags(Given { file: matches.get_one::<PathBuf>("config").cloned(), flags }))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = KeyFlags::from_arg_matches(matches)?;
        Ok(())
    }
}

fn flag(key: &'static Key) -> Arg {
    let heading = GROUPS.iter().find(|(group, _)| *group == key.group()).map_or("", |(_, about)| about);
    // What clap itself would add is left out: it would read the environment, and the default may depend on it.
    let help = format!("{} [env: {}] [default: {}]", key.help, key.variable(), key.default_shown());
    let long = if key.more.is_empty() { help.clone() } else { format!("{help}\n\n{}", key.more) };
    let mut arg = Arg::new(key.path)
        .long(key.flag())
        .value_name(key.kind.placeholder())
        .help(help)
        .long_help(long)
        .help_heading(heading)
        .action(if key.kind.is_list() { ArgAction::Append } else { ArgAction::Set });
    if let Some(short) = key.short_flag {
        arg = arg.visible_alias(short);
    }
    if key.kind == Kind::Switch {
        arg = arg.num_args(0..=1).require_equals(true).default_missing_value("true");
    }
    arg
}
