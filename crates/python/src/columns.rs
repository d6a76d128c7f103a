//! Columns of Arrow tables, made of rows as they are serialized: a number has the name and the value
//! that it has in the command's JSON.
//!
//! Invariants: the columns of a table and their types do not depend on the rows; what a row does not
//! know is null, never 0.

use crate::table::Table;
use anyhow::{Context, Result, anyhow};
use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, UInt64Builder,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Numbers from 0 on.
    Count,
    /// Numbers of either sign.
    Difference,
    /// Fractions and means.
    Real,
    /// Text; of a list its elements, apart by commas.
    Text,
    /// Yes or no.
    Flag,
}

/// A column, and where a row has its value.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name in the table.
    pub name: String,
    /// Keys into the row's JSON, apart by dots.
    path: String,
    holds: Holds,
}

/// Columns of one kind that have the names of their keys.
pub fn columns(holds: Holds, names: &[&str]) -> Vec<Column> {
    names.iter().map(|name| named(name, name, holds)).collect()
}

/// A column of its own name.
pub fn named(name: &str, path: &str, holds: Holds) -> Column {
    Column { name: name.to_owned(), path: path.to_owned(), holds }
}

/// The table of rows, which are taken one by one: those of a long series are many.
pub fn table<R: Serialize>(columns: &[Column], rows: impl IntoIterator<Item = R>) -> Result<Table> {
    let mut all: Vec<Cells> = columns.iter().map(|column| Cells::of(column.holds)).collect();
    for row in rows {
        let row = serde_json::to_value(row).context("a row")?;
        for (column, cells) in columns.iter().zip(&mut all) {
            cells.push(at(&row, &column.path)).with_context(|| column.name.clone())?;
        }
    }
    let arrays: Vec<ArrayRef> = all.into_iter().map(Cells::finish).collect();
    let fields = columns.iter().zip(&arrays);
    let fields = fields.map(|(c, array)| Field::new(&c.name, array.data_type().clone(), true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    Ok(Table::of(RecordBatch::try_new(Arc::new(schema), arrays)?))
}

fn at<'v>(row: &'v Value, path: &str) -> &'v Value {
    path.split('.').fold(row, |value, key| match value {
        Value::Array(_) => key.parse().map_or(&Value::Null, |nth: usize| &value[nth]),
        _ => &value[key],
    })
}

/// The values of a column so far.
enum Cells {
    Count(UInt64Builder),
    Difference(Int64Builder),
    Real(Float64Builder),
    Text(StringBuilder),
    Flag(BooleanBuilder),
}

impl Cells {
    fn of(holds: Holds) -> Cells {
        match holds {
            Holds::Count => Cells::Count(UInt64Builder::new()),
            Holds::Difference => Cells::Difference(Int64Builder::new()),
            Holds::Real => Cells::Real(Float64Builder::new()),
            Holds::Text => Cells::Text(StringBuilder::new()),
            Holds::Flag => Cells::Flag(BooleanBuilder::new()),
        }
    }

    fn push(&mut self, value: &Value) -> Result<()> {
        match self {
            Cells::Count(cells) => cells.append_option(known(value, Value::as_u64)?),
            Cells::Difference(cells) => cells.append_option(known(value, Value::as_i64)?),
            Cells::Real(cells) => cells.append_option(known(value, Value::as_f64)?),
            Cells::Text(cells) => cells.append_option(known(value, text)?),
            Cells::Flag(cells) => cells.append_option(known(value, Value::as_bool)?),
        }
        Ok(())
    }

    fn finish(mut self) -> ArrayRef {
        let cells: &mut dyn ArrayBuilder = match &mut self {
            Cells::Count(cells) => cells,
            Cells::Difference(cells) => cells,
            Cells::Real(cells) => cells,
            Cells::Text(cells) => cells,
            Cells::Flag(cells) => cells,
        };
        cells.finish()
    }
}

/// `None` for what is not known.
fn known<T>(value: &Value, of: impl Fn(&Value) -> Option<T>) -> Result<Option<T>> {
    match value {
        Value::Null => Ok(None),
        value => of(value).map(Some).ok_or_else(|| anyhow!("{value} is of another kind")),
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(all) => {
            let all: Option<Vec<&str>> = all.iter().map(Value::as_str).collect();
            Some(all?.join(", "))
        }
        _ => None,
    }
}
