//! The answers as text, a table for each of the threads' tables.

use crate::terminal::{Colour, Grid};
use slabyard_ask::threads::wanted::{Tables, of_table};
use slabyard_ask::threads::{Answer, Near, RowError, Theirs, UNNAMED};
use std::fmt::Write;

/// The names, with what each table shows.
pub(super) fn list(wanted: &Tables) -> String {
    let mut text = String::new();
    let mut last = "";
    for (thread, table) in wanted {
        if thread.name != last {
            let _ = writeln!(text, "{}: {}", thread.name, thread.title);
            last = thread.name;
        }
        let name = format!("{}.{}", thread.name, table.name);
        let _ = writeln!(text, "  {name:<22} {:>3} rows: {}", table.rows.len(), table.title);
    }
    text
}

pub(super) fn text(wanted: &Tables, answers: &[Answer], colour: Colour) -> String {
    let mut text = String::new();
    let mut last = "";
    for (thread, table) in wanted {
        if thread.name != last {
            let _ =
                writeln!(text, "{}", colour.bold(&format!("{}: {}", thread.name, thread.title)));
            for what in thread.inconsistencies {
                let _ = writeln!(text, "  in the thread itself: {what}");
            }
            text.push('\n');
            last = thread.name;
        }
        let _ = writeln!(text, "{}.{}: {}", thread.name, table.name, table.title);
        let mut grid = Grid::new(&["row", "theirs", "ours", "off", "near", "unit", "basis"]);
        for answer in of_table(answers, thread, table) {
            grid.push(cells(answer));
        }
        grid.write(&mut text, colour);
        for note in notes(of_table(answers, thread, table)) {
            let _ = writeln!(text, "  {note}");
        }
        text.push('\n');
    }
    text.push_str(&sum(answers, colour));
    text
}

/// A row's cells, in the order of the heads above.
pub(super) fn cells(answer: &Answer) -> Vec<String> {
    let row = answer.row;
    let theirs = match row.theirs {
        Theirs::Number(number) => shown(number),
        Theirs::Claim(_) => "words".into(),
    };
    let ours = match &answer.ours {
        Ok(number) => shown(*number),
        Err(_) => "-".into(),
    };
    let off = answer.difference().map(|off| format!("{:+.0} %", 100.0 * off));
    let near = match (answer.is_near(), row.near) {
        (Some(true), _) => "yes",
        (Some(false), _) => "NO",
        (None, Some(_)) => "?",
        (None, None) => "-",
    };
    let off = off.unwrap_or_else(|| "-".into());
    vec![row.name.into(), theirs, ours, off, near.into(), row.unit.into(), row.basis.to_string()]
}

/// What does not fit into the rows; once for rows of which the same is said.
pub(super) fn notes<'a>(answers: impl Iterator<Item = &'a Answer>) -> Vec<String> {
    let mut all: Vec<(Vec<&str>, String)> = Vec::new();
    for answer in answers {
        let note = note(answer);
        match all.iter_mut().find(|(_, known)| *known == note) {
            Some((names, _)) => names.push(answer.row.name),
            None => all.push((vec![answer.row.name], note)),
        }
    }
    let said = all.iter().filter(|(_, note)| !note.is_empty());
    said.map(|(names, note)| format!("{}: {note}", names.join(", "))).collect()
}

fn note(answer: &Answer) -> String {
    let row = answer.row;
    let mut parts = Vec::new();
    if let Theirs::Claim(claim) = row.theirs
        && claim != UNNAMED
    {
        parts.push(format!("theirs: {claim}"));
    }
    if let Some(near) = row.near.filter(|near| !matches!(near, Near::Equal(_))) {
        parts.push(format!("near is {near}: {}", near.why()));
    }
    if !row.note.is_empty() {
        parts.push(row.note.into());
    }
    match &answer.ours {
        Ok(_) => {}
        Err(error @ RowError::NotHere(_)) => parts.push(error.to_string()),
        Err(error) => parts.push(format!("FAILED: {error}")),
    }
    parts.join("; ")
}

/// How many rows are near, and which should be and are not.
pub(super) fn sum(answers: &[Answer], colour: Colour) -> String {
    let judged = answers.iter().filter(|answer| answer.is_near().is_some()).count();
    let failing: Vec<&Answer> = answers.iter().filter(|answer| answer.fails()).collect();
    let missing = answers.iter().filter(|answer| matches!(answer.ours, Err(RowError::NotHere(_))));
    let mut text = format!(
        "{} rows: {} of {judged} that should be near are; {} cannot be had here\n",
        answers.len(),
        judged - failing.iter().filter(|answer| answer.is_near().is_some()).count(),
        missing.count()
    );
    for answer in failing {
        let name = format!("{}.{}: {}", answer.thread.name, answer.table.name, answer.row.name);
        let _ = writeln!(text, "{}", colour.red(&format!("not near, or without basis: {name}")));
    }
    text
}

/// Three digits, or all before the point.
fn shown(number: f64) -> String {
    let size = number.abs();
    match number {
        _ if number.fract() == 0.0 || size >= 100.0 => format!("{number:.0}"),
        _ if size >= 10.0 => format!("{number:.1}"),
        _ if size >= 0.001 => format!("{number:.3}"),
        _ => format!("{number:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_or_all_before_the_point() {
        for (number, text) in
            [(209_280.0, "209280"), (0.8032, "0.803"), (89.9, "89.9"), (3.0, "3"), (-1.0, "-1")]
        {
            assert_eq!(shown(number), text);
        }
    }
}
