//! Bulk calls of typed caches: many objects by few sequences.
//!
//! Neighbour: [`crate::bulk`] has those of caches without a type, which look each address up.

use super::block::Record;
use super::boxed::CacheBox;
use super::cache::{ObjectCache, no_memory};
use super::errors::AllocError;
use super::home::Home;
use super::kind::{Fresh, Kind};
use crate::bulk::PIECE;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::NonNull;

impl<T, Y: Home> ObjectCache<T, Fresh, Y> {
    /// Allocates an object for each value of an array.
    ///
    /// # Panics
    /// If there is no memory; [`ObjectCache::try_alloc_bulk`] returns an error.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let nodes = ObjectCache::<u64>::new("nodes", &YARD)?;
    /// let [one, two, three] = nodes.alloc_bulk([1, 2, 3]);
    /// assert_eq!(*one + *two + *three, 6);
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    #[inline]
    pub fn alloc_bulk<const N: usize>(&self, values: [T; N]) -> [CacheBox<T, Fresh, Y>; N] {
        match self.try_alloc_bulk(values) {
            Ok(objects) => objects,
            Err(_) => no_memory(),
        }
    }

    /// Allocates an object for each value of an array, or none.
    ///
    /// # Errors
    /// Gives the values back if there is no memory for all.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let nodes = ObjectCache::<u64>::new("nodes", &YARD)?;
    /// let objects = nodes.try_alloc_bulk([7; 32])?;
    /// assert!(objects.iter().all(|object| **object == 7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    #[expect(clippy::type_complexity, reason = "a name for it would hide what is given back")]
    pub fn try_alloc_bulk<const N: usize>(
        &self,
        values: [T; N],
    ) -> Result<[CacheBox<T, Fresh, Y>; N], AllocError<[T; N]>> {
        let Some(mut taken) = Taken::<T, Y, N>::of(self.record()) else {
            return Err(AllocError { value: values });
        };
        Ok(values.map(|value| taken.next(value)))
    }

    /// Allocates `N` objects, or none; `make` makes the value of each where it will be: nothing is
    /// copied.
    ///
    /// # Errors
    /// If there is no memory for all; nothing was made then.
    ///
    /// ```
    /// use slabyard::{CacheBox, ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let nodes = ObjectCache::<usize>::new("nodes", &YARD)?;
    /// let objects: [CacheBox<usize>; 32] = nodes.try_alloc_bulk_with(|nth| nth * 2)?;
    /// assert_eq!(*objects[31], 62);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn try_alloc_bulk_with<const N: usize>(
        &self,
        mut make: impl FnMut(usize) -> T,
    ) -> Result<[CacheBox<T, Fresh, Y>; N], AllocError> {
        let mut taken = Taken::<T, Y, N>::of(self.record()).ok_or(AllocError { value: () })?;
        Ok(core::array::from_fn(|nth| taken.next(make(nth))))
    }

    /// As [`ObjectCache::try_alloc_bulk_with`], and gives each object to `each`: the boxes are moved
    /// once, and not as an array.
    ///
    /// # Errors
    /// If there is no memory for all; nothing was made then.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let nodes = ObjectCache::<usize>::new("nodes", &YARD)?;
    /// let mut held = Vec::with_capacity(32);
    /// nodes.try_alloc_bulk_each::<32>(|nth| nth * 2, |object| held.push(object))?;
    /// assert_eq!(*held[31], 62);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn try_alloc_bulk_each<const N: usize>(
        &self,
        mut make: impl FnMut(usize) -> T,
        mut each: impl FnMut(CacheBox<T, Fresh, Y>),
    ) -> Result<(), AllocError> {
        let mut taken = Taken::<T, Y, N>::of(self.record()).ok_or(AllocError { value: () })?;
        (0..N).for_each(|nth| each(taken.next(make(nth))));
        Ok(())
    }
}

