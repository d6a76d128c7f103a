//! Which tables were asked for, and the answers of one of them.

use super::{Answer, THREADS, Table, Thread, find, tables};
use crate::Error;

/// What to compute, in the order in which it is printed.
pub type Tables = Vec<(&'static Thread, &'static Table)>;

/// The tables of all names, in their order, each once; all tables without a name.
///
/// # Errors
/// [`Error::Usage`] for a name that neither a thread nor a table has.
pub fn of(names: &[String]) -> Result<Tables, Error> {
    if names.is_empty() {
        return Ok(tables().collect());
    }
    let mut wanted = Tables::new();
    for name in names {
        let found = find(name);
        if found.is_empty() {
            let names: Vec<String> =
                tables().map(|(thread, table)| format!("{}.{}", thread.name, table.name)).collect();
            let threads: Vec<&str> = THREADS.iter().map(|thread| thread.name).collect();
            return Err(Error::Usage(format!(
                "no thread or table is named `{name}`; threads: {}; tables: {}",
                threads.join(", "),
                names.join(", ")
            )));
        }
        let is_new = |one: &(&Thread, &Table)| {
            !wanted
                .iter()
                .any(|(thread, table)| (thread.name, table.name) == (one.0.name, one.1.name))
        };
        let new: Tables = found.into_iter().filter(is_new).collect();
        wanted.extend(new);
    }
    Ok(wanted)
}

/// Those whose rows are in a table, in its order.
pub fn of_table<'a>(
    answers: &'a [Answer],
    thread: &'a Thread,
    table: &'a Table,
) -> impl Iterator<Item = &'a Answer> {
    answers
        .iter()
        .filter(move |answer| (answer.thread.name, answer.table.name) == (thread.name, table.name))
}
