//! Columns of Arrow tables, made of rows as they are serialized: a number has the name and the value
//! that it has in the command's JSON.
//!
//! Invariants: the columns of a table and their types do not depend on the rows; what a row does not
//! know is null, never 0.

use crate::table::Table;
use anyhow::{Context, Result, anyhow};
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
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

/// The table of rows.
pub fn table<R: Serialize>(columns: &[Column], rows: impl IntoIterator<Item = R>) -> Result<Table> {
    let rows: Result<Vec<Value>, _> = rows.into_iter().map(serde_json::to_value).collect();
    let rows = rows.context("a row")?;
    let mut fields = Vec::new();
    let mut arrays: Vec<ArrayRef> = Vec::new();
    for column in columns {
        let values: Vec<&Value> = rows.iter().map(|row| at(row, &column.path)).collect();
        let (kind, array): (DataType, ArrayRef) = match column.holds {
            Holds::Count => {
                (DataType::UInt64, Arc::new(UInt64Array::from(each(&values, Value::as_u64)?)))
            }
            Holds::Difference => {
                (DataType::Int64, Arc::new(Int64Array::from(each(&values, Value::as_i64)?)))
            }
            Holds::Real => {
                (DataType::Float64, Arc::new(Float64Array::from(each(&values, Value::as_f64)?)))
            }
            Holds::Text => (DataType::Utf8, Arc::new(StringArray::from(each(&values, text)?))),
            Holds::Flag => {
                (DataType::Boolean, Arc::new(BooleanArray::from(each(&values, Value::as_bool)?)))
            }
        };
        fields.push(Field::new(&column.name, kind, true));
        arrays.push(array);
    }
    Ok(Table::of(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?))
}

fn at<'v>(row: &'v Value, path: &str) -> &'v Value {
    path.split('.').fold(row, |value, key| match (value, key.parse::<usize>()) {
        (Value::Array(_), Ok(nth)) => &value[nth],
        _ => &value[key],
    })
}

fn each<T>(values: &[&Value], of: impl Fn(&Value) -> Option<T>) -> Result<Vec<Option<T>>> {
    let one = |value: &&Value| match value {
        Value::Null => Ok(None),
        value => of(value).map(Some).ok_or_else(|| anyhow!("{value} is of another kind")),
    };
    values.iter().map(one).collect()
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
