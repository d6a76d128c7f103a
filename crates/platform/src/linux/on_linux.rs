//! The value that is the platform in a real process: its state, its start, and each thread's first
//! slow path.
//!
//! Neighbours: the engines use it through [`super::memory`], [`super::per_cpu`] and
//! [`super::threads`]; [`super::process`] finds out what this process and machine support.

use super::counts::CountedWords;
use super::mode::Mode;
use super::reservations::Reservations;
use super::{address_range, birth, cpus, fence, huge, nodes, process, readers, slots};
use crate::PerCpu;
use crate::rseq::{self, Thread, flags};
use crate::stack::{Rows, Slot};
use crate::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use core::marker::PhantomData;

/// The platform of a real process.
pub type Linux = OnLinux<Uncounted>;
/// The same, which counts what slow paths do, once it is [asked](OnLinux::count_slow_paths), and
/// may have [several nodes](OnLinux::set_nodes).
pub type CountingLinux = OnLinux<Counted>;

/// Whether a platform has code that counts, and that tells nodes. A type and no number, so that
/// code which is generic over yards of processes has one parameter for it. Hidden, because users of
/// this crate have one of the two types above.
pub trait Counting: Send + Sync + 'static {
    /// True if it has.
    const COUNTS: bool;
}

/// It has none: slow paths have no branch for it.
pub enum Uncounted {}

impl Counting for Uncounted {
    const COUNTS: bool = false;
}

/// It has both.
pub enum Counted {}

impl Counting for Counted {
    const COUNTS: bool = true;
}

/// The platform of a real process.
pub struct OnLinux<C: Counting> {
    pub(super) counting: PhantomData<C>,
    pub(super) rows: Rows,
    pub(super) reservations: Reservations,
    /// The owner [calls](OnLinux::give_way) when the program registers an area itself.
    pub(super) gives_way: AtomicBool,
    pub(super) counts: CountedWords,
    pub(super) nodes: nodes::Nodes,
    pub(super) huge_pages: huge::Setting,
    pub(super) setup: Setup,
    pub(super) fence: fence::Fence,
    pub(super) readers: readers::Readers,
    pub(super) restricted: AtomicBool,
    /// No system call about memory is possible any more.
    pub(super) sealed: AtomicBool,
    pub(super) birth: birth::Birth,
    /// 1: the ends of threads with a private slot are noticed.
    pub(super) notices_ends: AtomicUsize,
}

/// What `init` found, and what stays: each slow path reads it several times.
pub(super) struct Setup {
    pub(super) mode: AtomicU32,
    pub(super) page_bytes: AtomicUsize,
    /// A byte that is not 0 while the process is known to have one thread.
    pub(super) is_only_thread: AtomicPtr<u8>,
}

/// That byte where the C library has none.
static UNKNOWN: u8 = 0;

impl<C: Counting> OnLinux<C> {
    /// A platform before [`OnLinux::init`].
    #[must_use]
    pub const fn new() -> Self {
        OnLinux {
            counting: PhantomData,
            rows: Rows::new(),
            reservations: Reservations::new(),
            gives_way: AtomicBool::new(false),
            counts: CountedWords::new(),
            nodes: nodes::Nodes::new(),
            huge_pages: huge::Setting::new(),
            setup: Setup {
                mode: AtomicU32::new(0),
                page_bytes: AtomicUsize::new(0),
                is_only_thread: AtomicPtr::new((&raw const UNKNOWN).cast_mut()),
            },
            fence: fence::Fence::new(),
            readers: readers::Readers::new(),
            restricted: AtomicBool::new(false),
            sealed: AtomicBool::new(false),
            birth: birth::Birth::new(),
            notices_ends: AtomicUsize::new(0),
        }
    }

    /// Says, before [`OnLinux::init`], that the owner calls [`OnLinux::give_way`]. Without it, areas
    /// are registered on request alone, because the program may have its own.
    pub fn promise_to_give_way(&self) {
        self.gives_way.store(true, Ordering::Relaxed);
    }

    /// The program is about to register an area of restartable sequences for this thread, which
    /// can have one only: ours is taken back, and the thread has no row from now on.
    pub fn give_way(&self) {
        if self.mode() == Mode::Own {
            process::give_way(rseq::thread());
        }
    }

    /// Finds the mode, or takes the requested one if it is possible, and makes the rows. False
    /// if there is no memory for them. Call it once.
    pub fn init(&self, requested: Option<Mode>) -> bool {
        let gives_way = self.gives_way.load(Ordering::Relaxed);
        let (mode, cs_offset) = process::choose(requested, gives_way);
        let page_bytes = process::page_bytes();
        self.setup.mode.store(mode as u32, Ordering::Relaxed);
        self.setup.page_bytes.store(page_bytes, Ordering::Relaxed);
        if let Some(byte) = process::only_thread() {
            self.setup.is_only_thread.store(byte, Ordering::Relaxed);
        }
        let limit = process::address_limit();
        let (nr_rows, most) = match mode {
            Mode::Library | Mode::Own => cpus::possible(),
            Mode::Slots => {
                let slots = slots::nr_rows(limit, page_bytes);
                (slots, slots)
            }
        };
        if let Some(chosen) = self.birth.init(page_bytes) {
            address_range::find(chosen, page_bytes, limit);
        }
        if !self.reservations.init(page_bytes, [nr_rows, most], limit.is_some(), &self.rows) {
            return false;
        }
        // SAFETY: `choose` found the offset, for this mode.
        unsafe { self.rows.set_owner(cs_offset, mode == Mode::Slots) };
        // Written before it is read: a page that was read first is faulted in twice. Slot 0
        // keeps its zeros.
        if let Some(row) = self.row_hint() {
            self.rows.entry(row, Slot(0)).ask();
        }
        true
    }

    /// The mode found by [`OnLinux::init`].
    #[inline]
    pub fn mode(&self) -> Mode {
        match self.setup.mode.load(Ordering::Relaxed) {
            mode if mode == Mode::Library as u32 => Mode::Library,
            mode if mode == Mode::Own as u32 => Mode::Own,
            _ => Mode::Slots,
        }
    }

    /// Where `rseq_cs` is, from the thread pointer.
    pub fn cs_offset(&self) -> usize {
        self.rows.cs_offset()
    }

    /// Registers the process for [`PerCpu::fence`]. With one thread this is cheap, with several it
    /// takes milliseconds: the malloc library calls it from its constructor.
    pub fn prepare_fence(&self) {
        if self.mode() != Mode::Slots {
            self.fence.prepare();
        }
    }

    /// Assumes that the kernel makes huge pages everywhere (`always`), whatever its setting.
    pub fn assume_huge_pages(&self) {
        self.huge_pages.assume();
    }

    #[cold]
    pub(super) fn enter_first(&self, thread: &Thread) {
        thread.flags.fetch_or(flags::TRIED, Ordering::Relaxed);
        match self.mode() {
            Mode::Library => {}
            Mode::Own => {
                process::register(thread);
            }
            Mode::Slots => {
                let Some(slot) = slots::take() else { return };
                thread.cpu_id.store(slot, Ordering::Relaxed);
                if self.notices_ends.load(Ordering::Relaxed) == 1 {
                    slots::remember(1);
                }
            }
        }
    }
}

impl<C: Counting> Default for OnLinux<C> {
    fn default() -> Self {
        Self::new()
    }
}
