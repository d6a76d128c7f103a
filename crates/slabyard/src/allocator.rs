//! Floor 10: lets collections allocate from a yard, through the `Allocator` trait of the crate
//! `allocator-api2`, which `hashbrown` and others use.
//!
//! Neighbours: [`crate::global`] is the allocator of a whole program; [`crate::typed`] lets
//! collections allocate from one cache. Invariants: a request of zero bytes allocates nothing, and
//! its free does nothing. A free is passed only the size and alignment of a block, so these alone
//! must determine where the block came from.

use crate::blocks::{Blocks, pointer, resize_or_copy};
use crate::engine::Engine;
use crate::global::Global;
use crate::process::ProcessYard;
use allocator_api2::alloc::AllocError;
use core::alloc::Layout;
use core::ptr::{self, NonNull};

fn slice((address, bytes): (usize, usize)) -> Result<NonNull<[u8]>, AllocError> {
    let first = NonNull::new(pointer(address)).ok_or(AllocError)?;
    Ok(NonNull::slice_from_raw_parts(first, bytes))
}

/// A block of no bytes.
fn nothing(layout: Layout) -> NonNull<[u8]> {
    let first = ptr::without_provenance_mut(layout.align());
    // SAFETY: no alignment is 0.
    NonNull::slice_from_raw_parts(unsafe { NonNull::new_unchecked(first) }, 0)
}

/// What the trait's function of the same name does, for both of our allocators.
#[inline]
pub(crate) fn allocate(
    blocks: Option<&impl Blocks>,
    layout: Layout,
) -> Result<NonNull<[u8]>, AllocError> {
    if layout.size() == 0 {
        return Ok(nothing(layout));
    }
    slice(blocks.and_then(|blocks| blocks.take(layout)).ok_or(AllocError)?)
}

/// What the trait's function of the same name does, for both of our allocators.
pub(crate) fn allocate_zeroed(
    blocks: Option<&impl Blocks>,
    layout: Layout,
) -> Result<NonNull<[u8]>, AllocError> {
    if layout.size() == 0 {
        return Ok(nothing(layout));
    }
    let blocks = blocks.ok_or(AllocError)?;
    let (address, bytes) = blocks.take(layout).ok_or(AllocError)?;
    // SAFETY: the block just allocated.
    unsafe { blocks.zero(address, bytes) };
    slice((address, bytes))
}

/// As `Allocator::deallocate`.
///
/// # Safety
/// As that.
#[inline]
pub(crate) unsafe fn deallocate(blocks: Option<&impl Blocks>, block: NonNull<u8>, layout: Layout) {
    if layout.size() > 0
        && let Some(blocks) = blocks
    {
        // SAFETY: the caller's promise.
        unsafe { blocks.give(block.as_ptr().expose_provenance(), layout) };
    }
}

/// As `Allocator::grow` and `Allocator::shrink`.
///
/// # Safety
/// As those.
pub(crate) unsafe fn resize(
    blocks: Option<&impl Blocks>,
    block: NonNull<u8>,
    from: Layout,
    to: Layout,
) -> Result<NonNull<[u8]>, AllocError> {
    if from.size() == 0 || to.size() == 0 {
        let new = allocate(blocks, to)?;
        // SAFETY: the caller's promise; there is nothing to copy.
        unsafe { deallocate(blocks, block, from) };
        return Ok(new);
    }
    let blocks = blocks.ok_or(AllocError)?;
    // SAFETY: the caller's promise.
    let resized = unsafe { resize_or_copy(blocks, block.as_ptr().expose_provenance(), from, to) };
    slice(resized.ok_or(AllocError)?)
}

/// Makes an allocator of what has blocks.
macro_rules! allocator {
    ($(#[$doc:meta])* [$($generic:tt)*] $type:ty, $this:ident => $blocks:expr) => {
        $(#[$doc])*
        // SAFETY: a block is its owner's until it is freed, wherever the allocator is moved: its
        // memory is of the yard, which nothing ends.
        unsafe impl<$($generic)*> allocator_api2::alloc::Allocator for $type {
            #[inline]
            fn allocate(
                &self,
                layout: core::alloc::Layout,
            ) -> Result<core::ptr::NonNull<[u8]>, allocator_api2::alloc::AllocError> {
                let $this = self;
                $crate::allocator::allocate($blocks, layout)
            }

            fn allocate_zeroed(
                &self,
                layout: core::alloc::Layout,
            ) -> Result<core::ptr::NonNull<[u8]>, allocator_api2::alloc::AllocError> {
                let $this = self;
                $crate::allocator::allocate_zeroed($blocks, layout)
            }

            #[inline]
            unsafe fn deallocate(
                &self,
                block: core::ptr::NonNull<u8>,
                layout: core::alloc::Layout,
            ) {
                let $this = self;
                // SAFETY: the caller's promise.
                unsafe { $crate::allocator::deallocate($blocks, block, layout) }
            }

            unsafe fn grow(
                &self,
                block: core::ptr::NonNull<u8>,
                from: core::alloc::Layout,
                to: core::alloc::Layout,
            ) -> Result<core::ptr::NonNull<[u8]>, allocator_api2::alloc::AllocError> {
                let $this = self;
                // SAFETY: the caller's promise.
                unsafe { $crate::allocator::resize($blocks, block, from, to) }
            }

            unsafe fn shrink(
                &self,
                block: core::ptr::NonNull<u8>,
                from: core::alloc::Layout,
                to: core::alloc::Layout,
            ) -> Result<core::ptr::NonNull<[u8]>, allocator_api2::alloc::AllocError> {
                let $this = self;
                // SAFETY: the caller's promise.
                unsafe { $crate::allocator::resize($blocks, block, from, to) }
            }
        }
    };
}
pub(crate) use allocator;

allocator! {
    /// Collections whose memory is of the yard's size classes, runs and mappings.
    ///
    /// ```
    /// use hashbrown::HashMap;
    /// use slabyard::ProcessYard;
    /// use std::hash::RandomState;
    ///
    /// static YARD: ProcessYard = ProcessYard::new();
    ///
    /// let mut ages = HashMap::with_hasher_in(RandomState::new(), &YARD);
    /// ages.insert("Ada", 36);
    /// assert_eq!(ages["Ada"], 36);
    /// ```
    [E: Engine] &'static ProcessYard<E>, yard => yard.start().ok()
}

allocator! {
    /// Collections whose memory is of the allocator's yard, be it the program's or not.
    ///
    /// ```
    /// use hashbrown::HashMap;
    /// use slabyard::Global;
    /// use std::hash::RandomState;
    ///
    /// static PACKETS: Global = Global::new();
    ///
    /// let mut lengths = HashMap::with_hasher_in(RandomState::new(), &PACKETS);
    /// lengths.insert(1, 1500);
    /// assert_eq!(lengths[&1], 1500);
    /// ```
    [E: Engine] Global<E>, global => global.yard().ok().and_then(|yard| yard.start().ok())
}
