//! A cache's state per CPU in a yard, on which the policy of CPU slabs works.
//!
//! A CPU's main stack represents its slab: the elements are the slab's objects that only this CPU
//! may take; the tag lets a free push only objects of this slab. A CPU partial list is the spare
//! stack, whose elements are [`Parked`] slabs; only a thread that checked it out pushes to it or
//! pops from it. A word of each array ([`Sheaf`]'s first note) names the CPU's slab, or counts the
//! list's objects. If sheaves take the stacks, both arrays are in a bank ([`super::below`]).
//!
//! [`Sheaf`]: crate::pages::Sheaf

use super::below::Part;
use super::{Accounting, CpuPartialLists, CpuSlab, CpuSlabs, Freed, Front, Rules, alloc};
use crate::engine::page_slabs::Ruled;
use crate::engine::slabs::{self, Group, Links, NodeList, Slabs};
use crate::engine::{Counter, PageSlabs, Shape};
use crate::pages::descriptor::NIL;
use crate::pages::{Cause, Sheaf};
use crate::platform::stack::Tag;
use crate::platform::{Platform, Stack, Stopped};
use crate::slab::freeset::MOST_WORDS;
use crate::slab::frozen::{Exchanged, FROZEN, PARKED};
use crate::slab::{Version, Word, frozen};
use crate::sync::{AtomicUsize, Ordering};

/// A slab on a CPU partial list, as the list's element.
///
/// By [`Accounting::Exact`] the other half is the version that the slab got as it joined: it may
/// have left the list meanwhile. Else it is how many free objects the slab had when it joined.
#[derive(Clone, Copy)]
pub(super) struct Parked {
    pub(super) slab: u32,
    other: u32,
}

impl Parked {
    const SHIFT: u32 = usize::BITS / 2;

    pub(super) const fn of(element: usize) -> Self {
        let slab = (element & ((1 << Self::SHIFT) - 1)) as u32;
        Parked { slab, other: (element >> Self::SHIFT) as u32 }
    }

    const fn element(self) -> usize {
        (self.other as usize) << Self::SHIFT | self.slab as usize
    }

    /// True if this is the slab's word while it is on a list that counts exactly.
    const fn is_in(self, word: u64) -> bool {
        word & PARKED != 0 && (word >> 32) as u32 == self.other
    }
}

/// A link of a slab on a CPU partial list, instead of the slab in front of it.
const ON_CPU_LIST: u32 = u32::MAX;

/// The rules of slabs below CPUs: those of the kernel.
const BELOW: slabs::Rules = slabs::Rules { refill: slabs::Refill::Below, ..slabs::Rules::KERNEL };

impl Ruled for Rules {
    const RULES: slabs::Rules = BELOW;

    fn alloc_below<P: Platform>(on: PageSlabs<'_, P, Self>) -> Option<usize> {
        alloc::alloc_slow(on)
    }

    fn free_below<P: Platform>(on: PageSlabs<'_, P, Self>, address: usize) {
        on.free_to_bank(address);
    }

    fn tag<P: Platform>(_on: PageSlabs<'_, P, Self>) -> Option<Tag> {
        Some(Tag::ANY)
    }
}

impl<P: Platform> PageSlabs<'_, P, Rules> {
    /// Replaces what this CPU has: its stack holds it, or below sheaves its bank.
    ///
    /// # Errors
    /// [`Stopped`] if it cannot have it now; nothing has changed then.
    fn exchange(self, part: Part, new: Stack) -> Result<Stack, Stopped> {
        let shape = self.cache.shape();
        match part {
            _ if self.rules.front == Front::SheavesOverCpuSlabs => self.exchange_in_bank(part, new),
            Part::Slab => self.heap.platform.exchange(shape.main(), new),
            Part::List => self.heap.platform.exchange(shape.spare(), new),
        }
    }

    fn count_failed(&self, exchanged: &Exchanged) {
        self.count(Counter::CmpxchgFail, exchanged.failed);
    }

    /// The slab whose CPU slab an array holds.
    pub(super) fn slab_of(&self, own: &Sheaf) -> u32 {
        self.heap.sheaves.notes(own)[0].load(Ordering::Relaxed)
    }

    /// Calls `f` with each slab of a list.
    pub(super) fn each_on_list(self, list: &Sheaf, f: &mut dyn FnMut(u32)) {
        for element in self.heap.sheaves.objects(list) {
            let parked = Parked::of(element.load(Ordering::Relaxed));
            if self.is_on_list(parked) {
                f(parked.slab);
            }
        }
    }

    pub(super) fn cpu_slab_in(self, stack: Stack) -> Option<CpuSlab<Sheaf>> {
        let own = self.heap.sheaves.adopt(stack)?;
        Some(CpuSlab { slab: self.slab_of(&own), own })
    }

    /// A slab whose element was taken out of a list leaves the list; false if a free took it off
    /// before.
    fn left_list(&self, list: &Sheaf, parked: Parked) -> bool {
        if self.cpu_rules().accounting == Accounting::Exact {
            // A free may take it off at the same time: the exchange tells.
            let exchanged = frozen::exchange_word(self.heap, parked.slab, |word| {
                if parked.is_in(word) { word & !PARKED } else { word }
            });
            self.count_failed(&exchanged);
            if !parked.is_in(exchanged.old) {
                return false;
            }
        } else {
            let counted = self.heap.sheaves.notes(list)[0];
            let left = counted.load(Ordering::Relaxed) - parked.other;
            counted.store(left, Ordering::Relaxed);
        }
        self.links(parked.slab).set_prev(NIL);
        true
    }

    /// True if a parked slab is still on the list.
    pub(super) fn is_on_list(&self, parked: Parked) -> bool {
        if self.cpu_rules().accounting != Accounting::Exact {
            return true;
        }
        // Relaxed: who uses the slab takes it off by an exchange.
        parked.is_in(self.heap.region.descriptor(parked.slab).word.load(Ordering::Relaxed))
    }
}

