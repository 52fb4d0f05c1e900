//! Rows in columns, as wide as the terminal lets them be.

use crate::screen::{Look, Screen, shortened};

/// A terminal narrower than this gets one line per value.
const NARROW: usize = 60;

/// Prints rows under their headings on standard output. On a terminal the last column is cut to fit;
/// elsewhere nothing is cut.
pub(crate) fn print(
    screen: &Screen,
    headings: &[&str],
    rows: &[Vec<String>],
) -> std::io::Result<()> {
    for line in lines(screen, headings, rows) {
        screen.say(line)?;
    }
    Ok(())
}

fn lines(screen: &Screen, headings: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    if screen.out_is_terminal && screen.width < NARROW {
        return stacked(screen, headings, rows);
    }
    let widths: Vec<usize> = headings
        .iter()
        .enumerate()
        .map(|(column, heading)| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            let widest = cells.map(|cell| cell.chars().count()).max();
            widest.unwrap_or_default().max(heading.chars().count())
        })
        .collect();
    let line = |cells: Vec<&str>| {
        let mut line = String::new();
        for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            if column + 1 == cells.len() {
                let left = screen.width.saturating_sub(line.chars().count());
                match screen.out_is_terminal {
                    true => line.push_str(&shortened(cell, left)),
                    false => line.push_str(cell),
                }
            } else {
                line.push_str(&format!("{cell:width$}  "));
            }
        }
        line.trim_end().to_owned()
    };
    let heading = line(headings.to_vec());
    let mut lines = vec![screen.on_out(Look::Bold, &heading)];
    for row in rows {
        lines.push(screen.on_out(Look::Plain, &line(row.iter().map(String::as_str).collect())));
    }
    lines
}

/// One line per value, for terminals too narrow for columns.
fn stacked(screen: &Screen, headings: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            lines.push(String::new());
        }
        for (heading, cell) in headings.iter().zip(row) {
            let left = screen.width.saturating_sub(heading.len() + 2);
            let name = screen.on_out(Look::Dim, &format!("{heading}:"));
            lines.push(format!(
                "{name} {}",
                screen.on_out(Look::Plain, &shortened(cell, left))
            ));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        let row = |id: &str| vec![id.to_owned(), "a".repeat(12), "w ".repeat(60)];
        vec![row("s1"), row("session-2")]
    }

    fn shown(width: usize, terminal: bool) -> Vec<String> {
        let screen = Screen::of_width(width, terminal);
        lines(&screen, &["ID", "AGENT", "WHAT"], &rows())
    }

    #[test]
    fn a_terminal_gets_what_fits() {
        for width in [20, 40, 60, 80, 200] {
            for line in shown(width, true) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
        assert_eq!(shown(80, true).len(), 3);
        assert!(shown(40, true).contains(&"ID: session-2".to_owned()));
    }

    #[test]
    fn a_file_gets_everything() {
        let lines = shown(20, false);
        assert_eq!(lines.len(), 3);
        assert!(
            lines
                .iter()
                .skip(1)
                .all(|line| line.matches('w').count() == 60)
        );
    }
}
