//! Object caches for one Rust type, on a yard.

use crate::board::Board;
use crate::caches::{CacheId, CacheSettings, FixedEngine};
use crate::yard::Yard;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

/// The allocator of one type.
///
/// ```
/// use slabyard_fixed::{Memory, ObjectCache, Spin, Tiny, Yard};
///
/// static MEMORY: Memory<{ 64 << 10 }> = Memory::new();
/// static YARD: Yard<Spin<512>, Tiny> = Yard::new(Spin::new());
///
/// YARD.init(&MEMORY)?;
/// let nodes = ObjectCache::<[u64; 4], _, _>::new("nodes", &YARD).expect("there is room");
/// let node = nodes.alloc([1, 2, 3, 4]).expect("there is room");
/// assert_eq!(node[3], 4);
/// # Ok::<(), slabyard_fixed::TooSmall>(())
/// ```
pub struct ObjectCache<'y, T, B: Board, E: FixedEngine> {
    yard: &'y Yard<B, E>,
    id: CacheId,
    values: PhantomData<T>,
}

impl<'y, T, B: Board, E: FixedEngine> ObjectCache<'y, T, B, E> {
    /// A cache; `None` without memory for it, or if values of this type are too large or too strictly
    /// aligned for a slab.
    pub fn new(name: &str, yard: &'y Yard<B, E>) -> Option<Self> {
        // What is aligned to more than 8 needs slabs that begin so: pages do.
        const { assert!(align_of::<T>() <= B::PAGE_BYTES) };
        let id = yard.create(name, CacheSettings::of::<T>())?;
        Some(ObjectCache { yard, id, values: PhantomData })
    }

    /// Makes a value live in the cache.
    ///
    /// # Errors
    /// The value, if there is no memory.
    pub fn alloc(&self, value: T) -> Result<CacheBox<'_, T, B, E>, T> {
        match self.yard.alloc(self.id) {
            None => Err(value),
            Some(object) => {
                let object = object.cast::<T>();
                // SAFETY: a free object of so many bytes, aligned, is ours now.
                unsafe { object.write(value) };
                Ok(CacheBox { cache: self, object })
            }
        }
    }
}

impl<T, B: Board, E: FixedEngine> Drop for ObjectCache<'_, T, B, E> {
    /// Ends the cache. Values that were leaked keep it.
    fn drop(&mut self) {
        self.yard.destroy(self.id);
    }
}

/// A value in a cache.
pub struct CacheBox<'c, T, B: Board, E: FixedEngine> {
    cache: &'c ObjectCache<'c, T, B, E>,
    object: NonNull<T>,
}

// SAFETY: it owns the value, and its end is a call of the yard, which any thread may make.
unsafe impl<T: Send, B: Board + Sync, E: FixedEngine> Send for CacheBox<'_, T, B, E> {}
// SAFETY: shared, it gives out shared references to the value alone.
unsafe impl<T: Sync, B: Board + Sync, E: FixedEngine> Sync for CacheBox<'_, T, B, E> {}

impl<T, B: Board, E: FixedEngine> Deref for CacheBox<'_, T, B, E> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the value lives until the box ends.
        unsafe { self.object.as_ref() }
    }
}

impl<T, B: Board, E: FixedEngine> DerefMut for CacheBox<'_, T, B, E> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the box is borrowed alone.
        unsafe { self.object.as_mut() }
    }
}

impl<T, B: Board, E: FixedEngine> Drop for CacheBox<'_, T, B, E> {
    fn drop(&mut self) {
        // SAFETY: the value is not used any more.
        unsafe {
            self.object.drop_in_place();
            self.cache.yard.free(self.cache.id, self.object.cast());
        }
    }
}
