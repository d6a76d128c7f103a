//! What a yard on fixed memory consists of (pages, and caches found by number), and what it needs
//! from an engine.
//!
//! ```text
//! table, a place of words:  | cache 0 | cache 1 | ...     each the place of a cache; 0: none
//! ```
//!
//! Slabs store their cache's number. Invariant: the number identifies this cache from its creation
//! to its destruction.

use crate::live_map::LiveMap;
use crate::pages::{MOST_ORDER, MetaRef, PageKind, Pages};
use crate::planted::{self, Planted};
use crate::tally::{Counts, Tally};
use core::cell::Cell;
use core::marker::PhantomData;
use slabyard::engine::slob::Lists;
use slabyard_platform::sync::{Nobody, Ordering, compiler_fence};

/// A page's entry has the number of its cache in 8 bits.
const MOST_CACHES: u32 = 255;
/// Caches that the table has room for at first.
const FIRST_CACHES: u32 = 8;
/// Classes of `malloc`: of 8 bytes to two pages, and two between.
pub const CLASSES: usize = 17;

/// What a yard is to do.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Pages of a slab, as an order, at most; `None`: the engine's (`slub_max_order`).
    pub max_order: Option<u32>,
    /// Empty slabs that a cache keeps; `None`: the engine's.
    pub min_partial: Option<u32>,
    /// Free objects on a CPU's partial list; 0: there are none.
    pub cpu_partial: u32,
    /// Without effect on engines that have no sheaves.
    pub sheaf_objects: u32,
}

impl Settings {
    /// Those that nobody changed.
    pub const DEFAULT: Settings =
        Settings { max_order: None, min_partial: None, cpu_partial: 0, sheaf_objects: 12 };
}

/// What [`Yard`](crate::Yard) creates a cache from.
#[derive(Clone, Copy, Debug)]
pub struct CacheSettings {
    /// Bytes of an object.
    pub size: usize,
    /// Objects begin at multiples of it: a power of two, a page at most.
    pub align: usize,
}

impl CacheSettings {
    /// For objects of a type.
    #[must_use]
    pub const fn of<T>() -> Self {
        CacheSettings { size: size_of::<T>(), align: align_of::<T>() }
    }
}

/// Names a cache of a yard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheId(pub u8);

/// What a board with a [live map](LiveMap) needs of an engine: what is live is marked, and a repair makes
/// all else anew.
pub trait Repair: Sized + 'static {
    /// What a yard's table of caches has of each.
    type Cache;

    /// Marks a block that is about to be handed out as live: of a cache, else of `malloc` or pages.
    fn mark(core: &Core<Self>, live: &LiveMap, address: usize, _cache: Option<&Self::Cache>) {
        mark_one(core, live, address);
    }
    /// Before a block is freed: it is live no more. False if it was not.
    fn unmark(
        core: &Core<Self>,
        live: &LiveMap,
        address: usize,
        _cache: Option<&Self::Cache>,
    ) -> bool {
        let bit = core.pages.table().granule(address).filter(|bit| live.is_live(*bit));
        bit.inspect(|bit| live.clear(*bit..bit + 1)).is_some()
    }
    /// Bits of the live map that are not of runs.
    fn live_granules(counts: &Counts) -> u64 {
        counts.live
    }
    /// The place that a cache has beside itself; none without one.
    fn place_of(_: &Self::Cache) -> MetaRef {
        MetaRef::NONE
    }
    /// A repair: the cache is as it began, without slabs.
    fn renew(_: &Core<Self>, _cpu: u32, _: &Self::Cache) {}
    /// A repair: counts and lists what begins at a page, by what is live in it.
    fn adopt(core: &Core<Self>, live: &LiveMap, cpu: u32, page: u32);
}

/// An engine of a yard on a fixed memory.
pub trait FixedEngine: Repair {
    /// A word for reports, such as `slub`.
    const NAME: &'static str;

