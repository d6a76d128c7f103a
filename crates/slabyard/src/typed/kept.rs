//! Allocation from typed caches with a constructor, whose free objects keep their values.

use super::boxed::{CacheBox, Memory};
use super::cache::no_memory;
use super::errors::AllocError;
use super::handle::ObjectCache;
use super::home::Home;
use super::kind::{Kept, KeptObject};
use super::record::Record;
use core::mem::forget;
use core::ptr::NonNull;

impl<T, Y: Home> ObjectCache<T, Kept, Y> {
    /// Takes an object: one that was used before, as its last user and `reset` left it, or a new
    /// one of the constructor's.
    ///
    /// # Panics
    /// If there is no memory, or the constructor panics; [`ObjectCache::try_take`] returns an error
    /// for the one.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let buffers = ObjectCache::<Vec<u8>>::builder("buffers")
    ///     .constructor(|| Vec::with_capacity(1000))
    ///     .reset(Vec::clear)
    ///     .create(&YARD)?;
    /// let mut one = buffers.take();
    /// one.extend_from_slice(&[1; 5000]);
    /// drop(one);
    /// let again = buffers.take();
    /// assert!(again.is_empty() && again.capacity() >= 5000);
    /// # Ok::<(), slabyard::typed::CreateError>(())
    /// ```
    #[inline]
    pub fn take(&self) -> CacheBox<T, Kept, Y> {
        match self.try_take() {
            Ok(object) => object,
            Err(_) => no_memory(),
        }
    }

    /// As [`ObjectCache::take`].
    ///
    /// # Errors
    /// If there is no memory.
    ///
    /// ```
    /// use slabyard::{ObjectCache, ProcessYard};
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let counters = ObjectCache::<u32>::builder("counters").constructor(|| 1).create(&YARD)?;
    /// *counters.try_take()? += 1;
    /// assert_eq!(*counters.try_take()?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn try_take(&self) -> Result<CacheBox<T, Kept, Y>, AllocError> {
        let Some((address, record)) = self.record().alloc() else {
            return Err(AllocError { value: () });
        };
        // SAFETY: an object of this cache that is nobody else's, and its record.
        Ok(unsafe { self.box_of(address, record) })
    }

    /// A box around an object, which is made now if it has no value.
    ///
    /// # Safety
    /// An object of this cache that is nobody else's, and its record.
    #[inline(always)]
    pub(super) unsafe fn box_of(
        &self,
        address: usize,
        record: NonNull<Record<Y>>,
    ) -> CacheBox<T, Kept, Y> {
        let object = core::ptr::with_exposed_provenance_mut::<KeptObject<T>>(address);
        // SAFETY: the caller's promise: it says itself whether it has a value. No object has the
        // address 0.
        unsafe {
            if !(*object).made {
                self.construct(object, record);
            }
            CacheBox::of(NonNull::new_unchecked(object.cast()), record)
        }
    }

    /// Makes the value of an object that has none.
    #[cold]
    #[inline(never)]
    unsafe fn construct(&self, object: *mut KeptObject<T>, record: NonNull<Record<Y>>) {
        // SAFETY: the record is the object's. If the constructor panics, the memory is given back.
        let memory =
            unsafe { Memory::<T, Kept, Y>::of(record.as_ref(), object.expose_provenance()) };
        let make = self.record().make.map(|make| {
            // SAFETY: the builder took it as a `fn() -> T`.
            unsafe { core::mem::transmute::<fn(), fn() -> T>(make) }
        });
        let Some(make) = make else { unreachable!("kept objects have a constructor") };
        let value = make();
        // SAFETY: the caller's promise.
        unsafe {
            (*object).value.write(value);
            (*object).made = true;
        }
        forget(memory);
    }
}
