//! JSON that goes through GraphQL as its text.
//!
//! Where the schema says `Any`, the variables of a request are cut out as they were written, before anything reads them as
//! values; the marker under which the text travels is the one that the answer is written with, too. No name in a document
//! can be that marker, since it begins with a `$`.

use std::collections::{BTreeMap, HashMap};

use async_graphql::parser::types::{BaseType, OperationDefinition, Type, TypeKind, TypeSystemDefinition};
use async_graphql::{Name, Value, Variables, parser};
use serde_json::value::RawValue;

use super::fault::Fault;
use crate::Json;

const MARKER: &str = "$serde_json::private::RawValue";
/// The scalars that take JSON as it is.
const RAW: [&str; 2] = ["Any", "TypeInstanceBackendInput"];

/// The input objects of a schema: what the fields of each are.
#[derive(Debug)]
pub(super) struct Inputs(HashMap<String, HashMap<String, Type>>);

impl Inputs {
    /// Reads them from the schema's own text.
    pub(super) fn of(sdl: &str) -> Result<Inputs, parser::Error> {
        let mut objects = HashMap::new();
        for definition in parser::parse_schema(sdl)?.definitions {
            if let TypeSystemDefinition::Type(definition) = definition
                && let TypeKind::InputObject(input) = definition.node.kind
            {
                let fields =
                    input.fields.into_iter().map(|field| (field.node.name.node.to_string(), field.node.ty.node));
                objects.insert(definition.node.name.node.to_string(), fields.collect());
            }
        }
        Ok(Inputs(objects))
    }

    /// The variables of an operation; those that it does not declare are dropped. What is not given is what the operation
    /// says of it: conditions of `@include` and `@skip` are looked up among the given ones alone.
    pub(super) fn variables(
        &self,
        operation: &OperationDefinition,
        given: Option<&RawValue>,
    ) -> Result<Variables, Fault> {
        let given: Option<BTreeMap<String, &RawValue>> = match given {
            None => None,
            Some(given) => serde_json::from_str(given.get())
                .map_err(|_| Fault::malformed("variables: they are not a JSON object"))?,
        };
        let given = given.unwrap_or_default();
        let mut variables = Variables::default();
        for definition in &operation.variable_definitions {
            let name = &definition.node.name.node;
            let value = match (given.get(name.as_str()), &definition.node.default_value) {
                (Some(text), _) => self.value(text, &definition.node.var_type.node.base).ok_or_else(|| {
                    Fault::malformed(format!(
                        "variables.{name}: it is nested too deep, is no JSON, or has a NUL character in a name"
                    ))
                })?,
                (None, Some(default)) => default.node.clone(),
                (None, None) => continue,
            };
            variables.insert(name.clone(), value);
        }
        Ok(variables)
    }

    fn value(&self, text: &RawValue, expected: &BaseType) -> Option<Value> {
        let text = text.get().trim();
        match (expected, text.as_bytes().first()?) {
            (_, b'n') => Some(Value::Null),
            (BaseType::List(inner), b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
                items.into_iter().map(|item| self.value(item, &inner.base)).collect::<Option<_>>().map(Value::List)
            }
            // A lone item stands for a list of it.
            (BaseType::List(inner), _) => self.value(serde_json::from_str(text).ok()?, &inner.base),
            (BaseType::Named(name), _) if RAW.contains(&name.as_str()) => Some(marked(&Json::parse(text).ok()?)),
            (BaseType::Named(name), b'{') if self.0.contains_key(name.as_str()) => {
                let known = self.0.get(name.as_str())?;
                let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
                let fields = fields.into_iter().map(|(field, text)| {
                    let value = match known.get(&field) {
                        Some(expected) => self.value(text, &expected.base)?,
                        // Validation will say that there is no such field.
                        None => Value::Null,
                    };
                    Some((Name::new(field), value))
                });
                fields.collect::<Option<_>>().map(Value::Object)
            }
            // Databases do not have texts with such a letter.
            _ => serde_json::from_str(text)
                .ok()
                .filter(|value| !matches!(value, Value::String(text) if text.contains('\0'))),
        }
    }
}

/// A document as GraphQL carries it.
pub(super) fn marked(json: &Json) -> Value {
    let text = Value::String(json.text().to_owned());
    Value::Object([(Name::new(MARKER), text)].into_iter().collect())
}

/// The document that a value of the request stands for.
pub(super) fn json(value: &Value) -> Result<Json, &'static str> {
    let mut text = String::new();
    write(value, &mut text)?;
    Json::parse(&text).map_err(|_| "it is nested too deep")
}

