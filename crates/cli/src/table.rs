//! Tables that fit the width of the terminal.

use crate::screen::{Look, Screen, shortened, width as shown_width};

/// The width below which each value gets its own line.
const NARROW: usize = 60;
/// The minimum width of a column.
const LEAST: usize = 6;
/// The space between two columns.
const GAP: usize = 2;

/// A column and its heading.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Column {
    /// Never cut, because ids are copied.
    Whole(&'static str),
    /// Cut if there is not enough room.
    Cut(&'static str),
}

impl Column {
    fn heading(self) -> &'static str {
        match self {
            Self::Whole(heading) | Self::Cut(heading) => heading,
        }
    }

    fn can_be_cut(self) -> bool {
        matches!(self, Self::Cut(_))
    }
}

/// Prints rows under their headings on standard output. On a terminal columns are cut to fit, the
/// widest first, and if that is not enough each value gets its own line. In a file or a pipe
/// nothing is cut.
pub(crate) fn print(
    screen: &Screen,
    columns: &[Column],
    rows: &[Vec<String>],
) -> std::io::Result<()> {
    for line in lines(screen, columns, rows) {
        screen.print_line(line)?;
    }
    Ok(())
}

fn lines(screen: &Screen, columns: &[Column], rows: &[Vec<String>]) -> Vec<String> {
    let natural = columns.iter().enumerate().map(|(index, column)| {
        let cells = rows.iter().filter_map(|row| row.get(index));
        let widest = cells.map(|cell| shown_width(cell)).max();
        let heading = column.heading().chars().count();
        widest.unwrap_or_default().max(heading)
    });
    let natural: Vec<usize> = natural.collect();
    let widths = if !screen.out_is_terminal {
        Some(natural)
    } else if screen.width < NARROW {
        None
    } else {
        fitted(columns, natural, screen.width)
    };
    let Some(widths) = widths else {
        return stacked(screen, columns, rows);
    };
    let line = |cells: Vec<&str>| {
        let mut line = String::new();
        for (cell, width) in cells.into_iter().zip(&widths) {
            let cell = match screen.out_is_terminal {
                true => shortened(cell, *width),
                false => cell.to_owned(),
            };
            let space = width.saturating_sub(shown_width(&cell)) + GAP;
            line.push_str(&format!("{cell}{:space$}", ""));
        }
        line.trim_end().to_owned()
    };
    let headings = columns.iter().map(|column| column.heading());
    let heading = line(headings.collect());
    let mut lines = vec![screen.on_out(Look::Bold, &heading)];
    for row in rows {
        let row = line(row.iter().map(String::as_str).collect());
        lines.push(screen.on_out(Look::Plain, &row));
    }
    lines
}

/// Returns the widths of columns that fit, or `None` if they cannot be made to fit.
fn fitted(columns: &[Column], mut widths: Vec<usize>, width: usize) -> Option<Vec<usize>> {
    let room = width.saturating_sub(GAP * columns.len().saturating_sub(1));
    while widths.iter().sum::<usize>() > room {
        let cut = columns.iter().zip(&mut widths);
        let cut = cut.filter(|(column, width)| column.can_be_cut() && **width > LEAST);
        let (_, widest) = cut.max_by_key(|(_, width)| **width)?;
        *widest -= 1;
    }
    Some(widths)
}

/// Formats one line per value, for terminals too narrow for columns.
fn stacked(screen: &Screen, columns: &[Column], rows: &[Vec<String>]) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            lines.push(String::new());
        }
        for (column, cell) in columns.iter().zip(row) {
            let heading = column.heading();
            let name = screen.on_out(Look::Dim, &format!("{heading}:"));
            let cell = match column.can_be_cut() {
                true => shortened(cell, screen.width.saturating_sub(heading.len() + 2)),
                false => cell.clone(),
            };
            lines.push(format!("{name} {}", screen.on_out(Look::Plain, &cell)));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::Whole("SESSION"),
        Column::Cut("AGENT"),
        Column::Cut("STATUS"),
        Column::Cut("WHAT"),
    ];

    fn rows(id: usize) -> Vec<Vec<String>> {
        let row = |letter: &str| {
            let agent = "a".repeat(12);
            vec![
                letter.repeat(id),
                agent,
                "completed".to_owned(),
                "w ".repeat(60),
            ]
        };
        vec![row("s"), row("t")]
    }

    fn shown(width: usize, terminal: bool, id: usize) -> Vec<String> {
        let screen = Screen::of_width(width, terminal);
        lines(&screen, &COLUMNS, &rows(id))
    }

    #[test]
    fn columns_fit_the_terminal_and_ids_are_not_cut() {
        for width in [20, 40, 60, 80, 200] {
            for line in shown(width, true, 9) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
        let id = "s".repeat(40);
        for width in [48, 60, 63, 64, 80, 120] {
            let lines = shown(width, true, 40);
            assert!(
                lines.iter().any(|line| line.contains(&id)),
                "{width}: {lines:?}"
            );
            for line in lines {
                assert!(line.chars().count() <= width.max(49), "{width}: {line}");
            }
        }
        assert_eq!(shown(80, true, 40).len(), 3);
        // If the columns do not fit beside an id, each value gets its own line.
        assert!(shown(60, true, 40).contains(&"AGENT: aaaaaaaaaaaa".to_owned()));
    }

    #[test]
    fn nothing_is_cut_in_a_file() {
        let lines = shown(20, false, 40);
        assert_eq!(lines.len(), 3);
        let whole = |line: &String| line.matches('w').count() == 60;
        assert!(lines.iter().skip(1).all(whole), "{lines:?}");
    }
}
