//! Reads the kernel's slab lists at a recording's start, and records cache shrinks by other
//! processes.
//!
//! Neighbours: [`crate::kernel_lists`] reads the lists, and [`slabyard_lab::record::shrinks`]
//! watches the shrinks. Invariant: if the kernel denies access, a message says what is missing, and
//! the recording continues.

use crate::kernel_lists::{Moments, Reader};
use crate::stderr::say;
use slabyard_lab::lists::{Lists, ListsError, json};
use slabyard_lab::record::shrinks::{CACHES, Shrinks};
use slabyard_lab::record::{Error, Running, Wanted};
use slabyard_lab::trace::{Attached, LISTS, SHRINK};
use slabyard_observe::Snapshot;
use std::io::Write;

/// Opens the kernel's memory before the recording begins, as that takes a moment; where it is
/// refused, says what is lacking.
pub fn open() -> Option<Reader> {
    Reader::new().map_err(|lack| warn(&lack)).ok()
}

/// Reads the lists of the caches that are `wanted`.
pub fn read(
    reader: &mut Reader,
    snapshot: &Snapshot,
    wanted: Option<&Wanted>,
    moments: Moments<'_>,
) -> Option<Attached> {
    let now = moments.now;
    let is_wanted = |cache: &str| wanted.is_none_or(|wanted| wanted(cache));
    let read = reader.read(snapshot, &is_wanted, moments);
    let lists = read.map_err(|lack| warn(&lack)).ok()?;
    tell_unread(&lists);
    Some(Attached { name: LISTS.into(), time: now(), bytes: json::write(&lists) })
}

/// What others shrink while it is recorded: the recorder itself does before and after.
pub struct Watch {
    shrinks: Option<Shrinks>,
    /// Attached to the trace.
    pub attached: u64,
}

impl Watch {
    /// Watches from now on; where that is refused, says what is lacking.
    pub fn new() -> Watch {
        let lacks = |lack: std::io::Error| {
            say(&format!(
                "caches that others shrink are not told, which would make the trace uncertain: \
                 {CACHES}: {lack}"
            ));
        };
        Watch { shrinks: Shrinks::watch().map_err(lacks).ok(), attached: 0 }
    }

    /// Attaches what was shrunk since the last look, of the caches that are `wanted`.
    pub fn look<W: Write>(&mut self, running: &Running<W>, wanted: Option<&Wanted>) {
        for shrink in self.shrinks.iter().flat_map(Shrinks::take) {
            let is_wanted = wanted.is_none_or(|wanted| wanted(&shrink.cache));
            if let Some(time) = running.since_start(shrink.time).filter(|_| is_wanted) {
                let bytes = shrink.cache.into_bytes();
                running.attach(Attached { name: SHRINK.into(), time, bytes });
                self.attached += 1;
            }
        }
    }

    /// How often some were too many to be told.
    pub fn lost(&self) -> u64 {
        self.shrinks.as_ref().map_or(0, Shrinks::lost)
    }
}

fn warn(lack: &ListsError) {
    say(&format!(
        "what lies on the caches' lists is not recorded, and a replay knows less of the start: {lack}"
    ));
}

/// Says if the events of the reading itself cannot be kept out of the kernel's buffers.
pub fn tell_own(left_out: Result<(), Error>) {
    if let Err(lack) = left_out {
        say(&format!(
            "to read the lists fills the kernel's buffers with the recorder's own events: {lack}"
        ));
    }
}

fn tell_unread(lists: &Lists) {
    match lists.unread {
        0 => {}
        1 => say("the lists of 1 cache did not stand still and are not recorded"),
        n => say(&format!("the lists of {n} caches did not stand still and are not recorded")),
    }
}
