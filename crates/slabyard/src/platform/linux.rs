//! Linux: rows by restartable sequences, or private slots.
//!
//! Three modes, one fast path: what differs is where the field `rseq_cs` and the
//! CPU number in front of it lie.
//!
//! 1. The area that the C library registered (`__rseq_offset`).
//! 2. Our own registration of the thread block's area, made by each thread at
//!    its first slow path.
//! 3. Private slots: the block's CPU number is a slot that belongs to the thread
//!    until it ends; nothing is fenced and nobody can be stopped.
//!
//! Rows are told apart by the CPU number and not by the denser `mm_cid`: a
//! thread whose registration failed has the CPU number -2, which leads to a row
//! of zeros, but the `mm_cid` 0, which leads to somebody's row.

use super::rseq::{self, Thread, flags};
use super::stack::{ROW_BYTES, Rows, Slot, Stack, Stopped, ZERO_ROWS, ZERO_ROWS_AT};
use super::{GRANULE, Park, Platform, Use, sys};
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Once, Ordering};

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

/// Rows kept for private slots; further threads take slow paths only.
const MAX_SLOTS: usize = 512;
/// Address space for the places of stacks: 60 000 sheaves; under a limit of
/// address space a 64th of it, and 1000 sheaves at least.
const MOST_PLACES: usize = 128 << 20;
const LEAST_PLACES: usize = 2 << 20;

const PROT_NONE: usize = 0;
const PROT_READ: usize = 1;
const PROT_RW: usize = 3;
const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
const MAP_NORESERVE: usize = 0x4000;
const MADV_DONTNEED: usize = 4;
const MADV_DONTDUMP: usize = 16;
const MADV_DODUMP: usize = 17;

const MEMBARRIER_PRIVATE_EXPEDITED_RSEQ: usize = 1 << 7;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED_RSEQ: usize = 1 << 8;

const NOT_READY: u32 = 0;
const REGISTERED: u32 = 1;

/// The platform of a real process.
pub struct Linux {
    rows: Rows,
    setup: Once<Setup>,
    membarrier: AtomicU32,
    /// Private slots in use, one bit each.
    slots: [AtomicU64; MAX_SLOTS / 64],
    /// Called when a thread got a private slot (the malloc library sets a key of
    /// the C library, whose destructor gives the slot back).
    on_slot: AtomicUsize,
}

#[derive(Clone, Copy)]
struct Setup {
    mode: Mode,
    /// Offset of `rseq_cs` from the thread pointer.
    cs_offset: usize,
    page_bytes: usize,
}

unsafe extern "C" {
    fn getauxval(kind: usize) -> usize;
    fn getrlimit(what: i32, limits: *mut [usize; 2]) -> i32;
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
}

impl Linux {
    /// A platform that is not ready yet.
    #[must_use]
    pub const fn new() -> Self {
        Linux {
            rows: Rows::new(),
            setup: Once::new(),
            membarrier: AtomicU32::new(NOT_READY),
            slots: [const { AtomicU64::new(0) }; MAX_SLOTS / 64],
            on_slot: AtomicUsize::new(0),
        }
    }

    /// Finds the mode, or takes the wanted one if it is possible, and makes the
    /// rows. False if there is no memory for them. Call it once.
    pub fn init(&self, wanted: Option<Mode>) -> bool {
        let (mode, cs_offset) = choose(wanted);
        // SAFETY: a plain call of the C library.
        let page_bytes = unsafe { getauxval(6) }.max(GRANULE);
        let setup = Setup { mode, cs_offset, page_bytes };
        self.setup.set(setup);
        let nr_rows = match mode {
            Mode::Library | Mode::Own => possible_cpus(),
            Mode::Slots => MAX_SLOTS,
        };
        let rows = (nr_rows * ROW_BYTES).next_multiple_of(page_bytes);
        let mut places = (address_limit() / 64).clamp(LEAST_PLACES, MOST_PLACES);
        places = places.next_multiple_of(page_bytes);
        // A page that is never written, so that the mapping that can be written begins
        // with the front, whoever maps memory below; the front; rows; places.
        let base = loop {
            match reserve_rows(2 * page_bytes, rows + places) {
                Some(base) => break base,
                None if places > LEAST_PLACES => {
                    places = (places / 2).next_multiple_of(page_bytes);
                }
                None => return false,
            }
        };
        let front = base - page_bytes;
        if !self.commit(front, page_bytes + rows) {
            return false;
        }
        // SAFETY: reserved and committed above, for ever.
        unsafe { self.rows.set(front, base, nr_rows, (base + rows, places)) };
        true
    }

