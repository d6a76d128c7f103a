//! Tables of sweeps: CSV, JSON, Parquet.
//!
//! Neighbour: [`crate::file`]. Invariant: a table that could be read can be written, and reads as
//! the same again.

use crate::file;
use slabyard_ask::sweep::table::Table;

/// The first byte says which format.
pub fn any(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let suffix = [".csv", ".json", ".parquet"][usize::from(first % 3)];
    let file = file::holding(bytes, suffix);
    if let Ok(table) = Table::read(file.path()) {
        let to = file::holding(&[], suffix);
        table.write(to.path()).expect("a file can be written");
        let again = Table::read(to.path()).expect("what was written reads");
        assert!(again.columns == table.columns && again.rows == table.rows);
    }
}
