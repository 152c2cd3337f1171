//! The parser of the filter language: one pass, no backtracking, every fault with its place.
//!
//! ```text
//! query  = { [ "-" | "!" | "+" ] ( field ( ":" | "=" ) value | text ) }
//! value  = "/" [ "(" ] word { "|" word } [ ")" ] "/" | text
//! text   = { plain | '"' { any | "\" any } '"' }             a "*" in plain text stands for anything
//! ```

use super::{Clause, Error, Field, Part, Pattern, aliases};
use crate::status::Status;

/// Longer questions are no questions.
pub(super) const LONGEST: usize = 8 * 1024;
const MOST_CLAUSES: usize = 64;
const MOST_ALTERNATIVES: usize = 256;

pub(super) fn clauses(text: &str, part: Part) -> Result<Vec<Clause>, Error> {
    let mut parser = Parser { text, part, at: 0 };
    if text.len() > LONGEST {
        return Err(parser.fault(LONGEST, "it is too long", &format!("at most {LONGEST} bytes are read")));
    }
    let mut clauses = Vec::new();
    loop {
        parser.skip_space();
        if parser.rest().is_empty() {
            return Ok(clauses);
        }
        if clauses.len() == MOST_CLAUSES {
            return Err(parser.fault(parser.at, "there are too many conditions", "64 are the most"));
        }
        clauses.push(parser.clause()?);
    }
}

/// The conditions as they are written; none of what cannot be read.
pub(super) fn pieces(text: &str) -> Vec<&str> {
    let mut parser = Parser { text, part: Part::Query, at: 0 };
    let mut pieces = Vec::new();
    loop {
        parser.skip_space();
        let begin = parser.at;
        if parser.rest().is_empty() || parser.clause().is_err() {
            return pieces;
        }
        pieces.push(&text[begin..parser.at]);
    }
}

struct Parser<'a> {
    text: &'a str,
    part: Part,
    /// In bytes.
    at: usize,
}

impl<'a> Parser<'a> {
    fn clause(&mut self) -> Result<Clause, Error> {
        let begin = self.at;
        let negated = matches!(self.peek(), Some('-' | '!'));
        // The original's clients put a `+` before each.
        if negated || self.peek() == Some('+') {
            self.at += 1;
        }
        if self.peek().is_none_or(char::is_whitespace) {
            let sign = &self.text[begin..self.at];
            return Err(self.fault(begin, &format!("nothing follows '{sign}'"), "write the condition right behind it"));
        }
        let Some((field, value_at)) = self.field()? else {
            let at = self.at;
            let pattern = self.plain()?;
            return Ok(Clause {
                field: Field::Text,
                patterns: vec![self.checked(&Field::Text, at, pattern)?],
                negated,
            });
        };
        self.at = value_at;
        let patterns = self.value()?;
        let checked = patterns.into_iter().map(|(at, pattern)| self.checked(&field, at, pattern));
        Ok(Clause { patterns: checked.collect::<Result<_, _>>()?, field, negated })
    }

    /// The field that is named here and where its value begins; `None` for text that is not about a field.
    fn field(&self) -> Result<Option<(Field, usize)>, Error> {
        let rest = self.rest();
        let is_name = |character: char| character.is_ascii_alphanumeric() || "._-/".contains(character);
        let end = rest.find(|character| !is_name(character)).unwrap_or(rest.len());
        if end == 0 || !rest[end..].starts_with([':', '=']) {
            return Ok(None);
        }
        if let Some(field) = aliases::field(&rest[..end]) {
            return Ok(Some((field, self.at + end + 1)));
        }
        let fault = format!("there is no field '{}'", &rest[..end]);
        let cure = format!("there are {}; text with a colon in it stands in quotes", aliases::known_fields());
        Err(self.fault(self.at, &fault, &cure))
    }

