//! Reads the kernel's slab lists at a recording's start, and records cache shrinks by other
//! processes.
//!
//! Neighbours: [`slabyard_lab::lists`] reads the lists, and [`slabyard_lab::record::shrinks`]
//! watches the shrinks. Invariant: if the kernel denies access, a message says what is missing, and
//! the recording continues.

use crate::stderr::say;
use slabyard_lab::lists::bpf::Bpf;
use slabyard_lab::lists::layout::Layout;
use slabyard_lab::lists::walk::{self, Machine};
use slabyard_lab::lists::{Lists, ListsError, json};
use slabyard_lab::record::Running;
use slabyard_lab::record::shrinks::{CACHES, Shrinks};
use slabyard_lab::record::{Wanted, favour};
use slabyard_lab::trace::{Attached, LISTS, SHRINK};
use slabyard_observe::Snapshot;
use std::io::Write;
use std::thread;

/// The way into the kernel's memory, found before the recording begins, as that takes a moment.
pub struct Reader {
    layout: Layout,
    memory: Bpf,
}

impl Reader {
    /// Opens the kernel's memory; where that is refused, says what is lacking.
    pub fn new() -> Option<Reader> {
        let open = || Ok(Reader { layout: Layout::of_kernel()?, memory: Bpf::new()? });
        open().map_err(|lack| warn(&lack)).ok()
    }

    /// Reads the lists of the caches that are `wanted`; `now` gives nanoseconds since the trace began,
    /// `begin` is called by the thread that reads, before it does.
    pub fn read(
        &mut self,
        snapshot: &Snapshot,
        wanted: Option<&Wanted>,
        now: &(dyn Fn() -> u64 + Sync),
        begin: &(dyn Fn() + Sync),
    ) -> Option<Attached> {
        let machine = &snapshot.machine;
        let machine = Machine {
            page_size: machine.page_bytes?,
            cpus: machine.possible_cpus?,
            nodes: machine.nodes.unwrap_or(1),
        };
        let Reader { layout, memory } = self;
        // On a thread of its own, which does not wait behind the load, and whose haste the command
        // does not get.
        let read = thread::scope(|scope| {
            let read = scope.spawn(|| {
                begin();
                favour();
                walk::lists(memory, layout, machine, now)
            });
            read.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let mut lists = read.map_err(|lack| warn(&lack)).ok()?;
        tell_unread(&lists);
        lists.caches.retain(|cache| wanted.is_none_or(|wanted| wanted(&cache.name)));
        Some(Attached { name: LISTS.into(), time: now(), bytes: json::write(&lists) })
    }
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

fn tell_unread(lists: &Lists) {
    match lists.unread {
        0 => {}
        1 => say("the lists of 1 cache did not stand still and are not recorded"),
        n => say(&format!("the lists of {n} caches did not stand still and are not recorded")),
    }
}
