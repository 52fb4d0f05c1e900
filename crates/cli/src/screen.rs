//! Output to the terminal, a file or a pipe.

use std::io::{self, IsTerminal, Write};

use crate::visible::{Piece, escape, pieces};

/// The width if it is unknown.
const WIDTH: usize = 100;
/// The minimum width of the output.
const MIN_WIDTH: usize = 20;
/// The style of an escaped character, unlike any text.
const HIDDEN: &str = "\x1b[0;7;33m";
/// The sequence that resets the style.
const RESET: &str = "\x1b[0m";

/// The style of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

impl Look {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "0",
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Cyan => "36",
        }
    }
}

/// The output streams. Results go to standard output, messages to standard error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen {
    pub(crate) out_is_terminal: bool,
    pub(crate) err_is_terminal: bool,
    /// Whether the user can be asked.
    pub(crate) can_ask: bool,
    colour: bool,
    pub(crate) width: usize,
}

impl Screen {
    /// Returns the screen of this process.
    pub(crate) fn of_process() -> Self {
        let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let size = terminal_size::terminal_size();
        let columns = std::env::var("COLUMNS")
            .ok()
            .and_then(|text| text.parse().ok())
            .filter(|columns| *columns > 0);
        let width = columns.or_else(|| size.map(|(width, _)| usize::from(width.0)));
        Self {
            out_is_terminal: out,
            err_is_terminal: err,
            can_ask: io::stdin().is_terminal() && err,
            colour: !plain,
            width: width.unwrap_or(WIDTH).max(MIN_WIDTH),
        }
    }

    /// Returns a screen for tests.
    #[cfg(test)]
    pub(crate) fn of_width(width: usize, terminal: bool) -> Self {
        Self {
            out_is_terminal: terminal,
            err_is_terminal: terminal,
            can_ask: false,
            colour: false,
            width,
        }
    }

    /// Writes a line to standard output.
    #[expect(clippy::unused_self, reason = "all output goes through a screen")]
    pub(crate) fn print_line(&self, text: impl AsRef<str>) -> io::Result<()> {
        writeln!(io::stdout(), "{}", text.as_ref())
    }

    /// Writes a line to standard error. Hidden characters are shown as escapes.
    pub(crate) fn note(&self, look: Look, text: impl AsRef<str>) -> io::Result<()> {
        let text = self.painted(self.err_is_terminal, look, text.as_ref());
        writeln!(io::stderr(), "{text}")
    }

    /// Formats a text for standard output. On a terminal, hidden characters are shown as escapes; a
    /// program gets the text unchanged.
    pub(crate) fn on_out(&self, look: Look, text: &str) -> String {
        match self.out_is_terminal {
            true => self.painted(true, look, text),
            false => text.to_owned(),
        }
    }

    /// Formats a text for standard error. Hidden characters are shown as escapes.
    pub(crate) fn on_err(&self, look: Look, text: &str) -> String {
        self.painted(self.err_is_terminal, look, text)
    }

    /// Formats a piece of a model's text for a terminal on standard error. Invisible characters
    /// that its language needs are kept.
    pub(crate) fn spoken_on_err(&self, look: Look, text: &str) -> String {
        self.coloured(self.err_is_terminal, look, harmless(text))
    }

    /// Formats a model's text for standard output.
    pub(crate) fn spoken_on_out(&self, look: Look, text: &str) -> String {
        match self.out_is_terminal {
            true => self.coloured(true, look, harmless(text)),
            false => text.to_owned(),
        }
    }

    fn painted(&self, terminal: bool, look: Look, text: &str) -> String {
        // Text of a model or a service must neither control the terminal nor hide anything.
        let text = text.replace("\r\n", "\n");
        let shown = pieces(&text).into_iter().map(|piece| match piece {
            Piece::Text(text) => self.coloured(terminal, look, text.to_owned()),
            Piece::Hidden(c) if terminal && self.colour => {
                format!("{HIDDEN}{}{RESET}", escape(c))
            }
            Piece::Hidden(c) => escape(c),
        });
        shown.collect()
    }

