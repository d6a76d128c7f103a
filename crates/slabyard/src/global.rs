//! Floor 10: the allocator of a whole program.
//!
//! Neighbours: [`crate::process`] starts its yard at the first allocation, before `main`; typed
//! caches may share that yard. [`crate::yard`] serves the calls, first by the fast path.
//! Invariant: the yard's memory is never unmapped, because nothing requires the global allocator's
//! value to be a `static`.

use crate::calls::{growth, resize};
use crate::engine::{Engine, Sheaves};
use crate::platform::linux::Linux;
use crate::platform::{GRANULE, Memory};
use crate::process::{NotStarted, ProcessYard};
use crate::sync::{AtomicPtr, Ordering};
use crate::yard::Yard;
use core::alloc::{GlobalAlloc, Layout};
use core::marker::PhantomData;
use core::ptr::{self, null_mut};

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
    yard: AtomicPtr<ProcessYard<E>>,
    has: PhantomData<ProcessYard<E>>,
}

/// The alignment that every allocation has.
pub(crate) const LEAST_ALIGN: usize = 16;

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
        Global { yard: AtomicPtr::new(null_mut()), has: PhantomData }
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
        // Acquire pairs with the Release in `place`.
        // SAFETY: null, or what `place` wrote into a mapping that nothing ends.
        match unsafe { self.yard.load(Ordering::Acquire).as_ref() } {
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
        let yard = ptr::with_exposed_provenance_mut::<ProcessYard<E>>(address);
        // SAFETY: a fresh mapping, large enough and aligned.
        unsafe { yard.write(ProcessYard::new()) };
        let free =
            self.yard.compare_exchange(null_mut(), yard, Ordering::AcqRel, Ordering::Acquire);
        let placed = match free {
            Ok(_) => yard,
            Err(placed) => {
                system.unmap(address, bytes);
                placed
            }
        };
        // SAFETY: written by us or by whoever was first, and never unmapped.
        Ok(unsafe { &*placed })
    }

    #[inline]
    fn started(&self) -> Option<&'static Yard<Linux, E>> {
        self.yard().ok()?.start().ok()
    }

    #[inline]
    fn alloc_now(&self, layout: Layout) -> *mut u8 {
        let align = layout.align().max(LEAST_ALIGN);
        let address = self.started().and_then(|yard| yard.alloc_fast(layout.size(), align));
        address.map_or(null_mut(), ptr::with_exposed_provenance_mut)
    }

    /// Resizes a block without copying it, where its alignment is kept.
    fn resize(&self, address: usize, layout: Layout, bytes: usize) -> Option<usize> {
        if layout.align() > GRANULE {
            return None;
        }
        let yard = self.started()?;
        growth::resize_at(yard, yard.place_of(address), address, bytes)
    }

    fn alloc_resized(&self, address: usize, layout: Layout, bytes: usize) -> Option<usize> {
        let yard = self.started()?;
        if layout.align() <= LEAST_ALIGN && bytes > layout.size() {
            growth::alloc_resized(yard, address, layout.size(), bytes)
        } else {
            yard.alloc_fast(bytes, layout.align().max(LEAST_ALIGN))
        }
    }
}

impl<E: Engine> Default for Global<E> {
    fn default() -> Self {
        Self::new()
    }
}

/// Ends the process with a message: a panic must not leave the allocator.
#[cold]
#[inline(never)]
pub(crate) extern "C" fn misuse(address: usize) -> ! {
    panic!("{address:#x} is freed and is no live block of this allocator")
}

// SAFETY: blocks are of the yard's caches, runs and mappings, as large and aligned as asked, and
// nobody else's; its calls do not unwind.
unsafe impl<E: Engine> GlobalAlloc for Global<E> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.alloc_now(layout)
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, _: Layout) {
        let address = pointer.expose_provenance();
        let freed = self.started().map(|yard| yard.free_fast(address));
        if freed != Some(Ok(())) {
            misuse(address);
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let pointer = self.alloc_now(layout);
        let Some(yard) = self.started().filter(|_| !pointer.is_null()) else {
            return null_mut();
        };
        // SAFETY: the block just allocated.
        unsafe { resize::zero_fresh(yard, pointer, layout.size()) };
        pointer
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let address = pointer.expose_provenance();
        if let Some(address) = self.resize(address, layout, bytes) {
            return ptr::with_exposed_provenance_mut(address);
        }
        let Some(new) = self.alloc_resized(address, layout, bytes) else { return null_mut() };
        let new = ptr::with_exposed_provenance_mut::<u8>(new);
        // SAFETY: both are live blocks of at least so many bytes; the caller gave the old one up.
        unsafe {
            new.copy_from_nonoverlapping(pointer, layout.size().min(bytes));
            self.dealloc(pointer, layout);
        }
        new
    }
}
