//! Generates the document of the results, `benchmarks.md`: machine, versions, commands, goals,
//! results in small tables, and losses, on one page.
//!
//! The input is the file of everything measured (`raw`), so the document can be regenerated without
//! measuring. `parts` makes each suite's tables, from those fields of its report that the page
//! shows; the suite's own tables show the rest. `all` writes the document after measuring.

mod caches;
mod handed;
mod machine;
mod parts;
mod readme;
mod walks;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::args::PageOptions;
use crate::goals::{Goal, Verdict};
use crate::raw::{ResultsFile, SuiteResult};
use crate::screen;
use machine::Machine;

/// A suite's part of the page: its name in the file, its title, and its tables.
struct SuiteSection {
    name: &'static str,
    title: &'static str,
    text: fn(&str) -> Result<String>,
}

const SECTIONS: [SuiteSection; 8] = [
    SuiteSection { name: "compare", title: "Loads", text: parts::loads },
    SuiteSection { name: "programs", title: "Real programs", text: parts::programs },
    SuiteSection { name: "rest", title: "Memory that comes back", text: parts::rest },
    SuiteSection { name: "latency", title: "Single calls", text: parts::calls },
    SuiteSection { name: "handed", title: "Handed-over objects", text: handed::tables },
    SuiteSection { name: "walks", title: "Page walks", text: walks::tables },
    SuiteSection { name: "caches", title: "Object caches", text: caches::tables },
    SuiteSection { name: "instructions", title: "Instructions", text: parts::instructions },
];

/// Shows the page of a file, or writes it.
pub fn run(options: &PageOptions) -> Result<Verdict> {
    let written = ResultsFile::read(&options.raw)?;
    match &options.write_docs {
        Some(directory) => write(directory, &written)?,
        None => screen::publish(&page(&written)?, &(), None)?,
    }
    Ok(Verdict::Met)
}

/// Writes the page into a directory, and its figures into the README beside it.
pub fn write(directory: &Path, written: &ResultsFile) -> Result<()> {
    let document = directory.join("benchmarks.md");
    fs::write(&document, page(written)?).with_context(|| document.display().to_string())?;
    readme::write(directory, written)
}

fn page(written: &ResultsFile) -> Result<String> {
    let measured: Vec<(&SuiteSection, &SuiteResult)> = SECTIONS
        .iter()
        .filter_map(|shown| Some((shown, written.suites.get(shown.name)?)))
        .collect();
    let mut text = "# Benchmarks\n\n\
         This page compares Slabyard's malloc with its peers, all preloaded into the same \
         programs; [slabyard-bench](../crates/bench/README.md) generates it.\n\n"
        .to_owned();
    text += &machine(&measured)?;
    text += &commands(&measured);
    let _ = write!(text, "## Goals\n\n{}\n\n", goals(&measured));
    for (shown, part) in &measured {
        let body = match &part.report {
            Some(report) => (shown.text)(report.get()).with_context(|| shown.name)?,
            None => part.text.clone(),
        };
        let _ = write!(text, "## {}\n\n{}\n\n", shown.title, body.trim_end());
    }
    text.truncate(text.trim_end().len());
    Ok(text + "\n")
}

/// What each report says of where it was made.
#[derive(Deserialize)]
struct ReportOrigin {
    machine: Machine,
    allocators: Vec<Version>,
}

#[derive(Deserialize)]
struct Version {
    name: String,
    version: String,
}

/// That of the first suite: all are measured with one build, on one machine.
fn machine(measured: &[(&SuiteSection, &SuiteResult)]) -> Result<String> {
    let made = |(shown, part): &(&SuiteSection, &SuiteResult)| {
        let report = part.report.as_ref()?;
        Some(serde_json::from_str::<ReportOrigin>(report.get()).with_context(|| shown.name))
    };
    let all = measured.iter().filter_map(made).collect::<Result<Vec<ReportOrigin>>>()?;
    let Some(first) = all.first() else { return Ok(String::new()) };
    let Machine { cpu, cpus, kernel, compiler, settings } = &first.machine;
    let mut text = format!(
        "## Machine and allocators\n\n{cpu}, {} CPUs, Linux {kernel}, {compiler}.\n",
        cpus.len()
    );
    if all.iter().any(|made| made.machine != first.machine) {
        text += "Some parts were measured on another machine.\n";
    }
    for setting in settings {
        let _ = writeln!(text, "Setting of ours: `{setting}`.");
    }
    let versions = first.allocators.iter().map(|a| format!("{} {}", a.name, a.version));
    let _ = write!(text, "{}.\n\n", versions.collect::<Vec<_>>().join(", "));
    Ok(text)
}

