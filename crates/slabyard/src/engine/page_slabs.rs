//! The slabs of a yard: the policy's interface to the page heap.
//!
//! Neighbours: [`super::slabs`] defines the functions. The code here uses [`crate::slab::freeset`],
//! [`crate::pages`]'s descriptors and sheaves, and [`crate::platform`]'s stacks.

use super::slabs::{FlushTarget, Group, Held, NodeList, Rules, SheafAccess, Slabs, Stacks};
use super::{CacheFlags, Counter, Header, Shape, flush, partial};
use crate::engine::node_words::NodeWords;
use crate::engine::partial_list::Partial;
use crate::pages::{Cause, Descriptor, PageHeap, Sheaf};
use crate::platform::stack::Tag;
use crate::platform::{Event, Platform, Slot, Stack, Stopped};
use crate::slab;
use crate::slab::{Geometry, Object, Put, Version, Word, freeset};
use crate::sync::{AtomicUsize, Lock, Ordering};
use slabyard_kernels::page_lists::Warmth;

/// The slabs of a cache on the page heap: what an engine works on.
pub struct PageSlabs<'a, P, R = ()> {
    /// The platform and its pages.
    pub heap: &'a PageHeap<P>,
    /// Its tunables, its partial list and its published words.
    pub cache: &'a Header,
    /// The rules of its engine, if they are not always the same.
    pub rules: R,
}

impl<P, R: Copy> Clone for PageSlabs<'_, P, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P, R: Copy> Copy for PageSlabs<'_, P, R> {}

impl<'a, P, R: Copy> PageSlabs<'a, P, R> {
    /// The same slabs, by other rules.
    #[inline]
    pub(super) fn by<N>(self, rules: N) -> PageSlabs<'a, P, N> {
        PageSlabs { heap: self.heap, cache: self.cache, rules }
    }
}

/// What an engine has beside a cache, by which its [`Rules`] follow.
pub trait Ruled: Copy {
    /// The variant of the policy, constant for all caches of the engine.
    const RULES: Rules;

    /// The memory node where the cache is worked on.
    #[inline]
    fn node(self) -> usize {
        0
    }

    /// The node of new slabs, if there are several.
    #[inline]
    fn node_of_slabs<P: Platform>(_on: &PageSlabs<'_, P, Self>) -> Option<usize> {
        None
    }

