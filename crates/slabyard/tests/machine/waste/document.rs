//! The part of `docs/geometry.md` on malloc's size classes, made from the table and from what it
//! wastes.

use super::committed;
use super::measure::{self, LARGEST_ASKED, Waste, doublings};
use slabyard::cache::classes::{LARGEST, ROWS};
use slabyard::yard::{LARGEST_RUN, Yard};
use slabyard_testkit::machine::Machine;
use std::fmt::Write;
use std::ops::RangeInclusive;

/// How that part is written anew.
pub const COMMAND: &str = "run `SLABYARD_BLESS=1 cargo test -p slabyard --test machine waste`";

const BEGIN: &str = "<!-- size classes -->\n";
const END: &str = "<!-- end of size classes -->";

/// The document with that part as it should be.
pub fn renewed(document: &str, yard: &Yard<Machine>) -> String {
    let (before, rest) = document.split_once(BEGIN).expect("where the part begins");
    let (_, after) = rest.split_once(END).expect("where it ends");
    format!("{before}{BEGIN}{}{END}{after}", text(yard))
}

fn text(yard: &Yard<Machine>) -> String {
    let mut text = format!(
        "To regenerate it, {COMMAND}.\n\n\
         A request of up to {LARGEST} bytes gets an object of the smallest class that holds it, a larger one a run of whole pages, and one above {LARGEST_RUN} bytes its own mapping, or a run while the program repeatedly allocates and frees such blocks.\n\
         The waste of a request is the memory committed for it minus the requested bytes; for an object that memory is the slab's bytes divided by its objects, for a run the run's bytes.\n\
         Each number of bytes is requested once, with pages of 4 KiB; percentages are relative to the requested bytes.\n\n",
    );
    goals(&mut text, yard);
    text += "\nEach class is listed with its slab size in KiB in brackets, where that differs from the class before it.\n\n";
    by_doubling(&mut text, yard);
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

/// The classes whose objects are largest for requests within the range, or the pages of runs.
fn serving(requests: &RangeInclusive<usize>, yard: &Yard<Machine>) -> String {
    if *requests.start() > LARGEST {
        let pages = |request| committed(yard, request).bytes >> 12;
        return format!("{} to {} pages", pages(*requests.start()), pages(*requests.end()));
    }
    let mut text = String::new();
    let mut slab_before = 0;
    for (class, (size, _)) in ROWS.iter().enumerate() {
        let slab = yard.cache(class).shape().geometry.slab_bytes() >> 10;
        if requests.contains(&(*size as usize)) {
            let _ = write!(text, "{}{size}", if text.is_empty() { "" } else { " " });
            if slab != slab_before {
                let _ = write!(text, " ({slab})");
            }
            slab_before = slab;
        }
    }
    text
}

fn by_doubling(text: &mut String, yard: &Yard<Machine>) {
    *text += "| requests | classes, or pages of a run | worst | at | mean |\n\
              |---|---|---:|---:|---:|\n";
    let small = 0..=measure::LARGEST_SMALL;
    let w = over(yard, small.clone());
    let _ = writeln!(
        text,
        "| 0 to {} | {} | {:.1} bytes | | {:.1} bytes |",
        small.end(),
        serving(&small, yard),
        w.worst_bytes,
        w.mean_bytes
    );
    for range in doublings() {
        let w = over(yard, range.clone());
        let _ = writeln!(
            text,
            "| {} to {} | {} | {:.1} % | {} | {:.1} % |",
            range.start(),
            range.end(),
            serving(&range, yard),
            w.worst_of_requested,
            w.worst_at,
            w.mean_of_requested
        );
    }
}
