//! The contract ([`Platform`]) on Linux, part by part: each function, by what the other files have.
//!
//! Neighbour: [`super`] has the state and finds out what there is.
//! Invariant: once the process is sealed, no system call about memory is made.

use super::mode::Mode;
use super::on_linux::{Counting, OnLinux};
use super::{bytes, calls, handlers, huge, memory, nodes, slots};
use crate::platform::reader::ReaderSlot;
use crate::platform::rseq::{self, flags};
use crate::platform::stack::{Rows, Slot, Stack, Stopped};
use crate::platform::{
    Advice, Counts, Event, FastPath, Memory, ObjectMemory, PerCpu, Platform, Stretch, Takes,
    ThreadWords, Threads, Time, Use,
};
use crate::sync::lock::may_call;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
}

fn clock(which: i32) -> [u64; 2] {
    let mut time = [0i64; 2];
    // SAFETY: the buffer has the size of a timespec; the call cannot fail.
    unsafe { clock_gettime(which, &raw mut time) };
    time.map(i64::cast_unsigned)
}

impl<C: Counting> Memory for OnLinux<C> {
    const MOST_NODES: usize = if C::COUNTS { nodes::MOST } else { 1 };

    fn nodes(&self) -> usize {
        self.nodes.len()
    }

    fn node_of_row(&self, row: usize) -> usize {
        self.nodes.of_row(row)
    }

    fn page_bytes(&self) -> usize {
        self.setup.page_bytes.load(Ordering::Relaxed)
    }

    fn reserve(&self, bytes: usize, align: usize, what: Use) -> Option<usize> {
        self.reservations.reserve(self.page_bytes(), bytes, align, what)
    }

    fn commit(&self, address: usize, bytes: usize) -> bool {
        may_call(self);
        !self.is_sealed() && self.reservations.commit(address, bytes)
    }

    fn forget_commit(&self, address: usize, most: usize) {
        may_call(self);
        self.reservations.forget_commit(self.page_bytes(), address, most);
    }