    /// A look at the pages of a slab that is about to begin, as they are.
    #[inline(always)]
    fn look_at_taken<P: Platform>(_on: &PageSlabs<'_, P, Self>, _shape: &Shape, _slab: u32) {}

    /// True if the pages of discarded slabs are given back to the kernel at once.
    #[inline(always)]
    fn frees_clean(self) -> bool {
        false
    }

    /// Prepares the objects of a slab that is about to begin: nobody else knows it.
    #[inline(always)]
    fn prepare<P: Platform>(_on: &PageSlabs<'_, P, Self>, _shape: &Shape, _slab: u32) {}

    /// A last look at a discarded slab, before its pages are given back.
    #[inline(always)]
    fn ended<P: Platform>(_on: &PageSlabs<'_, P, Self>, _shape: &Shape, _slab: u32) {}

    /// What a yard's [`NodeList::list`] is.
    #[inline]
    fn list<'s, P: Platform>(on: &'s PageSlabs<'_, P, Self>) -> &'s Lock<Partial> {
        &on.cache.partial
    }

    /// What a yard's [`NodeList::shown_node`] is.
    #[inline]
    fn shown_node<'s, P: Platform>(_on: &'s PageSlabs<'_, P, Self>) -> Option<NodeWords<'s>> {
        None
    }

    /// What a yard's [`FlushTarget::alloc_below`] does.
    #[inline]
    fn alloc_below<P: Platform>(on: PageSlabs<'_, P, Self>) -> Option<usize> {
        partial::alloc_direct(on)
    }

    /// What a yard's [`Slabs::freed`] does.
    #[inline]
    fn freed<P: Platform>(on: PageSlabs<'_, P, Self>, shape: &Shape, slab: u32, put: &Put) {
        partial::freed(on, shape, slab, put);
    }

    /// What a yard's [`FlushTarget::free_below`] does.
    #[inline]
    fn free_below<P: Platform>(on: PageSlabs<'_, P, Self>, address: usize) {
        on.free_direct(address);
    }

    /// What a yard's [`Stacks::tag`] is.
    #[inline(always)]
    fn tag<P: Platform>(_on: PageSlabs<'_, P, Self>) -> Option<Tag> {
        None
    }

    /// What a yard's [`Stacks::near`] does.
    #[inline]
    fn near<P: Platform>(_on: PageSlabs<'_, P, Self>, sheaf: Sheaf) -> Option<Sheaf> {
        Some(sheaf)
    }

    /// What a yard's [`Stacks::alloc_elsewhere`] does.
    #[inline]
    fn alloc_elsewhere<P: Platform>(_on: PageSlabs<'_, P, Self>) -> Option<usize> {
        None
    }
}

impl Ruled for () {
    const RULES: Rules = Rules::SLABYARD;
}

/// Objects of one bitmap word: the bits of `mask`, `stride` bytes from each other, that of
/// bit 0 at `begin`.
#[derive(Clone, Copy)]
pub struct Taken {
    pub(super) begin: usize,
    pub(super) stride: usize,
    pub(super) mask: u64,
}

impl<P: Platform, R: Ruled> NodeList for PageSlabs<'_, P, R> {
    type Links = Descriptor;
    type Park = P;

    #[inline]
    fn cache(&self) -> &Header {
        self.cache
    }

    #[inline]
    fn list(&self) -> &Lock<Partial> {
        R::list(self)
    }

    #[inline]
    fn shown_node(&self) -> Option<NodeWords<'_>> {
        R::shown_node(self)
    }

    #[inline]
    fn publish(&self, list: &Partial) {
        match R::shown_node(self) {
            None => list.publish(self.cache),
            Some(node) => node.publish_list(self.cache, list),
        }
    }

    #[inline]
    fn park(&self) -> &P {
        &self.heap.platform
    }

    #[inline]
    fn rules(&self) -> Rules {
        R::RULES
    }

    #[inline]
    fn count(self, counter: Counter, n: u32) {
        let event = Event::Counted(counter as usize, n);
        self.heap.platform.count(self.cache.shape().main(), event);
    }

    #[inline]
    fn clock(self) -> Option<u64> {
        let platform = &self.heap.platform;
        platform.counts().then(|| platform.now_ns())
    }

    #[inline]
    fn links(&self, slab: u32) -> &Descriptor {
        self.heap.region.descriptor(slab)
    }

    #[inline]
    fn fetch_ahead(self, slab: u32) {
        self.heap.region.fetch_descriptor_ahead(slab);
    }
}

impl<P: Platform, R: Ruled> Slabs for PageSlabs<'_, P, R> {
    type Object = usize;
    type Taken = Taken;
    const MAY_DETACH: bool = false;

    #[inline(always)]
    fn begin(self, shape: &Shape) -> Option<u32> {
        let order = shape.geometry.order;
        let slab = if let Some(lists) = self.heap.page_lists() {
            (lists.take)(self.heap, order, Warmth::Hot, &|counter, n| self.count(counter, n))?
        } else {
            self.heap.take_block_of(order, R::node_of_slabs(&self), shape.geometry.size)?
        };
        R::look_at_taken(&self, shape, slab);
        // Before anything is written there: the child of a fork may find it in nobody's hands.
        self.heap.region.set_dirty(slab as usize, 1 << order, true);
        if let Some(constructor) = &shape.constructor {
            constructor.call_each(&self.heap.region, slab, &shape.geometry);
        }
        R::prepare(&self, shape, slab);
        freeset::begin_slab(self.heap, slab, &shape.geometry, shape.slot);
        Some(slab)
    }

