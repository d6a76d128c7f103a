//! The slabs of a cache on fixed memory, and the traits of engines with slabs: a policy works on
//! [`FixedSlabs`], and [`SlabEngine`] selects the policy.
//!
//! A free object is identified by its slab's first page and its index in the slab, in one word
//! ([`Object`]); the chain of a slab's free objects is stored in these objects ([`crate::pages`]).
//!
//! Neighbours: [`slabyard::engine::slabs`] defines what a policy needs from slabs;
//! [`super::stacks`] implements the stacks in front of them. Invariants: one call is under way at a
//! time. A slab on no list has no free object, or is a CPU slab. For each slab: free + parked +
//! live = objects.

use crate::pages::{Entry, MetaRef, MetaWord, NONE, PageKind, Pages};
use core::cell::Cell;
use slabyard::engine::slabs::{FlushTarget, Group, NodeList, Rules, Slabs};
use slabyard::engine::{Counter, Header, Shape, flush, orphans, partial};
use slabyard::slab::{Geometry, Put, Version, Word};
use slabyard_platform::sync::{AtomicUsize, Nobody};

/// An object: the first page of its slab, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object(pub(super) u32);

impl Object {
    /// Names the `index`-th object of the slab whose first page is `slab`.
    #[inline]
    #[must_use]
    pub const fn new(slab: u32, index: u32) -> Self {
        Object(slab << 16 | index)
    }

    /// Number of its first page.
    #[inline]
    #[must_use]
    pub const fn slab(self) -> u32 {
        self.0 >> 16
    }

    /// The number.
    #[inline]
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0 & 0xffff
    }
}

/// What a cache is to keep.
#[derive(Clone, Copy, Debug)]
pub struct CacheLimits {
    /// Empty slabs on the list; `None`: as many as the kernel keeps.
    pub min_partial: Option<u32>,
    /// Free objects on a CPU's partial list; 0: no such lists.
    pub cpu_partial: u32,
    /// Room of a CPU's stack, in engines that have sheaves.
    pub sheaf_objects: u32,
    /// How many the board has: each has its own stacks.
    pub cpus: u32,
    /// 4096 on a board with an MMU; smaller where memory is.
    pub page_bytes: u32,
}

