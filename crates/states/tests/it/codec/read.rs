//! Outputs, resources, differences and rollback: names without values, values without the rest.

use std::io::{self, Write};

use states::codec::{
    Change, Output, OutputChange, Resource, ResourceChange, Sensitive, Unreadable, Value, diff, output_list, outputs,
    resources, with_serial,
};
use testbed::states::{Options, generate};

const STATE: &str = r#"{
  "version": 4,
  "terraform_version": "1.12.1",
  "serial": 41,
  "lineage": "l-1",
  "outputs": {
    "open": {
      "value": [
        1.50,
        12345678901234567890123,
        "\u003ca\u003e"
      ],
      "type": "dynamic"
    },
    "shut": {
      "value": "canary-output",
      "type": "string",
      "sensitive": true
    },
    "not": {
      "value": "x",
      "type": "string",
      "sensitive": false
    }
  },
  "resources": [
    {
      "module": "module.net[0]",
      "mode": "data",
      "type": "aws_ami",
      "name": "base",
      "provider": "provider[\"registry.terraform.io/hashicorp/aws\"].west",
      "instances": [
        {
          "schema_version": 0,
          "attributes": {
            "id": "ami-1",
            "serial": 99,
            "secret": "canary-attribute"
          }
        }
      ]
    },
    {
      "instances": [
        {
          "index_key": "a\"b",
          "attributes": {
            "id": 7,
            "tags": {
              "Name": "one",
              "odd key": "x"
            },
            "list": [
              {
                "size": 1
              },
              {
                "size": 2
              }
            ]
          }
        },
        {
          "index_key": 3,
          "deposed": "00aa",
          "attributes": {
            "id": null
          }
        }
      ],
      "mode": "managed",
      "name": "disk",
      "provider": "provider[\"registry.opentofu.org/hashicorp/aws\"]",
      "type": "aws_disk"
    }
  ],
  "check_results": null
}
"#;

/// Restores as the engine does: in pieces that end anywhere.
fn source(state: &str) -> impl FnMut(&mut dyn Write) -> io::Result<()> {
    move |out| state.as_bytes().chunks(7).try_for_each(|piece| out.write_all(piece))
}

#[test]
fn a_rollback_changes_the_digits_of_the_serial_and_nothing_else() {
    let mut out = Vec::new();
    with_serial(&mut source(STATE), 1000, &mut out).expect("readable");
    let expected = STATE.replace("\"serial\": 41", "\"serial\": 1000");
    assert_eq!(String::from_utf8(out).expect("text"), expected);
    for (state, text) in [
        ("{\"a\":{\"serial\":1}}", "the state has no serial, or none that is a whole number"),
        ("{\"serial\":1.5}", "the state has no serial, or none that is a whole number"),
        (
            "{\"serial\":1,\"encrypted_data\":\"AA\",\"encryption_version\":\"v0\"}",
            "the state was encrypted by the client",
        ),
        ("{\"serial\":1", "what is stored is not a state"),
    ] {
        let fault = with_serial(&mut source(state), 2, &mut Vec::new()).expect_err("cannot be done");
        assert_eq!(fault.to_string(), text);
    }
}

#[test]
fn outputs_come_as_a_state_without_resources() {
    let read = |sensitive| {
        let mut out = Vec::new();
        outputs(&mut source(STATE), sensitive, &mut out).expect("readable");
        String::from_utf8(out).expect("text")
    };
    let head = r#"{"version":4,"terraform_version":"1.12.1","serial":41,"lineage":"l-1","outputs":{"#;
    let open = r#""open":{"value":[1.50,12345678901234567890123,"\u003ca\u003e"],"type":"dynamic"},"#;
    let shut = r#""shut":{"value":"canary-output","type":"string","sensitive":true},"#;
    let not = r#""not":{"value":"x","type":"string","sensitive":false}},"resources":[]}"#;
    assert_eq!(read(Sensitive::Shown), format!("{head}{open}{shut}{not}\n"));
    assert_eq!(read(Sensitive::LeftOut), format!("{head}{open}{not}\n"));
}

#[test]
fn an_outputs_document_is_json_whatever_stands_around_the_outputs() {
    let long = "l".repeat(10_000);
    let state =
        format!("{{\"outputs\":{{\"a\":{{\"value\":1}}}},\"version\":4,\"lineage\":\"{long}\",\"serial\":{{}}}}");
    let mut out = Vec::new();
    outputs(&mut source(&state), Sensitive::Shown, &mut out).expect("readable");
    let expected = "{\"outputs\":{\"a\":{\"value\":1}},\"version\":4,\"resources\":[]}\n";
    assert_eq!(String::from_utf8(out).expect("text"), expected);
}

