//! The name that was probably meant.

/// The candidate nearest to `word`, if it is near enough to be a slip of the keyboard.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.len() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, removals, replacements and swaps of neighbours that turn one word into the other.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=right.len()).collect()];
    for i in 1..=left.len() {
        let mut row = vec![i];
        for j in 1..=right.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(left[i - 1] != right[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_word_and_a_stranger_finds_none() {
        let words = ["listen", "data_dir", "tls.cert_file", "tls.key_file"];
        let table = [
            ("lsiten", Some("listen")),
            ("data-dir", Some("data_dir")),
            ("datadir", Some("data_dir")),
            ("tls.certfile", Some("tls.cert_file")),
            ("colour", None),
            ("", None),
        ];
        for (word, expected) in table {
            assert_eq!(nearest(word, words), expected, "{word}");
        }
    }
}
