//! The slabs on which the policy works in the lab: entries of [`numbers`](super::numbers), not
//! pages.
//!
//! Neighbours: [`slabyard::engine::slabs`] says what each function must do; [`KernelCache`] holds
//! the counts. One call is under way at a time, so none waits for locks.

use super::containers::CountedSheaf;
use super::numbers::Slab;
use super::{Front, KernelCache, NONE};
use crate::counters::SheafCounter;
use slabyard::engine::slabs::{
    FlushTarget, Group, Held, NodeList, Rules, SheafAccess, Slabs, Stacks,
};
use slabyard::engine::{Counter, Header, Shape, array_cache, flush, partial};
use slabyard::pages::NODE_LIMIT;
use slabyard::platform::stack::Tag;
use slabyard::platform::{Slot, Stopped};
use slabyard::slab::{Geometry, Put, Version, Word};
use slabyard::sync::{AtomicUsize, Nobody};
use std::cell::RefCell;
use std::iter::repeat_n;

impl KernelCache {
    /// The slabs of a CPU's node.
    #[inline]
    pub(crate) fn at(&self, cpu: usize) -> CountedSlabs<'_> {
        CountedSlabs { cache: self, cpu, node: self.node_of[cpu], wanted: None }
    }

    /// The slabs of another one's node, which a CPU has to do with.
    #[inline]
    pub(crate) fn at_node_of(&self, cpu: usize, slab: u32) -> CountedSlabs<'_> {
        CountedSlabs { node: self.slab(slab).node.get(), ..self.at(cpu) }
    }
}

/// The slabs of a cache at one node, as a CPU has to do with them.
#[derive(Clone, Copy)]
pub struct CountedSlabs<'a> {
    pub(crate) cache: &'a KernelCache,
    pub(crate) cpu: usize,
    pub(crate) node: u16,
    /// The node that an allocation requests.
    pub(crate) wanted: Option<u16>,
}

impl NodeList for CountedSlabs<'_> {
    type Links = Slab;
    type Park = Nobody;

    #[inline]
    fn cache(&self) -> &Header {
        &self.cache.nodes[self.node as usize].header
    }

    #[inline]
    fn park(&self) -> &Nobody {
        &self.cache.nobody
    }

    #[inline]
    fn rules(&self) -> Rules {
        self.cache.sheaf_rules
    }

    #[inline]
    fn count(self, counter: Counter, n: u32) {
        self.cache.counters.add(counter, n);
        if let Some(contention) = &self.cache.contention {
            contention.follow(counter, n, self.node);
        }
    }

    #[inline]
    fn publish(&self, list: &slabyard::engine::partial_list::Partial) {
        list.publish(self.cache());
        if let Some(contention) = &self.cache.contention {
            contention.unlock();
        }
    }

    #[inline]
    fn links(&self, slab: u32) -> &Slab {
        self.cache.slab(slab)
    }
}

