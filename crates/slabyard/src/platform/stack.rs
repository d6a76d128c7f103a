//! The one structure that assembly touches: a bounded stack in 16 bytes.
//!
//! ```text
//! row (one a CPU, 4096 bytes)          entry (16 bytes)
//! +--------+--------+-- - --+          0        4          8            16
//! | slot 0 | slot 1 |  255  |          +--------+----------+------------+
//! +--------+--------+-- - --+          | count  | capacity | objects    |
//!                                      +--------+----------+------------+
//! ```
//!
//! Invariants:
//! * `count` is -1 (stopped) or between 0 and the number of objects behind `objects`;
//! * an entry of zeros is empty and full at once: every call takes the slow path;
//! * slot 0 is zeros for ever: it is what the page map says of a page that is no slab;
//! * two rows of zeros lie [`ZERO_ROWS_AT`] from row 0: they belong to the
//!   CPU numbers -1 (no sequence registered) and -2 (registration failed);
//! * `objects[-1]` is readable and never equal to an object's address.
//!
//! Only the owner (the CPU, or the thread whose private slot the row is)
//! changes an entry, by one committing store; anybody may set `capacity` to 0
//! or mark an entry as stopped ([`super::Platform::stop`]).

use crate::sync::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

/// Entries in a row.
pub const SLOTS: usize = 256;
/// Bytes of a row: the sequences shift the CPU number by 12.
pub const ROW_BYTES: usize = SLOTS * 16;
/// Where the rows of zeros lie, from row 0. The sequences multiply the CPU number
/// in 32 bits, by one instruction, so that -2 and -1 lead here.
pub const ZERO_ROWS_AT: usize = (1 << 32) - ZERO_ROWS * ROW_BYTES;
/// Rows of zeros.
pub const ZERO_ROWS: usize = 2;

/// Number of an entry within its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub u16);

impl Slot {
    /// Bytes from the row's begin: what the tables of the fast path hold.
    #[inline]
    #[must_use]
    pub const fn offset(self) -> usize {
        self.0 as usize * 16
    }
}

/// The stack was stopped, or the thread has no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// The value of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Stack {
    /// Objects in it.
    pub count: u32,
    /// Objects that may be in it before a push takes the slow path.
    pub capacity: u32,
    /// Address of the first object's place; 0 if there is no stack.
    pub objects: usize,
}

impl Stack {
    /// No stack: every call takes the slow path.
    pub const NONE: Stack = Stack { count: 0, capacity: 0, objects: 0 };
}

/// A stack in its row.
#[repr(C, align(16))]
pub struct Entry {
    count: AtomicI32,
    capacity: AtomicU32,
    objects: AtomicUsize,
}

const STOPPED: i32 = -1;

impl Entry {
    /// Objects in the stack as last stored; -1 if it is stopped.
    #[inline]
    pub fn count(&self) -> i32 {
        self.count.load(Ordering::Relaxed)
    }

    /// Capacity as last stored.
    #[inline]
    pub fn capacity(&self) -> u32 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Where the objects lie. Stable only while the stack is stopped.
    #[inline]
    pub fn objects(&self) -> usize {
        self.objects.load(Ordering::Relaxed)
    }

    /// Sends the next push to the slow path. A lost race with the owner's
    /// exchange loses the request, nothing else.
    #[inline]
    pub fn ask(&self) {
        self.capacity.store(0, Ordering::Relaxed);
    }

    pub(crate) fn mark_stopped(&self) -> i32 {
        self.count.swap(STOPPED, Ordering::AcqRel)
    }

    /// True while the stack is stopped.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.count() == STOPPED
    }

    /// Gives a stopped stack back to its owner with `count` objects in it.
    pub fn start(&self, count: u32) {
        // Release: the owner's plain load of `count` sees the objects below it
        // (on x86-64 all loads acquire; the machine's are ordered by its lock).
        self.count.store(count.cast_signed(), Ordering::Release);
    }

    /// Plain replacement by the owner of a private row.
    ///
    /// # Errors
    /// [`Stopped`] if it is stopped.
    pub(crate) fn replace(&self, new: Stack) -> Result<Stack, Stopped> {
        let old = self.load();
        if self.is_stopped() {
            return Err(Stopped);
        }
        self.objects.store(new.objects, Ordering::Relaxed);
        self.capacity.store(new.capacity, Ordering::Relaxed);
        self.count.store(new.count.cast_signed(), Ordering::Release);
        Ok(old)
    }

    pub(super) fn load(&self) -> Stack {
        Stack {
            count: self.count().cast_unsigned(),
            capacity: self.capacity(),
            objects: self.objects(),
        }
    }

    /// Plain pop by the owner: load, then `commit`.
    #[cfg_attr(target_arch = "x86_64", allow(dead_code))]
    pub(super) fn peek(&self) -> Option<(usize, u32)> {
        let left = self.count().checked_sub(1).filter(|n| *n >= 0)?;
        let place = self.objects() + left as usize * 8;
        // SAFETY: below `count` every place holds an object (module head), and
        // the objects of a stack stay mapped.
        let object = unsafe { &*(place as *const AtomicUsize) }.load(Ordering::Relaxed);
        Some((object, left.cast_unsigned()))
    }

    #[cfg_attr(target_arch = "x86_64", allow(dead_code))]
    /// Plain push by the owner, up to the committing store: writes the object's
    /// place and tells the new count.
    pub(super) fn place(&self, object: usize) -> Option<u32> {
        let count = self.count().cast_unsigned();
        if count >= self.capacity() {
            return None;
        }
        let place = self.objects() + count as usize * 8;
        // SAFETY: below `capacity` every place is ours to write, and the word in
        // front of the first one is readable (module head).
        let (place, top) =
            unsafe { (&*(place as *const AtomicUsize), &*((place - 8) as *const AtomicUsize)) };
        if top.load(Ordering::Relaxed) == object {
            return None;
        }
        place.store(object, Ordering::Relaxed);
        Some(count + 1)
    }

    #[cfg_attr(target_arch = "x86_64", allow(dead_code))]
    pub(super) fn commit(&self, count: u32) {
        self.count.store(count.cast_signed(), Ordering::Release);
    }
}

/// All rows of a platform.
pub struct Rows {
    base: AtomicUsize,
    count: AtomicUsize,
}

impl Rows {
    /// No rows yet.
    #[must_use]
    pub const fn new() -> Self {
        Rows { base: AtomicUsize::new(0), count: AtomicUsize::new(0) }
    }

    /// Sets the rows: `base` is the address of row 0.
    ///
    /// # Safety
    /// `count` rows from `base` are zeroed memory that stays for ever and is
    /// changed through [`Entry`] and the sequences only.
    pub unsafe fn set(&self, base: usize, count: usize) {
        self.base.store(base, Ordering::Relaxed);
        self.count.store(count, Ordering::Release);
    }

    /// Address of row 0.
    #[inline]
    pub fn base(&self) -> usize {
        self.base.load(Ordering::Relaxed)
    }

    /// Number of rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// True before [`Rows::set`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One entry.
    ///
    /// # Panics
    /// If there is no such row or slot.
    #[inline]
    pub fn entry(&self, row: usize, slot: Slot) -> &Entry {
        assert!(row < self.len() && (slot.0 as usize) < SLOTS);
        // SAFETY: inside the rows that `set` was promised.
        unsafe { &*((self.base() + row * ROW_BYTES + slot.offset()) as *const Entry) }
    }
}

impl Default for Rows {
    fn default() -> Self {
        Self::new()
    }
}
