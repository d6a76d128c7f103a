//! Answers as a page: memory by place and work by variant, as bars and a table.

use crate::html;
use slabyard_ask::asked::Asked;
use slabyard_page::{Axis, Cell, Chart, Page, Section, Series, Table, Unit};

/// A measure: its head, and where it is in an answer's JSON.
const MEMORY: [(&str, &str); 4] = [
    ("peak", "memory/peak"),
    ("mean", "memory/mean"),
    ("end", "memory/end"),
    ("live", "memory/live"),
];
const PLACES: [(&str, &str); 5] = [
    ("free on nodes' lists", "memory/free_partial"),
    ("CPU slabs", "memory/parked_by_place/cpu_slabs"),
    ("CPU partial lists", "memory/parked_by_place/cpu_partial"),
    ("sheaves", "memory/parked_by_place/sheaves"),
    ("barns", "memory/parked_by_place/barns"),
];
const WORK: [(&str, &str); 5] = [
    ("slow calls", "work/slow_calls"),
    ("list locks", "work/list_locks"),
    ("exchanges", "work/exchanges"),
    ("refills", "work/refills"),
    ("page calls", "work/page_calls"),
];

/// The page of some answers.
pub(super) fn of(heading: &str, asked: &Asked, json: &str) -> Page {
    let mut first = Section::new("Answers").text(heading);
    if let Some(trust) = &asked.trust {
        first = first.text(trust.line());
    }
    for note in &asked.notes {
        first = first.text(note.as_str());
    }
    let bars = |title: &str, unit: Unit, of: &[(&str, &str)]| {
        let chart = Chart::bars(title, html::names(), Axis::new("", unit));
        of.iter().fold(chart, |chart, (head, path)| {
            chart.with(Series::new(*head, "/answers/*/name", format!("/answers/*/{path}")))
        })
    };
    html::page("Answers about a load", json)
        .with(first.table(table(asked)))
        .with(
            Section::new("Memory")
                .chart(bars("Slabs that events touch", Unit::Bytes, &MEMORY))
                .chart(bars("Free objects by place, in the mean", Unit::Bytes, &PLACES)),
        )
        .with(
            Section::new("Work")
                .chart(bars("For a million calls", Unit::Count, &WORK))
                .chart(bars("Nanoseconds of a call", Unit::Count, &[("ns", "work/ns")])),
        )
}

fn table(asked: &Asked) -> Table {
    let mut table = Table::new([
        "variant",
        "peak KiB",
        "mean KiB",
        "end KiB",
        "saved KiB",
        "list locks",
        "ns a call",
    ]);
    for row in &asked.answers {
        let (memory, work) = (&row.answer.memory, &row.answer.work);
        let number = |number: f64| Cell::number(format!("{number:.0}"), number);
        table.push([
            Cell::text(row.answer.name.as_str()),
            number(memory.peak as f64 / 1024.0),
            number(memory.mean / 1024.0),
            number(memory.end as f64 / 1024.0),
            number(row.saved as f64 / 1024.0),
            number(work.list_locks),
            Cell::number(format!("{:.2}", work.ns), work.ns),
        ]);
    }
    table
}