    #[inline]
    fn end(self, shape: &Shape, slab: u32) {
        freeset::end_slab(&self.heap.region, slab, &shape.geometry);
    }

    #[inline]
    fn give_back(self, shape: &Shape, slab: u32) {
        self.free_pages(shape, slab, Warmth::Hot);
    }

    #[inline]
    fn give_back_cold(self, shape: &Shape, slab: u32) {
        self.free_pages(shape, slab, Warmth::Cold);
    }

    #[inline]
    fn free_of(self, slab: u32) -> (Version, u32) {
        freeset::free_of(&self.heap.region, slab)
    }

    #[inline(always)]
    fn take(
        self,
        shape: &Shape,
        slab: u32,
        most: u32,
        whole: bool,
        mut f: impl FnMut(Taken),
    ) -> (u32, u32) {
        let geometry = &shape.geometry;
        let begin = self.heap.region.address(slab);
        let stride = geometry.size as usize;
        freeset::take(self.heap, slab, most, whole, |word, mask| {
            f(Taken { begin: geometry.address_of(begin, word.index_of(0)), stride, mask });
        })
    }

    #[inline(always)]
    fn put(self, _: &Shape, group: &Group) -> Put {
        let &Group { slab, word, mask } = group;
        freeset::put(self.heap, slab, word, mask)
    }

    #[inline]
    fn report_twice(self, shape: &Shape, slab: u32, word: Word, mut twice: u64) {
        while twice != 0 {
            let index = word.index_of(twice.trailing_zeros());
            let address =
                slab::address_of(&self.heap.region, &shape.geometry, Object { slab, index });
            self.heap.misuse(Cause::DoubleFree, address, shape.slot);
            twice &= twice - 1;
        }
    }

    #[inline]
    fn freed(self, shape: &Shape, slab: u32, put: &Put) {
        R::freed(self, shape, slab, put);
    }

    #[inline]
    fn first(taken: Taken) -> usize {
        taken.begin + taken.mask.trailing_zeros() as usize * taken.stride
    }
}

impl<P: Platform, R: Ruled> FlushTarget for PageSlabs<'_, P, R> {
    type Element = AtomicUsize;

    #[inline(always)]
    fn load(element: &AtomicUsize) -> usize {
        element.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn word_of(self, geometry: &Geometry, address: usize) -> Option<(u32, Word)> {
        slab::word_at(&self.heap.region, geometry, address)
    }

    #[inline(always)]
    fn fetch_object_ahead(self, geometry: &Geometry, address: usize) {
        self.heap.region.fetch_descriptor_ahead(slab::slab_at(
            &self.heap.region,
            geometry,
            address,
        ));
    }

    #[inline(always)]
    fn is_slab(self, shape: &Shape, slab: u32) -> bool {
        slab::is_slab(&self.heap.region, slab, shape.slot)
    }

    #[inline(always)]
    fn group<'e>(
        self,
        shape: &Shape,
        geometry: &Geometry,
        group: &mut Group,
        mut objects: &'e [AtomicUsize],
    ) -> &'e [AtomicUsize] {
        let (offset, bytes) = geometry.span_of(group.word);
        let begin = self.heap.region.address(group.slab) + offset;
        let mut mask = group.mask;
        while let Some((top, others)) = objects.split_last() {
            let address = top.load(Ordering::Relaxed);
            let offset = address.wrapping_sub(begin);
            if offset >= bytes {
                break;
            }
            objects = others;
            let (nth, begins) = geometry.divide(offset as u32);
            let bit = 1u64.wrapping_shl(nth);
            if !begins {
                self.heap.misuse(Cause::Interior, address, shape.slot);
            } else if mask & bit != 0 {
                self.heap.misuse(Cause::DoubleFree, address, shape.slot);
            } else {
                mask |= bit;
            }
        }
        group.mask = mask;
        objects
    }

    #[inline(always)]
    fn report(self, shape: &Shape, address: usize) {
        report(self.heap, shape, address);
    }

    #[inline]
    fn alloc_below(self) -> Option<usize> {
        R::alloc_below(self)
    }

    #[inline]
    fn free_below(self, address: usize) {
        R::free_below(self, address);
    }
}