impl<P: Platform> CpuPartialLists for PageSlabs<'_, P, Rules> {
    type List = Sheaf;

    fn cpu_rules(&self) -> &Rules {
        &self.rules
    }

    fn check_out_list(self) -> Option<Sheaf> {
        let (sheaves, p) = (&self.heap.sheaves, &self.heap.platform);
        let stack = self.exchange(Part::List, Stack::NONE).ok()?;
        sheaves.adopt(stack).or_else(|| {
            let most = self.cpu_rules().cpu_partial.max(self.cpu_rules().cpu_partial_slabs) + 1;
            let list = sheaves.take(p, most.min(Shape::STACK_OBJECTS))?;
            sheaves.notes(&list)[0].store(0, Ordering::Relaxed);
            Some(list)
        })
    }

    fn check_in_list(self, list: Sheaf) -> Option<Sheaf> {
        let sheaves = &self.heap.sheaves;
        let new = sheaves.publish(list, 0);
        sheaves.adopt(self.exchange(Part::List, new).unwrap_or(new))
    }

    fn objects_of(self, list: &Sheaf) -> u32 {
        let sheaves = &self.heap.sheaves;
        if self.cpu_rules().accounting != Accounting::Exact {
            return sheaves.notes(list)[0].load(Ordering::Relaxed);
        }
        let parked = sheaves.objects(list).iter().map(|e| Parked::of(e.load(Ordering::Relaxed)));
        parked.filter(|parked| self.is_on_list(*parked)).map(|p| self.free_of(p.slab).1).sum()
    }

    fn park(self, list: &mut Sheaf, slab: u32, free: u32) -> bool {
        let sheaves = &self.heap.sheaves;
        if list.len() == sheaves.room(list) {
            return false;
        }
        self.links(slab).set_prev(ON_CPU_LIST);
        let other = if self.cpu_rules().accounting == Accounting::Exact {
            let exchanged = frozen::park_slab(self.heap, slab);
            self.count_failed(&exchanged);
            exchanged.after().0.number()
        } else {
            free
        };
        sheaves.push(list, Parked { slab, other }.element());
        let counted = sheaves.notes(list)[0];
        counted.store(counted.load(Ordering::Relaxed) + free, Ordering::Relaxed);
        true
    }

    fn unpark(self, list: &mut Sheaf) -> Option<u32> {
        loop {
            let parked = Parked::of(self.heap.sheaves.pop(list)?);
            if self.left_list(list, parked) {
                return Some(parked.slab);
            }
        }
    }

    fn unpark_empty(self, list: &mut Sheaf) -> Option<u32> {
        let (sheaves, objects) = (&self.heap.sheaves, self.cache.shape().geometry.objects);
        let is_empty = |element: &AtomicUsize| {
            let parked = Parked::of(element.load(Ordering::Relaxed));
            self.is_on_list(parked) && self.free_of(parked.slab).1 == objects
        };
        loop {
            let nth = sheaves.objects(list).iter().rposition(is_empty)?;
            let parked = Parked::of(sheaves.remove(list, nth));
            if self.left_list(list, parked) {
                return Some(parked.slab);
            }
        }
    }

    fn next_parked(self, list: &Sheaf) -> Option<u32> {
        self.heap.sheaves.top(list).map(|element| Parked::of(element).slab)
    }

    fn give_list(self, list: Sheaf) {
        self.heap.sheaves.give(&self.heap.platform, list);
    }
}

