//! Which tables were asked for, and the answers of one of them.

use crate::failure::Failure;
use slabyard_ask::threads::{self, Answer, THREADS, Table, Thread};

/// What to compute, in the order in which it is printed.
pub(super) type Tables = Vec<(&'static Thread, &'static Table)>;

/// The tables of all names, in their order, each once.
pub(super) fn of(names: &[String]) -> Result<Tables, Failure> {
    if names.is_empty() {
        return Ok(threads::tables().collect());
    }
    let mut wanted = Tables::new();
    for name in names {
        let found = threads::find(name);
        if found.is_empty() {
            let names: Vec<String> = threads::tables()
                .map(|(thread, table)| format!("{}.{}", thread.name, table.name))
                .collect();
            let threads: Vec<&str> = THREADS.iter().map(|thread| thread.name).collect();
            return Err(Failure::Usage(format!(
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
pub(super) fn of_table<'a>(
    answers: &'a [Answer],
    thread: &'a Thread,
    table: &'a Table,
) -> impl Iterator<Item = &'a Answer> {
    answers
        .iter()
        .filter(move |answer| (answer.thread.name, answer.table.name) == (thread.name, table.name))
}