    fn value(&mut self) -> Result<Vec<(usize, Pattern)>, Error> {
        // Paths begin with a slash too: only a pair of them encloses alternatives.
        if self.peek() == Some('/')
            && self.word().len() > 1
            && (self.rest().starts_with("/(") || self.word().ends_with('/'))
        {
            return self.alternatives();
        }
        let at = self.at;
        if self.peek().is_none_or(char::is_whitespace) {
            return Err(self.fault(
                at,
                "the value is missing",
                "write it right behind the field, or \"\" for an empty one",
            ));
        }
        Ok(vec![(at, self.plain()?)])
    }

    /// `/(a|b)/`, as the original's clients write *or*.
    fn alternatives(&mut self) -> Result<Vec<(usize, Pattern)>, Error> {
        let begin = self.at;
        self.at += 1;
        let grouped = self.peek() == Some('(');
        self.at += usize::from(grouped);
        let mut found = Vec::new();
        let (mut at, mut word) = (self.at, String::new());
        loop {
            let Some(character) = self.peek() else {
                return Err(self.fault(begin, "the alternatives have no end", "close them: field:/(a|b)/"));
            };
            let here = self.at;
            self.at += character.len_utf8();
            let ends = if grouped { character == ')' } else { character == '/' };
            match character {
                '|' | ')' | '/' if ends || character == '|' => {
                    found.push((at, Pattern::exact(std::mem::take(&mut word))));
                    at = self.at;
                    if found.len() > MOST_ALTERNATIVES {
                        return Err(self.fault(here, "there are too many alternatives", "256 are the most"));
                    }
                    if ends {
                        break;
                    }
                }
                '\\' => {
                    let escaped = self.peek().filter(|next| !next.is_alphanumeric());
                    let Some(escaped) = escaped else { return Err(self.no_regex(here, "\\")) };
                    self.at += escaped.len_utf8();
                    word.push(escaped);
                }
                '*' | '+' | '?' | '[' | ']' | '{' | '}' | '^' | '$' | '(' | ')' => {
                    return Err(self.no_regex(here, character.encode_utf8(&mut [0; 4])));
                }
                other => word.push(other),
            }
        }
        if grouped && self.peek() != Some('/') {
            return Err(self.fault(self.at, "the alternatives do not end with ')/'", "write field:/(a|b)/"));
        }
        self.at += usize::from(grouped);
        if self.peek().is_some_and(|next| !next.is_whitespace()) {
            return Err(self.fault(self.at, "something follows the alternatives", "put a space between conditions"));
        }
        Ok(found)
    }

    /// Text up to the next space, quoted where spaces and stars are part of it.
    fn plain(&mut self) -> Result<Pattern, Error> {
        let mut parts = vec![String::new()];
        while let Some(character) = self.peek().filter(|character| !character.is_whitespace()) {
            let here = self.at;
            self.at += character.len_utf8();
            let last = parts.len() - 1;
            match character {
                '*' => parts.push(String::new()),
                '"' => self.quoted(here, &mut parts[last])?,
                other => parts[last].push(other),
            }
        }
        // Two stars are one.
        let ends = parts.len() - 1;
        let mut place = 0;
        parts.retain(|part| {
            place += 1;
            !part.is_empty() || place == 1 || place == ends + 1
        });
        Ok(Pattern::of_parts(parts))
    }

    fn quoted(&mut self, begin: usize, into: &mut String) -> Result<(), Error> {
        loop {
            let Some(character) = self.peek() else {
                return Err(self.fault(begin, "the quotes have no end", "close them with another '\"'"));
            };
            self.at += character.len_utf8();
            match character {
                '"' => return Ok(()),
                '\\' => {
                    let Some(escaped) = self.peek() else { continue };
                    self.at += escaped.len_utf8();
                    into.push(escaped);
                }
                other => into.push(other),
            }
        }
    }

