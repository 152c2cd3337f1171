//! Puts a subject with several organizations into a certificate.
//!
//! rcgen keeps a subject as a map and so holds one organization at most; a Kubernetes user has one per group. The
//! certificate that rcgen made is therefore given its subject here, and signed again.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{KeyPair, SigningKey};

const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];

/// The certificate with that subject, signed by `issuer`; the key must be of the kind that signed it before.
pub(super) fn replace(certificate: &[u8], common_name: &str, organizations: &[&str], issuer: &KeyPair) -> Vec<u8> {
    let parts = children(certificate);
    let [signed, algorithm, _signature] = parts[..] else { panic!("a certificate has three parts") };

    let names = [attribute(ORGANIZATION, organizations), attribute(COMMON_NAME, &[common_name])].concat();
    let names = element(0x30, &names);
    let mut fields = children(signed);
    // Version, serial number, algorithm, issuer, validity, subject.
    fields[5] = &names;
    let signed = element(0x30, &fields.concat());

    let signature = issuer.sign(&signed).expect("sign a certificate");
    let signature = element(0x03, &[&[0], signature.as_slice()].concat());
    element(0x30, &[signed.as_slice(), algorithm, &signature].concat())
}

pub(super) fn pem(der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).expect("base64 is ASCII")).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// One relative name (SET of SEQUENCE of type and UTF8String) for each value.
fn attribute(kind: &[u8], values: &[&str]) -> Vec<u8> {
    let one = |value: &&str| {
        let pair = [element(0x06, kind), element(0x0c, value.as_bytes())].concat();
        element(0x31, &element(0x30, &pair))
    };
    values.iter().flat_map(one).collect()
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let significant = &length[length.iter().position(|&byte| byte != 0).unwrap_or(length.len() - 1)..];
    let mut element = vec![tag];
    if content.len() >= 0x80 {
        element.push(0x80 | u8::try_from(significant.len()).expect("a length of a few bytes"));
    }
    element.extend_from_slice(significant);
    element.extend_from_slice(content);
    element
}

/// The elements inside one element.
fn children(outer: &[u8]) -> Vec<&[u8]> {
    let (header, length) = measure(outer);
    let mut rest = &outer[header..header + length];
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (header, length) = measure(rest);
        let (child, after) = rest.split_at(header + length);
        found.push(child);
        rest = after;
    }
    found
}

/// The size of the header (tag and length) of an element, and of its content.
fn measure(element: &[u8]) -> (usize, usize) {
    let first = usize::from(element[1]);
    if first < 0x80 {
        return (2, first);
    }
    let bytes = first & 0x7f;
    let length = element[2..2 + bytes].iter().fold(0, |length, &byte| length << 8 | usize::from(byte));
    (2 + bytes, length)
}
