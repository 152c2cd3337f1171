//! The order in which the original's validator (Ajv 8) tells several faults. It looks at the keywords of a schema group by
//! group, and looks into a value as it meets the keyword that leads there.

use std::collections::HashMap;

use jsonschema::ValidationError;
use jsonschema::paths::LocationSegment;
use serde_json::Value;

/// Its keywords in its order: those for numbers, texts, any value, arrays, objects, and those that come last.
const ORDER: &[&str] = &[
    "maximum",
    "minimum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "multipleOf",
    "maxLength",
    "minLength",
    "pattern",
    "format",
    "$ref",
    "const",
    "enum",
    "not",
    "anyOf",
    "oneOf",
    "allOf",
    "if",
    "then",
    "else",
    "maxItems",
    "minItems",
    "prefixItems",
    "additionalItems",
    "items",
    "contains",
    "uniqueItems",
    "maxProperties",
    "minProperties",
    "required",
    "propertyNames",
    "additionalProperties",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "properties",
    "patternProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Where the keywords of a type begin and end.
const OF_TYPES: [(&str, &str, &str); 2] =
    [("array", "maxItems", "uniqueItems"), ("object", "maxProperties", "patternProperties")];

/// Errors of one value in the order of the original. Properties that are there come in the order in which they were found.
pub(super) fn sorted<'a>(schema: &Value, errors: Vec<ValidationError<'a>>) -> Vec<ValidationError<'a>> {
    let mut places = Places::default();
    let keyed = errors.into_iter().map(|error| (places.key(schema, &error), error));
    let mut keyed: Vec<(Vec<Step>, ValidationError<'a>)> = keyed.collect();
    keyed.sort_by(|(left, _), (right, _)| left.cmp(right));
    keyed.into_iter().map(|(_key, error)| error).collect()
}

/// The rank of a keyword, and which of the places under it this is, by first appearance.
type Step = (usize, usize);

#[derive(Default)]
struct Places {
    known: HashMap<(usize, usize, String), usize>,
}

impl Places {
    fn key(&mut self, schema: &Value, error: &ValidationError<'_>) -> Vec<Step> {
        let mut path = error.evaluation_path().segments().peekable();
        let mut instance = error.instance_path().segments();
        let (mut key, mut above) = (Vec::new(), 0);
        while let Some(keyword) = path.next() {
            let keyword = keyword.to_string();
            let mut place = String::new();
            let is_last = path.peek().is_none();
            let is_number = matches!(path.peek(), Some(LocationSegment::Index(_)));
            let has_member = match keyword.as_str() {
                "properties" | "patternProperties" | "dependencies" | "dependentSchemas" | "definitions" | "$defs" => {
                    true
                }
                "allOf" | "anyOf" | "oneOf" | "prefixItems" | "items" => is_number,
                _ => false,
            };
            if has_member && let Some(member) = path.next() {
                place = member.to_string();
            }
            let goes_in = matches!(
                keyword.as_str(),
                "properties"
                    | "patternProperties"
                    | "additionalProperties"
                    | "prefixItems"
                    | "items"
                    | "additionalItems"
            );
            if goes_in
                && !is_last
                && let Some(member) = instance.next()
            {
                place = format!("{place}\n{member}");
            }
            let rank = if keyword == "type" && is_last { rank_of_type(schema, error) } else { rank(&keyword) };
            let next = self.known.len() + 1;
            above = *self.known.entry((above, rank, place)).or_insert(next);
            key.push((rank, above));
        }
        key
    }
}

/// Keywords that it does not know come last; `type` has the place before the first.
fn rank(keyword: &str) -> usize {
    ORDER.iter().position(|known| *known == keyword).map_or(ORDER.len() + 1, |position| position + 1)
}

/// It looks at the type first, unless it is a single one that has keywords of its own beside it: then in their place.
fn rank_of_type(schema: &Value, error: &ValidationError<'_>) -> usize {
    let path = error.schema_path().as_str();
    let beside = path.strip_suffix("/type").and_then(|above| schema.pointer(above)).and_then(Value::as_object);
    let Some(beside) = beside else { return 0 };
    let single = match beside.get("type") {
        Some(Value::Array(several)) if several.len() == 1 => several[0].as_str(),
        single => single.and_then(Value::as_str),
    };
    let group = OF_TYPES.iter().find(|(name, ..)| Some(*name) == single);
    let Some((_, first, last)) = group else { return 0 };
    let group = rank(first)..=rank(last);
    if beside.keys().any(|keyword| group.contains(&rank(keyword))) { *group.start() } else { 0 }
}