impl<P: Platform, R: Ruled> PageSlabs<'_, P, R> {
    #[inline(always)]
    fn free_pages(self, shape: &Shape, slab: u32, warmth: Warmth) {
        R::ended(&self, shape, slab);
        let order = shape.geometry.order;
        let is_plain = shape.destructor.is_none() && !shape.flags.has(CacheFlags::TYPESAFE_BY_RCU);
        if !is_plain && is_held(self.heap, shape, slab) {
            return;
        }
        if self.rules.frees_clean() {
            self.heap.free_clean(slab, 1 << order);
        } else if let Some(lists) = self.heap.page_lists() {
            (lists.free)(self.heap, slab, order, warmth, &|counter, n| self.count(counter, n));
        } else {
            self.heap.free_block(slab, order);
        }
    }

    /// Frees the pages of a discarded slab that waited for readers.
    pub(crate) fn free_waited(self, slab: u32) {
        let flags = self.cache.shape().flags.without(CacheFlags::TYPESAFE_BY_RCU);
        self.free_pages(&Shape { flags, ..*self.cache.shape() }, slab, Warmth::Cold);
    }

    /// The group of one object, which is to be freed; `None` if it is none, which is reported.
    pub(super) fn group_of(self, address: usize) -> Option<Group> {
        let shape = self.cache.shape();
        let object = slab::resolve(&self.heap.region, &shape.geometry, shape.slot, address);
        let misuse = |cause: &Cause| self.heap.misuse(*cause, address, shape.slot);
        let Object { slab, index } = object.inspect_err(misuse).ok()?;
        let (word, mask) = Word::of(index);
        Some(Group { slab, word, mask })
    }

    /// Returns one object to its slab and bypasses the sheaves.
    pub fn free_direct(self, address: usize) {
        if let Some(group) = self.group_of(address) {
            flush::put_one(self, self.cache.shape(), &group);
        }
    }
}

impl Held for Sheaf {
    #[inline]
    fn len(&self) -> u32 {
        Sheaf::len(self)
    }
}

impl<P: Platform, R: Ruled> SheafAccess for PageSlabs<'_, P, R> {
    type Sheaf = Sheaf;
    type Chain = u32;

    #[inline]
    fn new_sheaf(self, objects: u32) -> Option<Sheaf> {
        self.heap.sheaves.take(&self.heap.platform, objects)
    }

    #[inline]
    fn give_sheaf(self, sheaf: Sheaf) {
        self.heap.sheaves.give(&self.heap.platform, sheaf);
    }

    #[inline]
    fn room(self, sheaf: &Sheaf) -> u32 {
        self.heap.sheaves.room(sheaf)
    }

    #[inline]
    fn push(self, sheaf: &mut Sheaf, address: usize) {
        self.heap.sheaves.push(sheaf, address);
    }

    #[inline]
    fn pop(self, sheaf: &mut Sheaf) -> Option<usize> {
        self.heap.sheaves.pop(sheaf)
    }

    #[inline]
    fn is_top(self, sheaf: &Sheaf, address: usize) -> bool {
        self.heap.sheaves.top(sheaf) == Some(address)
    }

    #[inline]
    fn report_double_free(self, address: usize) {
        self.heap.misuse(Cause::DoubleFree, address, self.cache.shape().slot);
    }

    #[inline]
    fn filling<'s>(&'s self, sheaf: &'s mut Sheaf) -> impl FnMut(Taken) + 's {
        let mut filling = self.heap.sheaves.filling(sheaf);
        move |Taken { begin, stride, mask }| filling.push_each(begin, stride, mask)
    }

    #[inline]
    fn elements<'s>(&'s self, sheaf: &'s Sheaf) -> &'s [AtomicUsize] {
        self.heap.sheaves.objects(sheaf)
    }

    #[inline]
    fn shorten(self, sheaf: &mut Sheaf, objects: u32) {
        self.heap.sheaves.shorten(sheaf, objects);
    }

    #[inline]
    fn link(self, chain: &mut u32, sheaf: Sheaf) {
        self.heap.sheaves.link(chain, sheaf);
    }

    #[inline]
    fn unlink(self, chain: &mut u32) -> Option<Sheaf> {
        self.heap.sheaves.unlink(chain)
    }

    #[inline]
    fn head(chain: &u32) -> u32 {
        *chain
    }

    fn each_linked(self, chain: &u32, mut f: impl FnMut(usize)) {
        self.heap.sheaves.each_listed(*chain, &mut f);
    }
}

