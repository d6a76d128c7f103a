//! The configuration of a machine, the bugs that can be planted in it, and its counts per thread.

use slabyard_platform::GRANULE;

/// What the machine is made of.
#[derive(Clone, Debug)]
pub struct Config {
    /// Virtual CPUs.
    pub cpus: usize,
    /// Bytes of a page: a power of two, at least [`GRANULE`].
    pub page_bytes: usize,
    /// Memory nodes: a power of two, at most [`slabyard_platform::Memory::MOST_NODES`]; CPUs take
    /// turns.
    pub nodes: usize,
    /// True: memory is in huge pages unless they are advised against, and [`super::Machine::touch`]
    /// says what is touched.
    pub huge_pages: bool,
    /// Bytes that can be committed and mapped at once.
    pub memory_bytes: usize,
    /// Seed of every choice.
    pub seed: u64,
    /// How often in 1000 steps the running thread is preempted, moved or
    /// interrupted.
    pub preemption: u32,
    /// The request of this number (from 0) for memory is refused: the calls of
    /// `commit`, `map` and `remap` that grows.
    pub refuse_commit: Option<u64>,
    /// False: each thread has a private row, and no other thread's stacks can be stopped.
    pub can_stop: bool,
    /// So many fences of readers succeed; the others are refused.
    pub reader_fences: u64,
    /// False: the end of a thread cannot be found out, so that readers have no places.
    pub finds_ends: bool,
    /// True: a thread has no row before its first slow path. Private rows are
    /// always late.
    pub late_rows: bool,
    /// Virtual threads that [`super::Machine::run`] takes at most.
    pub max_threads: usize,
    /// Steps after which a run is given up as endless.
    pub max_steps: u64,
    /// A planted bug, for tests of the checkers.
    pub broken: Broken,
}

/// A bug planted in the machine, which a checker must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// No bug.
    None,
    /// Sequences commit without a check of the CPU's token.
    CommitWithoutCheck,
    /// An exchange begins the use of the row that it found, and commits on the one that it is on
    /// then.
    ExchangeOnAnotherRow,
    /// A fence ends no sequence.
    FenceDoesNothing,
    /// A fence of readers delivers no store.
    ReaderFenceDoesNothing,
}

/// What one thread has requested from a machine so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Objects put into one slab or taken out of it: how often.
    pub slab_operations: u64,
    /// Locks taken.
    pub locks: u64,
    /// Fences that it requested.
    pub fences: u64,
    /// Sum over these fences of the CPUs whose sequences each aborts.
    pub fenced_cpus: u64,
    /// Calls of `give_back`.
    pub give_backs: u64,
    /// Bytes of these calls.
    pub give_back_bytes: u64,
    /// Calls of `touch_ahead`.
    pub touches: u64,
    /// Bytes of these calls.
    pub touched_bytes: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            cpus: 2,
            page_bytes: GRANULE,
            nodes: 1,
            huge_pages: false,
            memory_bytes: usize::MAX,
            seed: 0,
            preemption: 100,
            refuse_commit: None,
            can_stop: true,
            reader_fences: u64::MAX,
            finds_ends: true,
            late_rows: false,
            max_threads: 15,
            max_steps: 100_000_000,
            broken: Broken::None,
        }
    }
}
