//! Reads the texts that people paste and tools collect into a [`Snapshot`]: `/proc/slabinfo`,
//! slabtop's table, reports of a kernel's log, statistics of other allocators.
//!
//! Each format is a file of its own and a row of [`FORMATS`]; it is recognised by its lines, not by
//! a file's name, also in the middle of a mail. All formats are tried on one text, because people
//! paste several: a slabtop and a meminfo make one snapshot. Neighbours: [`crate::file`] opens the
//! file; [`lines`] takes off what mails and terminals put around lines; [`directory`] reads copied
//! trees through [`crate::kernel`], and [`archive`] unpacks those that were packed. Invariants: what a text does not say is absent and never 0;
//! what it rounds is a range; a line among a format's own that does not fit is named in
//! `Snapshot::missing`; no text makes a reader panic.

pub(crate) mod archive;
mod corruption;
mod counts;
pub(crate) mod directory;
mod failures;
mod found;
mod jemalloc;
mod jemalloc_json;
mod lines;
mod log;
mod mallinfo;
mod malloc_info;
mod malloc_stats;
mod memory_report;
mod mimalloc;
mod partial_lists;
mod rounded;
mod slabinfo;
mod slabinfo_tool;
mod slabtop;
mod smaps;
mod vmstat;

use crate::snapshot::Snapshot;
use found::{Outcome, Pasted};
pub(crate) use jemalloc_json::BEGIN as JSON;
use lines::Line;

/// How a text tells one kind of numbers.
struct Format {
    /// As people call it.
    name: &'static str,
    read: fn(&[Line<'_>], &mut Pasted) -> Outcome,
}

/// In the order in which they fill the snapshot: the first that tells a number is believed.
static FORMATS: &[Format] = &[
    Format { name: "slabinfo", read: slabinfo::read },
    Format { name: "slabtop", read: slabtop::read },
    Format { name: "vmstat -m", read: vmstat::read },
    Format { name: "the tool slabinfo", read: slabinfo_tool::read },
    Format { name: "meminfo and other files of /proc", read: counts::read },
    Format { name: "memory report of a kernel's log", read: memory_report::read },
    Format { name: "failed allocations of a kernel's log", read: failures::read },
    Format { name: "slab_debug report", read: corruption::read },
    Format { name: "CPU partial lists", read: partial_lists::read },
    Format { name: "smaps", read: smaps::read },
    Format { name: "malloc_info of glibc", read: malloc_info::read },
    Format { name: "malloc_stats of glibc", read: malloc_stats::read },
    Format { name: "mallinfo of glibc", read: mallinfo::read },
    Format { name: "statistics of jemalloc", read: jemalloc::read },
    Format { name: "statistics of jemalloc (JSON)", read: jemalloc_json::read },
    Format { name: "statistics of mimalloc", read: mimalloc::read },
];

/// Why a text is not read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// No line is of a format that is known: what was looked for, and what the text begins with.
    Unknown(String),
    /// The format, and the line that does not fit.
    Damaged(String),
}

/// Reads a text in whatever formats its lines are.
///
/// # Errors
/// No line fits, or a format's first line is followed by none that fits.
pub(crate) fn read(text: &str, taken_at_ms: u64) -> Result<Snapshot, Unread> {
    let text = lines::normalise(text);
    let lines = lines::of(&text);
    let mut pasted = Pasted::new();
    if taken_at_ms > 0 {
        pasted.snapshot.taken_at_ms = taken_at_ms;
    }
    let mut damaged = Vec::new();
    for format in FORMATS {
        match (format.read)(&lines, &mut pasted) {
            Outcome::Absent => {}
            Outcome::Read => pasted.snapshot.source.formats.push(format.name.into()),
            Outcome::Damaged(what) => damaged.push((format.name, what)),
        }
    }
    if !pasted.snapshot.source.formats.is_empty() {
        damaged.into_iter().for_each(|(name, what)| pasted.miss(name, what));
        return Ok(pasted.finish());
    }
    Err(match damaged.first() {
        Some((name, what)) => Unread::Damaged(format!("looked for {name}, but {what}")),
        None => {
            let names: Vec<_> = FORMATS.iter().map(|format| format.name).collect();
            let first = lines.iter().find(|line| !line.text.trim().is_empty());
            let first = first.map_or("it has no lines".into(), |line| {
                format!("line {} is {}", line.number, lines::shown(line.text))
            });
            Unread::Unknown(format!("no line of it is of {}; {first}", names.join(", ")))
        }
    })
}

#[cfg(test)]
mod tests;