    /// Values that can be known to be wrong, and those that have other names.
    fn checked(&self, field: &Field, at: usize, pattern: Pattern) -> Result<Pattern, Error> {
        match field {
            Field::Kind => Ok(pattern.as_exact().map(aliases::kind).map_or_else(|| pattern.clone(), Pattern::exact)),
            Field::Status => {
                let lower = pattern.map(str::to_ascii_lowercase);
                if Status::ALL.iter().any(|status| lower.matches(&status.as_str().to_ascii_lowercase())) {
                    return Ok(pattern);
                }
                let all = Status::ALL.map(Status::as_str).join(", ");
                Err(self.fault(at, "there is no such status", &format!("there are {all}")))
            }
            Field::Is => {
                let known = pattern.as_exact().is_some_and(|state| aliases::STATES.contains(&state));
                let cure = || format!("there are {}", aliases::STATES.join(", "));
                if known { Ok(pattern) } else { Err(self.fault(at, "there is no such state", &cure())) }
            }
            Field::Object(_) if pattern.as_exact().is_none() => Err(self.fault(
                at,
                "fields of bodies are compared as a whole",
                "leave the '*' out, or put it in quotes if it is part of the value",
            )),
            Field::Text if pattern.as_exact().is_none() && pattern.as_prefix().is_none() => Err(self.fault(
                at,
                "in text a '*' can only stand at the end",
                "use name: or message:, where it can stand anywhere, or put it in quotes",
            )),
            Field::Text if pattern.first().trim().is_empty() => {
                Err(self.fault(at, "there is no text to look for", "write a word, or leave it out"))
            }
            _ => Ok(pattern),
        }
    }

    fn no_regex(&self, at: usize, what: &str) -> Error {
        let fault = format!("'{what}' is not understood in alternatives");
        self.fault(at, &fault, "only whole values can stand there, such as /(a|b)/, and no regular expression")
    }

