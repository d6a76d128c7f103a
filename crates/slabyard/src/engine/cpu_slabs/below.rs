//! Stores the CPU slabs of a cache that also has sheaves, which take the CPU's stacks.
//!
//! One sheaf of the pool is cut into banks of `abi::region::front::BANK` elements: the tops of two
//! arrays, the CPU's slab and its partial list. A CPU uses the bank that its row's number selects;
//! with more rows than banks, some rows share one. Only slow paths use banks, and any thread may
//! take an array out of one, by an atomic exchange, so a drain needs no fence.
//!
//! Four slots per cache in every engine were rejected: they would have doubled the cache lines that
//! the fast path of the preload library touches.
//!
//! Neighbours: [`super::engine`] uses the banks; [`super::on_pages`] implements the policy's
//! interface. Invariant: an array is in one bank, or held by one thread.

use super::{CpuPartialLists, CpuSlab, CpuSlabs, Rules, alloc, free, lists};
use crate::engine::slabs::Group;
use crate::engine::{PageSlabs, Shape};
use crate::pages::{PageHeap, Sheaf};
use crate::platform::{Platform, Stack, Stopped};
use crate::slab;
use crate::slab::Word;
use crate::sync::{AtomicUsize, Ordering};
use slabyard_abi::region::front::BANK;

/// What a CPU has of a cache, in the order of a bank.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Slab = 0,
    List = 1,
}

/// The elements of all banks; none before the first slow path.
fn banks<'a, P: Platform>(
    heap: &'a PageHeap<P>,
    on: &PageSlabs<'_, P, Rules>,
) -> &'a [AtomicUsize] {
    // Acquire pairs with the Release in `make_banks`.
    heap.sheaves.objects_of(on.cache.below().load(Ordering::Acquire) as u32)
}

impl<P: Platform> PageSlabs<'_, P, Rules> {
    /// Makes the banks, if they are not there. Without memory for them no CPU has a slab.
    pub(super) fn make_banks(self) {
        let (heap, below) = (self.heap, self.cache.below());
        if below.load(Ordering::Relaxed) != 0 {
            return;
        }
        let Some(mut sheaf) = heap.sheaves.take(&heap.platform, Shape::STACK_OBJECTS) else {
            return;
        };
        while sheaf.len() < heap.sheaves.room(&sheaf) / BANK as u32 * BANK as u32 {
            heap.sheaves.push(&mut sheaf, 0);
        }
        let made = heap.sheaves.publish(sheaf, 0);
        let top = u64::from(made.top);
        // Release: who finds the banks finds them empty.
        if below.compare_exchange(0, top, Ordering::Release, Ordering::Relaxed).is_err() {
            self.give(made);
        }
    }

    /// Gives the banks back, which are empty; nobody uses them any more.
    pub(super) fn end_banks(self) {
        let top = self.cache.below().swap(0, Ordering::Relaxed) as u32;
        self.give(Stack { top, end: 0 });
    }

    fn give(self, stack: Stack) {
        if let Some(mut sheaf) = self.heap.sheaves.adopt(stack) {
            // Its elements are banks and no objects.
            let elements = Sheaf::len(&sheaf);
            self.heap.sheaves.shorten(&mut sheaf, elements);
            self.heap.sheaves.give(&self.heap.platform, sheaf);
        }
    }

    pub(super) fn exchange_in_bank(self, part: Part, new: Stack) -> Result<Stack, Stopped> {
        let banks = banks(self.heap, &self);
        let nr = banks.len() / BANK;
        if nr == 0 {
            return Err(Stopped);
        }
        let bank = self.heap.platform.row_hint().unwrap_or(0) % nr;
        Ok(self.swap(&banks[bank * BANK + part as usize], new))
    }

    fn swap(self, element: &AtomicUsize, new: Stack) -> Stack {
        self.heap.platform.step();
        // AcqRel: the next to take the array sees what is in it, and this thread what the last
        // one left.
        let old = element.swap(new.top as usize, Ordering::AcqRel);
        Stack { top: old as u32, end: 0 }
    }

    /// What an element has, which is nothing of most: banks are as many as fit into a sheaf.
    fn take(self, element: &AtomicUsize) -> Stack {
        if element.load(Ordering::Relaxed) == 0 {
            Stack::NONE
        } else {
            self.swap(element, Stack::NONE)
        }
    }

    /// Frees an object of a sheaf: to this CPU's slab, or to its own.
    pub(super) fn free_to_bank(self, address: usize) {
        let shape = self.cache.shape();
        match slab::resolve(&self.heap.region, &shape.geometry, shape.slot, address) {
            Err(cause) => self.heap.misuse(cause, address, shape.slot),
            Ok(object) if self.push_to_own(object.slab, address) => {}
            Ok(object) => {
                let (word, mask) = Word::of(object.index);
                free::free_to_slab(self, shape, &Group { slab: object.slab, word, mask });
            }
        }
    }

    /// Pushes an object to this CPU's slab, if it is of that slab.
    fn push_to_own(self, slab: u32, address: usize) -> bool {
        let Ok(Some(mut own)) = self.check_out_slab() else { return false };
        let sheaves = &self.heap.sheaves;
        let mine = own.slab == slab && own.own.len() < sheaves.room(&own.own);
        if mine {
            sheaves.push(&mut own.own, address);
        }
        alloc::check_in(self, own);
        mine
    }

    /// Calls `f` with each CPU's slab, and `g` with each list. Each is in this thread's hands
    /// meanwhile.
    pub(super) fn each_bank(
        self,
        f: &mut dyn FnMut(&CpuSlab<Sheaf>),
        g: &mut dyn FnMut(&mut Sheaf),
    ) {
        for bank in banks(self.heap, &self).chunks_exact(BANK) {
            let element = &bank[Part::Slab as usize];
            if let Some(slab) = self.cpu_slab_in(self.take(element)) {
                f(&slab);
                let back = self.heap.sheaves.publish(slab.own, 0);
                self.drain_slab(self.swap(element, back));
            }
            let element = &bank[Part::List as usize];
            if let Some(mut list) = self.heap.sheaves.adopt(self.take(element)) {
                g(&mut list);
                let back = self.heap.sheaves.publish(list, 0);
                self.drain_list(self.swap(element, back));
            }
        }
    }

    pub(super) fn drain_banks(self) {
        for bank in banks(self.heap, &self).chunks_exact(BANK) {
            self.drain_slab(self.take(&bank[Part::Slab as usize]));
            self.drain_list(self.take(&bank[Part::List as usize]));
        }
    }

    fn drain_slab(self, old: Stack) {
        if let Some(slab) = self.cpu_slab_in(old) {
            self.give_own(alloc::deactivate(self, slab));
        }
    }

    fn drain_list(self, old: Stack) {
        if let Some(mut list) = self.heap.sheaves.adopt(old) {
            lists::drain(self, &mut list);
            self.give_list(list);
        }
    }
}