impl<P: Platform, R: Ruled> Stacks for PageSlabs<'_, P, R> {
    #[inline]
    fn node_bytes(&self) -> &AtomicUsize {
        &self.heap.barn_bytes.parked
    }

    #[inline]
    fn node_limit(self) -> usize {
        self.heap.barn_bytes.limit()
    }

    #[inline(always)]
    fn tag(self) -> Option<Tag> {
        R::tag(self)
    }

    #[inline]
    fn near(self, sheaf: Sheaf) -> Option<Sheaf> {
        R::near(self, sheaf)
    }

    #[inline]
    fn alloc_elsewhere(self) -> Option<usize> {
        R::alloc_elsewhere(self)
    }

    #[inline]
    fn check_out(self, slot: Slot) -> Result<Option<Sheaf>, Stopped> {
        let stack = self.heap.platform.exchange(slot, Stack::NONE)?;
        Ok(self.heap.sheaves.adopt(stack))
    }

    #[inline]
    fn check_in(self, slot: Slot, sheaf: Sheaf, capacity: u32, tag: Option<Tag>) -> Option<Sheaf> {
        let sheaves = &self.heap.sheaves;
        let new = match tag {
            None => sheaves.publish(sheaf, capacity),
            Some(tag) => sheaves.publish_tagged(sheaf, capacity, tag),
        };
        match self.heap.platform.exchange(slot, new) {
            Ok(old) => self.heap.sheaves.adopt(old),
            // Stopped: no other thread has seen the new one, it is ours again.
            Err(Stopped) => self.heap.sheaves.adopt(new),
        }
    }

    #[inline]
    fn spare_len(self) -> Option<u32> {
        let row = self.heap.platform.row_hint()?;
        // No push goes to a spare stack: its end is its guard.
        self.heap.platform.rows().entry(row, self.cache.shape().spare()).above_end()
    }

    #[inline(always)]
    fn is_full(self, shape: &Shape, capacity: u32, address: usize) -> bool {
        if self.spare_len() < Some(capacity) {
            return false;
        }
        let Some(row) = self.heap.platform.row_hint() else { return false };
        let main = self.heap.platform.rows().entry(row, shape.main());
        // The end of a stack that was asked to drain is 0, which says nothing.
        main.end() != 0
            && main.above_end().is_some()
            && self.heap.sheaves.top_object(main) != Some(address)
    }
}

/// Ends the objects of a discarded slab; or holds the slab, if readers may look at them: then it is
/// true.
#[cold]
#[inline(never)]
fn is_held<P: Platform>(heap: &PageHeap<P>, shape: &Shape, slab: u32) -> bool {
    if shape.flags.has(CacheFlags::TYPESAFE_BY_RCU)
        && let Some(hold) = heap.on_held.try_get()
    {
        hold(heap, slab, shape.geometry.order, shape.slot);
        return true;
    }
    if let Some(destructor) = &shape.destructor {
        destructor.call_each(&heap.region, slab, &shape.geometry);
    }
    false
}

/// Reports an address that is no object of a cache of this shape.
#[cold]
fn report<P: Platform>(heap: &PageHeap<P>, shape: &Shape, address: usize) {
    let cause = slab::resolve(&heap.region, &shape.geometry, shape.slot, address).err();
    heap.misuse(cause.unwrap_or(Cause::WrongSize), address, shape.slot);
}
