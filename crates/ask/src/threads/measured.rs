//! Numbers of tables that CI measures, which are text: columns apart by spaces, or by bars where the
//! table is one of a document.

/// A column of a measured table.
#[derive(Clone, Copy, Debug)]
pub enum Column<'a> {
    /// By its head, in the first line.
    Head(&'a str),
    /// By its number, from 0.
    Number(usize),
}

/// The number of a row, found by its first cell, in a column; `None` if there is none.
pub(super) fn number(table: &str, row: &str, column: Column<'_>) -> Option<f64> {
    let mut lines = table.lines().map(cells);
    let at = match column {
        Column::Number(at) => at,
        Column::Head(head) => lines.next()?.iter().position(|cell| *cell == head)?,
    };
    let found = lines.find(|cells| cells.first() == Some(&row))?;
    found.get(at)?.parse().ok()
}

fn cells(line: &str) -> Vec<&str> {
    match line.starts_with('|') {
        true => line.trim_matches('|').split('|').map(str::trim).collect(),
        false => line.split_whitespace().collect(),
    }
}