fn write(value: &Value, text: &mut String) -> Result<(), &'static str> {
    match value {
        Value::Null => text.push_str("null"),
        Value::Number(number) => text.push_str(&number.to_string()),
        Value::Boolean(boolean) => text.push_str(if *boolean { "true" } else { "false" }),
        Value::String(string) => text.push_str(&quoted(string)?),
        Value::Enum(_) | Value::Binary(_) => return Err("a bare word is no JSON; write texts in quotes"),
        Value::List(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write(item, text)?;
            }
            text.push(']');
        }
        Value::Object(fields) => {
            if let (1, Some(Value::String(raw))) = (fields.len(), fields.get(MARKER)) {
                text.push_str(raw);
                return Ok(());
            }
            text.push('{');
            for (index, (name, field)) in fields.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                text.push_str(&quoted(name)?);
                text.push(':');
                write(field, text)?;
            }
            text.push('}');
        }
    }
    Ok(())
}

fn quoted(text: &str) -> Result<String, &'static str> {
    serde_json::to_string(text).map_err(|_| "it is no text")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SDL: &str = "scalar Any scalar TypeInstanceBackendInput \
        input In { value: Any, list: [Any!], inner: [In2!]!, backend: TypeInstanceBackendInput, first: Int } \
        input In2 { value: Any!, name: String }";

    /// The variable `v` of this type, with `value` cut out of it.
    fn cut(declared: &str, given: &str) -> Result<Value, Fault> {
        let inputs = Inputs::of(SDL).unwrap();
        let document = parser::parse_query(format!("query($v: {declared}) {{ a }}")).unwrap();
        let (_, operation) = document.operations.iter().next().unwrap();
        let given = RawValue::from_string(format!("{{\"v\": {given}, \"other\": 1}}")).unwrap();
        inputs.variables(&operation.node, Some(&given)).map(|variables| {
            assert_eq!(variables.len(), 1);
            variables.get("v").cloned().unwrap()
        })
    }

    #[test]
    fn json_is_cut_out_where_the_schema_says_any() {
        let exact = r#"{ "n": [12345678901234567890123, 1.50, -0.0e+10], "x": null, "x": "é" }"#;
        let compact = Json::parse(exact).unwrap();
        assert_eq!(json(&cut("Any", exact).unwrap()).unwrap(), compact);
        let Value::Object(fields) = cut("In!", &format!("{{\"value\": {exact}, \"first\": 7}}")).unwrap() else {
            panic!()
        };
        assert_eq!(json(&fields["value"]).unwrap(), compact);
        assert_eq!(fields["first"], Value::from(7));
        for nested in
            [format!("{{\"inner\": [{{\"value\": {exact}}}]}}"), format!("{{\"inner\": {{\"value\": {exact}}}}}")]
        {
            let Value::Object(fields) = cut("In", &nested).unwrap() else { panic!() };
            let inner = match &fields["inner"] {
                Value::List(items) => items[0].clone(),
                other => other.clone(),
            };
            let Value::Object(inner) = inner else { panic!() };
            assert_eq!(json(&inner["value"]).unwrap(), compact);
        }
        assert_eq!(cut("Any", "null").unwrap(), Value::Null);
        assert_eq!(cut("In", "{\"value\": null}").unwrap(), Value::Object([(Name::new("value"), Value::Null)].into()));
    }

    #[test]
    fn what_is_not_given_is_what_the_operation_says_of_it() {
        let inputs = Inputs::of(SDL).unwrap();
        let document = parser::parse_query("query($v: Any = {a: 1}, $w: Boolean! = true, $x: Int = 7, $y: Int) { a }");
        let document = document.unwrap();
        let (_, operation) = document.operations.iter().next().unwrap();
        let given = RawValue::from_string("{\"x\": null}".to_owned()).unwrap();
        let variables = inputs.variables(&operation.node, Some(&given)).unwrap();
        assert_eq!(json(&variables["v"]).unwrap().text(), r#"{"a":1}"#);
        assert_eq!((&variables["w"], &variables["x"], variables.get("y")), (&Value::from(true), &Value::Null, None));
    }

    #[test]
    fn what_is_cut_out_can_be_part_of_a_literal() {
        let cut = cut("Any", "1.50").unwrap();
        let literal = Value::Object([(Name::new("a"), Value::List(vec![cut, Value::Null, "x\"y".into()]))].into());
        assert_eq!(json(&literal).unwrap().text(), r#"{"a":[1.50,null,"x\"y"]}"#);
        assert!(json(&Value::Enum(Name::new("WORD"))).unwrap_err().contains("quotes"));
    }

    #[test]
    fn a_marker_that_a_client_writes_is_data() {
        let forged = format!("{{\"{MARKER}\":\"1\"}}");
        assert_eq!(json(&cut("Any", &forged).unwrap()).unwrap().text(), forged);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert!(cut("Any", &deep).unwrap_err().to_string().contains("variables.v"));
        assert!(cut("Int", &deep).unwrap_err().to_string().contains("variables.v"));
        for (declared, given) in
            [("String", r#""a\u0000""#), ("In2", r#"{"value": 1, "name": "\u0000"}"#), ("[ID!]", r#"["\u0000"]"#)]
        {
            assert!(cut(declared, given).unwrap_err().to_string().contains("NUL"), "{given}");
        }
        let value = r#""\u0000""#;
        assert_eq!(json(&cut("Any", value).unwrap()).unwrap().text(), value, "values may have one");
    }
}