impl Slabs for CountedSlabs<'_> {
    type Object = u32;
    /// A word, and how many of its objects.
    type Taken = (u32, u32);
    const MAY_DETACH: bool = true;

    fn begin(self, _: &Shape) -> Option<u32> {
        self.cache.new_slab(self.node)
    }

    #[inline]
    fn of_slab(self, slab: u32) -> Self {
        CountedSlabs { node: self.cache.slab(slab).node.get(), ..self }
    }

    fn remotes(self) -> impl Iterator<Item = Self> {
        let nr_nodes = self.cache.nodes.len();
        let slow_paths = &self.cache.slow_paths;
        slow_paths.set(slow_paths.get().wrapping_add(1));
        let looks = nr_nodes > 1 && self.cache.looks_elsewhere();
        let others = 1..if looks { nr_nodes } else { 1 };
        let remote = move |nth| CountedSlabs {
            node: ((self.node as usize + nth) % nr_nodes) as u16,
            ..self
        };
        others.map(remote).filter(|on| {
            let node = usize::from(on.node);
            on.cache.node_partial(node).1 > on.cache.rules.min_partial
                && !on.cache.contention.as_ref().is_some_and(|all| all.passes_over(node))
        })
    }

    fn end(self, _: &Shape, slab: u32) {
        self.cache.end_slab(slab);
    }

    fn give_back(self, _: &Shape, _slab: u32) {
        if let Some(contention) = &self.cache.contention {
            contention.give_pages_back();
        }
    }

    #[inline]
    fn free_of(self, slab: u32) -> (Version, u32) {
        (Version::ONLY, self.cache.slab(slab).free.get())
    }

    #[inline]
    fn objects_in(self, _: &Shape, slab: u32) -> u32 {
        self.cache.objects_of(slab)
    }

    fn take(
        self,
        _: &Shape,
        slab: u32,
        most: u32,
        whole: bool,
        mut f: impl FnMut((u32, u32)),
    ) -> (u32, u32) {
        self.exchange(slab);
        let numbers = &self.cache.numbers;
        let free = &self.cache.slab(slab).free;
        let may = free.get().min(most);
        let mut taken = 0;
        if numbers.shift == 0 {
            if !whole || free.get() <= most {
                taken = may;
                f((slab, taken));
            }
        } else {
            let mut words = numbers.words.borrow_mut();
            let first = slab << numbers.shift;
            let mut of_words = [0; Geometry::MOST_OBJECTS as usize / Word::OBJECTS as usize];
            let mut nth = 0;
            while taken < may {
                let has = u32::from(words[first as usize + nth]);
                if whole && has > most - taken {
                    break;
                }
                of_words[nth] = has.min(may - taken);
                taken += of_words[nth];
                words[first as usize + nth] -= of_words[nth] as u8;
                nth += 1;
            }
            for (nth, n) in of_words[..nth].iter().enumerate().rev().filter(|(_, n)| **n > 0) {
                f((first + nth as u32, *n));
            }
        }
        free.set(free.get() - taken);
        (taken, free.get())
    }

    fn put(self, _: &Shape, group: &Group) -> Put {
        let &Group { slab, word, mask } = group;
        self.exchange(slab);
        let numbers = &self.cache.numbers;
        let added = mask.count_ones();
        if numbers.shift > 0 {
            let number = (slab << numbers.shift) + word.0;
            numbers.words.borrow_mut()[number as usize] += added as u8;
        }
        let free = &self.cache.slab(slab).free;
        let before = free.replace(free.get() + added);
        debug_assert!(
            free.get() <= self.cache.objects_of(slab),
            "more objects freed than there are"
        );
        Put { version: Version::ONLY, before, added, twice: 0 }
    }

    fn report_twice(self, _: &Shape, _: u32, _: Word, _: u64) {}

    fn freed(self, shape: &Shape, slab: u32, put: &Put) {
        if self.cache.has_arrays() {
            return array_cache::lists::freed(self, slab, put);
        }
        partial::freed(self, shape, slab, put);
    }

    fn first((word, _): (u32, u32)) -> u32 {
        word
    }
}

impl FlushTarget for CountedSlabs<'_> {
    type Element = u32;

    #[inline]
    fn load(element: &u32) -> u32 {
        *element
    }

    #[inline]
    fn word_of(self, _: &Geometry, object: u32) -> Option<(u32, Word)> {
        let shift = self.cache.numbers.shift;
        Some((object >> shift, Word(object & ((1 << shift) - 1))))
    }

    #[inline]
    fn is_slab(self, _: &Shape, _slab: u32) -> bool {
        true
    }

    fn group<'e>(
        self,
        _: &Shape,
        _: &Geometry,
        group: &mut Group,
        objects: &'e [u32],
    ) -> &'e [u32] {
        let word = (group.slab << self.cache.numbers.shift) + group.word.0;
        let n = objects.iter().rev().take_while(|object| **object == word).count();
        for _ in 0..n {
            group.mask = group.mask << 1 | 1;
        }
        &objects[..objects.len() - n]
    }

    fn report(self, _: &Shape, object: u32) {
        unreachable!("{object} is an object of this cache");
    }

    fn alloc_below(self) -> Option<u32> {
        if self.cache.has_arrays() {
            return array_cache::array::alloc_direct(self);
        }
        if self.cache.is_of_yard {
            return partial::alloc_direct(self);
        }
        Some(self.cache.alloc_from_slab(self.cpu, None)).filter(|slab| *slab != NONE)
    }

    #[inline]
    fn free_below(self, object: u32) {
        if !self.cache.is_of_yard && !self.cache.has_arrays() {
            return self.cache.free_to_slab(self.cpu, object);
        }
        let (slab, word) =
            (object >> self.cache.numbers.shift, object & ((1 << self.cache.numbers.shift) - 1));
        flush::put_one(self, self.cache().shape(), &Group { slab, word: Word(word), mask: 1 });
    }

    fn free_all_below(self, objects: &[u32]) {
        if self.cache.is_of_yard || self.cache.rules.front != Front::Sheaves {
            return objects.iter().for_each(|object| self.free_below(*object));
        }
        self.cache.free_in_bulk(self.cpu, objects.to_vec());
    }
}

