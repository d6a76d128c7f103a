//! The state of a typed cache, in a block of its yard: the words that its fast path reads, and the
//! data for its slow paths. Boxes point to it, so it is freed only after the last box.
//!
//! ```text
//! Block  | owner |   inside (a line)   |   outside (a line)   |
//!                  ^ handle, boxes       ^ boxes of objects that lie in mappings
//! ```
//!
//! An object that was allocated in a signal handler that interrupted a slow path, or while another
//! thread forked, is in a mapping and not in a slab. Its box points to the second record, whose
//! slot is 0. So freeing the object takes the slow path, which reads the page map; fast frees need
//! not.

use super::home::{Home, YardOf};
use super::kind::{Fresh, ObjectKind};
use super::record::{Lies, Record};
use crate::cache::{CacheId, CacheSettings};
use crate::calls::bulk::{PIECE, push_run};
use crate::created::abandoned;
use crate::created::abandoned::Owner;
use crate::engine::EngineKind;
use crate::platform::{PerCpu, Slot};
use crate::slab::Geometry;
use core::ptr::NonNull;

const _: () = assert!(Geometry::LARGEST <= u16::MAX as _, "an object's bytes fit into a record");

/// What a cache keeps of itself.
#[repr(C)]
pub(super) struct Block<Y: Home> {
    owner: Owner,
    inside: Record<Y>,
    outside: Record<Y>,
}

/// Distance of each record from the block's begin.
const fn at<Y: Home>(lies: Lies) -> usize {
    match lies {
        Lies::Inside => core::mem::offset_of!(Block<Y>, inside),
        Lies::Outside => core::mem::offset_of!(Block<Y>, outside),
    }
}

/// Makes the block of a cache; `None` if there is no memory.
pub(super) fn make<Y: Home>(
    yard: &'static YardOf<Y>,
    id: CacheId,
    settings: &CacheSettings,
    make: Option<fn()>,
    reset: Option<fn()>,
) -> Option<NonNull<Record<Y>>> {
    let record = |lies| {
        let slot = if lies == Lies::Inside { id.slot() } else { Slot(0) };
        let words = yard.fast_path(id, slot);
        let align_order = settings.align.ilog2() as u8;
        let bytes = settings.object as u16;
        Record { words, yard, id, lies, align_order, bytes, make, reset }
    };
    let address = yard.alloc(size_of::<Block<Y>>(), align_of::<Block<Y>>())?;
    let block = core::ptr::with_exposed_provenance_mut::<Block<Y>>(address);
    let value =
        Block { owner: Owner::new(), inside: record(Lies::Inside), outside: record(Lies::Outside) };
    // SAFETY: a fresh allocation of this size and alignment.
    unsafe { block.write(value) };
    // SAFETY: as above; the pointer keeps the provenance of the whole block.
    NonNull::new(unsafe { block.byte_add(at::<Y>(Lies::Inside)) }.cast())
}

impl<Y: Home> Record<Y> {
    /// Address of its block, which begins with an [`Owner`].
    pub(super) fn block(&self) -> usize {
        (self as *const Self).expose_provenance() - at::<Y>(self.lies)
    }

    /// The record for an object at an address, which is live and of this cache, or was just
    /// allocated for it.
    pub(super) fn of(&self, address: usize) -> NonNull<Self> {
        let lies = match self.yard.heap.class_at(address) {
            Some(number) if number == self.id.number() => Lies::Inside,
            _ => Lies::Outside,
        };
        self.other(lies)
    }

    /// Bytes of an object, and its alignment.
    #[cfg(feature = "allocator-api2")]
    pub(super) fn object(&self) -> (usize, usize) {
        (usize::from(self.bytes), 1 << self.align_order)
    }

    fn other(&self, lies: Lies) -> NonNull<Self> {
        let address = self.block() + at::<Y>(lies);
        let record = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: within the block.
        unsafe { NonNull::new_unchecked(record) }
    }

    /// The owner at the block's begin.
    pub(super) fn owner(&self) -> &Owner {
        // SAFETY: the block lives at least as long as its records.
        unsafe { &*core::ptr::with_exposed_provenance(self.block()) }
    }

    /// Allocates an object, by the fast path first. `None` if there is no memory: only the slow path
    /// tests for that.
    #[inline(always)]
    pub(super) fn alloc(&self) -> Option<(usize, NonNull<Self>)> {
        if let Some(address) = self.yard.platform().pop_inlined(&self.words) {
            return Some((address, NonNull::from(self)));
        }
        match self.alloc_slow() {
            (0, _) => None,
            made => Some(made),
        }
    }

