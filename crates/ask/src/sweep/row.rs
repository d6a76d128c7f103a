//! A row of a sweep's table, and the text of it that its checksum is of.
//!
//! Neighbours: [`super::columns`] has the columns; journals, CSV files and workers of other programs
//! have the text. Invariant: the last cell is the checksum of the others.

use super::columns::{Column, ColumnKind, HEAD, TAIL, Value};
use twox_hash::XxHash3_64;

/// A row, complete with its checksum.
#[derive(Clone, Debug, PartialEq)]
pub struct Row(Vec<Value>);

/// Why a row is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// It has more or fewer cells than there are columns, or words where a number stands.
    #[error("it does not have the columns of a sweep")]
    Shape,
    /// Its checksum is of another row.
    #[error("its checksum does not match")]
    Checksum,
}

impl Row {
    /// Puts the checksum behind the cells.
    #[must_use]
    pub fn of_cells(mut cells: Vec<Value>) -> Row {
        cells.push(checksum(&cells));
        Row(cells)
    }

    /// Cells that were read, the checksum among them.
    ///
    /// # Errors
    /// Where they are no row, or a damaged one.
    pub fn checked(cells: Vec<Value>) -> Result<Row, Wrong> {
        let told = HEAD.len() + TAIL.len() <= cells.len() && matches!(cells[0], Value::Whole(_));
        let (last, others) = cells.split_last().filter(|_| told).ok_or(Wrong::Shape)?;
        if *last != checksum(others) {
            return Err(Wrong::Checksum);
        }
        Ok(Row(cells))
    }

    /// The row of a line of CSV.
    ///
    /// # Errors
    /// As [`Row::checked`].
    pub fn parse(line: &str, columns: &[Column]) -> Result<Row, Wrong> {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
        let record = reader.records().next().and_then(Result::ok).ok_or(Wrong::Shape)?;
        Row::of_texts(record.iter(), columns)
    }

    /// The same, of cells that are apart.
    pub(super) fn of_texts<'a>(
        texts: impl Iterator<Item = &'a str>,
        columns: &[Column],
    ) -> Result<Row, Wrong> {
        let texts: Vec<&str> = texts.collect();
        if texts.len() != columns.len() {
            return Err(Wrong::Shape);
        }
        let values =
            texts.into_iter().zip(columns).map(|(text, column)| Value::parse(text, column.kind));
        Row::checked(values.collect::<Option<Vec<Value>>>().ok_or(Wrong::Shape)?)
    }

    /// A line of CSV, without its end.
    #[must_use]
    pub fn line(&self) -> String {
        line(&self.0)
    }

    /// In the order of the columns.
    #[must_use]
    pub fn cells(&self) -> &[Value] {
        &self.0
    }

    /// The number of its point.
    #[must_use]
    pub fn point(&self) -> usize {
        self.number(0)
    }

    /// Points of the whole sweep.
    #[must_use]
    pub fn points(&self) -> usize {
        self.number(1)
    }

    /// The digest of its sweep.
    #[must_use]
    pub fn question(&self) -> &str {
        if let Value::Words(text) = &self.0[2] { text } else { "" }
    }

    /// True if the point cannot be.
    #[must_use]
    pub fn is_impossible(&self) -> bool {
        self.0[self.0.len() - TAIL.len()] != Value::Unknown
    }

    /// The same with an axis's numbers as words, or its words as numbers.
    pub(super) fn with_kinds(self, columns: &[Column]) -> Row {
        let cells = self.0.into_iter().zip(columns).map(|(cell, column)| match &cell {
            Value::Whole(number) if column.kind == ColumnKind::Words => {
                Value::Words(number.to_string())
            }
            Value::Words(text) if column.kind == ColumnKind::Whole => {
                text.parse().map_or(cell, Value::Whole)
            }
            _ => cell,
        });
        Row(cells.collect())
    }

    fn number(&self, column: usize) -> usize {
        if let Value::Whole(number) = self.0[column] { number as usize } else { 0 }
    }
}

fn checksum(cells: &[Value]) -> Value {
    Value::Words(format!("{:016x}", XxHash3_64::oneshot(line(cells).as_bytes())))
}

fn line(cells: &[Value]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Memory takes all that is written.
    let _ = writer.write_record(cells.iter().map(Value::text));
    let mut bytes = writer.into_inner().unwrap_or_default();
    bytes.pop();
    String::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::columns;

    fn row() -> (Row, Vec<Column>) {
        let columns = columns::all([]);
        let cell = |(nth, column): (usize, &Column)| match column.kind {
            ColumnKind::Whole => Value::Whole(nth as u64),
            ColumnKind::Decimal => Value::Decimal(nth as f64 + 0.125),
            ColumnKind::Words => columns::words(&format!("a, \"{nth}\"")),
        };
        let cells = columns.iter().enumerate().map(cell).take(columns.len() - 1);
        (Row::of_cells(cells.collect()), columns)
    }

    #[test]
    fn a_line_gives_the_row_again() {
        let (row, columns) = row();
        assert_eq!(Row::parse(&row.line(), &columns), Ok(row));
    }

    /// Each byte of a line counts.
    #[test]
    fn a_changed_byte_or_a_cut_is_found() {
        let (row, columns) = row();
        let line = row.line();
        for at in 0..line.len() {
            assert!(Row::parse(&line[..at], &columns).is_err(), "cut at {at}");
            let mut bytes = line.clone().into_bytes();
            bytes[at] = if bytes[at] == b'7' { b'8' } else { b'7' };
            let changed = String::from_utf8(bytes).expect("text");
            assert!(Row::parse(&changed, &columns).is_err(), "{changed}");
        }
    }
}
