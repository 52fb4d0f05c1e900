//! Shortening texts that are too long.

/// The maximum length of a stored error text, in bytes. The rest of a longer one is cut off.
pub const MAX_TEXT_BYTES: usize = 64 * 1024;

/// How much is kept of a text that is too large to be stored.
const SAMPLE_BYTES: usize = 1024;

const CUT: &str = "… [cut off: ";

/// Shortens an error text to the stored length.
pub(crate) fn shortened(text: String) -> String {
    if text.len() <= MAX_TEXT_BYTES {
        return text;
    }
    format!(
        "{}{CUT}{} bytes in all]",
        up_to(&text, MAX_TEXT_BYTES),
        text.len()
    )
}

/// Returns the beginning of a text that is not stored, and the reason.
pub(crate) fn cut_off(text: &str, why: &str) -> String {
    format!("{}{CUT}{why}]", up_to(text, SAMPLE_BYTES))
}

/// Returns why the rest of a text was cut off; `None` for a whole text.
pub(crate) fn cut_reason(text: &str) -> Option<&str> {
    let (_, why) = text.strip_suffix(']')?.rsplit_once(CUT)?;
    Some(why)
}

/// The longest beginning of a text of at most so many bytes that splits no character.
pub(crate) fn up_to(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let short = "€".repeat(MAX_TEXT_BYTES / 3);
        assert_eq!(shortened(short.clone()), short);
        let long = format!("{short}€€");
        let cut = shortened(long.clone());
        assert!(cut.starts_with(&short), "it ends between characters");
        assert_eq!(cut_reason(&cut), Some("65541 bytes in all"));
        assert!(cut.len() < MAX_TEXT_BYTES + 64);
        assert_eq!(cut_reason(&long), None);
        let sample = cut_off(&long, "why");
        assert_eq!(cut_reason(&sample), Some("why"));
        assert!(sample.len() < SAMPLE_BYTES + 64);
    }
}
