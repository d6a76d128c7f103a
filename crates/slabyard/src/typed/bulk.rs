//! Bulk calls on typed caches: many objects by few restartable sequences.
//!
//! The guards that free the objects after a panic hold the addresses by reference. A counter beside
//! them would be in memory, not in a register, and each object would wait for the preceding store.
//!
//! Neighbour: [`crate::calls::bulk`] has the bulk calls on untyped caches, which look addresses up.

use super::boxed::CacheBox;
use super::cache::no_memory;
use super::errors::AllocError;
use super::handle::ObjectCache;
use super::home::Home;
use super::kind::{Fresh, ObjectKind};
use super::record::{Lies, Record};
use crate::calls::bulk::PIECE;
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
        let mut addresses = [0; N];
        let Some(mut taken) = Taken::of(self.record(), &mut addresses) else {
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
        let mut addresses = [0; N];
        let taken = Taken::of(self.record(), &mut addresses);
        let mut taken = taken.ok_or(AllocError { value: () })?;
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
        let mut addresses = [0; N];
        let taken = Taken::of(self.record(), &mut addresses);
        let mut taken = taken.ok_or(AllocError { value: () })?;
        (0..N).for_each(|nth| each(taken.next(make(nth))));
        Ok(())
    }
}

/// Objects that were allocated and have no value yet. What is left is freed if a value is not made.
struct Taken<'a, T, Y: Home, const N: usize> {
    record: &'a Record<Y>,
    addresses: &'a [usize; N],
    lies: Lies,
    next: usize,
    holds: PhantomData<T>,
}

impl<'a, T, Y: Home, const N: usize> Taken<'a, T, Y, N> {
    #[inline(always)]
    fn of(record: &'a Record<Y>, addresses: &'a mut [usize; N]) -> Option<Self> {
        let lies = record.alloc_bulk(addresses)?;
        Some(Taken { record, addresses, lies, next: 0, holds: PhantomData })
    }

    /// Gives the next object its value.
    #[inline(always)]
    fn next(&mut self, value: T) -> CacheBox<T, Fresh, Y> {
        let address = self.addresses[self.next];
        let object = core::ptr::with_exposed_provenance_mut::<T>(address);
        self.next += 1;
        // SAFETY: memory for a `T` that is nobody else's, and its record; no object has the
        // address 0.
        unsafe {
            object.write(value);
            let record = self.record.of_bulk(self.lies, address);
            CacheBox::of(NonNull::new_unchecked(object), record)
        }
    }
}

impl<T, Y: Home, const N: usize> Drop for Taken<'_, T, Y, N> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.next < N {
            // SAFETY: allocated by `alloc_bulk`, and nobody has them.
            unsafe { self.record.give_back(self.lies, &self.addresses[self.next..]) };
        }
    }
}

impl<T, K: ObjectKind, Y: Home> ObjectCache<T, K, Y> {
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
        let mut addresses = [const { MaybeUninit::uninit() }; PIECE];
        let record = self.record();
        let mut piece =
            Piece::<T, K, Y> { record, addresses: &mut addresses, len: 0, frees: PhantomData };
        for object in objects {
            if object.record() == NonNull::from(record) {
                piece.add(object);
            } else {
                drop_alone(object);
            }
        }
    }
}

/// Drops a box of another cache, or of an object that is in a mapping.
#[cold]
#[inline(never)]
fn drop_alone<T, K: ObjectKind, Y: Home>(object: CacheBox<T, K, Y>) {
    drop(object);
}

/// Objects of one cache that are about to be freed. They are freed if an end panics, too.
struct Piece<'a, T, K: ObjectKind, Y: Home> {
    /// Of the handle, which is borrowed: it stays.
    record: &'a Record<Y>,
    addresses: &'a mut [MaybeUninit<usize>; PIECE],
    len: usize,
    frees: PhantomData<(T, K)>,
}

impl<T, K: ObjectKind, Y: Home> Piece<'_, T, K, Y> {
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

    #[inline(always)]
    fn free(&mut self) {
        let len = core::mem::take(&mut self.len);
        // SAFETY: the first `len` were written, and are live objects whose use has ended.
        unsafe { self.record.free_bulk::<T, K>(self.addresses[..len].assume_init_ref()) };
    }
}

impl<T, K: ObjectKind, Y: Home> Drop for Piece<'_, T, K, Y> {
    #[inline(always)]
    fn drop(&mut self) {
        self.free();
    }
}
