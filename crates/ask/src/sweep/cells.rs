//! Cells of a file that is read, before they are rows, and what is wrong with a file.
//!
//! Neighbours: [`super::csv`] and [`super::json`] read cells, [`super::table`] takes them. Invariant:
//! whether an axis has numbers is told by all its values, as where the sweep was planned.

use super::columns::{self, Column, ColumnKind};
use super::row::{Row, Wrong};

/// Rows of texts, as CSV has them.
pub struct Cells {
    /// Of the columns.
    pub names: Vec<String>,
    /// One text for each column.
    pub rows: Vec<Vec<String>>,
}

/// What is wrong with a file, and where.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {why}")]
pub struct Damage {
    place: String,
    why: String,
}

impl Damage {
    /// At a place of the file.
    pub fn at(place: &str, why: impl std::fmt::Display) -> Damage {
        Damage { place: place.into(), why: why.to_string() }
    }

    /// Of a row, counted from 0.
    pub fn row(nth: usize, wrong: Wrong) -> Damage {
        Damage::at(&format!("row {} of the table", nth + 1), wrong)
    }
}

impl Cells {
    /// The kind of a column whose values tell it.
    pub fn kind(&self, column: usize) -> ColumnKind {
        let values = self.rows.iter().filter_map(|row| row.get(column));
        columns::kind_of(values.map(String::as_str))
    }

    /// The rows, by their columns.
    pub fn rows(&self, columns: &[Column]) -> Result<Vec<Row>, Damage> {
        let row = |(nth, texts): (usize, &Vec<String>)| {
            let row = Row::of_texts(texts.iter().map(String::as_str), columns);
            row.map_err(|wrong| Damage::row(nth, wrong))
        };
        self.rows.iter().enumerate().map(row).collect()
    }
}