    fn advise(&self, address: usize, bytes: usize, advice: Advice) {
        may_call(self);
        if self.is_sealed() {
            return;
        }
        match advice {
            Advice::WrittenSoon => memory::touch_ahead(address, bytes),
            // Where the system makes no huge page of what did not ask for them, no call is needed.
            Advice::SmallPages if self.is_restricted() || self.has_huge_pages() => {
                self.reservations.keep_small_pages(address, bytes);
            }
            Advice::SmallPages => (),
            Advice::HugePages => huge::allow_huge_pages(address, bytes),
            Advice::Node(node) => self.nodes.bind(address, bytes, node),
            Advice::NoAccess => memory::make_fault(address, bytes),
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
}

impl<C: Counting> ObjectMemory for OnLinux<C> {
    #[inline]
    unsafe fn word(&self, address: usize) -> &AtomicU64 {
        // SAFETY: the caller's promise.
        unsafe { &*(address as *const AtomicU64) }
    }

    unsafe fn fill(&self, address: usize, bytes: usize, value: u8) {
        // SAFETY: the caller's promise.
        unsafe { (address as *mut u8).write_bytes(value, bytes) };
    }

    unsafe fn first_other(&self, address: usize, bytes: usize, value: u8) -> Option<(usize, u8)> {
        // SAFETY: the caller's promise.
        unsafe { bytes::first_other(address, bytes, value) }
    }
}

impl<C: Counting> PerCpu for OnLinux<C> {
    fn rows(&self) -> &Rows {
        &self.rows
    }

    fn commit_rows(&self, bytes: usize) -> bool {
        may_call(self);
        bytes <= self.rows.row_bytes()
            || !self.is_sealed() && self.reservations.commit_rows(&self.rows, bytes)
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

    fn row_hint(&self) -> Option<usize> {
        if self.has_left_row() {
            return None;
        }
        // Without a number, below 0, it is beyond all rows.
        let row = rseq::cpu_id(self.rows.cs_offset().wrapping_sub(8)).cast_unsigned() as usize;
        (row < self.rows.len()).then_some(row)
    }

    fn rows_used(&self) -> usize {
        let rows = self.rows.len();
        if self.mode() == Mode::Slots { slots::given().min(rows) } else { rows }
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
        if C::COUNTS
            && let Some(fences) = self.counts.fences(self.rows.len())
        {
            fences.fetch_add(1, Ordering::Relaxed);
        }
        self.fence.make()
    }

    #[inline]
    fn pop(&self, slot: Slot) -> Option<usize> {
        if self.has_left_row() {
            return None;
        }
        // SAFETY: rows and offset are those of `init`.
        unsafe { rseq::pop(self.rows.base(), slot.offset(), self.rows.cs_offset()) }
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

    #[inline(always)]
    fn push(&self, slot: Slot, object: usize, takes: Takes) -> bool {
        if self.has_left_row() {
            return false;
        }
        let (rows, slot, cs_offset) = (self.rows.base(), slot.offset(), self.rows.cs_offset());
        // SAFETY: as in `pop`.
        unsafe {
            match takes {
                Takes::Each => rseq::push(rows, slot, cs_offset, object),
                Takes::Tagged => rseq::push_if(rows, slot, cs_offset, object),
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn push_inlined(&self, words: &FastPath, object: usize) -> bool {
        // SAFETY: as in `pop_inlined`.
        unsafe { rseq::push_inlined(words, object) }
    }

    #[inline]
    fn pop_many(&self, slot: Slot, out: &mut [usize]) -> usize {
        if self.has_left_row() {
            return 0;
        }
        // SAFETY: as in `pop`.
        unsafe { rseq::pop_many(self.rows.base(), slot.offset(), self.rows.cs_offset(), out) }
    }

    #[inline]
    fn push_many(&self, slot: Slot, objects: &[usize], takes: Takes) -> usize {
        if self.has_left_row() {
            return 0;
        }
        let (rows, slot, cs_offset) = (self.rows.base(), slot.offset(), self.rows.cs_offset());
        // SAFETY: as in `pop`.
        unsafe {
            match takes {
                Takes::Each => rseq::push_many(rows, slot, cs_offset, objects),
                Takes::Tagged => rseq::push_many_if(rows, slot, cs_offset, objects),
            }
        }
    }

    #[inline(always)]
    fn exchange(&self, slot: Slot, new: Stack) -> Result<Stack, Stopped> {
        if self.has_left_row() {
            return Err(Stopped);
        }
        // SAFETY: as in `pop`.
        unsafe { rseq::exchange(self.rows.base(), slot.offset(), self.rows.cs_offset(), new) }
    }
}

impl<C: Counting> Threads for OnLinux<C> {
    const HAS_MARKS: bool = true;

    #[inline(always)]
    fn thread(&self) -> &ThreadWords {
        &rseq::thread().own
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

    fn on_thread_end(&self, place: &ReaderSlot) -> bool {
        self.readers.ends(place)
    }

    fn fence_readers(&self) -> bool {
        may_call(self);
        self.readers.fence_all()
    }
}

impl<C: Counting> Time for OnLinux<C> {
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
}

impl<C: Counting> Counts for OnLinux<C> {
    #[inline]
    fn counts(&self) -> bool {
        C::COUNTS && self.counts.base() != 0
    }

    #[inline]
    fn count(&self, slot: Slot, event: Event) {
        if self.counts() {
            // Without a row the thread counts at the first.
            self.counts.add(self.row_hint().unwrap_or(0), slot, event);
        }
    }

    #[inline]
    fn page_refused(&self) {
        if C::COUNTS {
            self.counts.refusals().fetch_add(1, Ordering::Relaxed);
        }
    }

    #[inline]
    fn drained_all(&self, bytes: usize) {
        if C::COUNTS {
            self.counts.drained().fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    fn counts_at(&self) -> usize {
        self.counts.base()
    }
}

impl<C: Counting> Platform for OnLinux<C> {
    const HAS_PAGE_LISTS: bool = C::COUNTS;
}
