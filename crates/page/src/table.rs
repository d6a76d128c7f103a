//! Tables: the heads of columns, and rows of words and numbers.

use crate::escape::escape;
use std::fmt::Write;

/// Characters of a text that may take several lines.
const LONG: usize = 40;

/// Words, or a number, in a row and a column.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    number: Option<f64>,
    is_number: bool,
}

impl Cell {
    /// Words.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), number: None, is_number: false }
    }

    /// A number as people read it, and as it sorts.
    pub fn number(text: impl Into<String>, number: f64) -> Cell {
        Cell { text: text.into(), number: Some(number), is_number: true }
    }

    /// A number that is not known: `-`, which sorts last.
    #[must_use]
    pub fn unknown() -> Cell {
        Cell { text: "-".into(), number: None, is_number: true }
    }
}

/// A table. Numbers stand to the right; a click on a head sorts.
#[derive(Clone, Debug)]
pub struct Table {
    heads: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub fn new<H: Into<String>>(heads: impl IntoIterator<Item = H>) -> Table {
        Table { heads: heads.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn push(&mut self, row: impl IntoIterator<Item = Cell>) {
        self.rows.push(row.into_iter().collect());
    }

    pub(crate) fn write(&self, html: &mut String) {
        html.push_str("<div class=\"wide\"><table><thead><tr>");
        for (column, head) in self.heads.iter().enumerate() {
            // As the column is: a head above numbers stands above their ends.
            let numbers = self.rows.iter().any(|row| row.get(column).is_some_and(|c| c.is_number));
            let class = if numbers { " class=\"number\"" } else { "" };
            let _ = write!(html, "<th scope=\"col\"{class}>{}</th>", escape(head));
        }
        html.push_str("</tr></thead><tbody>\n");
        for row in &self.rows {
            html.push_str("<tr>");
            for cell in row {
                let class = match (cell.is_number, cell.text.chars().count()) {
                    (true, _) => " class=\"number\"",
                    (false, LONG..) => " class=\"words\"",
                    (false, _) => "",
                };
                let value = cell.number.map(|number| format!(" data-value=\"{number}\""));
                let value = value.unwrap_or_default();
                let _ = write!(html, "<td{class}{value}>{}</td>", escape(&cell.text));
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody></table></div>\n");
    }
}
