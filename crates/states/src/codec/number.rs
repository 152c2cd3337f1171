//! The grammar of JSON numbers, byte by byte. Pure.

/// What was seen of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Start,
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    Exponent,
    Sign,
    Power,
}

impl Number {
    /// What is seen with `byte` added, `None` if the number ended before it, or what was expected instead.
    pub(super) fn next(self, byte: u8) -> Result<Option<Number>, &'static str> {
        Ok(Some(match (self, byte) {
            (Number::Fraction | Number::Point, b'0'..=b'9') => Number::Fraction,
            (Number::Exponent | Number::Sign | Number::Power, b'0'..=b'9') => Number::Power,
            (Number::Start, b'-') => Number::Minus,
            (Number::Start | Number::Minus, b'0') => Number::Zero,
            (Number::Whole, b'0'..=b'9') | (Number::Start | Number::Minus, b'1'..=b'9') => Number::Whole,
            (Number::Zero | Number::Whole, b'.') => Number::Point,
            (Number::Zero | Number::Whole | Number::Fraction, b'e' | b'E') => Number::Exponent,
            (Number::Exponent, b'+' | b'-') => Number::Sign,
            (Number::Zero, b'0'..=b'9') => return Err("no digit after a leading zero"),
            (Number::Start | Number::Minus | Number::Point | Number::Sign, _) => return Err("a digit"),
            (Number::Exponent, _) => return Err("a digit or a sign"),
            (Number::Zero | Number::Whole | Number::Fraction | Number::Power, _) => return Ok(None),
        }))
    }
}
