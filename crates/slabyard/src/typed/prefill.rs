//! Prefilled sheaves of typed caches: objects reserved before code whose allocations must not fail.
//!
//! Neighbours: [`crate::calls::prefill`] has such sheaves of untyped caches, and does the work.
//! Invariant: an object in the sheaf is the cache's memory without a value; in a kept cache it may
//! hold a value that was made before.

use super::boxed::CacheBox;
use super::errors::AllocError;
use super::handle::ObjectCache;
use super::home::Home;
use super::kind::{Fresh, Kept, ObjectKind};
use super::record::{Lies, Record};
use crate::calls::prefill;
use crate::created::abandoned::defers;
use crate::process::ProcessYard;
use core::fmt;
use core::ptr::NonNull;

/// A prefilled sheaf: objects of a cache that an allocation from it gets without memory of the
/// system's, without a lock and without failing. It belongs to whoever has it; what is left of it
/// goes back to the cache when it is dropped.
///
/// Its objects count as live, because they left the cache.
///
/// ```
/// use slabyard::{ObjectCache, ProcessYard};
///
/// static YARD: ProcessYard = ProcessYard::new();
///
/// let nodes = ObjectCache::<u64>::new("nodes", &YARD)?;
/// // Before a change that must not stop half way: all that it may need.
/// let mut spare = nodes.prefill(3)?;
/// let [left, right] = [spare.alloc(1), spare.alloc(2)];
/// assert_eq!((spare.len(), *left + *right), (1, 3));
/// // For the next change.
/// spare.refill(3)?;
/// assert_eq!(nodes.live(), Some(5));
/// drop(spare);
/// assert_eq!(nodes.live(), Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The cache stays while there is one:
///
/// ```compile_fail,E0505
/// use slabyard::{ObjectCache, ProcessYard};
///
/// static YARD: ProcessYard = ProcessYard::new();
///
/// let nodes = ObjectCache::<u64>::new("nodes", &YARD).unwrap();
/// let mut spare = nodes.prefill(3).unwrap();
/// drop(nodes);
/// let _ = spare.alloc(1);
/// ```
#[must_use]
pub struct Prefilled<'a, T, K: ObjectKind = Fresh, Y: Home = ProcessYard> {
    cache: &'a ObjectCache<T, K, Y>,
    objects: prefill::Prefilled,
}

impl<T, K: ObjectKind, Y: Home> ObjectCache<T, K, Y> {
    /// Sets this many objects apart.
    ///
    /// # Errors
    /// If there is no memory for all, and in a signal handler that interrupted a slow path: then
    /// none is set apart.
    pub fn prefill(&self, objects: usize) -> Result<Prefilled<'_, T, K, Y>, AllocError> {
        let &Record { yard, id, .. } = self.record();
        let objects = yard.prefill(id, objects).ok_or(AllocError { value: () })?;
        Ok(Prefilled { cache: self, objects })
    }
}

impl<T, K: ObjectKind, Y: Home> Prefilled<'_, T, K, Y> {
    /// Objects in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// True without objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Fills it until it has this many objects; one that has more keeps them.
    ///
    /// # Errors
    /// If there is no memory for all: it may have got some of them.
    pub fn refill(&mut self, objects: usize) -> Result<(), AllocError> {
        let &Record { yard, .. } = self.cache.record();
        yard.refill(&mut self.objects, objects).then_some(()).ok_or(AllocError { value: () })
    }

    /// The next object's address, and its record.
    #[inline]
    fn pop(&mut self) -> Option<(usize, NonNull<Record<Y>>)> {
        let record = self.cache.record();
        let address = record.yard.alloc_prefilled(&mut self.objects)?;
        let of = record.of(address);
        // SAFETY: a record of the cache's block, whose handle is there.
        if unsafe { of.as_ref() }.lies == Lies::Outside {
            record.owner().add_mapping();
        }
        Some((address, of))
    }
}

impl<T, Y: Home> Prefilled<'_, T, Fresh, Y> {
    /// Allocates an object, made of a value.
    ///
    /// # Panics
    /// If the sheaf is empty, and for no other reason; [`Prefilled::try_alloc`] gives the value back.
    #[inline]
    pub fn alloc(&mut self, value: T) -> CacheBox<T, Fresh, Y> {
        // As in `ObjectCache::alloc`.
        let Some((address, record)) = self.pop() else { empty() };
        // SAFETY: an object of the cache that was just allocated.
        unsafe { CacheBox::made(address, record, value) }
    }

    /// Allocates an object, made of a value.
    ///
    /// # Errors
    /// Gives the value back if the sheaf is empty, and for no other reason.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let names = ObjectCache::<String>::new("names", &YARD)?;
    /// let mut one = names.prefill(1)?;
    /// assert_eq!(*one.try_alloc("a".to_string()).unwrap(), "a");
    /// assert_eq!(one.try_alloc("b".to_string()).unwrap_err(), "b");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn try_alloc(&mut self, value: T) -> Result<CacheBox<T, Fresh, Y>, T> {
        let Some((address, record)) = self.pop() else { return Err(value) };
        // SAFETY: an object of the cache that was just allocated.
        Ok(unsafe { CacheBox::made(address, record, value) })
    }
}

impl<T, Y: Home> Prefilled<'_, T, Kept, Y> {
    /// Takes an object, as [`ObjectCache::take`] does: one that was not used before is made now.
    ///
    /// # Panics
    /// If the sheaf is empty, or the constructor panics.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let buffers = ObjectCache::<Vec<u8>>::builder("buffers")
    ///     .constructor(|| Vec::with_capacity(1000))
    ///     .create(&YARD)?;
    /// let mut spare = buffers.prefill(1)?;
    /// assert_eq!(spare.take().capacity(), 1000);
    /// assert!(spare.try_take().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn take(&mut self) -> CacheBox<T, Kept, Y> {
        self.try_take().unwrap_or_else(|| empty())
    }

    /// As [`Prefilled::take`]; `None` if the sheaf is empty.
    #[inline]
    pub fn try_take(&mut self) -> Option<CacheBox<T, Kept, Y>> {
        let (address, record) = self.pop()?;
        // SAFETY: it left the sheaf, which had it for the cache: it is nobody else's.
        Some(unsafe { self.cache.box_of(address, record) })
    }
}

#[cold]
#[inline(never)]
fn empty() -> ! {
    panic!("the prefilled sheaf is empty: prefill as many objects as will be needed")
}

impl<T, K: ObjectKind, Y: Home> Drop for Prefilled<'_, T, K, Y> {
    fn drop(&mut self) {
        let &Record { yard, id, .. } = self.cache.record();
        if defers(yard) {
            // Each free is deferred, which writes to the object: a value in it ends first.
            while let Some((address, record)) = self.pop() {
                // SAFETY: the object is nobody's, and the record its own, which lives as long.
                unsafe { record.as_ref().free::<T, K>(address) };
            }
        }
        yard.return_prefilled(core::mem::replace(&mut self.objects, prefill::Prefilled::new(id)));
    }
}

impl<T, K: ObjectKind, Y: Home> fmt::Debug for Prefilled<'_, T, K, Y> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prefilled").field("len", &self.len()).finish_non_exhaustive()
    }
}
