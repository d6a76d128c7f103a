//! SLUB with CPU slabs.
//!
//! ```text
//! a CPU's words of a cache   | slab:16 first:16 | own objects | list's head:16 its slabs:16 |
//! ```
//!
//! A CPU has a freelist of its own in its slab, apart from the slab's freelist. A CPU partial list
//! links its slabs through their page-table entries, and counts slabs (as in kernels since 5.16).
//!
//! Neighbour: [`slabyard::engine::cpu_slabs`] is the policy.

use super::slabs::{CacheLimits, FixedSlabs, Object, SlabEngine};
use crate::pages::{NONE, PageKind};
use slabyard::engine::cpu_slabs::{
    self, Accounting, CpuPartialLists, CpuSlabs, Freed, Freezing, Front, alloc, free,
};
use slabyard::engine::slabs::{Group, Held, Slabs};
use slabyard::engine::{Header, Shape, partial};
use slabyard_platform::Stopped;

const SLAB: usize = 0;
const OWN: usize = 1;
const LIST: usize = 2;

/// SLUB with CPU slabs (to 6.19).
pub enum CpuSlab {}

impl SlabEngine for CpuSlab {
    type State = cpu_slabs::Rules;
    const CPU_WORDS: u32 = 3;
    const NAME: &'static str = "cpu-slabs";

    fn state(header: &Header, limits: &CacheLimits) -> cpu_slabs::Rules {
        let objects = header.shape().geometry.objects;
        let lists = limits.cpu_partial > 0;
        let kind = cpu_slabs::Rules::of_kind(Freezing::Eager, Accounting::Slabs, lists);
        cpu_slabs::Rules {
            objects,
            min_partial: header.min_partial(),
            cpu_partial: limits.cpu_partial,
            cpu_partial_slabs: (2 * limits.cpu_partial).div_ceil(objects),
            front: Front::CpuSlabs,
            ..kind
        }
    }

    fn alloc(on: FixedSlabs<'_, Self>) -> Option<Object> {
        on.pop_cpu_slab().or_else(|| alloc::alloc_slow(on))
    }

    fn free(on: FixedSlabs<'_, Self>, object: Object) {
        if !on.push_cpu_slab(object) {
            free::free_to_slab(on, on.cache.header.shape(), &FixedSlabs::<Self>::group_of(object));
        }
    }

    fn alloc_below(on: FixedSlabs<'_, Self>) -> Option<Object> {
        alloc::alloc_slow(on)
    }

    fn shrink(on: FixedSlabs<'_, Self>, cpus: impl Iterator<Item = u32>) {
        cpus.for_each(|cpu| alloc::flush_cpu(on.on_cpu(cpu)));
        partial::discard_all_empty(on);
    }

    fn each_parked(
        on: FixedSlabs<'_, Self>,
        cpus: impl Iterator<Item = u32>,
        f: &mut dyn FnMut(Object),
    ) {
        for on in cpus.map(|cpu| on.on_cpu(cpu)) {
            let (slab, mut index, own) = on.own_chain();
            for _ in 0..own {
                f(Object::new(slab, index));
                index = on.behind(slab, index).get().into();
            }
        }
    }
}

/// A CPU's own objects: the first, and how many.
pub struct CpuFreeList {
    first: u16,
    len: u32,
}

impl Held for CpuFreeList {
    fn len(&self) -> u32 {
        self.len
    }
}

/// A CPU partial list: its first slab, and how many.
pub struct List {
    head: u32,
    slabs: u32,
}

impl Held for List {
    fn len(&self) -> u32 {
        self.slabs
    }
}

fn halves(word: u32) -> (u32, u32) {
    (word >> 16, word & 0xffff)
}

impl FixedSlabs<'_, CpuSlab> {
    /// Takes an object of this CPU's slab.
    #[inline]
    pub fn pop_cpu_slab(self) -> Option<Object> {
        let words = self.words();
        let own = words[OWN].get().checked_sub(1)?;
        let (slab, first) = halves(words[SLAB].get());
        let next = self.behind(slab, first).get();
        words[SLAB].set(slab << 16 | u32::from(next));
        words[OWN].set(own);
        Some(Object::new(slab, first))
    }

    /// Puts an object back to this CPU's slab; false if it is of another one.
    #[inline]
    pub fn push_cpu_slab(self, object: Object) -> bool {
        let words = self.words();
        let (slab, first) = halves(words[SLAB].get());
        if slab != object.slab() {
            return false;
        }
        if first != object.index() {
            self.behind(slab, object.index()).set(first as u16);
            words[SLAB].set(slab << 16 | object.index());
            words[OWN].set(words[OWN].get() + 1);
        }
        true
    }

    /// The chain of this CPU's own objects: their slab, the first, how many (for `verify`).
    pub fn own_chain(self) -> (u32, u32, u32) {
        let words = self.words();
        let (slab, first) = halves(words[SLAB].get());
        (slab, first, words[OWN].get())
    }

    fn unlink_parked(self, list: &mut List, slab: u32) {
        let entry = self.pages.table().entry(slab);
        let (prev, next) = (u32::from(entry.prev.get()), u32::from(entry.next.get()));
        match prev {
            0 => list.head = next,
            _ => self.pages.table().entry(prev).next.set(next as u16),
        }
        if next != 0 {
            self.pages.table().entry(next).prev.set(prev as u16);
        }
        entry.set_kind(PageKind::Slab);
        list.slabs -= 1;
    }
}

