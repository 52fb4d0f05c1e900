//! Texts that are cut.

/// The longest text of an error that is kept, in bytes. The rest of a longer one is cut off.
pub const MAX_TEXT_BYTES: usize = 64 * 1024;

/// How much is kept of a text that is cut because it is too large to be kept at all.
const SAMPLE_BYTES: usize = 1024;

const CUT: &str = "… [cut off: ";

/// A text of an error as far as it is kept.
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

/// The beginning of a text that is not kept, and why it is not.
pub(crate) fn cut_off(text: &str, why: &str) -> String {
    format!("{}{CUT}{why}]", up_to(text, SAMPLE_BYTES))
}

/// Why the rest of a text is not there; `None` for a whole one.
pub(crate) fn cut_reason(text: &str) -> Option<&str> {
    let (_, why) = text.strip_suffix(']')?.rsplit_once(CUT)?;
    Some(why)
}

/// The beginning of a text, without splitting a character.
fn up_to(text: &str, bytes: usize) -> &str {
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