    fn fault(&self, at: usize, fault: &str, cure: &str) -> Error {
        let before = (0..=at.min(self.text.len())).rev().find_map(|at| self.text.get(..at)).unwrap_or_default();
        let at = Some(before.chars().count());
        Error { part: self.part, at, fault: fault.to_owned(), cure: cure.to_owned() }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn word(&self) -> &'a str {
        self.rest().split(char::is_whitespace).next().unwrap_or_default()
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As one would say it: `-field:a|b`, with `*` for stars.
    fn said(clause: &Clause) -> String {
        let patterns: Vec<String> = clause.patterns.iter().map(Pattern::text).collect();
        format!("{}{:?}={}", if clause.negated { "-" } else { "" }, clause.field, patterns.join("|"))
    }

    #[test]
    fn questions_come_to_these_conditions() {
        let table = [
            ("", ""),
            ("  \t ", ""),
            ("kind:HelmRelease status:Failed", "Kind=HelmRelease; Status=Failed"),
            ("kind:hr kind=gitrepo kind:Odd", "Kind=HelmRelease; Kind=GitRepository; Kind=Odd"),
            ("-ns:kube-system !ns:flux-*", "-Namespace=kube-system; -Namespace=flux-*"),
            ("+kind:ks", "Kind=Kustomization"),
            ("label.app=podinfo", r#"Label("app")=podinfo"#),
            ("labels.app.kubernetes.io/name:x*", r#"Label("app.kubernetes.io/name")=x*"#),
            ("LABEL.App:x", r#"Label("App")=x"#),
            ("name:pod* name:*info* name:a**b", "Name=pod*; Name=*info*; Name=a*b"),
            (r#""quoted text""#, "Text=quoted text"),
            (r#""say \"so\" \\" x"#, r#"Text=say "so" \; Text=x"#),
            (r#"name:"a*b"c*"#, "Name=a*bc*"),
            ("Object.spec.path:./clusters/a", r#"Object("spec.path")=./clusters/a"#),
            ("object.spec.Interval=5m", r#"Object("spec.Interval")=5m"#),
            ("kind:/(HelmRelease|ks)/ x", "Kind=HelmRelease|Kustomization; Text=x"),
            ("cluster:/(a\\.b|c.d)/", "Cluster=a.b|c.d"),
            ("cluster:/a|b/", "Cluster=a|b"),
            ("ns:/(one)/", "Namespace=one"),
            ("ns:/(flux-system/leaf|b)/", "Namespace=flux-system/leaf|b"),
            ("message:/healthz", "Message=/healthz"),
            (r#"tenant:"""#, "Tenant="),
            ("msg:timeout uid:1-2 is:terminating group:apps", "Message=timeout; Uid=1-2; Is=terminating; Group=apps"),
            ("pod*", "Text=pod*"),
            ("a-b /x/y \"http://x\"", "Text=a-b; Text=/x/y; Text=http://x"),
            ("status:success status:s*", "Status=success; Status=s*"),
            ("größe -\"ä ö\"", "Text=größe; -Text=ä ö"),
        ];
        for (text, expected) in table {
            let found = clauses(text, Part::Query).unwrap_or_else(|error| panic!("{text}: {error}"));
            let found: Vec<String> = found.iter().map(said).collect();
            assert_eq!(found.join("; "), expected, "{text}");
        }
    }

    #[test]
    fn faults_are_named_with_their_place_and_what_to_do() {
        let table = [
            ("nginx:1.25", 0, "no field 'nginx'"),
            ("a kindd:x", 2, "no field 'kindd'"),
            ("kind:", 5, "value is missing"),
            ("kind: x", 5, "value is missing"),
            ("äö kind:", 8, "value is missing"),
            ("label.:x", 0, "no field 'label.'"),
            ("x -", 2, "nothing follows '-'"),
            ("! x", 0, "nothing follows '!'"),
            ("name:\"abc", 5, "quotes have no end"),
            ("ä \"abc", 2, "quotes have no end"),
            ("kind:/(a|b", 5, "no end"),
            ("kind:/(a|b) x", 11, "do not end with ')/'"),
            ("kind:/(a|b)/x", 12, "something follows"),
            ("kind:/(a.*|b)/", 9, "'*' is not understood"),
            ("kind:/(a|[bc])/", 9, "'[' is not understood"),
            ("kind:/(a|\\d)/", 9, "'\\' is not understood"),
            ("kind:/(a|(b))/", 9, "'(' is not understood"),
            ("x status:Broken", 9, "no such status"),
            ("status:/(Failed|Broken)/", 16, "no such status"),
            ("is:odd", 3, "no such state"),
            ("is:d*", 3, "no such state"),
            ("Object.a:x*", 9, "compared as a whole"),
            ("a*b", 0, "can only stand at the end"),
            ("*a", 0, "can only stand at the end"),
            ("x *", 2, "no text to look for"),
            ("\"\"", 0, "no text to look for"),
        ];
        for (text, at, fault) in table {
            let error = clauses(text, Part::Filter(3)).expect_err(text);
            assert_eq!(error.at, Some(at), "{text}: {error}");
            assert!(error.fault.contains(fault) && !error.cure.is_empty(), "{text}: {error}");
            assert!(error.to_string().starts_with(&format!("filters[3] at character {}: ", at + 1)), "{error}");
        }
        let many = "x ".repeat(65);
        assert_eq!(clauses(&many, Part::Query).unwrap_err().at, Some(128));
        let long = "ä".repeat(LONGEST);
        assert!(clauses(&long, Part::Query).unwrap_err().fault.contains("too long"));
        let alternatives = format!("kind:/({})/", vec!["a"; 300].join("|"));
        assert!(clauses(&alternatives, Part::Query).unwrap_err().fault.contains("too many alternatives"));
    }

    #[test]
    fn nothing_that_is_written_makes_it_panic_or_run_on() {
        let mut random = fastrand::Rng::with_seed(testbed::seed("nothing_that_is_written_makes_it_panic"));
        let pieces = [
            "kind:", "-", "!", "+", "\"", "\\", "/(", "|", ")/", "*", " ", "ä", "label.", "=", "Object.", "x", "/",
            "is:",
        ];
        for _ in 0..testbed::scale().of(20_000, 1_000_000) {
            let text: String = (0..random.usize(0..12)).map(|_| pieces[random.usize(..pieces.len())]).collect();
            if let Err(error) = clauses(&text, Part::Query) {
                assert!(error.at.is_some_and(|at| at <= text.chars().count()), "{text}: {error}");
            }
        }
    }
}