/// How to measure it again: each line once, and behind a suite's own its commit.
fn commands(measured: &[(&SuiteSection, &SuiteResult)]) -> String {
    let (mut seen, mut text) = (BTreeSet::new(), "```\n".to_owned());
    for (_, part) in measured {
        let last = part.command.lines().count().saturating_sub(1);
        for (n, line) in part.command.lines().enumerate() {
            if !seen.insert(line) {
                continue;
            }
            text += line;
            if let Some(commit) = part.commit.as_ref().filter(|_| n == last) {
                let _ = write!(text, "  # at {commit}");
            }
            text += "\n";
        }
    }
    text + "```\n\n"
}

/// Goals that differ by the peer, the threads or the setting of huge pages alone, in one row,
/// with the measured value that is nearest to the limit or beyond it.
fn goals(measured: &[(&SuiteSection, &SuiteResult)]) -> String {
    let mut rows: Vec<(String, String, Vec<&Goal>)> = Vec::new();
    for (shown, part) in measured {
        for goal in &part.goals {
            let name = format!("{}: {}", shown.title, general(&goal.name));
            match rows.iter_mut().find(|(other, limit, _)| *other == name && *limit == goal.limit) {
                Some((.., goals)) => goals.push(goal),
                None => rows.push((name, goal.limit.clone(), vec![goal])),
            }
        }
    }
    let all = rows.iter().flat_map(|(.., goals)| goals);
    let missed = all.clone().filter(|goal| goal.met != Some(true)).count();
    let verdict = match missed {
        0 => format!("All {} are met.", all.count()),
        _ => format!("{missed} of {} are missed or were not measured.", all.count()),
    };
    let mut heading = vec!["goal", "limit", "measured"];
    if missed > 0 {
        heading.push("missed");
    }
    let rows = rows.iter().map(|(name, limit, goals)| {
        let mut row = vec![name.clone(), limit.clone(), worst(goals)];
        if missed > 0 {
            let missed = goals.iter().filter(|goal| goal.met != Some(true)).count();
            row.push(format!("{missed} of {}", goals.len()));
        }
        row
    });
    format!("{verdict}\n\n{}", screen::table(&heading, rows.collect()))
}

/// A goal's name without what differs.
fn general(name: &str) -> String {
    let name = ["madvise: ", "always: "]
        .iter()
        .fold(name, |name, thp| name.strip_prefix(thp).unwrap_or(name));
    let name = name.split(", threads: ").next().unwrap_or(name);
    match name.strip_suffix("'s, mean").and_then(|rest| rest.rsplit_once(' ')) {
        Some((of, _peer)) => format!("{of} each peer's, mean"),
        None => name.to_owned(),
    }
}

/// Of two all, of more the one that is nearest to the limit.
fn worst(goals: &[&Goal]) -> String {
    // "1.103 (calloc_mix, rpmalloc); 0 of 24 above": that none is above says the verdict.
    let short = |goal: &Goal| {
        let measured = goal.measured.split("; 0 of").next().unwrap_or_default().to_owned();
        measured
            .strip_suffix(" loads")
            .and_then(|m| m.rsplit_once(", "))
            .map_or(measured.clone(), |(m, _)| m.to_owned())
    };
    let value = |goal: &Goal| {
        let number = goal.measured.split(' ').next()?.parse::<f64>().ok()?;
        Some(if goal.limit.starts_with('>') { -number } else { number })
    };
    match goals {
        [] => String::new(),
        [one] => short(one),
        [one, other] if short(one) != short(other) => format!("{}; {}", short(one), short(other)),
        all => {
            let of = |goal: &&&Goal| value(goal).unwrap_or(f64::NEG_INFINITY);
            all.iter().max_by(|a, b| of(a).total_cmp(&of(b))).map_or(String::new(), |g| short(g))
        }
    }
}

#[cfg(test)]
mod tests;