impl<P: Platform> CpuSlabs for PageSlabs<'_, P, Rules> {
    type Own = Sheaf;

    fn check_out_slab(self) -> Result<Option<CpuSlab<Sheaf>>, Stopped> {
        let stack = self.exchange(Part::Slab, Stack::NONE)?;
        Ok(self.cpu_slab_in(stack))
    }

    fn check_in_slab(self, slab: CpuSlab<Sheaf>) -> Option<CpuSlab<Sheaf>> {
        let (heap, shape) = (self.heap, self.cache.shape());
        let CpuSlab { slab, own } = slab;
        heap.sheaves.notes(&own)[0].store(slab, Ordering::Relaxed);
        let tag = Tag { base: heap.region.address(slab), mask: !(shape.geometry.slab_bytes() - 1) };
        let new = heap.sheaves.publish_tagged(own, u32::MAX, tag);
        match self.exchange(Part::Slab, new) {
            Ok(old) => self.cpu_slab_in(old),
            // Stopped: no other thread has seen the new one, it is ours again.
            Err(Stopped) => self.cpu_slab_in(new),
        }
    }

    fn new_own(self) -> Option<Sheaf> {
        let objects = self.cache.shape().geometry.objects.min(Shape::STACK_OBJECTS);
        self.heap.sheaves.take(&self.heap.platform, objects)
    }

    fn give_own(self, own: Sheaf) {
        self.heap.sheaves.give(&self.heap.platform, own);
    }

    fn pop_own(self, slab: &mut CpuSlab<Sheaf>) -> Option<usize> {
        self.heap.sheaves.pop(&mut slab.own)
    }

    fn take_over(self, shape: &Shape, slab: u32, own: &mut Sheaf) -> u32 {
        let (heap, geometry) = (self.heap, &shape.geometry);
        let (begin, stride) = (heap.region.address(slab), geometry.size as usize);
        let room = heap.sheaves.room(own) - own.len();
        let mut filling = heap.sheaves.filling(own);
        let exchanged = frozen::take_frozen(heap, slab, room, |word, mask| {
            filling.push_each(geometry.address_of(begin, word.index_of(0)), stride, mask);
        });
        self.count_failed(&exchanged);
        let taken = exchanged.before().1 - exchanged.free();
        self.cache.shown.out.fetch_add(taken.into(), Ordering::Relaxed);
        taken
    }

    fn put_back(self, shape: &Shape, slab: u32, own: &mut Sheaf) -> (u32, u32) {
        let (heap, geometry) = (self.heap, &shape.geometry);
        let begin = heap.region.address(slab);
        let mut masks = [0; MOST_WORDS];
        while let Some(address) = heap.sheaves.pop(own) {
            let offset = address.wrapping_sub(begin);
            let index = u32::try_from(offset).ok().and_then(|offset| geometry.object_at(offset));
            let Some(index) = index else {
                heap.misuse(Cause::Interior, address, shape.slot);
                continue;
            };
            let (word, bit) = Word::of(index);
            let mask = &mut masks[word.number()];
            if *mask & bit != 0 {
                heap.misuse(Cause::DoubleFree, address, shape.slot);
            }
            *mask |= bit;
        }
        let exchanged = frozen::thaw_with(heap, slab, &mut masks);
        self.count_failed(&exchanged);
        for (nth, twice) in masks.iter().enumerate() {
            self.report_twice(shape, slab, Word::nth(nth), *twice);
        }
        let (before, free) = (exchanged.before().1, exchanged.free());
        self.cache.shown.out.fetch_sub((free - before).into(), Ordering::Relaxed);
        (before, free)
    }

    fn free_into(self, shape: &Shape, group: &Group, freezes: bool) -> Freed {
        let &Group { slab, word, mask } = group;
        let objects = u64::from(shape.geometry.objects);
        let parked = self.links(slab).prev() == ON_CPU_LIST;
        let free_in = |word: u64| word & u64::from(u16::MAX);
        let (exchanged, twice) = frozen::put_with(self.heap, slab, word, mask, |old, new| {
            if freezes && free_in(old) == 0 && free_in(new) > 0 && old & FROZEN == 0 {
                new | FROZEN
            } else if old & PARKED != 0 && free_in(new) == objects {
                new & !(FROZEN | PARKED)
            } else {
                new
            }
        });
        self.count_failed(&exchanged);
        self.report_twice(shape, slab, word, twice);
        let (version, before): (Version, u32) = exchanged.before();
        let added = exchanged.free() - before;
        self.cache.shown.out.fetch_sub(added.into(), Ordering::Relaxed);
        Freed {
            version,
            before,
            added,
            frozen: exchanged.old & FROZEN != 0,
            parked,
            unparked: exchanged.old & PARKED != 0 && exchanged.new & PARKED == 0,
        }
    }

    fn freeze(self, slab: u32) {
        let exchanged = frozen::set_flags(self.heap, slab, FROZEN, 0);
        self.count_failed(&exchanged);
    }

    fn thaw(self, slab: u32) {
        let exchanged = frozen::set_flags(self.heap, slab, 0, FROZEN | PARKED);
        self.count_failed(&exchanged);
    }
}
