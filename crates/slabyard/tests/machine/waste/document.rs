//! `docs/size-classes.md`, made from the table and from what it wastes.

use super::committed;
use super::measure::{self, LARGEST_ASKED, Waste, doublings};
use slabyard::cache::classes::{CLASSES, LARGEST, ROWS};
use slabyard::platform::machine::Machine;
use slabyard::yard::Yard;
use std::fmt::Write;
use std::ops::RangeInclusive;

/// How the document is written anew.
pub const COMMAND: &str = "run `SLABYARD_BLESS=1 cargo test -p slabyard --test machine waste`";

/// The whole document.
pub fn text(yard: &Yard<Machine>) -> String {
    let mut text = format!(
        "# Size classes\n\n\
         This file is generated from the table of `crates/slabyard/src/cache/classes.rs`: to write it anew, {COMMAND}.\n\
         The same test fails if this file is not what the table gives, and if a goal below is missed.\n\n\
         A request of up to {LARGEST} bytes takes an object of the smallest class that holds it.\n\
         A larger one takes a run of whole pages, and one above {largest_run} bytes a mapping of its own, or a run where such blocks come and go.\n\n\
         The waste of a request is what is committed for it less what was requested.\n\
         For an object, that is the slab's bytes divided by its objects, so the tail is included and the slab is full.\n\
         For a run, it is the run's bytes.\n\
         Each request is asked, and all count alike in a mean; the pages are of 4 KiB.\n\
         Per cent are of the requested bytes unless a heading says otherwise.\n\n",
        largest_run = slabyard::yard::LARGEST_RUN,
    );
    text += "## Goals\n\n";
    goals(&mut text, yard);
    text += "\n## Doublings\n\n";
    by_doubling(&mut text, yard);
    let _ = write!(text, "\n## The {CLASSES} classes\n\n");
    by_class(&mut text, yard);
    text += "\n## Page runs\n\n";
    by_run(&mut text, yard);
    text
}

fn over(yard: &Yard<Machine>, requests: RangeInclusive<usize>) -> Waste {
    Waste::over(requests, |request| committed(yard, request))
}

fn goals(text: &mut String, yard: &Yard<Machine>) {
    let small = over(yard, 0..=measure::LARGEST_SMALL);
    let rest = over(yard, measure::LARGEST_SMALL + 1..=LARGEST_ASKED);
    let mean = doublings().map(|r| over(yard, r).mean_of_requested).fold(0.0, f64::max);
    let (smallest, last) = (measure::LARGEST_SMALL + 1, LARGEST_ASKED);
    *text += "| requests | waste | at most | found |\n|---|---|---|---|\n";
    let _ = writeln!(
        text,
        "| 0 to {} | of any | {} bytes | {:.2} bytes |",
        measure::LARGEST_SMALL,
        measure::SMALL_GOAL,
        small.worst_bytes
    );
    let _ = writeln!(
        text,
        "| {smallest} to {last} | of any | {:.1} % | {:.2} % ({} bytes) |",
        measure::WORST_GOAL,
        rest.worst_of_requested,
        rest.worst_at
    );
    let _ = writeln!(
        text,
        "| {smallest} to {last} | mean of each doubling | {:.1} % | {mean:.2} % |",
        measure::MEAN_GOAL
    );
}

fn by_doubling(text: &mut String, yard: &Yard<Machine>) {
    *text += "| requests | worst | at | mean | worst of committed | mean of committed |\n\
              |---|---:|---:|---:|---:|---:|\n";
    for range in doublings() {
        let w = over(yard, range.clone());
        let _ = writeln!(
            text,
            "| {} to {} | {:.1} % | {} | {:.1} % | {:.1} % | {:.1} % |",
            range.start(),
            range.end(),
            w.worst_of_requested,
            w.worst_at,
            w.mean_of_requested,
            w.worst_of_committed,
            w.mean_of_committed
        );
    }
}

fn by_class(text: &mut String, yard: &Yard<Machine>) {
    *text += "The goal of the requests of up to 128 bytes is in bytes: they have no per cent here.\n\n\
              | class | slab, KiB | objects | tail | worst, bytes | mean, bytes | worst | mean |\n\
              |---:|---:|---:|---:|---:|---:|---:|---:|\n";
    let mut first = 0;
    for (class, (size, _)) in ROWS.iter().enumerate() {
        let last = *size as usize;
        let w = over(yard, first..=last);
        let geometry = &yard.cache(class).shape().geometry;
        let _ = write!(
            text,
            "| {size} | {} | {} | {} | {:.1} | {:.1} |",
            geometry.slab_bytes() >> 10,
            geometry.objects,
            geometry.padding(),
            w.worst_bytes,
            w.mean_bytes
        );
        *text += &match last {
            0..=measure::LARGEST_SMALL => " | |\n".to_owned(),
            _ => format!(" {:.1} % | {:.1} % |\n", w.worst_of_requested, w.mean_of_requested),
        };
        first = last + 1;
    }
}

fn by_run(text: &mut String, yard: &Yard<Machine>) {
    *text += "| requests | pages | worst, bytes | worst | at | mean |\n\
              |---|---|---:|---:|---:|---:|\n";
    let largest_class = doublings().take_while(|r| *r.end() <= LARGEST).count();
    for range in doublings().skip(largest_class) {
        let (from, to) = ((*range.start()).max(LARGEST + 1), *range.end());
        let w = over(yard, from..=to);
        let pages = |request| committed(yard, request).bytes >> 12;
        let _ = writeln!(
            text,
            "| {from} to {to} | {} to {} | {:.0} | {:.1} % | {} | {:.1} % |",
            pages(from),
            pages(to),
            w.worst_bytes,
            w.worst_of_requested,
            w.worst_at,
            w.mean_of_requested
        );
    }
}
