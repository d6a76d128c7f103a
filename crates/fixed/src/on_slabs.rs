//! Turns addresses into objects, and sizes into classes, for yards whose engine has slabs.

use crate::caches::{CLASSES, CacheSettings, Core, FixedEngine, Repair};
use crate::engine::{Cache, CacheLimits, FixedSlabs, Object, SlabEngine};
use crate::live_map::LiveMap;
use crate::orders;
use crate::pages::{MOST_ORDER, MetaRef, NONE};
use crate::tally::Tally;
use slabyard::engine::partial;
use slabyard::engine::slabs::Links;
use slabyard::slab::Geometry;

/// Objects of a slab of these are numbered in half a word of each bitmap.
const MOST_OBJECTS: u32 = Geometry::MOST_OBJECTS;

/// The size of a class of `malloc`: 8, 16, 32, 64, 96, 128, 192, 256, 512 ...
fn size_of_class(class: usize) -> u32 {
    match class {
        0..=3 => 8 << class,
        4 => 96,
        5 => 128,
        6 => 192,
        _ => 256 << (class - 7),
    }
}

/// The class of a request, where a page has `page` bytes; `None` above two pages.
fn class_for(bytes: usize, page: u32) -> Option<usize> {
    let fits = |class: &usize| size_of_class(*class) as usize >= bytes;
    (0..CLASSES).find(fits).filter(|class| size_of_class(*class) <= 2 * page)
}

impl<K: SlabEngine> Core<K> {
    fn limits(&self) -> CacheLimits {
        CacheLimits {
            min_partial: self.settings.min_partial,
            cpu_partial: self.settings.cpu_partial,
            sheaf_objects: self.settings.sheaf_objects,
            cpus: self.cpus,
            page_bytes: self.pages.table().page_bytes(),
        }
    }

    fn on<'a>(&'a self, cpu: u32, cache: &'a Cache<K>) -> FixedSlabs<'a, K> {
        FixedSlabs { pages: &self.pages, cache, cpu: (cpu, self.cpus), nobody: &self.nobody }
    }

    fn address(&self, cache: &Cache<K>, object: Object) -> usize {
        let size = cache.header.shape().geometry.size;
        self.pages.table().address(object.slab()) + (object.index() * size) as usize
    }

    /// The object at an address, and the number of its cache.
    fn object_at(&self, address: usize) -> Option<(Object, &Cache<K>)> {
        let (page, _) = self.pages.table().page_of(address)?;
        let slab = self.pages.table().head_of(page);
        let entry = self.pages.table().entry(slab);
        let cache = entry.kind().is_slab().then(|| self.cache(entry.cache()))??;
        let offset = (address - self.pages.table().address(slab)) as u32;
        let geometry = &cache.header.shape().geometry;
        Some((Object::new(slab, geometry.object_at(offset)?), cache))
    }

    /// The cache of a class, made if it is not there.
    fn class(&self, class: usize) -> Option<&Cache<K>> {
        let number = match self.classes[class].get() {
            0 => {
                let size = size_of_class(class) as usize;
                let id = self.create("malloc", CacheSettings { size, align: size.min(8) })?;
                self.classes[class].set(id.0 + 1);
                id.0
            }
            number => number - 1,
        };
        self.cache(number)
    }
}

impl<K: SlabEngine> Repair for K {
    type Cache = Cache<K>;

    fn place_of(cache: &Cache<K>) -> MetaRef {
        cache.cpus()
    }

    fn renew(core: &Core<K>, cpu: u32, cache: &Cache<K>) {
        let new = cache.renewed(&core.limits());
        // SAFETY: one call is under way at a time, and this reference is the only one. What is
        // written has the same type, and needs no drop.
        unsafe { core::ptr::from_ref(cache).cast_mut().write(new) };
        core.on(cpu, cache).forget_cpus();
    }

    fn adopt(core: &Core<K>, live: &LiveMap, cpu: u32, page: u32) {
        let entry = core.pages.table().entry(page);
        let Some(cache) = entry.kind().is_slab().then(|| core.cache(entry.cache())).flatten()
        else {
            return;
        };
        let size = cache.header.shape().geometry.size;
        core.on(cpu, cache).adopt(page, |index| {
            core.pages.table().granule_at(page, index * size).is_some_and(|bit| live.is_live(bit))
        });
    }
}

impl<K: SlabEngine> FixedEngine for K {
    const NAME: &'static str = K::NAME;

