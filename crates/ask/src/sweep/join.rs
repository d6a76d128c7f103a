//! Joins the shards of a sweep into what one machine would have written.
//!
//! Neighbour: [`super::table`] reads and writes the files, and finds damaged ones. Invariant: nothing is
//! joined unless each point of one sweep is there once.

use super::columns::{self, Column};
use super::row::Row;
use super::table::Table;
use crate::Error;
use anyhow::anyhow;
use std::path::{Path, PathBuf};

/// Joins the tables of files, and writes them nowhere.
///
/// # Errors
/// [`Error::Cannot`]: a file cannot be read, is damaged, is of another sweep, or has a point that
/// another one has; or points are missing, which are named.
pub fn join(parts: &[PathBuf]) -> Result<Table, Error> {
    let mut all: Vec<(Row, &Path)> = Vec::new();
    let mut columns: Option<(Vec<Column>, &Path)> = None;
    for part in parts {
        let table = Table::read(part)?;
        let names = |columns: &[Column]| columns.iter().map(|c| c.name.clone()).collect::<Vec<_>>();
        match &columns {
            _ if table.columns.is_empty() => continue,
            Some((first, whose)) if names(first) != names(&table.columns) => {
                return Err(differ(whose, part));
            }
            Some(_) => {}
            None => columns = Some((table.columns, part)),
        }
        if let (Some((first, whose)), Some(row)) = (all.first(), table.rows.first())
            && (first.question(), first.points()) != (row.question(), row.points())
        {
            return Err(differ(whose, part));
        }
        all.extend(table.rows.into_iter().map(|row| (row, part.as_path())));
    }
    all.sort_by_key(|(row, _)| row.point());
    if let Some(two) = all.windows(2).find(|two| two[0].0.point() == two[1].0.point()) {
        let (a, b) = (&two[0], &two[1]);
        let how = if a.0.line() == b.0.line() { "twice" } else { "twice, and its rows differ" };
        return Err(anyhow!(
            "point {} is there {how}: in {} and in {}; join each shard once",
            a.0.point(),
            a.1.display(),
            b.1.display()
        )
        .into());
    }
    let (Some((columns, _)), Some((row, _))) = (columns, all.first()) else {
        return Err(anyhow!("no part has a row: join the files of all shards").into());
    };
    missing(&all, row.points())?;
    let mut columns = columns;
    for at in columns::axes(&columns) {
        let texts: Vec<String> = all.iter().map(|(row, _)| row.cells()[at].text()).collect();
        columns[at].kind = columns::kind_of(texts.iter().map(String::as_str));
    }
    let rows = all.into_iter().map(|(row, _)| row.with_kinds(&columns)).collect();
    Ok(Table { columns, rows })
}

fn missing(all: &[(Row, &Path)], points: usize) -> Result<(), Error> {
    let mut there = vec![false; points];
    for (row, file) in all {
        let at = there.get_mut(row.point());
        *at.ok_or_else(|| anyhow!("{}: a point beyond the last", file.display()))? = true;
    }
    let missing: Vec<String> =
        there.iter().enumerate().filter(|(_, is)| !**is).map(|(nth, _)| nth.to_string()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let more = if missing.len() > 5 { ", ..." } else { "" };
    let shown = missing[..missing.len().min(5)].join(", ");
    Err(anyhow!(
        "{} of {points} points are missing: {shown}{more}; join the files of all shards, each of \
         which must have ended",
        missing.len()
    )
    .into())
}

fn differ(a: &Path, b: &Path) -> Error {
    anyhow!(
        "{} and {} are of different sweeps: other traces, axes, machine or version; join the shards \
         of one",
        a.display(),
        b.display()
    )
    .into()
}

impl Table {
    /// True if it has each of these points of a sweep once, and no other: nothing is left to do.
    #[must_use]
    pub fn is_of(&self, question: &str, points: impl ExactSizeIterator<Item = usize>) -> bool {
        self.rows.len() == points.len()
            && self
                .rows
                .iter()
                .zip(points)
                .all(|(row, nth)| row.point() == nth && row.question() == question)
    }
}
