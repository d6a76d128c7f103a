//! The diagnosis as a page: the findings, the worst first, and where the memory is.
//!
//! Neighbour: `slabyard_doctor::text` prints the same for terminals, in the same order.

use super::owners;
use crate::html;
use slabyard_doctor::finding::{Finding, Severity};
use slabyard_doctor::verdict::Verdict;
use slabyard_doctor::{Diagnosis, text};
use slabyard_observe::view::cell::human;
use slabyard_owners::Watch;
use slabyard_page::{Axis, Cell, Chart, Page, Section, Series, Table, Unit};

/// The page of a diagnosis, whose JSON is given.
pub(super) fn of(diagnosis: &Diagnosis, watch: Option<&Watch>, json: String) -> Page {
    let title = format!("{}: {}", diagnosis.source, text::outcome(diagnosis));
    let mut first = Section::new("Where the memory is").chart(bar(&diagnosis.verdict));
    first = first.table(parts(&diagnosis.verdict));
    for missing in &diagnosis.missing {
        first = first.text(format!("Not read: {}: {}.", missing.what, missing.why));
    }
    let mut page = html::page(title, json);
    for (nth, finding) in diagnosis.findings.iter().enumerate() {
        let heading = format!("{}. {}: {}", nth + 1, finding.id, human(finding.bytes));
        page = page.with(section(&heading, finding));
    }
    for note in &diagnosis.notes {
        page = page.with(section(&format!("Note: {}", note.id), note));
    }
    page = page.with(first);
    match watch {
        Some(watch) => page.with(Section::new("The watch").code(owners::text(watch).trim_start())),
        None => page,
    }
}

/// One bar of all parts end to end, whose lengths add up to the whole.
fn bar(verdict: &Verdict) -> Chart {
    let title = format!("Parts of the {}", verdict.of.name());
    let bytes = Axis::new(verdict.of.name(), Unit::Bytes);
    let chart = Chart::stacked_bars(title, html::names(), bytes);
    verdict.parts.iter().enumerate().fold(chart, |chart, (nth, part)| {
        let bytes = format!("/verdict/parts/{nth}/bytes");
        chart.with(Series::new(part.name, "/verdict/of", bytes))
    })
}

fn parts(verdict: &Verdict) -> Table {
    let mut table = Table::new(["part", "memory", "share", "what it is"]);
    let memory = |bytes: i64| {
        let sign = if bytes < 0 { "-" } else { "" };
        Cell::number(format!("{sign}{}", human(bytes.unsigned_abs())), bytes as f64)
    };
    let share = |bytes: i64| match verdict.bytes {
        0 => Cell::unknown(),
        whole => {
            let percent = bytes as f64 * 100.0 / whole as f64;
            Cell::number(format!("{percent:.1} %"), percent)
        }
    };
    for part in &verdict.parts {
        let words = [part.name, part.help].map(Cell::text);
        let [name, help] = words;
        table.push([name, memory(part.bytes), share(part.bytes), help]);
    }
    let sum = verdict.parts.iter().map(|part| part.bytes).sum();
    table.push([Cell::text("sum"), memory(sum), share(sum), Cell::text(verdict.of.name())]);
    for part in &verdict.beside {
        let beside = Cell::text("beside");
        table.push([Cell::text(part.name), memory(part.bytes), beside, Cell::text(part.help)]);
    }
    table
}

fn section(heading: &str, finding: &Finding) -> Section {
    let mut section = Section::new(heading).text(&finding.says);
    if !finding.owners.is_empty() {
        let mut table = Table::new(["owner", "call site", "memory", "objects"]);
        for owner in &finding.owners {
            let site = owner.site.as_deref().unwrap_or("-");
            table.push([
                Cell::text(&owner.who),
                Cell::text(site),
                Cell::number(human(owner.bytes), owner.bytes as f64),
                Cell::number(owner.objects.to_string(), owner.objects as f64),
            ]);
        }
        section = section.table(table);
    }
    if !finding.numbers.is_empty() {
        let mut table = Table::new(["number", "value"]);
        for (name, number) in &finding.numbers {
            table.push([Cell::text(*name), Cell::number(number.to_string(), *number as f64)]);
        }
        section = section.table(table);
    }
    if !finding.evidence.is_empty() {
        section = section.text("Evidence:").code(finding.evidence.join("\n"));
    }
    if finding.severity == Severity::Finding {
        section = section.text(format!("Remedy: {}.", text::remedy(&finding.remedy)));
        if let Some(command) = &finding.remedy.command {
            section = section.code(command);
        }
    }
    section.text(format!("Confidence: {}.", text::confidence(&finding.confidence)))
}
