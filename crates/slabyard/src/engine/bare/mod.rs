//! Engines of a bare yard: the policy of this directory on pages of a fixed memory.
//!
//! A free object is known by its slab's first page and its number there, in one word
//! ([`Object`]); the chain of a slab's free objects lies in them ([`crate::pages::bare`]). By the
//! kernel's rules, so that a machine of 8 MiB does what a kernel's would: the lab's caches of numbers
//! ([`super::counted`]) begin and end the same slabs at the same calls.
//!
//! Neighbours: [`stacks`] has sheaves and arrays, [`on_cpu`] CPU slabs, [`kinds`] says which engine
//! does what, [`blocks`] is SLOB's; [`repair`] makes caches anew; [`crate::bare`] is the yard.
//! Invariants: one call is under way at a time. A slab on no list has no free object, or is a
//! CPU's. For each slab: free + parked + live = objects.

pub mod blocks;
pub mod kinds;
pub mod on_cpu;
pub mod repair;
pub mod stacks;

use super::slabs::{Group, Links, Rules, Slabs};
use super::{Counter, Header, Shape};
use crate::pages::bare::meta::Place;
use crate::pages::bare::{Entry, Half, Kind as PageKind, NONE, Pages};
use crate::slab::{Geometry, Put, Version, Word};
use crate::sync::Nobody;
use core::cell::Cell;
pub use kinds::Kind;

/// An object: the first page of its slab, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object(u32);

impl Object {
    /// An object of a slab.
    #[inline]
    #[must_use]
    pub const fn new(slab: u32, index: u32) -> Self {
        Object(slab << 16 | index)
    }

    /// The slab.
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

/// A cache.
pub struct Cache<K: Kind> {
    /// Shape, tunables, partial list.
    pub header: Header,
    pub(super) state: K::State,
    /// What CPUs have, [`Kind::CPU_WORDS`] each.
    pub(super) cpus: Place,
    pub(super) node_bytes: crate::sync::AtomicUsize,
    number: u8,
}

impl<K: Kind> Cache<K> {
    /// A cache without slabs; `cpus` is a place for what CPUs have.
    pub(crate) fn new(
        number: u8,
        name: impl core::fmt::Display,
        geometry: Geometry,
        limits: &kinds::Limits,
        cpus: Place,
    ) -> Self {
        let header = Header::new();
        let stack_objects = K::stack_objects(&geometry, limits);
        let shape = Shape { stack_objects, ..Shape::new(geometry, 0) };
        header.begin(name, shape, 1);
        header.set_min_partial(limits.min_partial.unwrap_or(header.min_partial()));
        let state = K::state(&header, limits);
        Cache { header, state, cpus, node_bytes: crate::sync::AtomicUsize::new(0), number }
    }

    /// The place for what CPUs have.
    pub(crate) fn cpus(&self) -> Place {
        self.cpus
    }

    /// Its number.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Bytes of the place for what CPUs have.
    pub(crate) fn cpu_bytes(cpus: u32) -> u32 {
        K::CPU_WORDS * cpus * 4
    }
}

/// What a call is about: a cache, on a CPU.
pub struct On<'a, K: Kind> {
    /// Pages.
    pub pages: &'a Pages,
    /// The cache.
    pub cache: &'a Cache<K>,
    /// The CPU, and how many there are.
    pub cpu: (u32, u32),
    /// Who waits for locks.
    pub nobody: &'a Nobody,
}

impl<K: Kind> Clone for On<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Kind> Copy for On<'_, K> {}

impl Links for Entry {
    fn next(&self) -> u32 {
        self.next.get().into()
    }

    fn set_next(&self, next: u32) {
        self.next.set(next as u16);
    }

    fn prev(&self) -> u32 {
        self.prev.get().into()
    }

    fn set_prev(&self, prev: u32) {
        self.prev.set(prev as u16);
    }

    fn is_listed(&self) -> bool {
        matches!(self.kind(), PageKind::Listed | PageKind::Apart | PageKind::ListedBlocks)
    }

    fn set_listed(&self, is_listed: bool) {
        self.set_kind(match (self.kind(), is_listed) {
            (PageKind::Blocks | PageKind::ListedBlocks, true) => PageKind::ListedBlocks,
            (PageKind::Blocks | PageKind::ListedBlocks, false) => PageKind::Blocks,
            (_, true) => PageKind::Listed,
            (_, false) => PageKind::Slab,
        });
    }

    fn is_apart(&self) -> bool {
        self.kind() == PageKind::Apart
    }

    fn set_apart(&self, is_apart: bool) {
        match (self.kind(), is_apart) {
            (PageKind::Listed, true) => self.set_kind(PageKind::Apart),
            (PageKind::Apart, false) => self.set_kind(PageKind::Listed),
            _ => {}
        }
    }
}

impl<K: Kind> On<'_, K> {
    /// The link of a free object: the number of the next one.
    #[inline]
    pub(super) fn behind(&self, slab: u32, index: u32) -> Half<'_> {
        self.pages.half(slab, index * self.cache.header.shape().geometry.size)
    }

    /// Takes a slab's first free object.
    #[inline]
    pub(super) fn take_first(&self, slab: u32) -> Option<Object> {
        let entry = self.pages.entry(slab);
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
    pub(super) fn put_first(&self, slab: u32, index: u32) -> bool {
        let entry = self.pages.entry(slab);
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
    pub(super) fn words(&self) -> &[Cell<u32>] {
        let (cpu, cpus) = self.cpu;
        let words = self.pages.words(self.cache.cpus, K::CPU_WORDS * cpus);
        &words[(K::CPU_WORDS * cpu) as usize..][..K::CPU_WORDS as usize]
    }

    /// The group of one object.
    pub(super) fn group_of(object: Object) -> Group {
        let (word, mask) = Word::of(object.index());
        Group { slab: object.slab(), word, mask }
    }
}

impl<K: Kind> Slabs for On<'_, K> {
    type Object = Object;
    type Element = Cell<u32>;
    type Taken = Object;
    type Links = Entry;
    type Park = Nobody;
    const MAY_DETACH: bool = true;

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

    fn begin(self, shape: &Shape) -> Option<u32> {
        let Geometry { order, objects, .. } = shape.geometry;
        let slab = self.pages.take_as(PageKind::Slab, order, self.cache.number)?;
        for index in 0..objects - 1 {
            self.behind(slab, index).set(index as u16 + 1);
        }
        self.behind(slab, objects - 1).set(NONE);
        let entry = self.pages.entry(slab);
        entry.free.set(objects as u16);
        entry.first.set(0);
        Some(slab)
    }

    fn end(self, _: &Shape, slab: u32) {
        self.pages.entry(slab).set_kind(PageKind::Inside);
    }

    fn give_back(self, shape: &Shape, slab: u32) {
        self.pages.give(slab, shape.geometry.order);
    }

    #[inline]
    fn free_of(self, slab: u32) -> (Version, u32) {
        (Version::ONLY, self.pages.entry(slab).free.get().into())
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
        (taken, self.pages.entry(slab).free.get().into())
    }

    fn put(self, _: &Shape, group: &Group) -> Put {
        let &Group { slab, word, mask } = group;
        let before = self.pages.entry(slab).free.get().into();
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
    fn links(&self, slab: u32) -> &Entry {
        self.pages.entry(slab)
    }

    #[inline]
    fn first(taken: Object) -> Object {
        taken
    }

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
        self.pages.entry(slab).kind().is_slab()
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
