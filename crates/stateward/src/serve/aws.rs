//! Who we are in AWS, found as its own tools find it, in their order: variables, a role for a token, a profile, the agent
//! of a container, the machine.

use std::sync::Arc;

use anyhow::{Result, bail};
use states::store::{AccessKey, Identity};

use crate::config::Environment;
use crate::config::profile::Profile;

pub(super) fn identity(environment: &Environment) -> Result<Identity> {
    let variable = |name: &str| environment.non_empty(name).map(str::to_owned);
    if let Some((id, secret)) = variable("AWS_ACCESS_KEY_ID").zip(variable("AWS_SECRET_ACCESS_KEY")) {
        let session_token = variable("AWS_SESSION_TOKEN").map(Into::into);
        let key = AccessKey { id, secret: secret.into(), session_token };
        return Ok(Identity::Keys(Arc::new(move || Ok(key.clone()))));
    }
    if let Some((role, token_file)) = variable("AWS_ROLE_ARN").zip(variable("AWS_WEB_IDENTITY_TOKEN_FILE")) {
        let session = variable("AWS_ROLE_SESSION_NAME").unwrap_or_else(|| "stateward".to_owned());
        let sts = variable("AWS_ENDPOINT_URL_STS");
        return Ok(Identity::WebIdentity { role, token_file, session, sts });
    }
    match in_profile(environment) {
        Ok(_) => {
            let environment = environment.clone();
            return Ok(Identity::Keys(Arc::new(move || in_profile(&environment))));
        }
        Err(reason) if variable("AWS_PROFILE").is_some() => bail!("s3.identity is aws, but {reason}"),
        Err(_) => {}
    }
    let address = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    if let Some((address, token_file)) = address.zip(variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")) {
        return Ok(Identity::Pod { address, token_file });
    }
    if let Some(path) = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
        return Ok(Identity::Task { path });
    }
    Ok(Identity::Machine { address: variable("AWS_EC2_METADATA_SERVICE_ENDPOINT") })
}

/// The keys of a profile, which other programs may exchange at any time.
fn in_profile(environment: &Environment) -> Result<AccessKey, String> {
    let profile = Profile::read(None, environment).map_err(|error| error.to_string())?;
    let key = |name: &str| profile.get(name).map(str::to_owned);
    let keys = key("aws_access_key_id").zip(key("aws_secret_access_key"));
    let (id, secret) = keys.ok_or_else(|| "the AWS profile has no keys".to_owned())?;
    Ok(AccessKey { id, secret: secret.into(), session_token: key("aws_session_token").map(Into::into) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> String {
        let nowhere = [("HOME", "/nonexistent")];
        let environment: Environment = nowhere.iter().chain(variables).copied().collect();
        match identity(&environment) {
            Ok(Identity::Keys(ask)) => match ask() {
                Ok(AccessKey { id, secret, session_token }) => {
                    format!("keys {id} {} {:?}", *secret, session_token.map(|token| token.to_string()))
                }
                Err(reason) => reason,
            },
            Ok(Identity::WebIdentity { role, token_file, session, sts }) => {
                format!("role {role} {token_file} {session} {sts:?}")
            }
            Ok(Identity::Pod { address, token_file }) => format!("pod {address} {token_file}"),
            Ok(Identity::Task { path }) => format!("task {path}"),
            Ok(Identity::Machine { address }) => format!("machine {address:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_first_that_is_there_counts() {
        let directory = testbed::process::scratch("aws").unwrap();
        let file = directory.join("credentials");
        let text = "[default]\naws_access_key_id = a\naws_secret_access_key = b\n[other]\nregion = c\n";
        std::fs::write(&file, text).unwrap();
        let keys = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "secret")];
        let session = ("AWS_SESSION_TOKEN", "token");
        let role = [("AWS_ROLE_ARN", "arn"), ("AWS_WEB_IDENTITY_TOKEN_FILE", "/token")];
        let profile = ("AWS_SHARED_CREDENTIALS_FILE", file.to_str().unwrap());
        let uri = "http://169.254.170.23/v1/credentials";
        let pod = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri), ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/token")];
        let task = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/credentials/x");
        let cases: &[(&[(&str, &str)], &str)] = &[
            (&[keys[0], keys[1], role[0], role[1], profile], "keys id secret None"),
            (&[keys[0], keys[1], session], "keys id secret Some(\"token\")"),
            (&[keys[0], role[0], role[1], profile], "role arn /token stateward None"),
            (&[role[0], role[1], ("AWS_ROLE_SESSION_NAME", "me")], "role arn /token me None"),
            (&[role[0], profile, pod[0], pod[1]], "keys a b None"),
            (&[profile, ("AWS_PROFILE", "other")], "s3.identity is aws, but the AWS profile has no keys"),
            (&[("AWS_PROFILE", "none")], "s3.identity is aws, but there is no AWS profile 'none'"),
            (&[pod[0], pod[1], task], &format!("pod {uri} /token")),
            (&[task], "task /v2/credentials/x"),
            (&[], "machine None"),
        ];
        for (variables, expected) in cases {
            assert_eq!(found(variables), *expected, "{variables:?}");
        }
    }
}
