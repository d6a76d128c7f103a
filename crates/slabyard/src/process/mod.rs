//! Floor 9: yards of a program that links this crate. Each yard is a `static` that starts at its
//! first use, from any thread, and stays consistent through forks and thread exits.
//!
//! Neighbours: typed caches and the global allocator use a [`ProcessYard`]; the malloc library
//! starts its own yard, with options and earlier than this module could.
//! Invariants: each yard that has started is on a list that only grows. One yard starts at a time,
//! under a lock that a fork takes as well ([`started`]). Non-generic code here names no particular
//! yard, so a library with a yard of its own gets no second copy of the code.

pub mod fork;
mod started;

use crate::calls::trim;
use crate::engine::{Engine, Sheaves};
use crate::mail::header;
use crate::platform::linux::{Linux, Mode};
use crate::sync::OnceNumber;
use crate::yard::{RESERVE_BYTES, Settings, Yard};
use started::{Node, Started, each_started, lock_starts, unlock_starts};

/// A yard of the process, for a `static`.
///
/// ```
/// use slabyard::{ObjectCache, ProcessYard};
///
/// static YARD: ProcessYard = ProcessYard::new();
///
/// let nodes = ObjectCache::<[u64; 4]>::new("nodes", &YARD)?;
/// assert_eq!(*nodes.alloc([1, 2, 3, 4]), [1, 2, 3, 4]);
/// # Ok::<(), slabyard::typed::CreateError>(())
/// ```
pub struct ProcessYard<E = Sheaves> {
    yard: Yard<Linux, E>,
    settings: Settings,
    mode: Option<Mode>,
    /// [`READY`] or [`FAILED`], once it has started.
    state: OnceNumber,
    node: Node,
}

const READY: usize = 1;
const FAILED: usize = 2;

/// The kernel refused the memory for a yard's own tables. Later starts fail as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotStarted;

impl core::fmt::Display for NotStarted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the system refuses the address space for the yard's tables")
    }
}

impl core::error::Error for NotStarted {}

impl<E: Engine> ProcessYard<E> {
    /// A yard that starts at its first use.
    ///
    /// ```
    /// static YARD: slabyard::ProcessYard = slabyard::ProcessYard::new();
    /// assert!(YARD.start().is_ok());
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        ProcessYard {
            yard: Yard::new(Linux::new()),
            settings: Settings { reserve_bytes: RESERVE_BYTES, decay_ms: 250 },
            mode: None,
            state: OnceNumber::new(),
            node: Node::new(),
        }
    }

    /// With other settings: how much address space it reserves, and after how long free pages go
    /// back to the kernel.
    ///
    /// ```
    /// use slabyard::{ProcessYard, yard::Settings};
    ///
    /// static YARD: ProcessYard =
    ///     ProcessYard::new().settings(Settings { reserve_bytes: 1 << 36, decay_ms: 1000 });
    /// assert_eq!(YARD.start()?.decay_ms(), 1000);
    /// # Ok::<(), slabyard::process::NotStarted>(())
    /// ```
    #[must_use]
    pub const fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// With this way to tell CPUs apart, where it is possible: for tests.
    ///
    /// ```
    /// use slabyard::{ProcessYard, platform::linux::Mode};
    ///
    /// static YARD: ProcessYard = ProcessYard::new().mode(Mode::Slots);
    /// assert_eq!(YARD.start()?.platform().mode(), Mode::Slots);
    /// # Ok::<(), slabyard::process::NotStarted>(())
    /// ```
    #[must_use]
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// The yard, started if it is not.
    ///
    /// # Errors
    /// [`NotStarted`] if the kernel refuses memory for it.
    ///
    /// ```
    /// static YARD: slabyard::ProcessYard = slabyard::ProcessYard::new();
    /// let yard = YARD.start()?;
    /// assert!(yard.trim() || true, "nothing to give back yet");
    /// # Ok::<(), slabyard::process::NotStarted>(())
    /// ```
    #[inline]
    pub fn start(&'static self) -> Result<&'static Yard<Linux, E>, NotStarted> {
        if self.state.get() == READY { Ok(&self.yard) } else { self.start_now() }
    }

    #[cold]
    #[inline(never)]
    fn start_now(&'static self) -> Result<&'static Yard<Linux, E>, NotStarted> {
        fork::register();
        lock_starts();
        if self.state.get() == 0 {
            let done = self.begin();
            // Nobody else sets it: this thread has the lock.
            let _ = self.state.set(if done { READY } else { FAILED });
        }
        unlock_starts();
        self.started().ok_or(NotStarted)
    }

    fn begin(&'static self) -> bool {
        let platform = self.yard.platform();
        if !platform.init(self.mode) {
            return false;
        }
        if platform.mode() == Mode::Slots {
            platform.at_slot_end(thread_ends);
        }
        if !self.yard.init(self.settings) {
            return false;
        }
        platform.prepare_fence();
        header::publish(
            &self.yard,
            match platform.mode() {
                Mode::Library => 1,
                Mode::Own => 2,
                Mode::Slots => 3,
            },
        );
        self.node.add(&self.yard);
        true
    }

    /// The yard, if it has started.
    ///
    /// ```
    /// static YARD: slabyard::ProcessYard = slabyard::ProcessYard::new();
    /// assert!(YARD.started().is_none());
    /// ```
    #[inline]
    pub fn started(&self) -> Option<&Yard<Linux, E>> {
        (self.state.get() == READY).then_some(&self.yard)
    }
}

/// A thread with a private slot ends: its rows are drained, in each yard.
fn thread_ends() {
    each_started(|yard| yard.drain_thread());
    // The thread's slot is the same in each: the first gives it back.
    each_started(|yard| yard.platform().give_slot_back());
}

impl<E: Engine> Started for Yard<Linux, E> {
    fn platform(&self) -> &Linux {
        self.platform()
    }

    fn adopt_foreign_rows(&self) {
        fork::adopt_foreign_rows(self);
    }

    fn drain_thread(&self) {
        trim::drain_thread(self);
    }
}

impl<E: Engine> Default for ProcessYard<E> {
    fn default() -> Self {
        Self::new()
    }
}
