//! Floor 10: the allocator of a whole program.
//!
//! Neighbours: [`crate::process`] starts its yard at the first allocation, before `main`; typed
//! caches may share that yard. [`crate::yard`] serves the calls, and tries the fast path first.
//! Invariant: the yard's memory is never unmapped, because a [`Global`] need not be a `static`: it
//! may be dropped.

use crate::blocks::{Blocks, misuse, pointer, resize_or_copy};
use crate::engine::{Engine, Sheaves};
use crate::platform::linux::Linux;
use crate::platform::{GRANULE, Memory};
use crate::process::{NotStarted, ProcessYard};
use crate::sync::OnceNumber;
use crate::yard::Yard;
use core::alloc::{GlobalAlloc, Layout};
use core::marker::PhantomData;
use core::ptr::{null_mut, with_exposed_provenance, with_exposed_provenance_mut};

/// The allocator of a program: each class of sizes is a cache, which `slabyard list` shows as
/// `malloc-64` and the like.
///
/// ```
/// #[global_allocator]
/// static ALLOC: slabyard::Global = slabyard::Global::new();
///
/// let text = String::from("in a slab");
/// assert_eq!(text.len(), 9);
/// ```
pub struct Global<E = Sheaves> {
    /// Its address.
    yard: OnceNumber,
    has: PhantomData<ProcessYard<E>>,
}

impl<E: Engine> Global<E> {
    /// An allocator whose yard starts at the first allocation.
    ///
    /// ```
    /// use slabyard::Global;
    ///
    /// static ALLOC: Global = Global::new();
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Global { yard: OnceNumber::new(), has: PhantomData }
    }

    /// The yard, for typed caches that share its pages.
    ///
    /// # Errors
    /// If the kernel refuses memory for it.
    ///
    /// ```
    /// use slabyard::{Global, ObjectCache};
    ///
    /// #[global_allocator]
    /// static ALLOC: Global = Global::new();
    ///
    /// let nodes = ObjectCache::<[u64; 4]>::new("nodes", ALLOC.yard()?)?;
    /// assert_eq!(*nodes.alloc([7; 4]), [7; 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn yard(&self) -> Result<&'static ProcessYard<E>, NotStarted> {
        let placed = with_exposed_provenance::<ProcessYard<E>>(self.yard.get());
        // SAFETY: null, or what `place` wrote into a mapping that nothing ends.
        match unsafe { placed.as_ref() } {
            Some(yard) => Ok(yard),
            None => self.place(),
        }
    }

    /// Makes the yard in a mapping of its own.
    #[cold]
    #[inline(never)]
    fn place(&self) -> Result<&'static ProcessYard<E>, NotStarted> {
        const { assert!(align_of::<ProcessYard<E>>() <= GRANULE) };
        let bytes = size_of::<ProcessYard<E>>().next_multiple_of(GRANULE);
        let system = Linux::new();
        let address = system.map(bytes, GRANULE).ok_or(NotStarted)?;
        let yard = with_exposed_provenance_mut::<ProcessYard<E>>(address);
        // SAFETY: a fresh mapping, large enough and aligned.
        unsafe { yard.write(ProcessYard::new()) };
        if self.yard.set(address).is_err() {
            system.unmap(address, bytes);
        }
        // It is there now: this one, or another thread's.
        self.yard()
    }

    #[inline]
    fn started(&self) -> Option<&'static Yard<Linux, E>> {
        self.yard().ok()?.start().ok()
    }
}

impl<E: Engine> Default for Global<E> {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: blocks are of the yard's caches, runs and mappings, as large and aligned as asked, and
// nobody else's; its calls do not unwind.
unsafe impl<E: Engine> GlobalAlloc for Global<E> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = self.started().and_then(|yard| yard.take(layout));
        block.map_or(null_mut(), |(address, _)| pointer(address))
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let address = block.expose_provenance();
        match self.started() {
            // SAFETY: the caller's promise.
            Some(yard) => unsafe { yard.give(address, layout) },
            None => misuse(address),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(yard) = self.started() else { return null_mut() };
        let Some((address, bytes)) = yard.take(layout) else { return null_mut() };
        // SAFETY: the block just allocated.
        unsafe { yard.zero(address, bytes) };
        pointer(address)
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let Some(yard) = self.started() else { return null_mut() };
        let old = block.expose_provenance();
        // SAFETY: the caller's promise: `bytes` fit the alignment, and the block is the caller's.
        let resized = unsafe {
            let to = Layout::from_size_align_unchecked(bytes, layout.align());
            resize_or_copy(yard, old, layout, to)
        };
        resized.map_or(null_mut(), |(address, _)| pointer(address))
    }
}
