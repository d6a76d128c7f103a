//! The diagnosis as text: a heading, the findings, where the memory is, what could not be read.

use crate::diagnosis::{Diagnosis, Outcome};
use crate::finding::{Confidence, Finding, Level, Remedy};
use slabyard_observe::view::cell::{clean, human};
use std::fmt::Write;

/// Columns of a line, where the terminal does not tell.
const WIDTH: usize = 100;
/// Columns in front of what belongs to a finding.
const INDENT: usize = 14;

/// The text, for lines of so many columns.
#[must_use]
pub fn of(diagnosis: &Diagnosis, width: Option<usize>) -> String {
    let width = width.unwrap_or(WIDTH).max(40);
    let mut out = String::new();
    let _ = writeln!(out, "{}: {}", clean(&diagnosis.source), outcome(diagnosis));
    for (nth, finding) in diagnosis.findings.iter().enumerate() {
        let heading = format!("{}. {}  {}", nth + 1, finding.id, human(finding.bytes));
        findings(&mut out, &heading, finding, width);
    }
    for note in &diagnosis.notes {
        let _ = writeln!(out, "\nnote: {}", note.id);
        wrapped(&mut out, "", &note.says, width);
        if let Some(raise) = &note.confidence.raised_by {
            wrapped(&mut out, "more by", raise, width);
        }
    }
    verdict(&mut out, diagnosis, width);
    for missing in &diagnosis.missing {
        let _ = writeln!(out, "not read: {}: {}", clean(&missing.what), clean(&missing.why));
    }
    out
}

/// What it comes to, in one line.
#[must_use]
pub fn outcome(diagnosis: &Diagnosis) -> String {
    let over = if diagnosis.looks > 1 {
        format!(" in {} looks over {:.1} s", diagnosis.looks, diagnosis.seconds)
    } else {
        String::new()
    };
    match diagnosis.outcome {
        Outcome::NothingFound => format!("nothing found{over}"),
        Outcome::CannotTell => {
            format!("cannot tell{over}, because most of its memory cannot be seen from outside")
        }
        Outcome::Found => match diagnosis.findings.len() {
            1 => format!("1 finding{over}"),
            n => format!("{n} findings{over}, the worst first"),
        },
    }
}

fn findings(out: &mut String, heading: &str, finding: &Finding, width: usize) {
    let _ = writeln!(out, "\n{heading}");
    wrapped(out, "", &finding.says, width);
    for owner in &finding.owners {
        let site = owner.site.as_deref().map(|site| format!(" at {site}")).unwrap_or_default();
        let held =
            format!("{}{site}: {} in {} objects", owner.who, human(owner.bytes), owner.objects);
        wrapped(out, "owner", &clean(&held), width);
    }
    for evidence in &finding.evidence {
        wrapped(out, "evidence", evidence, width);
    }
    wrapped(out, "remedy", &remedy(&finding.remedy), width);
    if let Some(command) = &finding.remedy.command {
        wrapped(out, "", command, width);
    }
    wrapped(out, "confidence", &confidence(&finding.confidence), width);
}

/// What to do, what that gives and its risk, but for the command.
#[must_use]
pub fn remedy(remedy: &Remedy) -> String {
    let gives =
        remedy.gives.map(|bytes| format!("; gives up to {}", human(bytes))).unwrap_or_default();
    format!("{}{gives}; risk: {}", remedy.what, remedy.risk)
}

/// How sure the doctor is, why, and what would raise it.
#[must_use]
pub fn confidence(confidence: &Confidence) -> String {
    let level = match confidence.level {
        Level::Low => "low",
        Level::Medium => "medium",
        Level::High => "high",
    };
    let raised = confidence.raised_by.as_deref();
    let raised = raised.map(|by| format!("; more by {by}")).unwrap_or_default();
    format!("{level}: {}{raised}", confidence.because)
}

fn verdict(out: &mut String, diagnosis: &Diagnosis, width: usize) {
    let verdict = &diagnosis.verdict;
    let _ = writeln!(out, "\nwhere the {} is", verdict.of.name());
    let share = |bytes: i64| match verdict.bytes {
        0 => String::new(),
        whole => format!("{:.1} %", bytes as f64 * 100.0 / whole as f64),
    };
    let row = |name: &str, bytes: i64, share: &str, help: &str| {
        let sign = if bytes < 0 { "-" } else { "" };
        let bytes = format!("{sign}{}", human(bytes.unsigned_abs()));
        let line = format!("  {name:<14} {bytes:>11} {share:>8}  {help}");
        let mut line: String = line.chars().take(width).collect();
        line.truncate(line.trim_end().len());
        line + "\n"
    };
    for part in &verdict.parts {
        out.push_str(&row(part.name, part.bytes, &share(part.bytes), part.help));
    }
    let bytes = i64::try_from(verdict.bytes).unwrap_or(i64::MAX);
    out.push_str(&row("sum", bytes, &share(bytes), verdict.of.name()));
    for part in &verdict.beside {
        out.push_str(&row(part.name, part.bytes, "beside", part.help));
    }
}

/// A text behind a word in front of it, in lines of the width.
fn wrapped(out: &mut String, front: &str, text: &str, width: usize) {
    let mut line = format!("   {front:<width$}", width = INDENT - 3);
    let mut used = INDENT;
    for word in text.split_whitespace() {
        if used > INDENT && used + 1 + word.chars().count() > width {
            let _ = writeln!(out, "{}", line.trim_end());
            line = " ".repeat(INDENT);
            used = INDENT;
        }
        if used > INDENT {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += word.chars().count();
    }
    let _ = writeln!(out, "{}", line.trim_end());
}