#[test]
fn an_output_is_sensitive_in_doubt() {
    for mark in ["true", "\"yes\"", "1", "[]", "{\"a\":1}"] {
        for name in ["sensitive", "Sensitive", "sensitiv\\u0065"] {
            let state = format!("{{\"outputs\":{{\"a\":{{\"value\":\"canary\",\"{name}\":{mark}}}}}}}");
            let mut out = Vec::new();
            outputs(&mut source(&state), Sensitive::LeftOut, &mut out).expect("readable");
            assert_eq!(String::from_utf8(out).expect("text"), "{\"outputs\":{},\"resources\":[]}\n", "{state}");
        }
    }
}

#[test]
fn resources_have_the_addresses_that_terraform_prints() {
    let mut found = Vec::new();
    resources(&mut source(STATE), &mut |resource| found.push(resource)).expect("readable");
    let resource = |address: &str, kind: &str, provider: &str, id: Option<&str>| Resource {
        address: address.into(),
        kind: kind.into(),
        provider: provider.into(),
        id: id.map(Into::into),
    };
    assert_eq!(
        found,
        [
            resource(
                "module.net[0].data.aws_ami.base",
                "aws_ami",
                "registry.terraform.io/hashicorp/aws.west",
                Some("ami-1")
            ),
            resource(r#"aws_disk.disk["a\"b"]"#, "aws_disk", "registry.opentofu.org/hashicorp/aws", Some("7")),
            resource("aws_disk.disk[3] (deposed 00aa)", "aws_disk", "registry.opentofu.org/hashicorp/aws", None),
        ]
    );
}

#[test]
fn a_difference_names_addresses_and_paths_and_no_value() {
    let after = STATE
        .replace("canary-attribute", "canary-other")
        .replace("\"Name\": \"one\"", "\"Name\": \"canary-tag\"")
        .replace("\"odd key\": \"x\"", "\"new\": [\n                []\n              ]")
        .replace("\"size\": 2", "\"size\": 2.0")
        .replace("\"index_key\": 3", "\"index_key\": 4")
        .replace("canary-output", "canary-changed")
        .replace("\"not\"", "\"yes\"")
        .replace("hashicorp/aws\\\"].west", "hashicorp/aws\\\"].east");
    let difference = diff(&mut source(STATE), &mut source(&after)).expect("readable");
    let change = |address: &str, change, paths: Option<&[&str]>| ResourceChange {
        address: address.into(),
        change,
        paths: paths.map(|paths| paths.iter().map(ToString::to_string).collect()),
    };
    assert_eq!(
        difference.resources,
        [
            change(
                r#"aws_disk.disk["a\"b"]"#,
                Change::Changed,
                Some(&[
                    "attributes.list[1].size",
                    "attributes.tags.Name",
                    "attributes.tags.new",
                    "attributes.tags.new[0]",
                    "attributes.tags[\"odd key\"]",
                ])
            ),
            change("aws_disk.disk[3] (deposed 00aa)", Change::Removed, None),
            change("aws_disk.disk[4] (deposed 00aa)", Change::Added, None),
            change("module.net[0].data.aws_ami.base", Change::Changed, Some(&["attributes.secret", "provider"])),
        ]
    );
    let output = |name: &str, change, sensitive, before: &Value, after: &Value| {
        let (before, after) = (before.clone(), after.clone());
        OutputChange { name: name.into(), change, sensitive, before, after }
    };
    let (hidden, shown) = (Value::Hidden, Value::Shown("\"x\"".to_owned()));
    assert_eq!(
        difference.outputs,
        [
            output("not", Change::Removed, false, &shown, &hidden),
            output("shut", Change::Changed, true, &hidden, &hidden),
            output("yes", Change::Added, false, &hidden, &shown),
        ]
    );
    assert!(!format!("{difference:?}").contains("canary"));
}

#[test]
fn outputs_are_listed_as_written_and_hidden_in_doubt() {
    let list = |state: &str, sensitive| output_list(&mut source(state), sensitive).expect("readable");
    let output = |name: &str, kind: Option<&str>, value, sensitive| Output {
        name: name.into(),
        kind: kind.map(Into::into),
        value,
        sensitive,
    };
    let shown = |text: &str| Value::Shown(text.to_owned());
    let open = r#"[1.50,12345678901234567890123,"\u003ca\u003e"]"#;
    let expected = |secret: Value| {
        [
            output("not", Some("\"string\""), shown("\"x\""), false),
            output("open", Some("\"dynamic\""), shown(open), false),
            output("shut", Some("\"string\""), secret, true),
        ]
    };
    assert_eq!(list(STATE, Sensitive::LeftOut), expected(Value::Hidden));
    assert_eq!(list(STATE, Sensitive::Shown), expected(shown("\"canary-output\"")));
    assert!(!format!("{:?}", list(STATE, Sensitive::Shown)).contains("canary"));

    // The last of several counts, and one mark is enough.
    let twice = r#"{"outputs":{"a":{"value":1,"value":[2, 3],"type":["list", "number"]},
        "b":{"value":"canary","sensitive":true},"b":{"value":"canary","sensitive":false},"c":{"type":"string"}}}"#;
    let expected = [
        output("a", Some(r#"["list","number"]"#), shown("[2,3]"), false),
        output("b", None, Value::Hidden, true),
        output("c", Some("\"string\""), Value::Hidden, false),
    ];
    assert_eq!(list(twice, Sensitive::LeftOut), expected);

    let long = format!("{{\"outputs\":{{\"a\":{{\"value\":\"{}\"}}}}}}", "x".repeat(300 << 10));
    assert_eq!(list(&long, Sensitive::Shown), [output("a", None, Value::TooLong, false)]);
    let many: Vec<String> =
        (0..60).map(|number| format!("\"{number:02}\":{{\"value\":\"{}\"}}", "x".repeat(200 << 10))).collect();
    let many = list(&format!("{{\"outputs\":{{{}}}}}", many.join(",")), Sensitive::Shown);
    let kept = many.iter().filter(|output| output.value != Value::TooLong).count();
    assert_eq!((many.len(), kept), (60, 40), "eight megabytes of values are kept");
}

#[test]
fn a_value_is_shown_only_if_neither_state_marks_it() {
    let state = |value: &str, mark: &str| format!("{{\"outputs\":{{\"a\":{{\"value\":\"{value}\"{mark}}}}}}}");
    let marked = ",\"sensitive\":true";
    for (older, newer) in [("", marked), (marked, ""), (marked, marked)] {
        let difference = diff(&mut source(&state("canary-1", older)), &mut source(&state("canary-2", newer)));
        let outputs = difference.expect("readable").outputs;
        let (before, after) = (Value::Hidden, Value::Hidden);
        let expected = OutputChange { name: "a".into(), change: Change::Changed, sensitive: true, before, after };
        assert_eq!(outputs, [expected], "{older:?} {newer:?}");
    }
}

#[test]
fn another_order_or_layout_is_no_difference() {
    let sorted =
        STATE.replace("\"Name\": \"one\",\n              \"odd key\": \"x\"", "\"odd key\":\"x\", \"Name\":\"one\"");
    assert_ne!(sorted, STATE);
    let difference = diff(&mut source(STATE), &mut source(&sorted)).expect("readable");
    assert_eq!(difference, states::codec::Diff::default());
}

#[test]
fn what_a_client_encrypted_cannot_be_read() {
    let state = r#"{"serial":1,"lineage":"l","meta":{},"encrypted_data":"AA==","encryption_version":"v0"}"#;
    let faults = [
        outputs(&mut source(state), Sensitive::Shown, &mut Vec::new()).expect_err("encrypted"),
        resources(&mut source(state), &mut drop).expect_err("encrypted"),
        diff(&mut source(state), &mut source(STATE)).expect_err("encrypted"),
        diff(&mut source(STATE), &mut source(state)).expect_err("encrypted"),
    ];
    assert!(faults.iter().all(|fault| matches!(fault, Unreadable::Encrypted)), "{faults:?}");
}

#[test]
fn only_edited_resources_differ_between_versions_of_a_large_state() {
    let count = testbed::scale().of(300, 40_000);
    let mut options = Options { serial: 2, ..Options::default() };
    options.edits.insert(17, 5);
    let text = |resources, options: &Options| String::from_utf8(generate(resources, 8, options)).expect("text");
    let (before, after) = (text(count, &Options::default()), text(count + 1, &options));
    let difference = diff(&mut source(&before), &mut source(&after)).expect("readable");
    let mut expected = vec![
        ResourceChange {
            address: "aws_instance.node_17".into(),
            change: Change::Changed,
            paths: Some(vec!["attributes.tags.Revision".into(), "attributes.user_data_hash".into()]),
        },
        ResourceChange { address: format!("aws_instance.node_{count}"), change: Change::Added, paths: None },
    ];
    expected.sort_by(|one, other| one.address.cmp(&other.address));
    assert_eq!(difference.resources, expected);
    assert_eq!(difference.outputs, []);
}
