//! A table as CSV: a heading, and a line for each row.

use super::cells::{Cells, Damage};
use super::columns::Column;
use super::row::{Row, Wrong};

/// The file's bytes.
pub fn write(columns: &[Column], rows: &[Row]) -> Vec<u8> {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let mut text = names.join(",");
    text.push('\n');
    for row in rows {
        text.push_str(&row.line());
        text.push('\n');
    }
    text.into_bytes()
}

/// The file's cells.
pub fn read(bytes: &[u8]) -> Result<Cells, Damage> {
    let text = std::str::from_utf8(bytes).map_err(|error| Damage::at("its text", error))?;
    let text = text.strip_suffix('\n').ok_or_else(|| Damage::at("its end", "it is cut off"))?;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let names = reader.headers().map_err(|error| Damage::at("its heading", error))?;
    let names = names.iter().map(str::to_owned).collect();
    let mut rows = Vec::new();
    for (nth, record) in reader.records().enumerate() {
        let record = record.map_err(|_| Damage::row(nth, Wrong::Shape))?;
        rows.push(record.iter().map(str::to_owned).collect());
    }
    Ok(Cells { names, rows })
}
