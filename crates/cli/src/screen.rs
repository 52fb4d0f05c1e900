//! Where output goes, and what it may look like there.

use std::io::{self, IsTerminal, Write};

/// The width where nobody knows it.
const WIDTH: usize = 100;
/// Narrower than this is treated as this.
const MIN_WIDTH: usize = 20;

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

    /// A line on standard error.
    pub(crate) fn note(&self, look: Look, text: impl AsRef<str>) -> io::Result<()> {
        let text = self.painted(self.err_is_terminal, look, text.as_ref());
        writeln!(io::stderr(), "{text}")
    }

    /// A text as standard output shows it.
    pub(crate) fn on_out(&self, look: Look, text: &str) -> String {
        self.painted(self.out_is_terminal, look, text)
    }

    /// A text as standard error shows it.
    pub(crate) fn on_err(&self, look: Look, text: &str) -> String {
        self.painted(self.err_is_terminal, look, text)
    }

    fn painted(&self, terminal: bool, look: Look, text: &str) -> String {
        // What a model or a service wrote must not drive the terminal.
        let text = if terminal {
            harmless(text)
        } else {
            text.to_owned()
        };
        if !terminal || !self.colour || look == Look::Plain || text.is_empty() {
            return text;
        }
        format!("\x1b[{}m{text}\x1b[0m", look.code())
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

/// A text on one line, cut to so many characters.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= width {
        return line;
    }
    let kept: String = line.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_and_made_harmless() {
        assert_eq!(shortened("a  b\nc", 10), "a b c");
        assert_eq!(shortened("abcdef", 4), "abc…");
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
        assert_eq!(screen.on_out(Look::Red, "x"), "x");
        assert_eq!(screen.on_err(Look::Red, "x"), "\x1b[31mx\x1b[0m");
        screen.colour = false;
        assert_eq!(screen.on_err(Look::Red, "x"), "x");
    }
}
