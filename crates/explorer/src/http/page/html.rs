//! Text as HTML, and addresses within the page.

use std::fmt::Write as _;

/// The text with everything escaped that HTML would take for its own, in content and in quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A path of the page with a query; parameters that are empty are left out. Ready to stand in an attribute.
pub(super) fn link(path: &str, parameters: &[(&str, &str)]) -> String {
    let parameters: Vec<String> = parameters
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}={}", encoded(value)))
        .collect();
    let mark = if parameters.is_empty() { "" } else { "?" };
    escape(&format!("{path}{mark}{}", parameters.join("&")))
}

/// Percent-encoded but for what needs it nowhere.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_others_wrote_becomes_markup_or_leaves_its_parameter() {
        assert_eq!(escape("<a href='x' on=\"y\">&"), "&lt;a href=&#39;x&#39; on=&quot;y&quot;&gt;&amp;");
        assert_eq!(encoded("a/b ä&=\"#"), "a%2Fb%20%C3%A4%26%3D%22%23");
        assert_eq!(link("/explore", &[]), "/explore");
        assert_eq!(link("/explore", &[("q", "a b"), ("sort", ""), ("id", "<&")]), "/explore?q=a%20b&amp;id=%3C%26");
    }
}
