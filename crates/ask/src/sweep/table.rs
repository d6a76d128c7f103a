//! The files of a sweep: CSV, JSON or Parquet, by the end of the name.
//!
//! Neighbours: [`super::csv`], [`super::json`] and [`super::parquet`] have one format each. Invariants:
//! a file is written whole under another name and then renamed; rows are in the order of the points.

use super::cells::{Cells, Damage};
use super::columns::{self, Column, ColumnKind, HEAD, TAIL};
use super::plan::Plan;
use super::row::{Row, Wrong};
use super::{csv, json, parquet};
use crate::Error;
use anyhow::{Context, anyhow};
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values, for names that end in `.csv`.
    Csv,
    /// For `.json`: an array with an object in each line.
    Json,
    /// For `.parquet`: one row group, compressed by zstd.
    Parquet,
}

/// What a file has.
#[derive(Clone, Debug)]
pub struct Table {
    /// Empty for JSON without a row.
    pub columns: Vec<Column>,
    /// As they stand there.
    pub rows: Vec<Row>,
}

impl Format {
    /// The format of a file with this name.
    ///
    /// # Errors
    /// [`Error::Usage`] for another end of the name.
    pub fn of(file: &Path) -> Result<Format, Error> {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("csv") => Ok(Format::Csv),
            Some("json") => Ok(Format::Json),
            Some("parquet") => Ok(Format::Parquet),
            _ => Err(Error::Usage(format!(
                "{}: give a name that ends in .csv, .json or .parquet, by which the format is chosen",
                file.display()
            ))),
        }
    }
}

impl Table {
    /// Reads a file that [`Table::write`] made.
    ///
    /// # Errors
    /// Where it cannot be read, is damaged, or has no sweep.
    pub fn read(file: &Path) -> Result<Table, Error> {
        let format = Format::of(file)?;
        let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let table = match format {
            Format::Csv => csv::read(&bytes).and_then(|cells| Table::of_cells(&cells)),
            Format::Json => json::read(&bytes).and_then(|cells| match cells.names.is_empty() {
                true => Ok(Table { columns: Vec::new(), rows: Vec::new() }),
                false => Table::of_cells(&cells),
            }),
            Format::Parquet => parquet::read(bytes).and_then(|(columns, rows)| {
                let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
                if columns_of(&names, |at| columns[at].kind).as_ref() != Some(&columns) {
                    return Err(Damage::at("its columns", Wrong::Shape));
                }
                Ok(Table { columns, rows })
            }),
        };
        Ok(table.map_err(|damage| {
            anyhow!("{damage}; write the file again").context(format!("{}", file.display()))
        })?)
    }

    fn of_cells(cells: &Cells) -> Result<Table, Damage> {
        let names: Vec<&str> = cells.names.iter().map(String::as_str).collect();
        let columns = columns_of(&names, |at| cells.kind(at));
        let columns = columns.ok_or_else(|| Damage::at("its heading", Wrong::Shape))?;
        let rows = cells.rows(&columns)?;
        Ok(Table { columns, rows })
    }

    /// Writes it to a file, in place of what is there.
    ///
    /// # Errors
    /// Where it cannot be written; then what was there still is.
    pub fn write(&self, file: &Path) -> Result<(), Error> {
        let cannot = || format!("cannot write {}", file.display());
        let bytes = match Format::of(file)? {
            Format::Csv => csv::write(&self.columns, &self.rows),
            Format::Json => json::write(&self.columns, &self.rows),
            Format::Parquet => parquet::write(&self.columns, &self.rows).with_context(cannot)?,
        };
        let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty());
        let mut beside = tempfile::Builder::new()
            .prefix(".slabyard-")
            // As any new file: the umask takes its part.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory.unwrap_or(Path::new(".")))
            .with_context(cannot)?;
        beside.write_all(&bytes).with_context(cannot)?;
        beside.as_file().sync_data().with_context(cannot)?;
        beside.persist(file).map_err(|error| error.error).with_context(cannot)?;
        Ok(())
    }
}

/// The columns of a heading, if it is one of a sweep; `kind` tells those of axes.
fn columns_of(names: &[&str], kind: impl Fn(usize) -> ColumnKind) -> Option<Vec<Column>> {
    let fixed = HEAD.len() + columns::MEASURES.len() + TAIL.len();
    let axes = HEAD.len()..HEAD.len() + names.len().checked_sub(fixed)?;
    let axes = axes.map(|at| Column { name: names[at].to_owned(), kind: kind(at) });
    let all = columns::all(axes);
    all.iter().map(|column| column.name.as_str()).eq(names.iter().copied()).then_some(all)
}

/// Writes all rows of a sweep, or of a part of it, in whatever order they are.
///
/// # Errors
/// As [`Plan::table`] and [`Table::write`].
pub fn write(plan: &Plan, rows: Vec<Row>, file: &Path) -> Result<(), Error> {
    plan.table(rows)?.write(file)
}

impl Plan {
    /// The table of all rows, or of a part of them, in whatever order they are.
    ///
    /// # Errors
    /// Where a point has two rows.
    pub fn table(&self, mut rows: Vec<Row>) -> Result<Table, Error> {
        rows.sort_by_key(Row::point);
        if let Some(two) = rows.windows(2).find(|two| two[0].point() == two[1].point()) {
            return Err(anyhow!("point {} has two rows", two[0].point()).into());
        }
        Ok(Table { columns: self.columns.clone(), rows })
    }
}