/// An engine of slabs. A yard's type names one, and has no code of the others.
pub trait SlabEngine: Sized + 'static {
    /// What a cache has beside its header.
    type State;
    /// What [`Cache`] keeps of each CPU, in words of 32 bits.
    const CPU_WORDS: u32;
    /// The rules of its sheaves.
    const RULES: Rules = Rules::KERNEL;
    /// Pages of a slab, as an order, at most, where nobody says.
    const MOST_ORDER: u32 = 3;
    /// Slabs have the orders of SLAB, not those of SLUB.
    const IS_SLAB: bool = false;
    /// A word for reports, such as `slub`.
    const NAME: &'static str;

    /// Room of a CPU's stack; 0 for engines without stacks.
    fn stack_objects(_: &Geometry, _: &CacheLimits) -> u32 {
        0
    }
    /// Begins a cache.
    fn state(header: &Header, limits: &CacheLimits) -> Self::State;
    /// Allocates.
    fn alloc(on: FixedSlabs<'_, Self>) -> Option<Object>;
    /// To the CPU's stack, or past it if that is full.
    fn free(on: FixedSlabs<'_, Self>, object: Object);
    /// Past the CPU's stacks, from slabs.
    fn alloc_below(on: FixedSlabs<'_, Self>) -> Option<Object>;
    /// Past the CPU's stacks, to its slab.
    fn free_below(on: FixedSlabs<'_, Self>, object: Object) {
        flush::put_one(on, on.cache.header.shape(), &FixedSlabs::<Self>::group_of(object));
    }
    /// Objects came to a slab.
    fn freed(on: FixedSlabs<'_, Self>, shape: &Shape, slab: u32, put: &Put) {
        partial::freed(on, shape, slab, put);
    }
    /// Lists a slab with this many free objects that is on no list, in a cache that is being
    /// rebuilt.
    fn adopt(on: FixedSlabs<'_, Self>, slab: u32, free: u32) {
        orphans::list(on, slab, free);
    }
    /// Flushes all that is parked, of a CPU, and then of the node, and ends empty slabs.
    fn shrink(on: FixedSlabs<'_, Self>, cpus: impl Iterator<Item = u32>);
    /// Calls `f` with each object that is parked.
    fn each_parked(
        on: FixedSlabs<'_, Self>,
        cpus: impl Iterator<Item = u32>,
        f: &mut dyn FnMut(Object),
    );
}

pub struct Cache<K: SlabEngine> {
    /// Shape, tunables, partial list.
    pub header: Header,
    pub state: K::State,
    /// What CPUs have, [`SlabEngine::CPU_WORDS`] each.
    pub cpus: MetaRef,
    pub node_bytes: AtomicUsize,
    number: u8,
}

impl<K: SlabEngine> Cache<K> {
    /// A cache without slabs; `cpus` is a place for what CPUs have.
    pub fn new(
        number: u8,
        name: impl core::fmt::Display,
        geometry: Geometry,
        limits: &CacheLimits,
        cpus: MetaRef,
    ) -> Self {
        let header = Header::new();
        let stack_objects = K::stack_objects(&geometry, limits);
        let shape = Shape { stack_objects, ..Shape::new(geometry, 0) };
        header.begin(name, shape, 1);
        header.set_min_partial(limits.min_partial.unwrap_or(header.min_partial()));
        let state = K::state(&header, limits);
        Cache { header, state, cpus, node_bytes: AtomicUsize::new(0), number }
    }

    /// The place for what CPUs have.
    pub fn cpus(&self) -> MetaRef {
        self.cpus
    }

    /// Its index in the yard's table, which pages' entries carry.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Bytes of the place for what CPUs have.
    pub fn cpu_bytes(cpus: u32) -> u32 {
        K::CPU_WORDS * cpus * 4
    }
}

/// What a call is about: a cache, on a CPU.
pub struct FixedSlabs<'a, K: SlabEngine> {
    pub pages: &'a Pages,
    pub cache: &'a Cache<K>,
    /// The CPU, and how many there are.
    pub cpu: (u32, u32),
    /// Who waits for locks.
    pub nobody: &'a Nobody,
}

impl<K: SlabEngine> Clone for FixedSlabs<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: SlabEngine> Copy for FixedSlabs<'_, K> {}

impl<K: SlabEngine> FixedSlabs<'_, K> {
    /// The same, on another CPU.
    pub fn on_cpu(self, cpu: u32) -> Self {
        FixedSlabs { cpu: (cpu, self.cpu.1), ..self }
    }

    /// The link of a free object: the number of the next one.
    #[inline]
    pub fn behind(&self, slab: u32, index: u32) -> MetaWord<'_> {
        self.pages.table().half(slab, index * self.cache.header.shape().geometry.size)
    }

    /// Takes a slab's first free object.
    #[inline]
    pub fn take_first(&self, slab: u32) -> Option<Object> {
        let entry = self.pages.table().entry(slab);
        let index = entry.first.get();
        if index == NONE {
            return None;
        }
        entry.first.set(self.behind(slab, index.into()).get());
        entry.free.set(entry.free.get() - 1);
        Some(Object::new(slab, index.into()))
    }

    /// Puts an object in front of a slab's free ones; false if it is the first of them already.
    #[inline]
    pub fn put_first(&self, slab: u32, index: u32) -> bool {
        let entry = self.pages.table().entry(slab);
        if u32::from(entry.first.get()) == index {
            return false;
        }
        self.behind(slab, index).set(entry.first.get());
        entry.first.set(index as u16);
        entry.free.set(entry.free.get() + 1);
        true
    }

    /// A CPU's words of the cache.
    #[inline]
    pub fn words(&self) -> &[Cell<u32>] {
        let (cpu, cpus) = self.cpu;
        let words = self.pages.table().words(self.cache.cpus, K::CPU_WORDS * cpus);
        &words[(K::CPU_WORDS * cpu) as usize..][..K::CPU_WORDS as usize]
    }

    /// The group of one object.
    pub fn group_of(object: Object) -> Group {
        let (word, mask) = Word::of(object.index());
        Group { slab: object.slab(), word, mask }
    }
}