    /// A cache with a number, for objects of this many bytes, a multiple of their alignment.
    fn new_cache(
        core: &Core<Self>,
        number: u8,
        name: &str,
        layout: (u32, u32),
    ) -> Option<Self::Cache>;
    /// Before a cache is destroyed, whose objects are all free: returns the memory that it has
    /// besides itself.
    fn end_cache(core: &Core<Self>, cache: &Self::Cache);
    /// Of each cache, for as many CPUs as the board has.
    fn cpu_bytes(cpus: u32) -> u32;
    /// Allocates an object.
    fn alloc(core: &Core<Self>, cpu: u32, cache: &Self::Cache) -> Option<usize>;
    /// Frees an object; false if it is none.
    fn free(core: &Core<Self>, cpu: u32, cache: &Self::Cache, address: usize) -> bool;
    /// Returns what is parked, and ends empty slabs.
    fn shrink(core: &Core<Self>, cpu: u32, cache: &Self::Cache);
    /// Allocates a block.
    fn malloc(core: &Core<Self>, cpu: u32, bytes: usize) -> Option<usize>;
    /// Frees a block; false if it is none.
    fn mfree(core: &Core<Self>, cpu: u32, address: usize) -> bool;
    /// Usable bytes of a block; 0 if it is none.
    fn usable(core: &Core<Self>, address: usize) -> usize;
    /// Checks a cache, and adds what it has.
    ///
    /// # Errors
    /// The equation that does not hold.
    fn verify(
        core: &Core<Self>,
        cpu: u32,
        cache: &Self::Cache,
        tally: &mut Tally,
    ) -> Result<(), &'static str>;
    /// Looks at what is no cache's.
    ///
    /// # Errors
    /// As there.
    fn verify_blocks(_: &Core<Self>, _: &mut Tally) -> Result<(), &'static str> {
        Ok(())
    }
}

/// Marks what begins at an address as live.
pub fn mark_one<E>(core: &Core<E>, live: &LiveMap, address: usize) {
    if let Some(bit) = core.pages.table().granule(address) {
        live.set(bit..bit + 1);
    }
}

/// Pages and caches.
pub struct Core<E> {
    /// All pages of the board, cut or whole.
    pub pages: Pages,
    pub nobody: Nobody,
    /// SLOB's.
    pub lists: Cell<Lists>,
    table: Cell<MetaRef>,
    room: Cell<u32>,
    /// The caches of `malloc`'s classes, one more than their number; 0: not there yet.
    pub classes: [Cell<u8>; CLASSES],
    pub settings: Settings,
    pub cpus: u32,
    engine: PhantomData<E>,
}

impl<E: FixedEngine> Core<E> {
    pub const fn new(shift: u32, cpus: u32, settings: Settings) -> Self {
        Core {
            pages: Pages::new(shift),
            nobody: Nobody::new(),
            lists: Cell::new(Lists::NEW),
            table: Cell::new(MetaRef::NONE),
            room: Cell::new(0),
            classes: [const { Cell::new(0) }; CLASSES],
            settings,
            cpus,
            engine: PhantomData,
        }
    }

    /// Tries; where there is no memory, once more after a shrink.
    pub fn or_shrink<T>(&self, cpu: u32, f: impl Fn() -> Option<T>) -> Option<T> {
        f().or_else(|| {
            self.shrink(cpu);
            f()
        })
    }

    pub fn shrink(&self, cpu: u32) {
        self.each_cache(|_, cache| E::shrink(self, cpu, cache));
    }

    /// The cache of a number.
    pub fn cache(&self, number: u8) -> Option<&E::Cache> {
        if u32::from(number) >= self.room.get() {
            return None;
        }
        let place = MetaRef::of(self.table_word(number).get());
        // SAFETY: `create` wrote a cache there, which stays until `destroy` takes its number away.
        (place != MetaRef::NONE).then(|| unsafe {
            &*core::ptr::with_exposed_provenance(self.pages.table().address_of(place))
        })
    }

    pub fn find(&self, id: CacheId) -> Option<&E::Cache> {
        self.cache(id.0)
    }

    /// Calls `f` with each cache.
    pub fn each_cache(&self, mut f: impl FnMut(u8, &E::Cache)) {
        for number in 0..self.room.get() as u8 {
            if let Some(cache) = self.cache(number) {
                f(number, cache);
            }
        }
    }

    /// A repair: keeps the places in use, the table's among them.
    pub fn keep_places(&self, live: &LiveMap) {
        let keep = |place, bytes| {
            if place != MetaRef::NONE {
                self.pages.table().keep_place(live, place, bytes);
            }
        };
        for word in self.words() {
            keep(MetaRef::of(word.get()), size_of::<E::Cache>() as u32);
        }
        self.each_cache(|_, cache| keep(E::place_of(cache), E::cpu_bytes(self.cpus)));
        if self.room.get() > 0 {
            keep(self.table.get(), self.room.get() * 4);
            // A new table whose room the call had not come to say.
            let room = (self.pages.table().place_bytes(self.table.get()) / 4).min(MOST_CACHES);
            self.room.set(room.max(self.room.get()));
        }
    }

    /// A repair: all caches are as they began, and classes without one have none.
    pub fn repair_table(&self, cpu: u32) {
        self.each_cache(|_, cache| E::renew(self, cpu, cache));
        for class in &self.classes {
            if class.get().checked_sub(1).is_some_and(|number| self.cache(number).is_none()) {
                class.set(0);
            }
        }
    }

