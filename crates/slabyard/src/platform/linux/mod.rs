//! Linux: rows by restartable sequences, or private slots.
//!
//! Three modes, one fast path: they differ in where the field `rseq_cs` and the CPU number in
//! front of it lie.
//!
//! 1. The area that the C library registered (`__rseq_offset`).
//! 2. Our own registration of the thread block's area, made by each thread at
//!    its first slow path.
//! 3. Private slots: the block's CPU number is a slot that belongs to the thread
//!    until it ends; no sequence is fenced, and no other thread's stacks can be stopped.
//!
//! Rows are told apart by the CPU number and not by the denser `mm_cid`: a
//! thread whose registration failed has the CPU number -2, which leads to a row
//! of zeros, but the `mm_cid` 0, which leads to another thread's row.
//!
//! [`process`] finds out what this process and machine have; [`park`] waits for locks; [`memory`] maps, in the range of
//! [`address_range`] where address space is limited.

mod address_range;
mod birth;
mod bytes;
mod calls;
mod counted;
mod counts;
mod cpus;
mod fence;
mod filtered;
mod handlers;
mod huge;
mod memory;
mod nodes;
mod park;
mod process;
mod promises;
mod readers;
mod shared;
mod slots;

use super::reader::Place;
use super::rseq::{self, Thread, flags};
use super::stack::{Rows, Slot, Stack, Stopped};
use super::{Event, FastPath, Platform, Stretch, Use};
use crate::sync::lock::may_call;
use crate::sync::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use counts::Counts;
use memory::Memory;
pub use shared::Left;

/// How CPUs are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// 1: the C library's registration.
    Library,
    /// 2: our own registration.
    Own,
    /// 3: a private slot for each thread.
    Slots,
}

/// The platform of a real process.
pub type Linux = OnLinux<false>;
/// The same, which counts what slow paths do, once it is [asked](OnLinux::count_slow_paths), and
/// may have [several nodes](OnLinux::set_nodes).
pub type CountingLinux = OnLinux<true>;

/// The platform of a real process: `COUNTS` if it has code that counts, and that tells nodes.
pub struct OnLinux<const COUNTS: bool> {
    rows: Rows,
    memory: Memory,
    /// The owner [calls](OnLinux::give_way) when the program registers an area itself.
    gives_way: AtomicBool,
    counts: Counts,
    nodes: nodes::Nodes,
    huge_pages: huge::Setting,
    setup: Setup,
    fence: fence::Fence,
    readers: readers::Readers,
    restricted: AtomicBool,
    /// No system call about memory is possible any more.
    sealed: AtomicBool,
    birth: birth::Birth,
    /// Called when a thread got a private slot (the malloc library sets a key of
    /// the C library, whose destructor gives the slot back).
    on_slot: AtomicUsize,
}

/// What `init` found, and what stays: each slow path reads it several times.
struct Setup {
    mode: AtomicU32,
    /// Offset of `rseq_cs` from the thread pointer.
    cs_offset: AtomicUsize,
    page_bytes: AtomicUsize,
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
}