impl CountedSlabs<'_> {
    /// A slab's word is exchanged; SLUB_TINY has the list lock instead.
    #[inline]
    pub(super) fn exchange(self, slab: u32) {
        if let Some(contention) = &self.cache.contention
            && self.cache.rules.front != Front::Nothing
        {
            contention.exchange(slab);
        }
    }

    fn stack(&self, slot: Slot) -> &RefCell<Option<CountedSheaf>> {
        let stacks = &self.cache.stacks[self.cpu];
        if slot == self.cache().shape().main() { &stacks.main } else { &stacks.spare }
    }
}

impl SheafAccess for CountedSlabs<'_> {
    type Sheaf = CountedSheaf;
    type Chain = Vec<CountedSheaf>;

    fn new_sheaf(self, _objects: u32) -> Option<CountedSheaf> {
        self.cache.counters.add_of_sheaves(SheafCounter::Alloc);
        Some(CountedSheaf::default())
    }

    fn give_sheaf(self, _sheaf: CountedSheaf) {
        self.cache.counters.add_of_sheaves(SheafCounter::Free);
    }

    #[inline]
    fn room(self, _: &CountedSheaf) -> u32 {
        u32::MAX
    }

    #[inline]
    fn push(self, sheaf: &mut CountedSheaf, object: u32) {
        sheaf.0.push(object);
    }

    #[inline]
    fn pop(self, sheaf: &mut CountedSheaf) -> Option<u32> {
        sheaf.0.pop()
    }

    #[inline]
    fn is_top(self, _: &CountedSheaf, _: u32) -> bool {
        false
    }

    fn report_double_free(self, object: u32) {
        unreachable!("{object} is any object of its word");
    }

    fn filling<'s>(&'s self, sheaf: &'s mut CountedSheaf) -> impl FnMut((u32, u32)) + 's {
        |(word, n)| sheaf.0.extend(repeat_n(word, n as usize))
    }

    fn elements<'s>(&'s self, sheaf: &'s CountedSheaf) -> &'s [u32] {
        &sheaf.0
    }

    fn shorten(self, sheaf: &mut CountedSheaf, objects: u32) {
        sheaf.0.truncate(sheaf.0.len() - objects as usize);
    }

    fn link(self, chain: &mut Vec<CountedSheaf>, sheaf: CountedSheaf) {
        chain.push(sheaf);
    }

    fn unlink(self, chain: &mut Vec<CountedSheaf>) -> Option<CountedSheaf> {
        chain.pop()
    }

    fn head(chain: &Vec<CountedSheaf>) -> u32 {
        chain.len() as u32
    }

    fn each_linked(self, chain: &Vec<CountedSheaf>, f: impl FnMut(u32)) {
        chain.iter().rev().flat_map(|sheaf| &sheaf.0).copied().for_each(f);
    }
}

impl Stacks for CountedSlabs<'_> {
    fn node_bytes(&self) -> &AtomicUsize {
        &self.cache.node_bytes
    }

    fn node_limit(self) -> usize {
        if self.cache.is_of_yard { NODE_LIMIT } else { usize::MAX }
    }

    fn check_out(self, slot: Slot) -> Result<Option<CountedSheaf>, Stopped> {
        Ok(self.stack(slot).take())
    }

    fn check_in(
        self,
        slot: Slot,
        sheaf: CountedSheaf,
        _capacity: u32,
        _tag: Option<Tag>,
    ) -> Option<CountedSheaf> {
        self.stack(slot).replace(Some(sheaf))
    }

    fn spare_len(self) -> Option<u32> {
        self.stack(self.cache().shape().spare()).borrow().as_ref().map(Held::len)
    }

    fn is_full(self, shape: &Shape, capacity: u32, _object: u32) -> bool {
        let main = self.stack(shape.main());
        self.spare_len() >= Some(capacity)
            && main.borrow().as_ref().map(Held::len) >= Some(capacity)
    }
}
