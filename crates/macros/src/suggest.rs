//! Finds the word that a misspelt word was meant to be.

/// Returns the word nearest to `given`, if one is near enough.
pub(crate) fn nearest<'a>(
    given: &str,
    words: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let (distance, word) = words
        .into_iter()
        .map(|word| (distance(given, word), word))
        .min_by_key(|(distance, _)| *distance)?;
    // A third of the letters may be wrong; more would match unrelated short words.
    (distance * 3 <= word.len()).then_some(word)
}

/// Returns the number of letters to add, remove or replace to turn one word into the other.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (i, have) in from.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut next = vec![left];
        for (want, above) in to.chars().zip(row.iter().copied().skip(1)) {
            let replaced = diagonal + usize::from(have != want);
            left = replaced.min(above + 1).min(left + 1);
            diagonal = above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn the_distance_counts_edits() {
        let pairs = [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("idempotnt", "idempotent", 1),
            ("flaw", "lawn", 2),
        ];
        for (from, to, edits) in pairs {
            assert_eq!(distance(from, to), edits, "{from} to {to}");
        }
    }

    #[test]
    fn only_near_words_are_suggested() {
        let words = ["client", "approval", "approval_if", "name"];
        assert_eq!(nearest("clinet", words), Some("client"));
        assert_eq!(nearest("aproval", words), Some("approval"));
        assert_eq!(nearest("approvalif", words), Some("approval_if"));
        assert_eq!(nearest("nam", words), Some("name"));
        assert_eq!(nearest("cache", words), None);
        assert_eq!(nearest("x", []), None);
    }
}