    fn new_cache(
        core: &Core<K>,
        number: u8,
        name: &str,
        (size, _): (u32, u32),
    ) -> Option<Cache<K>> {
        let page = core.pages.table().page_bytes();
        // A free object holds a link of two bytes.
        let size = size.max(8).next_multiple_of(8);
        let max_order = core.settings.max_order.unwrap_or(K::MOST_ORDER).min(MOST_ORDER);
        if size > page << MOST_ORDER || size > Geometry::LARGEST_SLAB {
            return None;
        }
        let mut order = if K::IS_SLAB {
            orders::slab(size, page, max_order)?
        } else {
            orders::slub(size, page, max_order, core.cpus)?
        };
        while order > 0 && (page << order) / size > MOST_OBJECTS {
            order -= 1;
        }
        let objects = ((page << order) / size).min(MOST_OBJECTS);
        let geometry = Geometry::in_pages(size, order, objects);
        let limits = core.limits();
        let cpus = match Cache::<K>::cpu_bytes(core.cpus) {
            0 => MetaRef::NONE,
            bytes => core.pages.take_place(bytes)?,
        };
        Some(Cache::new(number, name, geometry, &limits, cpus))
    }

    fn end_cache(core: &Core<K>, cache: &Cache<K>) {
        let bytes = Cache::<K>::cpu_bytes(core.cpus);
        if bytes > 0 {
            core.pages.give_place(cache.cpus(), bytes);
        }
    }

    fn cpu_bytes(cpus: u32) -> u32 {
        Cache::<K>::cpu_bytes(cpus)
    }

    fn alloc(core: &Core<K>, cpu: u32, cache: &Cache<K>) -> Option<usize> {
        K::alloc(core.on(cpu, cache)).map(|object| core.address(cache, object))
    }

    fn free(core: &Core<K>, cpu: u32, cache: &Cache<K>, address: usize) -> bool {
        match core.object_at(address) {
            Some((object, of)) if core::ptr::eq(of, cache) => {
                K::free(core.on(cpu, cache), object);
                true
            }
            _ => false,
        }
    }

    fn shrink(core: &Core<K>, cpu: u32, cache: &Cache<K>) {
        K::shrink(core.on(cpu, cache), 0..core.cpus);
    }

    fn malloc(core: &Core<K>, cpu: u32, bytes: usize) -> Option<usize> {
        match class_for(bytes, core.pages.table().page_bytes()) {
            Some(class) => <K as FixedEngine>::alloc(core, cpu, core.class(class)?),
            None => core.take_run(core.order_of(bytes)),
        }
    }

    fn mfree(core: &Core<K>, cpu: u32, address: usize) -> bool {
        match core.object_at(address) {
            Some((object, cache)) => {
                K::free(core.on(cpu, cache), object);
                true
            }
            None => core.give_run(address),
        }
    }

    fn usable(core: &Core<K>, address: usize) -> usize {
        match core.object_at(address) {
            Some((_, cache)) => cache.header.shape().geometry.size as usize,
            None => core.run_bytes(address),
        }
    }

    fn verify(
        core: &Core<K>,
        cpu: u32,
        cache: &Cache<K>,
        tally: &mut Tally,
    ) -> Result<(), &'static str> {
        let Geometry { order, objects, size, .. } = cache.header.shape().geometry;
        let (mut slabs, mut listed, mut free) = (0, 0, 0);
        for page in 1..core.pages.table().nr() {
            let entry = core.pages.table().entry(page);
            if !entry.kind().is_slab() || entry.cache() != cache.number() {
                continue;
            }
            slabs += 1;
            free += u64::from(entry.free.get());
            let is_listed = entry.is_listed();
            listed += u32::from(is_listed);
            if is_listed && entry.free.get() == 0 {
                return Err("a slab without free objects is listed");
            }
            let mut index = entry.first.get();
            for _ in 0..entry.free.get() {
                if u32::from(index) >= objects {
                    return Err("a slab has fewer free objects in its chain than are counted");
                }
                index = core.pages.table().half(page, u32::from(index) * size).get();
            }
            if index != NONE {
                return Err("a slab has more free objects in its chain than are counted");
            }
        }
        let (mut parked, mut is_sound) = (0, true);
        K::each_parked(core.on(cpu, cache), 0..core.cpus, &mut |object| {
            parked += 1;
            let entry = core.pages.table().entry(object.slab());
            is_sound &= entry.kind().is_slab() && entry.cache() == cache.number();
            is_sound &= object.index() < objects;
        });
        if !is_sound {
            return Err("what is parked is no object of its cache");
        }
        if slabs != cache.header.nr_slabs() {
            return Err("there are other slabs than are counted");
        }
        if listed != partial::nr_partial(core.on(cpu, cache)) {
            return Err("other slabs are listed than are counted");
        }
        let all = u64::from(slabs) * u64::from(objects);
        let live = all.checked_sub(free + parked).ok_or("more objects are free than there are")?;
        let counts = &mut tally.counts;
        counts.slabs += slabs;
        counts.slab_pages += slabs << order;
        counts.live += live;
        counts.parked += parked;
        counts.live_bytes += live * u64::from(size);
        Ok(())
    }
}
