//! What a wrapped key is bound to, as one string of bytes that no other parts can give.

/// Each part with its length before it.
pub(crate) fn bind(parts: &[&[u8]]) -> Vec<u8> {
    let mut bound = Vec::with_capacity(parts.iter().map(|part| 8 + part.len()).sum());
    for part in parts {
        bound.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bound.extend_from_slice(part);
    }
    bound
}

#[cfg(test)]
mod tests {
    use super::bind;

    #[test]
    fn parts_that_run_together_differ() {
        let lists: [&[&[u8]]; 6] =
            [&[b"ab", b"c"], &[b"a", b"bc"], &[b"abc"], &[b"abc", b""], &[b"", b"abc"], &[b"\0\0\0\0\0\0\0\x03abc"]];
        for (index, one) in lists.iter().enumerate() {
            for other in &lists[index + 1..] {
                assert_ne!(bind(one), bind(other), "{one:?} {other:?}");
            }
        }
    }
}