    fn coloured(&self, terminal: bool, look: Look, text: String) -> String {
        if !terminal || !self.colour || look == Look::Plain || text.is_empty() {
            return text;
        }
        format!("\x1b[{}m{text}{RESET}", look.code())
    }

    /// Writes a value as pretty JSON to standard output.
    pub(crate) fn json(&self, value: &impl serde::Serialize) -> anyhow::Result<()> {
        let text = if self.out_is_terminal {
            serde_json::to_string_pretty(value)?
        } else {
            serde_json::to_string(value)?
        };
        Ok(self.print_line(text)?)
    }
}

/// Removes characters that control a terminal or reorder the text around them.
pub(crate) fn harmless(text: &str) -> String {
    let shown = |c: char| {
        let drives = c.is_control() && c != '\n' && c != '\t';
        let reorders = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if drives || reorders { '\u{fffd}' } else { c }
    };
    text.replace("\r\n", "\n").chars().map(shown).collect()
}

/// Returns the width of a text in characters, with hidden ones as escapes.
pub(crate) fn width(text: &str) -> usize {
    pieces(text).into_iter().map(piece_width).sum()
}

fn piece_width(piece: Piece<'_>) -> usize {
    match piece {
        Piece::Text(text) => text.chars().count(),
        Piece::Hidden(c) => escape(c).len(),
    }
}

/// Puts a text on one line and cuts it to a width.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    // A hidden character is not treated as a space, or it would disappear.
    let is_space = |c: char| match c {
        '\n' | '\t' | '\r' => true,
        '\u{2028}' | '\u{2029}' => false,
        _ => c.is_whitespace() && !c.is_control(),
    };
    let words = text.split(is_space).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    if width(&line) <= most {
        return line;
    }
    let mut room = most.saturating_sub(1);
    let mut kept = String::new();
    for piece in pieces(&line) {
        match piece {
            Piece::Text(text) => kept.extend(text.chars().take(room)),
            Piece::Hidden(c) if piece_width(piece) <= room => kept.push(c),
            Piece::Hidden(_) => break,
        }
        room = room.saturating_sub(piece_width(piece));
    }
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_shortened_and_control_characters_removed() {
        assert_eq!(shortened("a  b\nc", 10), "a b c");
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(width("a\u{202e}"), 9);
        assert_eq!(shortened("a\u{2028}b\u{202e}", 18), "a\u{2028}b\u{202e}");
        assert_eq!(shortened("a\u{2028}b\u{202e}", 17), "a\u{2028}b…");
        assert_eq!(harmless("a\x1b[2Jb\n"), "a\u{fffd}[2Jb\n");
        assert_eq!(harmless("a\r\nb\rc"), "a\nb\u{fffd}c");
        assert_eq!(
            harmless("pay \u{202e}001\u{2069}"),
            "pay \u{fffd}001\u{fffd}"
        );
    }

    #[test]
    fn output_that_is_not_a_terminal_has_no_colours() {
        let mut screen = Screen {
            out_is_terminal: false,
            err_is_terminal: true,
            can_ask: false,
            colour: true,
            width: 80,
        };
        assert_eq!(screen.on_out(Look::Red, "x\u{202e}"), "x\u{202e}");
        assert_eq!(screen.on_err(Look::Red, "x"), "\x1b[31mx\x1b[0m");
        assert_eq!(
            screen.on_err(Look::Red, "x\u{202e}y"),
            "\x1b[31mx\x1b[0m\x1b[0;7;33m\\u{202e}\x1b[0m\x1b[31my\x1b[0m"
        );
        screen.colour = false;
        assert_eq!(screen.on_err(Look::Red, "x\u{202e}"), "x\\u{202e}");
    }
}
