//! Output to terminals: columns, units, colours, and progress messages.
//!
//! Invariant: only terminals get colours and progress messages; `NO_COLOR` turns the colours off.

use crate::stderr::say;
use slabyard_ask::Listener;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};

/// How text may stand out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// With escape sequences.
    Yes,
    /// Plain text.
    No,
}

impl Colour {
    /// Colours if standard output is a terminal that takes them.
    pub fn of_stdout() -> Colour {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        if io::stdout().is_terminal() && !no_color && !is_dumb() { Colour::Yes } else { Colour::No }
    }

    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        match self {
            Colour::Yes => format!("\x1b[{code}m{text}\x1b[0m"),
            Colour::No => text.into(),
        }
    }
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term == "dumb")
}

/// Rows of columns: the first to the left, the others to the right.
pub struct Grid {
    rows: Vec<Vec<String>>,
}

impl Grid {
    pub fn new(heads: &[&str]) -> Grid {
        Grid { rows: vec![heads.iter().map(|head| (*head).into()).collect()] }
    }

    pub fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// Appends the rows to a text.
    pub fn write(&self, text: &mut String, colour: Colour) {
        self.align(text, colour, usize::MAX);
    }

    /// As before, the third column being words.
    pub fn write_with_words(&self, text: &mut String, colour: Colour) {
        self.align(text, colour, 2);
    }

    fn align(&self, text: &mut String, colour: Colour, words: usize) {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        for (nth, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let _ = match column {
                    0 => write!(line, "{cell:<width$}"),
                    n if n == words => write!(line, "  {cell}"),
                    _ => write!(line, "  {cell:>width$}"),
                };
            }
            let line = line.trim_end();
            let line = if nth == 0 { colour.bold(line) } else { line.into() };
            let _ = writeln!(text, "{line}");
        }
    }
}

/// A number, or `-` for unknown.
pub fn count(number: Option<u64>) -> String {
    number.map_or_else(|| "-".into(), |n| n.to_string())
}

/// `512 B`, `1.5 MiB`.
pub fn bytes(number: Option<u64>) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let Some(number) = number else { return "-".into() };
    if number < 1024 {
        return format!("{number} B");
    }
    let mut size = number as f64 / 1024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next();
    // What would be rounded to four digits is of the next unit.
    while size >= 1023.95
        && let Some(next) = units.next()
    {
        size /= 1024.0;
        unit = Some(next);
    }
    format!("{size:.1} {}", unit.unwrap_or(&""))
}

/// A share of 1 as `1.25 %`.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |share| format!("{:.2} %", share * 100.0))
}

/// Nanoseconds as `1.250 s`.
pub fn seconds(time_ns: u64) -> String {
    format!("{:.3} s", time_ns as f64 / 1e9)
}

/// Says on a terminal what is being done; takes it back at the end.
pub struct Progress {
    on: bool,
}

impl Progress {
    pub fn new() -> Progress {
        Progress { on: io::stderr().is_terminal() && !is_dumb() }
    }
}

impl Listener for Progress {
    fn stage(&self, what: &str) {
        if self.on {
            let _ = write!(io::stderr(), "\r\x1b[K{what} ...");
            let _ = io::stderr().flush();
        }
    }

    fn clear(&self) {
        if self.on {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    fn say(&self, text: &str) {
        self.clear();
        say(text);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_only_heads_stand_out() {
        let mut grid = Grid::new(&["name", "n"]);
        grid.push(vec!["größe".into(), "12".into()]);
        let (mut plain, mut bold) = (String::new(), String::new());
        grid.write(&mut plain, Colour::No);
        grid.write(&mut bold, Colour::Yes);
        assert_eq!(plain, "name    n\ngröße  12\n");
        assert_eq!(bold, "\x1b[1mname    n\x1b[0m\ngröße  12\n");
    }

    #[test]
    fn numbers_have_units() {
        for (number, text) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), ((1 << 20) - 1, "1.0 MiB")]
        {
            assert_eq!(bytes(Some(number)), text);
        }
        assert!(bytes(Some(u64::MAX)).ends_with(" PiB"));
        assert_eq!((bytes(None), count(None), percent(None)), ("-".into(), "-".into(), "-".into()));
        assert_eq!(
            (percent(Some(0.0125)), seconds(1_250_000_000)),
            ("1.25 %".into(), "1.250 s".into())
        );
    }
}
