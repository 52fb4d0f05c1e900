//! Where output goes, and what it may look like there.

use std::io::{self, IsTerminal, Write};

use crate::visible::{Piece, escape, pieces};

/// The width where nobody knows it.
const WIDTH: usize = 100;
/// Narrower than this is treated as this.
const MIN_WIDTH: usize = 20;
/// How a character looks that is shown by its number: unlike any text.
const HIDDEN: &str = "\x1b[0;7;33m";
/// Back to plain.
const RESET: &str = "\x1b[0m";

/// How a text looks.
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

/// Where output goes. Answers go to standard output, everything about them to standard error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen {
    pub(crate) out_is_terminal: bool,
    pub(crate) err_is_terminal: bool,
    /// Whether somebody can be asked.
    pub(crate) can_ask: bool,
    colour: bool,
    pub(crate) width: usize,
}

impl Screen {
    /// What this process is connected to.
    pub(crate) fn here() -> Self {
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

    /// A screen to test with.
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

    /// A line on standard output.
    #[expect(clippy::unused_self, reason = "all output goes through a screen")]
    pub(crate) fn say(&self, text: impl AsRef<str>) -> io::Result<()> {
        writeln!(io::stdout(), "{}", text.as_ref())
    }

    /// A line on standard error. Hidden characters are visible in it.
    pub(crate) fn note(&self, look: Look, text: impl AsRef<str>) -> io::Result<()> {
        let text = self.painted(self.err_is_terminal, look, text.as_ref());
        writeln!(io::stderr(), "{text}")
    }

    /// A text as standard output shows it. On a terminal hidden characters are visible; a program
    /// gets what was written.
    pub(crate) fn on_out(&self, look: Look, text: &str) -> String {
        match self.out_is_terminal {
            true => self.painted(true, look, text),
            false => text.to_owned(),
        }
    }

    /// A text as standard error shows it. Hidden characters are visible in it.
    pub(crate) fn on_err(&self, look: Look, text: &str) -> String {
        self.painted(self.err_is_terminal, look, text)
    }

    /// A piece of what a model says, as a terminal on standard error shows it. It may use the
    /// invisible characters that its language needs.
    pub(crate) fn spoken_on_err(&self, look: Look, text: &str) -> String {
        self.coloured(self.err_is_terminal, look, harmless(text))
    }

    /// What a model said, as standard output shows it.
    pub(crate) fn spoken_on_out(&self, look: Look, text: &str) -> String {
        match self.out_is_terminal {
            true => self.coloured(true, look, harmless(text)),
            false => text.to_owned(),
        }
    }

    fn painted(&self, terminal: bool, look: Look, text: &str) -> String {
        // What a model or a service wrote must neither drive the terminal nor hide anything.
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

    /// A value as pretty JSON on standard output.
    pub(crate) fn json(&self, value: &impl serde::Serialize) -> anyhow::Result<()> {
        let text = if self.out_is_terminal {
            serde_json::to_string_pretty(value)?
        } else {
            serde_json::to_string(value)?
        };
        Ok(self.say(text)?)
    }
}

/// A text without characters that a terminal obeys, or that change the order of those around them.
pub(crate) fn harmless(text: &str) -> String {
    let shown = |c: char| {
        let drives = c.is_control() && c != '\n' && c != '\t';
        let reorders = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if drives || reorders { '\u{fffd}' } else { c }
    };
    text.replace("\r\n", "\n").chars().map(shown).collect()
}

/// How many characters of a line a text takes, hidden ones by their numbers.
pub(crate) fn width(text: &str) -> usize {
    pieces(text).into_iter().map(piece_width).sum()
}

fn piece_width(piece: Piece<'_>) -> usize {
    match piece {
        Piece::Text(text) => text.chars().count(),
        Piece::Hidden(c) => escape(c).len(),
    }
}

/// A text on one line, cut to so many characters as it is shown.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    // A hidden character is not taken for a space: it would be gone.
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
    fn texts_are_cut_and_made_harmless() {
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
    fn nothing_is_painted_off_a_terminal() {
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
