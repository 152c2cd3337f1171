//! Templates of `-o jsonpath=...`, as kubectl has them: text, `{.path}`, `{"literal"}`, `{range .path}...{end}`.
//!
//! A path is `$` or `@` (both may be left out), `.name`, `['name']`, `[0]`, `[-1]`, `[*]`, `..name` and
//! `[?(@.path=="text")]` with `==` or `!=`. What is not there prints nothing.

use super::Document;

/// A template that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Path(Vec<Step>),
    Range(Vec<Step>, Vec<Part>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(isize),
    All,
    Anywhere(String),
    Where { path: Vec<Step>, equal: bool, text: String },
}

impl Template {
    /// A path alone needs no braces.
    pub fn parse(text: &str) -> Result<Template, String> {
        if !text.contains('{') {
            return Ok(Template(vec![Part::Path(path(text)?)]));
        }
        // One level per open range; the path of a range waits for its end.
        let mut open: Vec<(Vec<Step>, Vec<Part>)> = vec![(Vec::new(), Vec::new())];
        let mut rest = text;
        while let Some((before, inside, after)) = braces(rest)? {
            let mut found = Vec::new();
            if !before.is_empty() {
                found.push(Part::Literal(before.to_owned()));
            }
            let mut ranges = None;
            match inside.trim() {
                "end" => ranges = Some(false),
                words if words.starts_with("range ") => ranges = Some(true),
                words if words.starts_with('"') || words.starts_with('\'') => {
                    found.push(Part::Literal(literal(words)?));
                }
                words => found.push(Part::Path(path(words)?)),
            }
            parts(&mut open).extend(found);
            match ranges {
                Some(true) => open.push((path(inside.trim().trim_start_matches("range "))?, Vec::new())),
                Some(false) if open.len() > 1 => {
                    let (steps, within) = open.pop().unwrap_or_default();
                    parts(&mut open).push(Part::Range(steps, within));
                }
                Some(false) => return Err("there is an {end} without its {range}".to_owned()),
                None => {}
            }
            rest = after;
        }
        if !rest.is_empty() {
            parts(&mut open).push(Part::Literal(rest.to_owned()));
        }
        match (open.len(), open.pop()) {
            (1, Some((_, parts))) => Ok(Template(parts)),
            _ => Err("a {range} has no {end}".to_owned()),
        }
    }

    /// The text that it makes of a document.
    pub fn render(&self, document: &Document) -> String {
        let mut text = String::new();
        render(&self.0, document, &mut text);
        text
    }
}

fn parts(open: &mut [(Vec<Step>, Vec<Part>)]) -> &mut Vec<Part> {
    let last = open.len() - 1;
    &mut open[last].1
}

fn render(parts: &[Part], document: &Document, text: &mut String) {
    for part in parts {
        match part {
            Part::Literal(words) => text.push_str(words),
            Part::Path(steps) => {
                let found: Vec<String> = select(steps, document).into_iter().map(shown).collect();
                text.push_str(&found.join(" "));
            }
            Part::Range(steps, within) => {
                for item in select(steps, document) {
                    render(within, item, text);
                }
            }
        }
    }
}

fn shown(document: &Document) -> String {
    document.as_str().map_or_else(|| document.to_json(), str::to_owned)
}

fn select<'a>(steps: &[Step], document: &'a Document) -> Vec<&'a Document> {
    steps.iter().fold(vec![document], |found, step| found.into_iter().flat_map(|place| follow(step, place)).collect())
}

fn follow<'a>(step: &Step, place: &'a Document) -> Vec<&'a Document> {
    match step {
        Step::Key(key) => place.get(key).into_iter().collect(),
        Step::Index(index) => {
            let items = place.as_list().unwrap_or_default();
            let index = if *index < 0 { items.len().checked_add_signed(*index) } else { usize::try_from(*index).ok() };
            index.and_then(|index| items.get(index)).into_iter().collect()
        }
        Step::All => children(place),
        Step::Anywhere(key) => {
            let deeper = children(place).into_iter().flat_map(|child| follow(step, child));
            place.get(key).into_iter().chain(deeper).collect()
        }
        Step::Where { path, equal, text } => {
            let fits = |item: &&Document| select(path, item).into_iter().any(|found| shown(found) == *text) == *equal;
            children(place).into_iter().filter(fits).collect()
        }
    }
}

fn children(place: &Document) -> Vec<&Document> {
    match place {
        Document::List(items) => items.iter().collect(),
        Document::Map(entries) => entries.iter().map(|(_, value)| value).collect(),
        _ => Vec::new(),
    }
}

/// What stands before the next braces, in them and after them; braces in quotes are text.
fn braces(text: &str) -> Result<Option<(&str, &str, &str)>, String> {
    let Some(start) = text.find('{') else { return Ok(None) };
    let mut quote = None;
    let mut escaped = false;
    for (index, letter) in text[start + 1..].char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if letter == '\\' => escaped = true,
            Some(open) if letter == open => quote = None,
            None if matches!(letter, '"' | '\'') => quote = Some(letter),
            None if letter == '}' => {
                let end = start + 1 + index;
                return Ok(Some((&text[..start], &text[start + 1..end], &text[end + 1..])));
            }
            _ => {}
        }
    }
    Err("a { has no }".to_owned())
}

