//! The answers as JSON: `{"threads": [{"name", "title", "inconsistencies", "tables": [{"name", "id",
//! "title", "ratio", "rows"}]}]}`. A table's `ratio` is the lowest and the highest of ours to theirs.
//! A row has `name`, `theirs` or `claim`, `ours` or why it is `missing`,
//! `difference` (ours to theirs, less 1), `unit`, `basis`, `near` and `note`; what is unknown is `null`.

use super::wanted::{Tables, of_table};
use super::{Answer, Theirs, Thread};
use serde::Serialize;

/// The whole.
#[derive(Serialize)]
pub struct Root<'a> {
    threads: Vec<ThreadJson<'a>>,
}

#[derive(Serialize)]
struct ThreadJson<'a> {
    name: &'a str,
    title: &'a str,
    /// Where the thread disagrees with itself.
    inconsistencies: &'a [&'a str],
    tables: Vec<TableJson<'a>>,
}

#[derive(Serialize)]
struct TableJson<'a> {
    name: &'a str,
    /// As it is typed.
    id: String,
    title: &'a str,
    /// The lowest and the highest of ours to theirs, of rows that have both.
    ratio: Option<(f64, f64)>,
    rows: Vec<RowJson<'a>>,
}

#[derive(Serialize)]
struct RowJson<'a> {
    name: &'a str,
    theirs: Option<f64>,
    /// An argument without a number.
    claim: Option<&'a str>,
    ours: Option<f64>,
    /// Why there is none of ours.
    missing: Option<String>,
    difference: Option<f64>,
    unit: &'a str,
    basis: BasisJson,
    near: Option<NearJson>,
    note: &'a str,
}

#[derive(Serialize)]
struct BasisJson {
    kind: &'static str,
    of: &'static str,
}

#[derive(Serialize)]
struct NearJson {
    holds: Option<bool>,
    tolerance: String,
    why: &'static str,
}

/// The tables that were asked for, with their answers.
#[must_use]
pub fn of<'a>(wanted: &Tables, answers: &'a [Answer]) -> Root<'a> {
    let mut threads: Vec<ThreadJson<'a>> = Vec::new();
    for (thread, table) in wanted {
        let rows = of_table(answers, thread, table).map(row).collect();
        let ratios =
            of_table(answers, thread, table).filter_map(|one| Some(1.0 + one.difference()?));
        let ratio = ratios.fold(None, |range: Option<(f64, f64)>, ratio| {
            let (low, high) = range.unwrap_or((ratio, ratio));
            Some((low.min(ratio), high.max(ratio)))
        });
        let id = format!("{}.{}", thread.name, table.name);
        let table = TableJson { name: table.name, id, title: table.title, ratio, rows };
        match threads.last_mut().filter(|last| last.name == thread.name) {
            Some(last) => last.tables.push(table),
            None => threads.push(with(thread, table)),
        }
    }
    Root { threads }
}

fn with<'a>(thread: &'a Thread, table: TableJson<'a>) -> ThreadJson<'a> {
    let Thread { name, title, inconsistencies, .. } = thread;
    ThreadJson { name, title, inconsistencies, tables: vec![table] }
}

fn row(answer: &Answer) -> RowJson<'_> {
    let row = answer.row;
    let (theirs, claim) = match row.theirs {
        Theirs::Number(number) => (Some(number), None),
        Theirs::Claim(claim) => (None, Some(claim)),
    };
    let (kind, of) = row.basis.parts();
    let near = row.near.map(|near| NearJson {
        holds: answer.is_near(),
        tolerance: near.to_string(),
        why: near.why(),
    });
    RowJson {
        name: row.name,
        theirs,
        claim,
        ours: answer.ours.as_ref().ok().copied(),
        missing: answer.ours.as_ref().err().map(ToString::to_string),
        difference: answer.difference(),
        unit: row.unit,
        basis: BasisJson { kind, of },
        near,
        note: row.note,
    }
}
