//! A batch owns the objects of one bulk call: it has one word per object, and no boxes.
//!
//! ```text
//! Batch  | cache | lies | address 0 | address 1 | ... | address N - 1 |
//! ```
//!
//! The restartable sequence that pops objects off the stack writes the addresses here, and the one
//! that pushes them back reads them here. So no address is copied in between.
//!
//! Neighbour: [`super::bulk`] has the bulk calls that return boxes.
//! Invariant: the batch borrows the handle of its cache, so bulk frees of its objects may use the
//! cache's fast path.

use super::boxed::CacheBox;
use super::cache::no_memory;
use super::errors::AllocError;
use super::handle::ObjectCache;
use super::home::Home;
use super::kind::Fresh;
use super::record::{Lies, Record};
use crate::process::ProcessYard;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Index, IndexMut};
use core::ptr::NonNull;

/// Owns `N` objects of an [`ObjectCache`] of one call, and frees them by one when it is
/// dropped: the cheapest way to have many for a short time.
///
/// ```
/// use slabyard::{ObjectCache, ProcessYard};
///
/// static YARD: ProcessYard = ProcessYard::new();
///
/// let packets = ObjectCache::<[u8; 64]>::new("packets", &YARD)?;
/// let mut batch = packets.alloc_batch::<32>(|nth| [nth as u8; 64]);
/// batch[3][0] += 1;
/// assert_eq!(batch.iter().map(|packet| u32::from(packet[0])).sum::<u32>(), 31 * 16 + 1);
/// drop(batch);
/// assert_eq!(packets.live(), Some(0));
/// # Ok::<(), slabyard::typed::CreateError>(())
/// ```
///
/// Objects that are to live longer than the handle is borrowed, or to go to other owners, get boxes:
///
/// ```
/// use slabyard::{CacheBox, ObjectCache, ProcessYard};
///
/// static YARD: ProcessYard = ProcessYard::new();
///
/// let numbers = ObjectCache::<usize>::new("numbers", &YARD)?;
/// let boxes: [CacheBox<usize>; 4] = numbers.alloc_batch(|nth| nth).into_boxes();
/// drop(numbers);
/// assert_eq!(*boxes[3], 3);
/// # Ok::<(), slabyard::typed::CreateError>(())
/// ```
///
/// ```compile_fail,E0505
/// use slabyard::{ObjectCache, ProcessYard};
///
/// static YARD: ProcessYard = ProcessYard::new();
///
/// let numbers = ObjectCache::<usize>::new("numbers", &YARD).unwrap();
/// let batch = numbers.alloc_batch::<4>(|nth| nth);
/// drop(numbers);
/// println!("{}", batch[0]);
/// ```
pub struct Batch<'a, T, const N: usize, Y: Home = ProcessYard> {
    cache: &'a ObjectCache<T, Fresh, Y>,
    lies: Lies,
    addresses: [usize; N],
    owns: PhantomData<T>,
}

impl<T, Y: Home> ObjectCache<T, Fresh, Y> {
    /// Allocates `N` objects with one owner; `make` makes the value of each where it will be.
    ///
    /// # Panics
    /// If there is no memory; [`ObjectCache::try_alloc_batch`] returns an error.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let numbers = ObjectCache::<usize>::new("numbers", &YARD)?;
    /// let batch = numbers.alloc_batch::<32>(|nth| nth * 2);
    /// assert_eq!(batch[31], 62);
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    #[inline]
    pub fn alloc_batch<const N: usize>(&self, make: impl FnMut(usize) -> T) -> Batch<'_, T, N, Y> {
        match self.try_alloc_batch(make) {
            Ok(batch) => batch,
            Err(_) => no_memory(),
        }
    }

    /// As [`ObjectCache::alloc_batch`], or none.
    ///
    /// # Errors
    /// If there is no memory for all; nothing was made then.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let names = ObjectCache::<String>::new("names", &YARD)?;
    /// let batch = names.try_alloc_batch::<3>(|nth| nth.to_string())?;
    /// assert_eq!(batch.iter().map(String::as_str).collect::<String>(), "012");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn try_alloc_batch<const N: usize>(
        &self,
        mut make: impl FnMut(usize) -> T,
    ) -> Result<Batch<'_, T, N, Y>, AllocError> {
        let mut addresses = [0; N];
        let record = self.record();
        let lies = record.alloc_bulk(&mut addresses).ok_or(AllocError { value: () })?;
        let mut making =
            Making::<T, N, Y> { record, lies, addresses: &addresses, made: 0, makes: PhantomData };
        for (nth, address) in addresses.iter().enumerate() {
            let value = make(nth);
            // SAFETY: memory for a `T` that is nobody else's.
            unsafe { at::<T>(*address).write(value) };
            making.made += 1;
        }
        drop(making);
        Ok(Batch { cache: self, lies, addresses, owns: PhantomData })
    }
}