fn literal(text: &str) -> Result<String, String> {
    let quote = text.chars().next().unwrap_or('"');
    let inside = text[1..].strip_suffix(quote).ok_or("a text has no closing quote")?;
    let (mut words, mut letters) = (String::new(), inside.chars());
    while let Some(letter) = letters.next() {
        words.push(match letter {
            '\\' => match letters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some(other) => other,
                None => return Err("a text ends with a backslash".to_owned()),
            },
            other => other,
        });
    }
    Ok(words)
}

fn path(text: &str) -> Result<Vec<Step>, String> {
    let text = text.trim();
    let mut rest = text.strip_prefix(['$', '@']).unwrap_or(text);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let (step, after) = if let Some(after) = rest.strip_prefix("..") {
            let (name, after) = name(after)?;
            (Step::Anywhere(name), after)
        } else if let Some(after) = rest.strip_prefix(".*") {
            (Step::All, after)
        } else if let Some(after) = rest.strip_prefix('[') {
            bracket(after)?
        } else if rest == "." {
            break;
        } else if let Some(after) = rest.strip_prefix('.') {
            let (name, after) = name(after)?;
            (Step::Key(name), after)
        } else {
            return Err(format!("a path is such as {{.spec.value}}, not {text}"));
        };
        steps.push(step);
        rest = after;
    }
    Ok(steps)
}

fn name(text: &str) -> Result<(String, &str), String> {
    let end = text.find(['.', '[']).unwrap_or(text.len());
    if end == 0 {
        return Err("a dot in a path is followed by a name".to_owned());
    }
    Ok((text[..end].to_owned(), &text[end..]))
}

fn bracket(text: &str) -> Result<(Step, &str), String> {
    if let Some(condition) = text.strip_prefix("?(") {
        let (inside, after) = condition.split_once(")]").ok_or("a condition ends with )]")?;
        let (operator, equal) = if inside.contains("!=") { ("!=", false) } else { ("==", true) };
        let (left, right) = inside.split_once(operator).ok_or("a condition compares with == or !=")?;
        let right = right.trim();
        let text = if right.starts_with(['"', '\'']) { literal(right)? } else { right.to_owned() };
        return Ok((Step::Where { path: path(left)?, equal, text }, after));
    }
    let quoted = text.chars().next().filter(|letter| matches!(letter, '"' | '\''));
    if let Some(quote) = quoted {
        let (inside, after) = text[1..].split_once(&format!("{quote}]")).ok_or("a [ has no ]")?;
        return Ok((Step::Key(inside.to_owned()), after));
    }
    let (inside, after) = text.split_once(']').ok_or("a [ has no ]")?;
    match inside.trim() {
        "*" => Ok((Step::All, after)),
        number => {
            let number =
                number.parse().map_err(|_| format!("[{number}] is neither a number, a '*' nor a quoted name"))?;
            Ok((Step::Index(number), after))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_templates_pick_out_what_they_name() {
        let json = r#"{"id":"a","n":12345678901234567890123,"m":{"x.y":"dotted"},"items":[{"id":"1","k":"v"},{"id":"2","k":"w"}],"none":null}"#;
        let document = Document::read(json).unwrap();
        let table = [
            (".id", "a"),
            ("$.n", "12345678901234567890123"),
            ("{.id}", "a"),
            ("id={.id}, n={ .n }", "id=a, n=12345678901234567890123"),
            ("{.items[0].id}", "1"),
            ("{.items[-1].id}", "2"),
            ("{.items[7].id}", ""),
            ("{.items[*].id}", "1 2"),
            ("{..id}", "a 1 2"),
            ("{.m['x.y']}", "dotted"),
            ("{.m.*}", "dotted"),
            ("{.items[?(@.k==\"w\")].id}", "2"),
            ("{.items[?(@.k!='w')].id}", "1"),
            ("{range .items[*]}{.id}{\"\\t\"}{.k}{\"\\n\"}{end}", "1\tv\n2\tw\n"),
            ("{.items[1]}", r#"{"id":"2","k":"w"}"#),
            ("{.none}{.absent}", "null"),
            ("{'}'}", "}"),
            ("{.}", &document.to_json()),
        ];
        for (template, expected) in table {
            assert_eq!(Template::parse(template).unwrap().render(&document), expected, "{template}");
        }
    }

    #[test]
    fn what_is_no_template_is_refused() {
        for template in ["id", "{.a", "{.a[}", "{.a[x]}", "{end}", "{range .a}", "{\"a}", "{.a..}", "{.a[?(@.b)]}"] {
            assert!(Template::parse(template).is_err(), "{template}");
        }
    }
}
