//! A table of metadata at a fixed address: reserved whole, committed as it grows.

use crate::memory::round_up;
use crate::reader::ReaderSlot;
use crate::sync::{AtomicU16, AtomicU64, AtomicUsize, Ordering, fetch_to_write};
use crate::{Advice, Platform, Stretch, Use};
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

/// Types whose zeroed bytes are a value, and which are shared between threads.
///
/// # Safety
/// As said; and the type has no destructor.
pub unsafe trait Zeroed: Sync {}

// SAFETY: plain atomic numbers.
unsafe impl Zeroed for AtomicU16 {}
// SAFETY: as above.
unsafe impl Zeroed for AtomicU64 {}
// SAFETY: as above.
unsafe impl Zeroed for AtomicUsize {}
// SAFETY: as above.
unsafe impl Zeroed for ReaderSlot {}

/// Room for a value of a table that is written when it is needed, and may be written again.
#[repr(transparent)]
pub struct Room<T>(UnsafeCell<MaybeUninit<T>>);

// SAFETY: room without a value has any bytes; `put` and `get` say who may use the value.
unsafe impl<T: Send + Sync> Zeroed for Room<T> {}
// SAFETY: as above; a value may be written by another thread than reads it.
unsafe impl<T: Send + Sync> Sync for Room<T> {}

impl<T> Room<T> {
    /// Writes a value. The one before, if there was one, is not dropped.
    ///
    /// # Safety
    /// No other thread uses the value before, or reads this one before it is published.
    pub unsafe fn put(&self, value: T) {
        // SAFETY: the caller's promise.
        unsafe { (*self.0.get()).write(value) };
    }

    /// Changes a value.
    ///
    /// # Safety
    /// One was written, and it is not published yet.
    pub unsafe fn change(&self, f: impl FnOnce(&mut T)) {
        // SAFETY: the caller's promise.
        f(unsafe { (*self.0.get()).assume_init_mut() });
    }

    /// The value.
    ///
    /// # Safety
    /// One was written.
    #[inline]
    pub unsafe fn get(&self) -> &T {
        // SAFETY: the caller's promise.
        unsafe { (*self.0.get()).assume_init_ref() }
    }
}

/// The least that is committed at once, in bytes.
const STEP: usize = 64 << 10;

/// A growing array at a fixed address.
pub struct Table<T> {
    base: AtomicUsize,
    /// Items that may be read and written.
    ready: AtomicUsize,
    committed_bytes: AtomicUsize,
    reserved_bytes: AtomicUsize,
    item: PhantomData<fn() -> T>,
}

impl<T: Zeroed> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Zeroed> Table<T> {
    /// No table yet.
    pub const fn new() -> Self {
        Table {
            base: AtomicUsize::new(0),
            ready: AtomicUsize::new(0),
            committed_bytes: AtomicUsize::new(0),
            reserved_bytes: AtomicUsize::new(0),
            item: PhantomData,
        }
    }

    /// Reserves room for `capacity` items.
    pub fn reserve<P: Platform>(&self, p: &P, capacity: usize) -> bool {
        let page = p.page_bytes();
        let bytes = round_up(capacity * size_of::<T>(), page);
        let Some(base) = p.reserve(bytes, page, Use::Table) else {
            return false;
        };
        self.set(base, bytes);
        true
    }

    /// Uses memory that the caller reserved: whole pages.
    pub fn set(&self, base: usize, bytes: usize) {
        self.base.store(base, Ordering::Relaxed);
        self.reserved_bytes.store(bytes, Ordering::Release);
    }

    /// Makes the first `items` usable. One caller at a time.
    pub fn ensure<P: Platform>(&self, p: &P, items: usize) -> bool {
        if items <= self.len() {
            return true;
        }
        let old = self.committed_bytes.load(Ordering::Relaxed);
        let reserved = self.reserved_bytes.load(Ordering::Relaxed);
        let least = round_up(items * size_of::<T>(), p.page_bytes());
        if least > reserved {
            return false;
        }
        // Under a limit there may be room for less than a step.
        let wished = round_up(least.max(old + STEP), p.page_bytes()).min(reserved);
        let is_made = |new: &usize| *new == old || p.commit(self.base() + old, new - old);
        let Some(new) = [wished, least.max(old)].into_iter().find(is_made) else {
            return false;
        };
        self.committed_bytes.store(new, Ordering::Relaxed);
        // Pairs with the Acquire in `len`, which `get` calls: a thread that sees the length may
        // use the memory.
        self.ready.store(new / size_of::<T>(), Ordering::Release);
        true
    }

    /// In the child of a fork, where a thread that is gone was about to make items usable.
    pub fn forget_commit<P: Platform>(&self, p: &P) {
        let usable = self.committed_bytes();
        let reserved = self.reserved_bytes.load(Ordering::Relaxed);
        p.forget_commit(self.base() + usable, reserved - usable);
    }

    /// Faults in the pages of a range of usable items, which will be written soon.
    pub fn touch_ahead<P: Platform>(&self, p: &P, first: usize, end: usize) {
        let page = p.page_bytes();
        let start = (first * size_of::<T>()) & !(page - 1);
        let end = round_up(end * size_of::<T>(), page);
        p.advise(self.base() + start, end - start, Advice::WrittenSoon);
    }

    /// Gives the whole pages within a range of items back: these items read as
    /// zero again. The caller makes sure that no thread uses them meanwhile. False if there
    /// is no whole page.
    pub fn give_back<P: Platform>(&self, p: &P, first: usize, end: usize) -> bool {
        let page = p.page_bytes();
        let start = round_up(first * size_of::<T>(), page);
        let end = (end * size_of::<T>()) & !(page - 1);
        if start < end {
            // If the system refuses, the items keep their values: no thread reads them.
            p.give_back(&mut [Stretch { address: self.base() + start, bytes: end - start }]);
        }
        start < end
    }

    /// Items that are usable.
    #[inline]
    pub fn len(&self) -> usize {
        self.ready.load(Ordering::Acquire)
    }

    /// True if no item is usable.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Address of the first item.
    #[inline]
    pub fn base(&self) -> usize {
        self.base.load(Ordering::Relaxed)
    }

    /// Address of the address of the first item: of 0 before the table was reserved.
    pub fn base_at(&self) -> usize {
        self.base.as_ptr() as usize
    }

    /// True once room was reserved.
    pub fn is_reserved(&self) -> bool {
        self.reserved_bytes.load(Ordering::Acquire) != 0
    }

    /// Address of the number of bytes committed.
    pub fn committed_at(&self) -> usize {
        self.committed_bytes.as_ptr() as usize
    }

    /// From the first item on; behind them the table has no memory.
    pub fn committed_bytes(&self) -> usize {
        self.committed_bytes.load(Ordering::Relaxed)
    }

    /// Prefetches an item to be written soon. Does nothing if there is none.
    #[inline]
    pub fn fetch_ahead(&self, index: usize) {
        fetch_to_write(self.base().wrapping_add(index * size_of::<T>()));
    }

    /// One item.
    ///
    /// # Panics
    /// If it is not usable yet.
    #[inline]
    pub fn get(&self, index: usize) -> &T {
        assert!(index < self.len(), "table index");
        // SAFETY: committed, zeroed at first (`Zeroed`), and never given back.
        unsafe { &*((self.base() + index * size_of::<T>()) as *const T) }
    }
}
