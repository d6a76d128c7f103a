//! Answers as a table: a row for the base and for each variant.

use crate::terminal::{Colour, Grid};
use slabyard_ask::answer::Answer;
use slabyard_ask::asked::{Asked, Row};
use std::fmt::Write as _;

/// Variants that are put in words.
const MOST_VERDICTS: usize = 12;
/// Answers that say why they are not like the base's.
const MOST_NOTES: usize = 6;

/// Appends the table, what else is to be said, and the line of trust.
pub(super) fn write(text: &mut String, asked: &Asked, colour: Colour) {
    let base = &asked.answers[0].answer;
    memory(text, asked, colour);
    text.push('\n');
    work(text, asked, colour);
    if asked.answers.iter().any(|row| row.answer.waits.is_some()) {
        text.push('\n');
        waits(text, asked, colour);
    }
    text.push('\n');
    for row in asked.answers.iter().skip(1).take(MOST_VERDICTS) {
        let _ = match row.is_base {
            true => writeln!(text, "{}: changes nothing for this load", row.answer.name),
            false => writeln!(text, "{}", row.verdict),
        };
    }
    let differ: Vec<&Row> = asked.answers.iter().filter(|row| row.live_differs.is_some()).collect();
    match differ.as_slice() {
        [] if asked.answers.len() > 1 => text.push_str("live at the end: the same in all rows\n"),
        rows => {
            for row in rows.iter().take(MOST_NOTES) {
                let why = row.live_differs.as_deref().unwrap_or_default();
                let _ = writeln!(text, "{}: live at the end differs: {why}", row.answer.name);
            }
        }
    }
    if base.memory.untouched.is_none() {
        text.push_str(
            "the snapshot does not count all slabs: those that no event touches are unknown\n",
        );
    }
    for row in &asked.answers {
        if let Some(at_ns) = row.answer.out_of_memory_ns {
            let at = crate::terminal::seconds(at_ns);
            let _ = writeln!(text, "{}: out of memory after {at}", row.answer.name);
        }
    }
    let costs: Vec<String> = asked.costs.iter().map(|(name, ns)| format!("{name} {ns}")).collect();
    let _ = writeln!(text, "ns of operations: {}", costs.join(", "));
    if let Some(trust) = &asked.trust {
        let _ = writeln!(text, "{}", trust.line());
    }
}

fn kib(bytes: f64) -> String {
    format!("{:.0}", bytes / 1024.0)
}

fn memory(text: &mut String, asked: &Asked, colour: Colour) {
    let mut grid = Grid::new(&[
        "KiB",
        "peak",
        "mean",
        "end",
        "untouched",
        "all",
        "live",
        "free",
        "cpu slabs",
        "cpu lists",
        "sheaves",
        "barns",
        "partial",
        "error",
    ]);
    let base = asked.answers[0].answer.memory.whole_peak() as f64;
    for Row { answer, saved, .. } in &asked.answers {
        let memory = &answer.memory;
        let parked = &memory.parked_by_place;
        grid.push(vec![
            answer.name.clone(),
            kib(memory.peak as f64),
            kib(memory.mean),
            kib(memory.end as f64),
            memory.untouched.map_or_else(|| "-".into(), |bytes| kib(bytes as f64)),
            match saved {
                0 => "0".into(),
                _ => format!("{:+.1} %", -(*saved as f64) / base.max(1.0) * 100.0),
            },
            kib(memory.live),
            kib(memory.free_partial),
            kib(parked.cpu_slabs),
            kib(parked.cpu_partial),
            kib(parked.sheaves),
            kib(parked.barns),
            memory.partial_slabs.to_string(),
            error(answer),
        ]);
    }
    grid.write(text, colour);
}

/// The error to expect, of slabs above the start.
fn error(answer: &Answer) -> String {
    match answer.error {
        Some((low, high)) => format!("{:+.0} to {:+.0} %", low * 100.0, high * 100.0),
        None if answer.changed.is_empty() => "-".into(),
        None => "unmeasured".into(),
    }
}

fn work(text: &mut String, asked: &Asked, colour: Colour) {
    let mut grid = Grid::new(&[
        "a million calls",
        "slow calls",
        "list locks",
        "exchanges",
        "refills",
        "moved",
        "page calls",
        "ns a call",
    ]);
    for Row { answer, .. } in &asked.answers {
        let work = &answer.work;
        let count = |count: f64| format!("{count:.0}");
        grid.push(vec![
            answer.name.clone(),
            count(work.slow_calls),
            count(work.list_locks),
            count(work.exchanges),
            count(work.refills),
            count(work.moved),
            count(work.page_calls),
            format!("{:.2}", work.ns),
        ]);
    }
    grid.write(text, colour);
}

fn waits(text: &mut String, asked: &Asked, colour: Colour) {
    let mut grid = Grid::new(&[
        "overlapping",
        "CPUs",
        "tasks",
        "list locks waited",
        "barn locks waited",
        "exchanges failed",
        "under lock a million",
        "waiting",
        "longest us",
        "ns a call",
    ]);
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    for Row { answer, .. } in &asked.answers {
        let Some(waits) = &answer.waits else { continue };
        grid.push(vec![
            answer.name.clone(),
            waits.cpus.to_string(),
            format!("{}x", waits.tasks),
            percent(waits.list_locks_waited),
            percent(waits.barn_locks_waited),
            percent(waits.exchanges_failed),
            format!("{:.0}", waits.exchanges_under_list_lock),
            percent(waits.waiting),
            format!("{:.1}", waits.longest_wait_ns as f64 / 1e3),
            format!("{:.0}", waits.ns),
        ]);
    }
    grid.write(text, colour);
}