impl<T, const N: usize, Y: Home> Batch<'_, T, N, Y> {
    /// The objects.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let numbers = ObjectCache::<usize>::new("numbers", &YARD)?;
    /// assert!(numbers.alloc_batch::<4>(|nth| nth).iter().eq(&[0, 1, 2, 3]));
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> + DoubleEndedIterator {
        // SAFETY: live objects that the batch owns, and that are borrowed with it.
        self.addresses.iter().map(|address| unsafe { &*at(*address) })
    }

    /// The objects, to be changed.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let numbers = ObjectCache::<usize>::new("numbers", &YARD)?;
    /// let mut batch = numbers.alloc_batch::<4>(|nth| nth);
    /// batch.iter_mut().for_each(|number| *number += 1);
    /// assert!(batch.iter().eq(&[1, 2, 3, 4]));
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    #[inline]
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = &mut T> + DoubleEndedIterator {
        // SAFETY: as above; no two addresses are the same, and the batch is borrowed by one alone.
        self.addresses.iter_mut().map(|address| unsafe { &mut *at(*address) })
    }

    /// A box for each object.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let numbers = ObjectCache::<usize>::new("numbers", &YARD)?;
    /// let [one, two] = numbers.alloc_batch(|nth| nth + 1).into_boxes();
    /// assert_eq!((*one, *two), (1, 2));
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn into_boxes(self) -> [CacheBox<T, Fresh, Y>; N] {
        let this = ManuallyDrop::new(self);
        this.addresses.map(|address| {
            let record = this.cache.record().of_bulk(this.lies, address);
            // SAFETY: a live object of this record, which the batch gives up; none has the
            // address 0.
            unsafe { CacheBox::of(NonNull::new_unchecked(at(address)), record) }
        })
    }
}

/// The object at an address.
#[inline(always)]
fn at<T>(address: usize) -> *mut T {
    core::ptr::with_exposed_provenance_mut(address)
}

impl<T, const N: usize, Y: Home> Index<usize> for Batch<'_, T, N, Y> {
    type Output = T;

    #[inline]
    fn index(&self, nth: usize) -> &T {
        // SAFETY: a live object that the batch owns.
        unsafe { &*at(self.addresses[nth]) }
    }
}

impl<T, const N: usize, Y: Home> IndexMut<usize> for Batch<'_, T, N, Y> {
    #[inline]
    fn index_mut(&mut self, nth: usize) -> &mut T {
        // SAFETY: as above, and it is borrowed by its owner alone.
        unsafe { &mut *at(self.addresses[nth]) }
    }
}

/// Frees the memory of objects of one call, whatever the ends of their values do.
struct Memory<'a, T, Y: Home> {
    record: &'a Record<Y>,
    lies: Lies,
    addresses: &'a [usize],
    frees: PhantomData<T>,
}

impl<T, Y: Home> Drop for Memory<'_, T, Y> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the promise of `end`.
        unsafe {
            match self.lies {
                Lies::Inside => self.record.free_bulk::<T, Fresh>(self.addresses),
                Lies::Outside => self.record.give_back(self.lies, self.addresses),
            }
        }
    }
}

/// Ends the first `made` objects of some, and frees the memory of all.
///
/// # Safety
/// They are of one bulk call, which said how they lie, and the first have values; nobody has
/// them.
#[inline(always)]
unsafe fn end<T, Y: Home>(record: &Record<Y>, lies: Lies, addresses: &[usize], made: usize) {
    let memory = Memory::<T, Y> { record, lies, addresses, frees: PhantomData };
    if core::mem::needs_drop::<T>() {
        let mut values = Values::<T> { addresses: &addresses[..made], ends: PhantomData };
        values.end();
    }
    drop(memory);
}

/// Objects whose values are to end. If one panics, the others end before the panic goes on.
struct Values<'a, T> {
    addresses: &'a [usize],
    ends: PhantomData<T>,
}

impl<T> Values<'_, T> {
    fn end(&mut self) {
        while let [first, others @ ..] = self.addresses {
            self.addresses = others;
            // SAFETY: the promise of `end`: a live object, which is no longer among these.
            unsafe { at::<T>(*first).drop_in_place() };
        }
    }
}

impl<T> Drop for Values<'_, T> {
    fn drop(&mut self) {
        self.end();
    }
}

/// A batch that gets its values. If one is not made, those that are end, and all is freed.
struct Making<'a, T, const N: usize, Y: Home> {
    record: &'a Record<Y>,
    lies: Lies,
    /// By reference: as in [`super::bulk`].
    addresses: &'a [usize; N],
    made: usize,
    makes: PhantomData<T>,
}

impl<T, const N: usize, Y: Home> Drop for Making<'_, T, N, Y> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.made < N {
            // SAFETY: allocated by one call, and as many values were made.
            unsafe { end::<T, Y>(self.record, self.lies, self.addresses, self.made) };
        }
    }
}

impl<T, const N: usize, Y: Home> Drop for Batch<'_, T, N, Y> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the batch owned them, and is gone; all have values.
        unsafe { end::<T, Y>(self.cache.record(), self.lies, &self.addresses, N) };
    }
}

impl<T: fmt::Debug, const N: usize, Y: Home> fmt::Debug for Batch<'_, T, N, Y> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
