//! Prints tables, the progress line and the heading, and writes the JSON file.
//!
//! No colours are used; the progress line goes to standard error, and only if that is a terminal.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Error, Result};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::allocators::Allocator;
use crate::goals::Goal;
use crate::machine::Machine;
use crate::peers::Absent;

/// A progress line of `steps` steps.
pub fn progress(steps: usize) -> ProgressBar {
    let template = "{msg:24} [{bar:32}] {pos}/{len}, {eta} left";
    let bar = ProgressBar::new(steps as u64);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.progress_chars("=> ")),
        Err(_) => bar,
    }
}

/// A table: the first column words, the others numbers.
pub fn table(heading: &[&str], rows: Vec<Vec<String>>) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::ASCII_MARKDOWN)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(heading.iter().copied());
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// As [`table`], where the last column is words too.
pub fn words(heading: &[&str], rows: Vec<Vec<String>>) -> Table {
    let mut table = table(heading, rows);
    if let Some(column) = table.column_mut(heading.len() - 1) {
        column.set_cell_alignment(CellAlignment::Left);
    }
    table
}

/// The machine, the versions and the settings: the text above tables.
pub fn heading(machine: &Machine, allocators: &[Allocator]) -> String {
    let mut text = format!(
        "{} ({} CPUs), Linux {}, THP {}\n",
        machine.cpu,
        machine.cpus.len(),
        machine.kernel,
        machine.thp
    );
    for allocator in allocators {
        text += &format!("{}: {}\n", allocator.name, allocator.version);
    }
    for setting in &machine.settings {
        text += &format!("setting: {setting}\n");
    }
    text
}

/// A line for each peer that was not measured.
pub fn left_out(absent: &[Absent]) -> String {
    absent.iter().map(|absent| format!("left out: {}: {}\n", absent.name, absent.why)).collect()
}

pub fn goals(goals: &[Goal]) -> Table {
    let rows = goals.iter().map(|goal| {
        let word = goal.word().to_owned();
        vec![goal.name.clone(), goal.measured.clone(), goal.limit.clone(), word]
    });
    table(&["goal", "measured", "limit", "verdict"], rows.collect())
}

/// Prints `text`, and writes `report` where `--json` says; to standard output
/// it goes alone.
pub fn publish<T: Serialize>(text: &str, report: &T, json: Option<&Path>) -> Result<()> {
    let mut out = io::stdout().lock();
    match json {
        Some(path) if path.as_os_str() == "-" => {
            serde_json::to_writer_pretty(&mut out, report)?;
            writeln!(out)?;
        }
        Some(path) => {
            let file = File::create(path).with_context(|| path.display().to_string())?;
            serde_json::to_writer_pretty(file, report)
                .with_context(|| path.display().to_string())?;
            writeln!(out, "{text}")?;
        }
        None => writeln!(out, "{text}")?,
    }
    out.flush().map_err(Error::from)
}

/// True if the reader of our output has closed it: that is no failure.
pub fn is_broken_pipe(error: &Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        let json = cause.downcast_ref::<serde_json::Error>();
        let kind = io.or_else(|| json.and_then(serde_json::Error::io_error_kind));
        kind == Some(io::ErrorKind::BrokenPipe)
    })
}
