//! Reads slab lists and sheaves from the running kernel's memory.
//!
//! Neighbours: [`slabyard_lab::lists`] reads them; [`crate::record`] stores those of all caches in a
//! trace, [`crate::show`] prints those of one.

use slabyard_lab::lists::bpf::Bpf;
use slabyard_lab::lists::layout::Layout;
use slabyard_lab::lists::walk::{self, Machine};
use slabyard_lab::lists::{Lists, ListsError};
use slabyard_lab::record::favour;
use slabyard_observe::Snapshot;
use std::thread;

/// The way into the kernel's memory, which takes a moment to find.
pub struct Reader {
    layout: Layout,
    memory: Bpf,
}

/// Two moments of a reading.
pub struct Moments<'a> {
    /// Called by the thread that reads, before it does.
    pub begin: &'a (dyn Fn() + Sync),
    /// Gives nanoseconds.
    pub now: &'a (dyn Fn() -> u64 + Sync),
}

impl Reader {
    /// Opens the kernel's memory.
    ///
    /// # Errors
    /// The kernel refuses, or does not describe its structures.
    pub fn new() -> Result<Reader, ListsError> {
        Ok(Reader { layout: Layout::of_kernel()?, memory: Bpf::new()? })
    }

    /// Whether the kernel's CPUs have slabs.
    pub fn has_cpu_slabs(&self) -> bool {
        self.layout.cpu.is_some()
    }

    /// Whether they have sheaves.
    pub fn has_sheaves(&self) -> bool {
        self.layout.sheaves.is_some()
    }

    /// Reads the lists of the caches whose names are `wanted`.
    ///
    /// # Errors
    /// The kernel refuses, or did not tell its machine.
    pub fn read(
        &mut self,
        snapshot: &Snapshot,
        wanted: &(dyn Fn(&str) -> bool + Sync),
        moments: Moments<'_>,
    ) -> Result<Lists, ListsError> {
        let machine = &snapshot.machine;
        let machine = Machine {
            page_size: machine.page_bytes.ok_or_else(|| untold("size of a page"))?,
            cpus: machine.possible_cpus.ok_or_else(|| untold("number of CPUs"))?,
            nodes: machine.nodes.unwrap_or(1),
        };
        let Reader { layout, memory } = self;
        // On a thread of its own, which does not wait behind the load, and whose haste a command that
        // is recorded does not get.
        thread::scope(|scope| {
            let read = scope.spawn(|| {
                (moments.begin)();
                favour();
                walk::lists(memory, layout, machine, wanted, moments.now)
            });
            read.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

fn untold(what: &str) -> ListsError {
    ListsError::Missing(format!("the kernel does not tell the {what}"))
}