    /// The mode found by [`Linux::init`].
    pub fn mode(&self) -> Mode {
        self.setup.get().mode
    }

    /// Where `rseq_cs` lies, from the thread pointer.
    pub fn cs_offset(&self) -> usize {
        self.setup.get().cs_offset
    }

    /// Registers the process for [`Platform::fence`]. With one thread this is
    /// cheap, with several it takes milliseconds: the malloc library calls it
    /// from its constructor.
    pub fn prepare_fence(&self) {
        if self.mode() == Mode::Slots || self.membarrier.load(Ordering::Relaxed) == REGISTERED {
            return;
        }
        // SAFETY: no memory is passed.
        let done = unsafe {
            sys::call(sys::MEMBARRIER, [MEMBARRIER_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0, 0, 0, 0])
        };
        if done == 0 {
            self.membarrier.store(REGISTERED, Ordering::Relaxed);
        }
    }

    /// In the child of a fork: registrations are asked for anew.
    pub fn after_fork(&self) {
        self.membarrier.store(NOT_READY, Ordering::Relaxed);
    }

    /// Sets what is called when a thread got a private slot.
    pub fn on_slot(&self, call: fn()) {
        self.on_slot.store(call as usize, Ordering::Relaxed);
    }

    /// Gives this thread's private slot back: its row must be empty. The thread
    /// takes slow paths from now on.
    pub fn give_slot_back(&self) {
        let thread = rseq::thread();
        if self.mode() != Mode::Slots {
            return;
        }
        let slot = thread.cpu_id.swap(u32::MAX, Ordering::Relaxed);
        thread.flags.fetch_or(flags::TRIED | flags::EXITED, Ordering::Relaxed);
        self.free_slot(slot as usize);
    }