    /// As [`Record::alloc`]; the address is 0 if there is no memory. Two registers hold the pair.
    #[cold]
    #[inline(never)]
    fn alloc_slow(&self) -> (usize, NonNull<Self>) {
        let Some(address) = self.yard.alloc_from_slow(self.id) else {
            return (0, NonNull::from(self));
        };
        let record = self.of(address);
        // SAFETY: a record of our block.
        if unsafe { record.as_ref() }.lies == Lies::Outside {
            self.owner().add_mapping();
        }
        (address, record)
    }

    /// Allocates as many objects as there is room for, or none: then `None`. If one is in a
    /// mapping, [`Record::of_bulk`] looks at the page map for each.
    #[inline(never)]
    pub(super) fn alloc_bulk(&self, addresses: &mut [usize]) -> Option<Lies> {
        let mut lie = Lies::Inside;
        let mut done = 0;
        while done < addresses.len() {
            let wanted = (addresses.len() - done).min(PIECE);
            let piece = &mut addresses[done..done + wanted];
            let popped = self.yard.platform().pop_many(self.words.slot_of_pop(), piece);
            done += popped;
            if popped < wanted {
                let (address, record) = self.alloc_slow();
                if address == 0 {
                    // SAFETY: they were allocated above, and nobody else knows them.
                    unsafe { self.give_back(lie, &addresses[..done]) };
                    return None;
                }
                // SAFETY: a record of our block.
                if unsafe { record.as_ref() }.lies == Lies::Outside {
                    lie = Lies::Outside;
                }
                addresses[done] = address;
                done += 1;
            }
        }
        Some(lie)
    }

    /// The record for an object of a bulk, all of which lie inside or one outside.
    #[inline(always)]
    pub(super) fn of_bulk(&self, lie: Lies, address: usize) -> NonNull<Self> {
        match lie {
            Lies::Inside => NonNull::from(self),
            Lies::Outside => self.of_mixed(address),
        }
    }

    #[cold]
    #[inline(never)]
    fn of_mixed(&self, address: usize) -> NonNull<Self> {
        self.of(address)
    }

    /// Frees objects of a bulk that have no values.
    ///
    /// # Safety
    /// Allocated by [`Record::alloc_bulk`], which said how they lie, and nobody has them.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn give_back(&self, lie: Lies, addresses: &[usize]) {
        for &address in addresses {
            // SAFETY: the caller's promise; the record is the object's.
            unsafe { self.of_bulk(lie, address).as_ref().free::<(), Fresh>(address) };
        }
    }

    /// Frees an object, by the fast path first.
    ///
    /// # Safety
    /// A live object of this cache, of which this is the record, and which nobody uses any more;
    /// of this type and kind.
    #[inline(always)]
    pub(super) unsafe fn free<T, K: ObjectKind>(&self, address: usize) {
        // A stack that takes the objects of one slab is for the slow path.
        if Y::Engine::TAGGED || !self.yard.platform().push_inlined(&self.words, address) {
            // SAFETY: the caller's promise.
            unsafe { self.free_slow::<T, K>(address) };
        }
    }

    /// Frees objects of a cache whose handle is there.
    ///
    /// # Safety
    /// As [`Record::free`], for each; none twice.
    #[inline(never)]
    pub(super) unsafe fn free_bulk<T, K: ObjectKind>(&self, addresses: &[usize]) {
        let mut done = 0;
        while done < addresses.len() {
            let left = &addresses[done..];
            // The handle is there, so nobody closes the words.
            done += push_run(self.yard, self.id, left);
            if let Some(address) = addresses.get(done) {
                // SAFETY: the caller's promise.
                unsafe { self.free_slow::<T, K>(*address) };
                done += 1;
            }
        }
    }

    /// As [`Record::free`]. Once the object is freed, the record may be gone.
    #[cold]
    #[inline(never)]
    unsafe fn free_slow<T, K: ObjectKind>(&self, address: usize) {
        // SAFETY: the caller's promise.
        unsafe { K::before_slow_free::<T, Y>(address, self) };
        let &Record { yard, id, lies, .. } = self;
        let block = self.block();
        let freed = yard.free(address);
        debug_assert!(freed.is_ok(), "a box has a live object");
        match lies {
            Lies::Outside => abandoned::leave_owner(yard, block),
            Lies::Inside => _ = abandoned::end_if_abandoned(yard, id),
        }
    }
}
