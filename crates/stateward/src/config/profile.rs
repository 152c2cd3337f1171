//! A profile of the files that AWS's own tools read.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::Environment;

/// The settings of one profile; `~/.aws/credentials` counts for more than `~/.aws/config`.
#[derive(Default)]
pub struct Profile(BTreeMap<String, String>);

impl Profile {
    /// The profile that was named, or the usual one, which need not be there.
    pub fn read(flag: Option<&str>, environment: &Environment) -> Result<Profile, NoProfile> {
        let name = flag.or_else(|| environment.non_empty("AWS_PROFILE"));
        let home = environment.non_empty("HOME").unwrap_or("/");
        let file = |variable: &str, usual: &str| {
            environment.non_empty(variable).map_or_else(|| PathBuf::from(home).join(usual), PathBuf::from)
        };
        let config = std::fs::read_to_string(file("AWS_CONFIG_FILE", ".aws/config")).unwrap_or_default();
        let credentials =
            std::fs::read_to_string(file("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials")).unwrap_or_default();
        let wanted = name.unwrap_or("default");
        let mut settings = section(&config, &format!("profile {wanted}"));
        settings.extend(section(&config, wanted));
        settings.extend(section(&credentials, wanted));
        if settings.is_empty() && name.is_some() {
            return Err(NoProfile(wanted.to_owned()));
        }
        Ok(Profile(settings))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// A profile was named that is in neither file.
#[derive(Debug, thiserror::Error)]
#[error("there is no AWS profile '{0}'")]
pub struct NoProfile(String);

fn section(text: &str, wanted: &str) -> BTreeMap<String, String> {
    let (mut settings, mut inside) = (BTreeMap::new(), false);
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            inside = name.trim() == wanted;
        } else if let Some((name, value)) = line.split_once('=').filter(|_| inside) {
            settings.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_wanted_section_counts() {
        let text =
            "[default]\nregion = a\n# no\n[ profile x ]\nregion=b\naws_secret_access_key = c=d\n[y]\nregion = e\n";
        assert_eq!(section(text, "default")["region"], "a");
        let x = section(text, "profile x");
        assert_eq!((x["region"].as_str(), x["aws_secret_access_key"].as_str()), ("b", "c=d"));
        assert!(section(text, "z").is_empty());
    }
}
