//! What names, owners and authors may look like.

use access::http::{is_dns_label, is_dns_subdomain};
use uuid::Uuid;

use crate::Error;

const LONGEST_OWNER: usize = 512;

/// A name of a record is one of Kubernetes objects, and no id: an id would be found by two ways.
pub fn check_name(name: &str) -> Result<(), Error> {
    if is_dns_subdomain(name) && Uuid::try_parse(name).is_err() {
        return Ok(());
    }
    Err(Error::invalid(
        "name: it must be lower-case letters, digits, '-' and '.', 253 characters at most, and no UUID, such as helm-storage",
    ))
}

pub fn check_namespace(namespace: &str) -> Result<(), Error> {
    if is_dns_label(namespace) {
        return Ok(());
    }
    Err(Error::invalid(
        "namespace: it must be lower-case letters, digits and '-', 63 characters at most, such as team-a",
    ))
}

/// An owner of a lock, an author, an alias or a key of a request: a text that people can read and compare.
pub fn check_label(field: &str, text: &str) -> Result<(), Error> {
    let fits = !text.is_empty() && text.len() <= LONGEST_OWNER && !text.chars().any(char::is_control);
    if fits {
        return Ok(());
    }
    Err(Error::invalid(format!("{field}: it must be 1 to {LONGEST_OWNER} bytes of text without control characters")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_an_id() {
        assert!(check_name("helm-storage").is_ok() && check_name("a.b").is_ok());
        for bad in ["", "A", "a_b", "a/b", "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa", &"a".repeat(254)] {
            assert!(check_name(bad).unwrap_err().to_string().starts_with("name: "), "{bad}");
        }
        assert!(check_namespace("team-a").is_ok());
        assert!(check_namespace("a.b").unwrap_err().to_string().starts_with("namespace: "));
    }

    #[test]
    fn a_label_is_readable_text() {
        assert!(check_label("ownerID", "default/act-1 (ü)").is_ok());
        for bad in ["", "a\nb", "\0", &"a".repeat(513)] {
            assert!(check_label("ownerID", bad).unwrap_err().to_string().starts_with("ownerID: "), "{bad:?}");
        }
    }
}
