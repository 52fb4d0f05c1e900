//! Escapes characters that are invisible or reorder the text around them.
//!
//! A user who decides by a text must see all of it. `packages/studio/src/lib/visible.ts` escapes the same
//! characters in the same way.

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Text that is shown as it is.
    Text(&'a str),
    /// A character that is shown as an escape.
    Hidden(char),
}

/// The ranges of characters without a shape: the format characters of Unicode (category Cf),
/// everything that a font may leave out (`Default_Ignorable_Code_Point`), and the line and
/// paragraph separators.
const HIDDEN: [(char, char); 27] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{2029}'),
    ('\u{202a}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    // Blank, although not a format character.
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// The blocks of pictographs: a variation selector after one of them chooses its style, and hides
/// nothing.
const PICTURES: [(char, char); 9] = [
    ('\u{a9}', '\u{a9}'),
    ('\u{ae}', '\u{ae}'),
    ('\u{203c}', '\u{203c}'),
    ('\u{2049}', '\u{2049}'),
    ('\u{2122}', '\u{2139}'),
    ('\u{2190}', '\u{21ff}'),
    ('\u{2300}', '\u{27bf}'),
    ('\u{2900}', '\u{2bff}'),
    ('\u{1f000}', '\u{1faff}'),
];

/// Splits a text into its parts. Line breaks and tabs are text.
pub(crate) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut begin, mut before) = (0, None);
    let mut rest = text.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        let after = rest.peek().map(|(_, c)| *c);
        if is_hidden(before, c, after) {
            push_text(&mut pieces, text, begin, at);
            pieces.push(Piece::Hidden(c));
            begin = at + c.len_utf8();
        }
        before = Some(c);
    }
    push_text(&mut pieces, text, begin, text.len());
    pieces
}

fn push_text<'a>(pieces: &mut Vec<Piece<'a>>, text: &'a str, begin: usize, end: usize) {
    if let Some(part) = text.get(begin..end).filter(|part| !part.is_empty()) {
        pieces.push(Piece::Text(part));
    }
}

/// Returns the escape of a hidden character.
pub(crate) fn escape(c: char) -> String {
    c.escape_unicode().to_string()
}

/// Returns a text with its hidden characters escaped.
pub(crate) fn escaped(text: &str) -> String {
    let shown = pieces(text).into_iter().map(|piece| match piece {
        Piece::Text(text) => text.to_owned(),
        Piece::Hidden(c) => escape(c),
    });
    shown.collect()
}

fn is_hidden(before: Option<char>, c: char, after: Option<char>) -> bool {
    if c.is_control() {
        return c != '\n' && c != '\t';
    }
    is_in(&HIDDEN, c) && !draws_a_picture(before, c, after)
}

/// Whether a variation selector follows a pictograph, or makes a keycap of a digit.
fn draws_a_picture(before: Option<char>, c: char, after: Option<char>) -> bool {
    if !matches!(c, '\u{fe0e}' | '\u{fe0f}') {
        return false;
    }
    match before {
        Some('0'..='9' | '#' | '*') => after == Some('\u{20e3}'),
        Some(before) => is_in(&PICTURES, before),
        None => false,
    }
}

fn is_in(ranges: &[(char, char)], c: char) -> bool {
    ranges
        .iter()
        .any(|(first, last)| (*first..=*last).contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped() {
        for (text, shown) in [
            ("pay \u{202e}001", "pay \\u{202e}001"),
            ("a\u{2066}b\u{2069}", "a\\u{2066}b\\u{2069}"),
            ("a\u{200b}\u{200f}b", "a\\u{200b}\\u{200f}b"),
            ("\u{feff}x\u{ad}y\u{2060}", "\\u{feff}x\\u{ad}y\\u{2060}"),
            ("x\u{e0041}", "x\\u{e0041}"),
            ("\u{1b}[2J\u{9b}m\u{7f}", "\\u{1b}[2J\\u{9b}m\\u{7f}"),
            (
                "a\u{3164}b\u{2028}c\u{61c}",
                "a\\u{3164}b\\u{2028}c\\u{61c}",
            ),
            ("a\u{fe0f}\u{e0100}", "a\\u{fe0f}\\u{e0100}"),
        ] {
            assert_eq!(escaped(text), shown);
        }
    }

    #[test]
    fn visible_characters_are_kept() {
        for text in [
            "plain\n\ttext",
            "naïve Ωμέγα שלום 日本語",
            "\u{2764}\u{fe0f} 1\u{fe0f}\u{20e3} \u{1f3f3}\u{fe0f}",
        ] {
            assert_eq!(escaped(text), text);
        }
    }
}
