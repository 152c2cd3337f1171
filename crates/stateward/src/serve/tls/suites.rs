//! Cipher suites by their names in Go: which of them are used, and which are left out.
//!
//! As in Go, a choice is about TLS 1.2 alone: the suites of TLS 1.3 are all good, and always there.

use std::sync::Arc;

use rustls::SupportedCipherSuite;
use rustls::crypto::CryptoProvider;

use super::provider;

/// What Go has beside what is safe: CBC, RC4, 3DES and key exchange without forward secrecy.
const NOT_SAFE: &[&str] = &[
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// A provider with the chosen suites.
pub(crate) struct Chosen {
    pub(crate) provider: Arc<CryptoProvider>,
    /// Names of suites that are not safe.
    pub(crate) left_out: Vec<String>,
}

/// Chooses the named suites; no names choose all that are safe.
pub(crate) fn choose(names: &[String]) -> Result<Chosen, String> {
    let all = provider();
    if names.iter().all(String::is_empty) {
        return Ok(Chosen { provider: all, left_out: Vec::new() });
    }
    let (mut wanted, mut left_out) = (Vec::new(), Vec::new());
    for name in names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
        if NOT_SAFE.contains(&name) {
            left_out.push(name.to_owned());
        } else if let Some(suite) = all.cipher_suites.iter().find(|suite| is_called(suite, name)) {
            wanted.push(suite.suite());
        } else {
            return Err(format!("there is no cipher suite '{name}'"));
        }
    }
    if wanted.is_empty() {
        return Err("none of these cipher suites is safe".to_owned());
    }
    let mut chosen = (*all).clone();
    chosen.cipher_suites.retain(|suite| suite.tls13().is_some() || wanted.contains(&suite.suite()));
    Ok(Chosen { provider: Arc::new(chosen), left_out })
}

/// Go's name, or the one of rustls. Older versions of Go left the hash of ChaCha20 suites out.
fn is_called(suite: &SupportedCipherSuite, name: &str) -> bool {
    let known = suite.suite().as_str().unwrap_or_default();
    let known = known.strip_prefix("TLS13_").map_or(known.to_owned(), |rest| format!("TLS_{rest}"));
    known == name || known.strip_suffix("_SHA256").is_some_and(|short| short.ends_with("POLY1305") && short == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every name in the help of the original.
    const SEEN: &str = "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA,TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256,\
        TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA,\
        TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305,\
        TLS_ECDHE_ECDSA_WITH_RC4_128_SHA,TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA,TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA,\
        TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,\
        TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,\
        TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305,TLS_ECDHE_RSA_WITH_RC4_128_SHA,TLS_RSA_WITH_3DES_EDE_CBC_SHA,\
        TLS_RSA_WITH_AES_128_CBC_SHA,TLS_RSA_WITH_AES_128_CBC_SHA256,TLS_RSA_WITH_AES_128_GCM_SHA256,\
        TLS_RSA_WITH_AES_256_CBC_SHA,TLS_RSA_WITH_AES_256_GCM_SHA384,TLS_RSA_WITH_RC4_128_SHA";

    fn names(list: &str) -> Vec<String> {
        list.split(',').map(|name| name.trim().to_owned()).collect()
    }

    fn tls12(chosen: &Chosen) -> usize {
        chosen.provider.cipher_suites.iter().filter(|suite| suite.tls13().is_none()).count()
    }

    #[test]
    fn every_suite_of_the_original_is_used_or_left_out() {
        let Ok(chosen) = choose(&names(SEEN)) else { panic!("some are safe") };
        assert_eq!((tls12(&chosen), chosen.left_out.len()), (6, NOT_SAFE.len()));
        assert_eq!(chosen.provider.cipher_suites.len(), provider().cipher_suites.len(), "all of ours");
    }

    #[test]
    fn a_choice_is_about_tls_12_and_must_leave_something() {
        let Ok(one) = choose(&names("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_RSA_WITH_RC4_128_SHA")) else {
            panic!("one is safe")
        };
        assert_eq!((tls12(&one), one.left_out), (1, names("TLS_RSA_WITH_RC4_128_SHA")));
        assert!(one.provider.cipher_suites.iter().any(|suite| suite.tls13().is_some()));
        assert!(choose(&names("TLS_AES_128_GCM_SHA256")).is_ok(), "a suite of TLS 1.3");
        assert!(choose(&names("TLS_RSA_WITH_RC4_128_SHA")).is_err_and(|fault| fault.contains("none of these")));
        assert!(choose(&names("TLS_NONSENSE")).is_err_and(|fault| fault.contains("TLS_NONSENSE")));
        assert!(choose(&[]).is_ok() && choose(&names("")).is_ok());
    }
}