    /// After a fork, in the child: slots of threads that are not there any more.
    /// Their rows keep their objects until [`Linux::forget_slots`].
    pub fn foreign_slots(&self) -> impl Iterator<Item = usize> + '_ {
        let mine = rseq::thread().cpu_id.load(Ordering::Relaxed) as usize;
        (0..MAX_SLOTS).filter(move |slot| {
            self.mode() == Mode::Slots
                && *slot != mine
                && self.slots[slot / 64].load(Ordering::Relaxed) >> (slot % 64) & 1 == 1
        })
    }

    /// Frees the slot `slot` of a thread that is gone.
    pub fn free_slot(&self, slot: usize) {
        if let Some(word) = self.slots.get(slot / 64) {
            // Release: the next owner's Acquire sees the row as it was left.
            word.fetch_and(!(1 << (slot % 64)), Ordering::Release);
        }
    }

    fn take_slot(&self) -> Option<u32> {
        for (i, word) in self.slots.iter().enumerate() {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != u64::MAX {
                let bit = bits.trailing_ones();
                // Acquire pairs with the Release in `free_slot`.
                match word.compare_exchange_weak(
                    bits,
                    bits | 1 << bit,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => return Some(i as u32 * 64 + bit),
                    Err(seen) => bits = seen,
                }
            }
        }
        None
    }

    #[cold]
    fn enter_first(&self, thread: &Thread) {
        thread.flags.fetch_or(flags::TRIED, Ordering::Relaxed);
        match self.mode() {
            Mode::Library => {}
            Mode::Own => {
                register(thread);
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

impl Default for Linux {
    fn default() -> Self {
        Self::new()
    }
}

/// Registers this thread's own area; false if the kernel refuses.
fn register(thread: &Thread) -> bool {
    let area = core::ptr::from_ref(thread) as usize;
    // SAFETY: the area is 32 bytes, aligned, and lives as long as its thread.
    unsafe { sys::call(sys::RSEQ, [area, 32, 0, rseq::SIGNATURE as usize, 0, 0]) == 0 }
}

fn choose(wanted: Option<Mode>) -> (Mode, usize) {
    const CS: usize = 8;
    let own = rseq::thread_offset() + CS;
    let library = rseq::library_area().filter(|offset| rseq::cpu_id(*offset) >= 0);
    if let (Some(offset), None | Some(Mode::Library)) = (library, wanted) {
        return (Mode::Library, offset.wrapping_add(CS));
    }
    let sequences = cfg!(target_arch = "x86_64");
    if wanted != Some(Mode::Slots) && library.is_none() && sequences {
        let thread = rseq::thread();
        if register(thread) {
            thread.flags.fetch_or(flags::TRIED, Ordering::Relaxed);
            return (Mode::Own, own);
        }
    }
    (Mode::Slots, own)
}

/// What `ulimit -v` allows, in bytes.
fn address_limit() -> usize {
    const RLIMIT_AS: i32 = 9;
    let mut limits = [usize::MAX; 2];
    // SAFETY: the buffer has the size of a struct rlimit.
    unsafe { getrlimit(RLIMIT_AS, &raw mut limits) };
    limits[0]
}

fn clock(which: i32) -> [u64; 2] {
    let mut time = [0i64; 2];
    // SAFETY: the buffer has the size of a timespec; the call cannot fail.
    unsafe { clock_gettime(which, &raw mut time) };
    time.map(i64::cast_unsigned)
}

/// Number of CPUs that may ever be there: the kernel's CPU numbers lie below.
fn possible_cpus() -> usize {
    let mut buffer = [0u8; 256];
    let text = sys::read_file(c"/sys/devices/system/cpu/possible", &mut buffer);
    let last = text.and_then(|text| {
        let digits = text.split(|c| !c.is_ascii_digit()).rfind(|d| !d.is_empty())?;
        Some(digits.iter().fold(0usize, |n, c| n * 10 + (c - b'0') as usize))
    });
    // Without sysfs: as many as the kernel's masks have on the largest machines.
    last.map_or(8192, |last| last + 1)
}

impl Park for Linux {
    fn wait(&self, word: &AtomicU32, value: u32) {
        const FUTEX_WAIT_PRIVATE: usize = 128;
        let address = word.as_ptr() as usize;
        // SAFETY: the word lives while we borrow it.
        unsafe { sys::call(sys::FUTEX, [address, FUTEX_WAIT_PRIVATE, value as usize, 0, 0, 0]) };
    }

    fn wake(&self, word: &AtomicU32) {
        const FUTEX_WAKE_PRIVATE: usize = 129;
        // SAFETY: as above; waking needs no memory.
        unsafe { sys::call(sys::FUTEX, [word.as_ptr() as usize, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0]) };
    }

    fn held(&self) -> &AtomicU32 {
        &rseq::thread().held
    }
}

/// Reserves rows, and bytes before them, at an address from which the rows of zeros can
/// be reached too: the address of row 0.
fn reserve_rows(before: usize, rows: usize) -> Option<usize> {
    const MAP_FIXED_NOREPLACE: usize = 0x10_0000;
    const ZEROS: usize = ZERO_ROWS * ROW_BYTES;
    let unmap = |address, bytes| {
        // SAFETY: a mapping made below, which nobody uses.
        unsafe { sys::call(sys::MUNMAP, [address, bytes, 0, 0, 0, 0]) };
    };
    let (mut hint, bytes) = (0, before + rows);
    for _ in 0..64 {
        let first = mmap_at(hint, bytes, PROT_READ, MAP_NORESERVE)?;
        let base = first + before;
        // SAFETY: our own fresh mapping.
        unsafe { sys::call(sys::MADVISE, [first, bytes, MADV_DONTDUMP, 0, 0, 0]) };
        if !cfg!(target_arch = "x86_64") {
            return Some(base);
        }
        let wanted = base + ZERO_ROWS_AT;
        match mmap_at(wanted, ZEROS, PROT_READ, MAP_FIXED_NOREPLACE) {
            Some(zeros) if zeros == wanted => return Some(base),
            // A kernel before 4.17 takes the address as a hint.
            Some(elsewhere) => unmap(elsewhere, ZEROS),
            None => {}
        }
        unmap(first, bytes);
        hint = first.saturating_sub(3 << 30);
    }
    None
}

fn ok_address(result: isize) -> Option<usize> {
    // Errors are -4095 to -1.
    (!(-4095..0).contains(&result)).then_some(result as usize)
}

fn mmap(bytes: usize, protection: usize, extra: usize) -> Option<usize> {
    mmap_at(0, bytes, protection, extra)
}

fn mmap_at(at: usize, bytes: usize, protection: usize, extra: usize) -> Option<usize> {
    let arguments = [at, bytes, protection, MAP_PRIVATE_ANONYMOUS | extra, usize::MAX, 0];
    // SAFETY: a fresh private mapping touches nothing that exists.
    ok_address(unsafe { sys::call(sys::MMAP, arguments) })
}

/// Maps with alignment by cutting the ends off a larger mapping.
fn mmap_aligned(
    bytes: usize,
    align: usize,
    page: usize,
    protection: usize,
    extra: usize,
) -> Option<usize> {
    if align <= page {
        return mmap(bytes, protection, extra);
    }
    let total = bytes.checked_add(align)?;
    let start = mmap(total, protection, extra)?;
    let aligned = start.next_multiple_of(align);
    let (head, tail) = (aligned - start, start + total - (aligned + bytes));
    // SAFETY: both ends belong to the mapping just made.
    unsafe {
        if head > 0 {
            sys::call(sys::MUNMAP, [start, head, 0, 0, 0, 0]);
        }
        if tail > 0 {
            sys::call(sys::MUNMAP, [aligned + bytes, tail, 0, 0, 0, 0]);
        }
    }
    Some(aligned)
}

impl Platform for Linux {
    fn page_bytes(&self) -> usize {
        self.setup.get().page_bytes
    }

    fn reserve(&self, bytes: usize, align: usize, what: Use) -> Option<usize> {
        // Neither is charged: one cannot be touched, the other not be written.
        let protection = match what {
            Use::Arena => PROT_NONE,
            Use::Table => PROT_READ,
        };
        let address = mmap_aligned(bytes, align, self.page_bytes(), protection, MAP_NORESERVE)?;
        // SAFETY: our own fresh mapping.
        unsafe { sys::call(sys::MADVISE, [address, bytes, MADV_DONTDUMP, 0, 0, 0]) };
        Some(address)
    }

    fn commit(&self, address: usize, bytes: usize) -> bool {
        // SAFETY: a part of our own reservation.
        unsafe {
            if sys::call(sys::MPROTECT, [address, bytes, PROT_RW, 0, 0, 0]) != 0 {
                return false;
            }
            // Metadata and objects belong in core files.
            sys::call(sys::MADVISE, [address, bytes, MADV_DODUMP, 0, 0, 0]);
        }
        true
    }

    fn give_back(&self, address: usize, bytes: usize) {
        // SAFETY: committed pages of ours that hold no object.
        unsafe { sys::call(sys::MADVISE, [address, bytes, MADV_DONTNEED, 0, 0, 0]) };
    }

    fn map(&self, bytes: usize, align: usize) -> Option<usize> {
        mmap_aligned(bytes, align, self.page_bytes(), PROT_RW, 0)
    }

    fn unmap(&self, address: usize, bytes: usize) {
        // SAFETY: the caller owns this mapping.
        unsafe { sys::call(sys::MUNMAP, [address, bytes, 0, 0, 0, 0]) };
    }

    fn remap(&self, address: usize, old_bytes: usize, new_bytes: usize) -> Option<usize> {
        const MREMAP_MAYMOVE: usize = 1;
        // SAFETY: the caller owns this mapping.
        ok_address(unsafe {
            sys::call(sys::MREMAP, [address, old_bytes, new_bytes, MREMAP_MAYMOVE, 0, 0])
        })
    }

    fn now_ms(&self) -> u64 {
        const CLOCK_MONOTONIC_COARSE: i32 = 6;
        let [seconds, nanoseconds] = clock(CLOCK_MONOTONIC_COARSE);
        seconds * 1000 + nanoseconds / 1_000_000
    }

    fn now_ns(&self) -> u64 {
        const CLOCK_MONOTONIC: i32 = 1;
        let [seconds, nanoseconds] = clock(CLOCK_MONOTONIC);
        seconds * 1_000_000_000 + nanoseconds
    }

    fn rows(&self) -> &Rows {
        &self.rows
    }

    #[inline]
    fn enter(&self) {
        if self.mode() == Mode::Library {
            return;
        }
        let thread = rseq::thread();
        if thread.flags.load(Ordering::Relaxed) & flags::TRIED == 0 {
            self.enter_first(thread);
        }
    }

    fn can_stop(&self) -> bool {
        if self.mode() == Mode::Slots {
            return false;
        }
        self.prepare_fence();
        self.membarrier.load(Ordering::Relaxed) == REGISTERED
    }

    fn fence(&self) {
        // SAFETY: no memory is passed. Without a CPU, all that run our threads.
        let done = unsafe {
            sys::call(sys::MEMBARRIER, [MEMBARRIER_PRIVATE_EXPEDITED_RSEQ, 0, 0, 0, 0, 0])
        };
        debug_assert!(done == 0, "membarrier: {done}");
    }

    fn row_hint(&self) -> Option<usize> {
        let id = rseq::cpu_id(self.cs_offset().wrapping_sub(8));
        usize::try_from(id).ok().filter(|row| *row < self.rows.len())
    }

    fn row_used(&self, row: usize) -> bool {
        self.mode() != Mode::Slots
            || self.slots[row / 64].load(Ordering::Relaxed) >> (row % 64) & 1 == 1
    }

    #[inline]
    fn pop(&self, slot: Slot) -> Option<usize> {
        // SAFETY: rows and offset are those of `init`.
        unsafe { rseq::pop(self.rows.base(), slot.offset(), self.cs_offset()) }
    }

    #[inline]
    fn push(&self, slot: Slot, object: usize) -> bool {
        // SAFETY: as in `pop`.
        unsafe { rseq::push(self.rows.base(), slot.offset(), self.cs_offset(), object) }
    }

    #[inline]
    fn exchange(&self, slot: Slot, new: Stack) -> Result<Stack, Stopped> {
        // SAFETY: as in `pop`.
        unsafe { rseq::exchange(self.rows.base(), slot.offset(), self.cs_offset(), new) }
    }

    #[inline]
    fn depth(&self) -> &AtomicU32 {
        &rseq::thread().depth
    }

    unsafe fn read_word(&self, address: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe { *(address as *const usize) }
    }

    unsafe fn write_word(&self, address: usize, word: usize) {
        // SAFETY: the caller's promise.
        unsafe { *(address as *mut usize) = word };
    }
}