    fn table_word(&self, number: u8) -> &Cell<u32> {
        &self.pages.table().words(self.table.get(), self.room.get())[number as usize]
    }

    fn words(&self) -> &[Cell<u32>] {
        match self.room.get() {
            0 => &[],
            room => self.pages.table().words(self.table.get(), room),
        }
    }

    /// A number without a cache; the table grows if it must.
    fn vacant(&self) -> Option<u8> {
        if let Some(number) = self.words().iter().position(|word| word.get() == 0) {
            return Some(number as u8);
        }
        let old = self.room.get();
        let room = (old * 2).clamp(FIRST_CACHES, MOST_CACHES);
        if room == old {
            return None;
        }
        let table = self.pages.take_place(room * 4)?;
        let new = self.pages.table().words(table, room);
        self.words().iter().zip(new).for_each(|(from, to)| to.set(from.get()));
        let small = self.table.get();
        // A repair goes by the table: it leads to whole ones, at each moment.
        compiler_fence(Ordering::SeqCst);
        if planted::is(Planted::TableGivenFirst) && old > 0 {
            self.pages.give_place(small, old * 4);
        }
        self.table.set(table);
        compiler_fence(Ordering::SeqCst);
        self.room.set(room);
        compiler_fence(Ordering::SeqCst);
        if !planted::is(Planted::TableGivenFirst) && old > 0 {
            self.pages.give_place(small, old * 4);
        }
        Some(old as u8)
    }

    pub fn create(&self, name: &str, settings: CacheSettings) -> Option<CacheId> {
        let CacheSettings { size, align } = settings;
        let page = self.pages.table().page_bytes();
        if !align.is_power_of_two() || align as u64 > page.into() {
            return None;
        }
        let size = u32::try_from(size.max(1).checked_next_multiple_of(align)?).ok()?;
        let number = self.vacant()?;
        let bytes = size_of::<E::Cache>() as u32;
        let place = self.pages.take_place(bytes)?;
        let Some(cache) = E::new_cache(self, number, name, (size, align as u32)) else {
            self.pages.give_place(place, bytes);
            return None;
        };
        if planted::is(Planted::CacheNamedFirst) {
            self.table_word(number).set(place.number());
        }
        let at = self.pages.table().address_of(place);
        const { assert!(align_of::<E::Cache>() <= 16 && !core::mem::needs_drop::<E::Cache>()) };
        // SAFETY: a place for so many bytes, aligned to 16, that nobody else has.
        unsafe { core::ptr::with_exposed_provenance_mut::<E::Cache>(at).write(cache) };
        // The last of all stores: a repair relies on what the table has.
        compiler_fence(Ordering::SeqCst);
        self.table_word(number).set(place.number());
        Some(CacheId(number))
    }

    pub fn destroy(&self, cpu: u32, id: CacheId) -> bool {
        let Some(cache) = self.find(id) else { return false };
        E::shrink(self, cpu, cache);
        let mut tally = Tally::default();
        if E::verify(self, cpu, cache, &mut tally).is_err() || tally.counts.slabs > 0 {
            return false;
        }
        // The first of all stores: a repair forgets the cache then.
        let place = MetaRef::of(self.table_word(id.0).take());
        compiler_fence(Ordering::SeqCst);
        E::end_cache(self, cache);
        self.pages.give_place(place, size_of::<E::Cache>() as u32);
        true
    }

    pub fn take_run(&self, order: u32) -> Option<usize> {
        let page = if order <= MOST_ORDER {
            self.pages.buddy.take_as(PageKind::Run, order, 0)?
        } else {
            return None;
        };
        Some(self.pages.table().address(page))
    }

    pub fn give_run(&self, address: usize) -> bool {
        match self.pages.table().page_of(address) {
            Some((page, 0)) if self.pages.table().entry(page).kind() == PageKind::Run => {
                self.pages.buddy.give(page, self.pages.table().entry(page).order());
                true
            }
            _ => false,
        }
    }

    /// The order that holds this many bytes.
    pub fn order_of(&self, bytes: usize) -> u32 {
        let pages = bytes.div_ceil(self.pages.table().page_bytes() as usize);
        pages.checked_next_power_of_two().map_or(u32::MAX, usize::ilog2)
    }

    /// Usable bytes of a run; 0 if it is none.
    pub fn run_bytes(&self, address: usize) -> usize {
        match self.pages.table().page_of(address) {
            Some((page, 0)) if self.pages.table().entry(page).kind() == PageKind::Run => {
                (self.pages.table().page_bytes() as usize) << self.pages.table().entry(page).order()
            }
            _ => 0,
        }
    }
}