impl<K: SlabEngine> NodeList for FixedSlabs<'_, K> {
    type Links = Entry;
    type Park = Nobody;

    #[inline]
    fn cache(&self) -> &Header {
        &self.cache.header
    }

    #[inline]
    fn park(&self) -> &Nobody {
        self.nobody
    }

    #[inline]
    fn rules(&self) -> Rules {
        K::RULES
    }

    #[inline(always)]
    fn count(self, _: Counter, _: u32) {}

    #[inline]
    fn links(&self, slab: u32) -> &Entry {
        self.pages.table().entry(slab)
    }
}

impl<K: SlabEngine> Slabs for FixedSlabs<'_, K> {
    type Object = Object;
    type Taken = Object;
    const MAY_DETACH: bool = true;

    fn begin(self, shape: &Shape) -> Option<u32> {
        let Geometry { order, objects, .. } = shape.geometry;
        let slab = self.pages.buddy.take_as(PageKind::Slab, order, self.cache.number)?;
        for index in 0..objects - 1 {
            self.behind(slab, index).set(index as u16 + 1);
        }
        self.behind(slab, objects - 1).set(NONE);
        let entry = self.pages.table().entry(slab);
        entry.free.set(objects as u16);
        entry.first.set(0);
        Some(slab)
    }

    fn end(self, _: &Shape, slab: u32) {
        self.pages.table().entry(slab).set_kind(PageKind::Inside);
    }

    fn give_back(self, shape: &Shape, slab: u32) {
        self.pages.buddy.give(slab, shape.geometry.order);
    }

    #[inline]
    fn free_of(self, slab: u32) -> (Version, u32) {
        (Version::ONLY, self.pages.table().entry(slab).free.get().into())
    }

    fn take(
        self,
        _: &Shape,
        slab: u32,
        most: u32,
        _whole: bool,
        mut f: impl FnMut(Object),
    ) -> (u32, u32) {
        let mut taken = 0;
        while taken < most
            && let Some(object) = self.take_first(slab)
        {
            taken += 1;
            f(object);
        }
        (taken, self.pages.table().entry(slab).free.get().into())
    }

    fn put(self, _: &Shape, group: &Group) -> Put {
        let &Group { slab, word, mask } = group;
        let before = self.pages.table().entry(slab).free.get().into();
        let (mut left, mut added, mut twice) = (mask, 0, 0);
        while left != 0 {
            let bit = left.trailing_zeros();
            left &= left - 1;
            match self.put_first(slab, word.index_of(bit)) {
                true => added += 1,
                false => twice |= 1 << bit,
            }
        }
        Put { version: Version::ONLY, before, added, twice }
    }

    fn report_twice(self, _: &Shape, _: u32, _: Word, _: u64) {}

    #[inline]
    fn freed(self, shape: &Shape, slab: u32, put: &Put) {
        K::freed(self, shape, slab, put);
    }

    #[inline]
    fn first(taken: Object) -> Object {
        taken
    }
}

impl<K: SlabEngine> FlushTarget for FixedSlabs<'_, K> {
    type Element = Cell<u32>;

    #[inline]
    fn load(element: &Cell<u32>) -> Object {
        Object(element.get())
    }

    #[inline]
    fn word_of(self, _: &Geometry, object: Object) -> Option<(u32, Word)> {
        Some((object.slab(), Word::of(object.index()).0))
    }

    #[inline]
    fn is_slab(self, _: &Shape, slab: u32) -> bool {
        self.pages.table().entry(slab).kind().is_slab()
    }

    fn group<'e>(
        self,
        _: &Shape,
        geometry: &Geometry,
        group: &mut Group,
        objects: &'e [Cell<u32>],
    ) -> &'e [Cell<u32>] {
        let mut left = objects;
        while let Some((top, others)) = left.split_last() {
            let object = Self::load(top);
            if self.word_of(geometry, object) != Some((group.slab, group.word)) {
                break;
            }
            group.mask |= Word::of(object.index()).1;
            left = others;
        }
        left
    }

    fn report(self, _: &Shape, _: Object) {}

    #[inline]
    fn alloc_below(self) -> Option<Object> {
        K::alloc_below(self)
    }

    #[inline]
    fn free_below(self, object: Object) {
        K::free_below(self, object);
    }
}
