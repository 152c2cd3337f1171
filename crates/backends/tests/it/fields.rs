//! Protobuf by hand: what stands on the wire, field by field, without any generated code.

/// A field as it is encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

impl From<&str> for Field {
    fn from(text: &str) -> Field {
        Field::Bytes(text.as_bytes().to_vec())
    }
}

/// The numbers and contents of the fields of a message, in their order.
pub(crate) fn read(mut bytes: &[u8]) -> Vec<(u64, Field)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).unwrap();
                let (content, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(content.to_vec())
            }
            other => panic!("nothing here has the wire type {other}"),
        };
        fields.push((tag >> 3, field));
    }
    fields
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a number that is whole");
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    number
}

/// A message with one field of bytes, whose number is 1.
pub(crate) fn one(content: &[u8]) -> Vec<u8> {
    assert!(content.len() < 128, "the length is one byte here");
    [&[0x0a, u8::try_from(content.len()).unwrap()], content].concat()
}
