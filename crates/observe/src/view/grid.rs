//! Pads columns to their widest cell; the first column is aligned left, the others right.

use super::Colour;
use std::io::{self, Write};

/// How a row looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// As plain text.
    Row,
    /// As a heading.
    Total,
}

/// Rows under a heading.
pub struct Grid {
    rows: Vec<(Weight, Vec<String>)>,
    words_from: usize,
}

impl Grid {
    /// A grid with a heading.
    pub fn new<H: Into<String>>(heading: impl IntoIterator<Item = H>) -> Grid {
        let heading = heading.into_iter().map(Into::into).collect();
        Grid { rows: vec![(Weight::Total, heading)], words_from: usize::MAX }
    }

    /// A grid without a heading.
    #[must_use]
    pub fn bare() -> Grid {
        Grid { rows: Vec::new(), words_from: usize::MAX }
    }

    /// From this column on cells are words, which stand to the left.
    #[must_use]
    pub fn words_from(mut self, column: usize) -> Grid {
        self.words_from = column;
        self
    }

    /// Adds a row below the others.
    pub fn push<C: Into<String>>(&mut self, weight: Weight, row: impl IntoIterator<Item = C>) {
        self.rows.push((weight, row.into_iter().map(Into::into).collect()));
    }

    /// Characters of the widest line.
    #[must_use]
    pub fn width(&self) -> usize {
        let widths = self.widths();
        widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1)
    }

    /// Writes the rows.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn Write, colour: Colour) -> io::Result<()> {
        let widths = self.widths();
        for (weight, row) in &self.rows {
            let line = self.line(row, &widths);
            if *weight == Weight::Total {
                writeln!(out, "{}", bold(&line, colour))?;
            } else {
                writeln!(out, "{line}")?;
            }
        }
        Ok(())
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            if column > 0 {
                line += GAP;
            }
            if column == 0 || column >= self.words_from {
                line += &format!("{cell:width$}");
            } else {
                line += &format!("{cell:>width$}");
            }
        }
        line.truncate(line.trim_end().len());
        line
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(|(_, row)| row.len()).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|(_, row)| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }
}

/// A line in bold.
#[must_use]
pub fn bold(line: &str, colour: Colour) -> String {
    match colour {
        Colour::No => line.into(),
        Colour::Yes => {
            let bold = anstyle::Style::new().bold();
            format!("{bold}{line}{bold:#}")
        }
    }
}

const GAP: &str = "  ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right_and_words_to_the_left() {
        let mut grid = Grid::new(["name", "n", "what"]).words_from(2);
        grid.push(Weight::Row, ["a", "100", "one"]);
        grid.push(Weight::Row, ["longer", "1", ""]);
        let mut out = Vec::new();
        grid.write(&mut out, Colour::No).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "name      n  what\na       100  one\nlonger    1\n");
        assert_eq!(grid.width(), text.lines().next().unwrap().len());
    }
}