impl<const COUNTS: bool> OnLinux<COUNTS> {
    /// A platform before [`OnLinux::init`].
    #[must_use]
    pub const fn new() -> Self {
        OnLinux {
            rows: Rows::new(),
            memory: Memory::new(),
            gives_way: AtomicBool::new(false),
            counts: Counts::new(),
            nodes: nodes::Nodes::new(),
            huge_pages: huge::Setting::new(),
            setup: Setup {
                mode: AtomicU32::new(0),
                cs_offset: AtomicUsize::new(0),
                page_bytes: AtomicUsize::new(0),
            },
            fence: fence::Fence::new(),
            readers: readers::Readers::new(),
            restricted: AtomicBool::new(false),
            sealed: AtomicBool::new(false),
            birth: birth::Birth::new(),
            on_slot: AtomicUsize::new(0),
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
        self.setup.cs_offset.store(cs_offset, Ordering::Relaxed);
        self.setup.page_bytes.store(page_bytes, Ordering::Relaxed);
        let (nr_rows, most) = match mode {
            Mode::Library | Mode::Own => cpus::possible(),
            Mode::Slots => {
                let slots = slots::nr_rows(process::address_limit(), page_bytes);
                (slots, slots)
            }
        };
        if !self.memory.init(page_bytes, nr_rows, most, &self.rows) {
            return false;
        }
        self.birth.init(page_bytes);
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

    /// Where `rseq_cs` lies, from the thread pointer.
    pub fn cs_offset(&self) -> usize {
        self.setup.cs_offset.load(Ordering::Relaxed)
    }

    /// Registers the process for [`Platform::fence`]. With one thread this is
    /// cheap, with several it takes milliseconds: the malloc library calls it
    /// from its constructor.
    pub fn prepare_fence(&self) {
        if self.mode() != Mode::Slots {
            self.fence.prepare();
        }
    }

    /// Assumes that the system makes huge pages everywhere (`always`), whatever its setting.
    pub fn assume_huge_pages(&self) {
        self.huge_pages.assume();
    }

    #[cold]
    fn enter_first(&self, thread: &Thread) {
        thread.flags.fetch_or(flags::TRIED, Ordering::Relaxed);
        match self.mode() {
            Mode::Library => {}
            Mode::Own => {
                process::register(thread);
            }
            Mode::Slots => {
                let Some(slot) = self.take_slot() else { return };
                thread.cpu_id.store(slot, Ordering::Relaxed);
                let call = self.on_slot.load(Ordering::Relaxed);
                if call != 0 {
                    // SAFETY: only `on_slot` stores here, a `fn()`.
                    unsafe { core::mem::transmute::<usize, fn()>(call)() };
                }
            }
        }
    }
}

impl<const COUNTS: bool> Default for OnLinux<COUNTS> {
    fn default() -> Self {
        Self::new()
    }
}

fn clock(which: i32) -> [u64; 2] {
    let mut time = [0i64; 2];
    // SAFETY: the buffer has the size of a timespec; the call cannot fail.
    unsafe { clock_gettime(which, &raw mut time) };
    time.map(i64::cast_unsigned)
}

impl<const COUNTS: bool> Platform for OnLinux<COUNTS> {
    #[inline(always)]
    fn has_page_lists(&self) -> bool {
        COUNTS
    }

    const MOST_NODES: usize = if COUNTS { nodes::MOST } else { 1 };

    fn nodes(&self) -> usize {
        self.nodes.len()
    }

    fn node_of_row(&self, row: usize) -> usize {
        self.nodes.of_row(row)
    }

    fn bind(&self, address: usize, bytes: usize, node: usize) {
        may_call(self);
        self.nodes.bind(address, bytes, node);
    }

    fn page_bytes(&self) -> usize {
        self.setup.page_bytes.load(Ordering::Relaxed)
    }

    fn reserve(&self, bytes: usize, align: usize, what: Use) -> Option<usize> {
        self.memory.reserve(self.page_bytes(), bytes, align, what)
    }

    fn commit(&self, address: usize, bytes: usize) -> bool {
        may_call(self);
        !self.is_sealed() && self.memory.commit(address, bytes)
    }

    fn commit_rows(&self, bytes: usize) -> bool {
        may_call(self);
        bytes <= self.rows.row_bytes()
            || !self.is_sealed() && self.memory.commit_rows(&self.rows, bytes)
    }

    fn forget_commit(&self, address: usize, most: usize) {
        may_call(self);
        self.memory.forget_commit(self.page_bytes(), address, most);
    }

    fn touch_ahead(&self, address: usize, bytes: usize) {
        may_call(self);
        if !self.is_sealed() {
            memory::touch_ahead(address, bytes);
        }
    }

    fn give_back(&self, stretches: &mut [Stretch]) {
        may_call(self);
        if self.is_sealed() {
            return stretches.fill(Stretch::NONE);
        }
        memory::give_back(self.page_bytes(), stretches, !self.is_restricted());
    }

    fn has_huge_pages(&self) -> bool {
        may_call(self);
        !self.is_restricted() && self.huge_pages.is_everywhere()
    }

    fn keep_small_pages(&self, address: usize, bytes: usize) {
        if self.is_sealed() {
            return;
        }
        self.memory.keep_small_pages(address, bytes);
    }

    fn allow_huge_pages(&self, address: usize, bytes: usize) {
        may_call(self);
        if !self.is_sealed() {
            huge::allow_huge_pages(address, bytes);
        }
    }

    fn resident(&self, address: usize, bytes: usize) -> usize {
        may_call(self);
        if self.is_restricted() { 0 } else { memory::resident(self.page_bytes(), address, bytes) }
    }

    fn map(&self, bytes: usize, align: usize) -> Option<usize> {
        if self.is_sealed() {
            return None;
        }
        memory::map(self.page_bytes(), bytes, align)
    }

    fn make_fault(&self, address: usize, bytes: usize) {
        if !self.is_sealed() {
            memory::make_fault(address, bytes);
        }
    }

    fn unmap(&self, address: usize, bytes: usize) {
        // It stays, where the system cannot be asked.
        if !self.is_sealed() {
            calls::unmap(address, bytes);
        }
    }

    fn remap(&self, address: usize, old_bytes: usize, new_bytes: usize) -> Option<usize> {
        if self.is_sealed() {
            return None;
        }
        memory::remap(self.page_bytes(), address, old_bytes, new_bytes)
    }

    fn move_out(&self, address: usize, bytes: usize, new_bytes: usize) -> Option<usize> {
        if self.is_sealed() {
            return None;
        }
        memory::move_out(self.page_bytes(), address, bytes, new_bytes)
    }

    fn now_ms(&self) -> u64 {
        const CLOCK_MONOTONIC_COARSE: i32 = 6;
        let [seconds, nanoseconds] = clock(CLOCK_MONOTONIC_COARSE);
        seconds * 1000 + nanoseconds / 1_000_000
    }

    fn now_ns(&self) -> u64 {
        const CLOCK_MONOTONIC: i32 = 1;
        if self.is_sealed() {
            // The coarse clock is never a system call where there is a vDSO (vdso(7)).
            return self.now_ms() * 1_000_000;
        }
        let [seconds, nanoseconds] = clock(CLOCK_MONOTONIC);
        seconds * 1_000_000_000 + nanoseconds
    }

    fn rows(&self) -> &Rows {
        &self.rows
    }

    #[inline]
    fn enter(&self) {
        let thread = rseq::thread();
        if thread.flags.load(Ordering::Relaxed) >= flags::SHARED {
            self.look_for_child();
        }
        if self.mode() == Mode::Library {
            return;
        }
        if thread.flags.load(Ordering::Relaxed) & flags::TRIED == 0 {
            self.enter_first(thread);
        }
    }

    #[inline]
    fn birth(&self) -> &AtomicU32 {
        self.birth.word()
    }

    fn begin_fork(&self) {
        rseq::thread().flags.fetch_or(flags::FORKING, Ordering::Relaxed);
    }

    fn end_fork(&self) {
        rseq::thread().flags.fetch_and(!flags::FORKING, Ordering::Relaxed);
    }

    fn mark_child(&self) {
        rseq::thread().number.store(0, Ordering::Relaxed);
        self.birth.mark_child();
    }

    fn begin_child(&self) {
        self.birth.claim();
        // Its registration for fences is the process's: a child has none.
        if !self.is_restricted() {
            self.fence.forget();
        }
    }

    fn can_stop(&self) -> bool {
        if self.mode() == Mode::Slots {
            return false;
        }
        self.prepare_fence();
        self.fence.is_ready()
    }

    fn fence(&self) -> bool {
        may_call(self);
        if COUNTS && let Some(fences) = self.counts.fences(self.rows.len()) {
            fences.fetch_add(1, Ordering::Relaxed);
        }
        self.fence.make()
    }

    fn row_hint(&self) -> Option<usize> {
        if self.has_left_row() {
            return None;
        }
        // Without a number, below 0, it is beyond all rows.
        let row = rseq::cpu_id(self.cs_offset().wrapping_sub(8)).cast_unsigned() as usize;
        (row < self.rows.len()).then_some(row)
    }

    fn has_private_rows(&self) -> bool {
        self.mode() == Mode::Slots
    }

    fn row_used(&self, row: usize) -> bool {
        self.mode() != Mode::Slots || row < slots::given()
    }

    #[inline]
    fn pop(&self, slot: Slot) -> Option<usize> {
        if self.has_left_row() {
            return None;
        }
        // SAFETY: rows and offset are those of `init`.
        unsafe { rseq::pop(self.rows.base(), slot.offset(), self.cs_offset()) }
    }

    fn fast_path(&self, slot: Slot, pops: &'static AtomicU16) -> FastPath {
        FastPath::new(self.rows.base(), self.cs_offset(), slot, pops)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn pop_inlined(&self, words: &FastPath) -> Option<usize> {
        // SAFETY: rows and offset are those of `init`.
        match unsafe { rseq::pop_inlined(words) } {
            0 => None,
            object => Some(object),
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn push_inlined(&self, words: &FastPath, object: usize) -> bool {
        // SAFETY: as in `pop_inlined`.
        unsafe { rseq::push_inlined(words, object) }
    }

    #[inline]
    fn push(&self, slot: Slot, object: usize) -> bool {
        if self.has_left_row() {
            return false;
        }
        // SAFETY: as in `pop`.
        unsafe { rseq::push(self.rows.base(), slot.offset(), self.cs_offset(), object) }
    }

    #[inline]
    fn push_if(&self, slot: Slot, object: usize) -> bool {
        if self.has_left_row() {
            return false;
        }
        // SAFETY: as above.
        unsafe { rseq::push_if(self.rows.base(), slot.offset(), self.cs_offset(), object) }
    }

    #[inline]
    fn pop_many(&self, slot: Slot, out: &mut [usize]) -> usize {
        if self.has_left_row() {
            return 0;
        }
        // SAFETY: as in `pop`.
        unsafe { rseq::pop_many(self.rows.base(), slot.offset(), self.cs_offset(), out) }
    }

    #[inline]
    fn push_many(&self, slot: Slot, objects: &[usize]) -> usize {
        if self.has_left_row() {
            return 0;
        }
        // SAFETY: as in `pop`.
        unsafe { rseq::push_many(self.rows.base(), slot.offset(), self.cs_offset(), objects) }
    }

    #[inline]
    fn push_many_if(&self, slot: Slot, objects: &[usize]) -> usize {
        if self.has_left_row() {
            return 0;
        }
        // SAFETY: as in `pop`.
        unsafe { rseq::push_many_if(self.rows.base(), slot.offset(), self.cs_offset(), objects) }
    }

    #[inline]
    fn exchange(&self, slot: Slot, new: Stack) -> Result<Stack, Stopped> {
        if self.has_left_row() {
            return Err(Stopped);
        }
        // SAFETY: as in `pop`.
        unsafe { rseq::exchange(self.rows.base(), slot.offset(), self.cs_offset(), new) }
    }

    #[inline]
    fn depth(&self) -> &AtomicU32 {
        &rseq::thread().depth
    }

    #[inline(always)]
    fn frame(&self) -> Option<&AtomicUsize> {
        Some(&rseq::thread().frame)
    }

    fn is_other(&self, at: usize, value: u32) -> bool {
        self.is_other_word(at, value)
    }

    fn is_only_thread(&self) -> bool {
        handlers::is_only_thread()
    }

    fn without_handlers<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        self.while_blocked(f)
    }

    #[inline(always)]
    fn reader(&self) -> &[AtomicUsize; 2] {
        &rseq::thread().reader
    }

    fn on_thread_end(&self, place: &Place) -> bool {
        self.ends_reader(place)
    }

    fn fence_readers(&self) -> bool {
        may_call(self);
        self.fence_all_readers()
    }

    #[inline]
    fn page_refused(&self) {
        if COUNTS {
            self.counts.refusals().fetch_add(1, Ordering::Relaxed);
        }
    }

    #[inline]
    fn drained_all(&self, bytes: usize) {
        if COUNTS {
            self.counts.drained().fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    fn counts_at(&self) -> usize {
        self.counts.base()
    }

    #[inline]
    fn counts(&self) -> bool {
        COUNTS && self.counts.base() != 0
    }

    #[inline]
    fn count(&self, slot: Slot, event: Event) {
        if self.counts() {
            // Without a row the thread counts at the first.
            self.counts.add(self.row_hint().unwrap_or(0), slot, event);
        }
    }

    unsafe fn read_word(&self, address: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe { *(address as *const usize) }
    }

    unsafe fn write_word(&self, address: usize, word: usize) {
        // SAFETY: the caller's promise.
        unsafe { *(address as *mut usize) = word };
    }

    unsafe fn fill(&self, address: usize, bytes: usize, value: u8) {
        // SAFETY: the caller's promise.
        unsafe { (address as *mut u8).write_bytes(value, bytes) };
    }

    unsafe fn first_other(&self, address: usize, bytes: usize, value: u8) -> Option<(usize, u8)> {
        // SAFETY: the caller's promise.
        unsafe { bytes::first_other(address, bytes, value) }
    }

    #[inline]
    unsafe fn word_in_slab(&self, address: usize) -> &AtomicU64 {
        // SAFETY: the caller's promise.
        unsafe { &*(address as *const AtomicU64) }
    }
}