/// Objects that were allocated and have no value yet. What is left is freed if a value is not made.
struct Taken<T, Y: Home, const N: usize> {
    addresses: [usize; N],
    records: [MaybeUninit<NonNull<Record<Y>>>; N],
    next: usize,
    holds: PhantomData<T>,
}

impl<T, Y: Home, const N: usize> Taken<T, Y, N> {
    #[inline(always)]
    fn of(record: &Record<Y>) -> Option<Self> {
        let records = [const { MaybeUninit::uninit() }; N];
        // With all of them given away until they are there.
        let mut taken = Taken { addresses: [0; N], records, next: N, holds: PhantomData };
        if !record.alloc_bulk(&mut taken.addresses, &mut taken.records) {
            return None;
        }
        taken.next = 0;
        Some(taken)
    }

    /// Gives the next object its value.
    #[inline(always)]
    fn next(&mut self, value: T) -> CacheBox<T, Fresh, Y> {
        let nth = self.next;
        let object = core::ptr::with_exposed_provenance_mut::<T>(self.addresses[nth]);
        self.next += 1;
        // SAFETY: memory for a `T` that is nobody else's, and its record; no object has the
        // address 0.
        unsafe {
            object.write(value);
            CacheBox::of(NonNull::new_unchecked(object), self.records[nth].assume_init())
        }
    }
}

impl<T, Y: Home, const N: usize> Drop for Taken<T, Y, N> {
    #[inline(always)]
    fn drop(&mut self) {
        for nth in self.next..N {
            // SAFETY: allocated with this record, and nobody has it.
            unsafe {
                self.records[nth].assume_init().as_ref().free::<T, Fresh>(self.addresses[nth]);
            }
        }
    }
}

impl<T, K: Kind, Y: Home> ObjectCache<T, K, Y> {
    /// Frees the objects of many boxes, whatever their caches are.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let nodes = ObjectCache::<u64>::new("nodes", &YARD)?;
    /// let objects = nodes.alloc_bulk([7; 32]);
    /// nodes.free_bulk(objects);
    /// assert_eq!(nodes.live(), Some(0));
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    #[inline]
    pub fn free_bulk(&self, objects: impl IntoIterator<Item = CacheBox<T, K, Y>>) {
        let mut piece = Piece::<T, K, Y> {
            record: self.record(),
            addresses: [const { MaybeUninit::uninit() }; PIECE],
            len: 0,
            frees: PhantomData,
        };
        for object in objects {
            if object.record() != NonNull::from(self.record()) {
                drop(object);
                continue;
            }
            piece.add(object);
        }
    }
}

/// Objects of one cache that are about to be freed. They are freed if an end panics, too.
struct Piece<'a, T, K: Kind, Y: Home> {
    /// Of the handle, which is borrowed: it stays.
    record: &'a Record<Y>,
    addresses: [MaybeUninit<usize>; PIECE],
    len: usize,
    frees: PhantomData<(T, K)>,
}

impl<T, K: Kind, Y: Home> Piece<'_, T, K, Y> {
    #[inline(always)]
    fn add(&mut self, object: CacheBox<T, K, Y>) {
        if self.len == PIECE {
            self.free();
        }
        let object = ManuallyDrop::new(object);
        let pointer = object.pointer();
        self.addresses[self.len].write(pointer.expose_provenance());
        self.len += 1;
        // SAFETY: the box owned it, and is gone. Its memory is freed with the piece.
        unsafe { K::end_use(pointer, self.record) };
    }

    #[inline]
    fn free(&mut self) {
        let len = core::mem::take(&mut self.len);
        // SAFETY: the first `len` were written, and are live objects whose use has ended.
        unsafe { self.record.free_bulk::<T, K>(self.addresses[..len].assume_init_ref()) };
    }
}

impl<T, K: Kind, Y: Home> Drop for Piece<'_, T, K, Y> {
    #[inline]
    fn drop(&mut self) {
        self.free();
    }
}