impl CpuPartialLists for FixedSlabs<'_, CpuSlab> {
    type List = List;

    fn cpu_rules(&self) -> &cpu_slabs::Rules {
        &self.cache.state
    }

    fn check_out_list(self) -> Option<List> {
        let (head, slabs) = halves(self.words()[LIST].take());
        Some(List { head, slabs })
    }

    fn check_in_list(self, list: List) -> Option<List> {
        let (head, slabs) = halves(self.words()[LIST].replace(list.head << 16 | list.slabs));
        (slabs > 0).then_some(List { head, slabs })
    }

    fn objects_of(self, list: &List) -> u32 {
        // Slabs are what is counted.
        list.slabs
    }

    fn park(self, list: &mut List, slab: u32, _free: u32) -> bool {
        let entry = self.pages.table().entry(slab);
        entry.prev.set(0);
        entry.next.set(list.head as u16);
        if list.head != 0 {
            self.pages.table().entry(list.head).prev.set(slab as u16);
        }
        entry.set_kind(PageKind::Parked);
        *list = List { head: slab, slabs: list.slabs + 1 };
        true
    }

    fn unpark(self, list: &mut List) -> Option<u32> {
        let slab = self.next_parked(list)?;
        self.unlink_parked(list, slab);
        Some(slab)
    }

    fn unpark_empty(self, list: &mut List) -> Option<u32> {
        let objects = self.cache.header.shape().geometry.objects;
        let mut slab = list.head;
        while slab != 0 && self.free_of(slab).1 < objects {
            slab = self.pages.table().entry(slab).next.get().into();
        }
        (slab != 0).then(|| self.unlink_parked(list, slab)).map(|()| slab)
    }

    fn next_parked(self, list: &List) -> Option<u32> {
        (list.head != 0).then_some(list.head)
    }

    fn give_list(self, _: List) {}
}

impl CpuSlabs for FixedSlabs<'_, CpuSlab> {
    type Own = CpuFreeList;

    fn check_out_slab(self) -> Result<Option<cpu_slabs::CpuSlab<CpuFreeList>>, Stopped> {
        let words = self.words();
        let (slab, first) = halves(words[SLAB].take());
        let own = CpuFreeList { first: first as u16, len: words[OWN].take() };
        Ok((slab != 0).then_some(cpu_slabs::CpuSlab { slab, own }))
    }

    fn check_in_slab(
        self,
        slab: cpu_slabs::CpuSlab<CpuFreeList>,
    ) -> Option<cpu_slabs::CpuSlab<CpuFreeList>> {
        let found = self.check_out_slab().ok().flatten();
        let words = self.words();
        words[SLAB].set(slab.slab << 16 | u32::from(slab.own.first));
        words[OWN].set(slab.own.len);
        found
    }

    fn new_own(self) -> Option<CpuFreeList> {
        Some(CpuFreeList { first: NONE, len: 0 })
    }

    fn give_own(self, _: CpuFreeList) {}

    fn pop_own(self, slab: &mut cpu_slabs::CpuSlab<CpuFreeList>) -> Option<Object> {
        slab.own.len = slab.own.len.checked_sub(1)?;
        let index = u32::from(slab.own.first);
        slab.own.first = self.behind(slab.slab, index).get();
        Some(Object::new(slab.slab, index))
    }

    fn take_over(self, _: &Shape, slab: u32, own: &mut CpuFreeList) -> u32 {
        let entry = self.pages.table().entry(slab);
        let taken = u32::from(entry.free.replace(0));
        own.first = entry.first.replace(NONE);
        own.len = taken;
        entry.set_kind(if taken > 0 { PageKind::OnCpu } else { PageKind::Slab });
        taken
    }

    fn put_back(self, shape: &Shape, slab: u32, own: &mut CpuFreeList) -> (u32, u32) {
        let entry = self.pages.table().entry(slab);
        let before = u32::from(entry.free.get());
        let mut cpu_slab =
            cpu_slabs::CpuSlab { slab, own: CpuFreeList { first: own.first, len: own.len } };
        while let Some(object) = self.pop_own(&mut cpu_slab) {
            let _put = self.put(shape, &Self::group_of(object));
        }
        *own = CpuFreeList { first: NONE, len: 0 };
        entry.set_kind(PageKind::Slab);
        (before, entry.free.get().into())
    }

    fn free_into(self, shape: &Shape, group: &Group, _freezes: bool) -> Freed {
        let kind = self.pages.table().entry(group.slab).kind();
        let put = self.put(shape, group);
        let parked = kind == PageKind::Parked;
        Freed {
            version: put.version,
            before: put.before,
            added: put.added,
            frozen: kind == PageKind::OnCpu || parked && self.cpu_rules().freezing.freezes_parked(),
            parked,
            unparked: false,
        }
    }

    fn freeze(self, _: u32) {}

    fn thaw(self, _: u32) {}
}
