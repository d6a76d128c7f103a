//! The slab caches of a kernel that serves a load.
//!
//! Caches are merged as in `mm/slab_common.c`: with a cache whose objects are at most 7 bytes
//! larger, with a compatible alignment and the same kind of pages. `SLAB_TYPESAFE_BY_RCU` caches
//! are never merged. The size classes of kmalloc are caches too; larger requests become pages,
//! which a kernel also counts as slab memory.
//!
//! [`super::kernel`] allocates objects here, unless it runs SLOB; [`super::pages`] supplies the
//! slabs' pages and takes them back. Invariant: a cache that the load never uses is not created.

use super::contender::{Contender, Empties, Lists};
use super::load::{AllocType, Cache};
use super::mobility::Type;
use super::pages;
use super::state::ReapPart;
use crate::rules::{Machine, Settings};
use crate::slab;
use slabyard::engine::array_cache::{Choice, Limits};
use slabyard_kernels::orders::order_for;
use slabyard_model::cache::{KernelCache, NONE};
use thiserror::Error;

/// One CPU, of node 0.
const NODE_OF: [u16; 1] = [0];
const CPU: usize = 0;
/// What `kmalloc` aligns to at least, and caches.
pub(super) const LEAST_ALIGN: u32 = 8;
/// A cache line: classes of SLAB are aligned to no less where they are as large.
const LINE: u32 = 64;
/// Arrays of SLAB until it can make caches of any size.
const ARRAYS_OF_ONE: Limits = Limits { limit: 1, batchcount: 1, sharedfactor: 0 };

/// The load has a cache that no slab holds.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cache {name}: {why}")]
pub struct NoSlab {
    /// The cache.
    pub name: String,
    pub why: String,
}

/// What an object was allocated from: SLOB's pages, a slab, or pages of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectLocation {
    /// An address of SLOB's, and the bytes of a cache's object; 0: `kmalloc` made it.
    Slob(u64, u32),
    /// A cache and a slab, or an object in an array of it.
    Slab(u32, u32),
    /// A block of pages, of an order: too large for a size class.
    Pages(u8),
}

/// An existing cache, and what merging compares.
struct CreatedCache {
    name: String,
    cache: KernelCache,
    order: u8,
    size: u32,
    align: u32,
    reclaimable: bool,
    merges: bool,
}

/// A cache that is to be made.
struct CacheRequest<'a> {
    name: &'a str,
    object_size: u32,
    size: u32,
    align: u32,
    kind: PageMobility,
    contents: Contents,
    merging: Merging,
}

/// What its pages count as.
#[derive(PartialEq, Eq)]
enum PageMobility {
    Reclaimable,
    Plain,
}

/// What becomes of a free object's contents.
#[derive(PartialEq, Eq)]
enum Contents {
    Kept,
    Lost,
}

/// Whether later caches share it.
#[derive(PartialEq, Eq)]
enum Merging {
    WithOthers,
    Alone,
}

fn kind(reclaimable: bool) -> PageMobility {
    if reclaimable { PageMobility::Reclaimable } else { PageMobility::Plain }
}

/// Caches of slabs.
pub(super) struct Slabs {
    contender: Contender,
    settings: Settings,
    made: Vec<CreatedCache>,
    /// By the load's cache, and by size class: plain ones, then reclaimable ones.
    of_cache: Vec<Option<u32>>,
    of_class: Vec<Option<u32>>,
    classes: Vec<u32>,
    /// The machine's.
    pages: pages::Pages,
    /// SLAB's arrays have one object each, as early in a boot.
    has_arrays_of_one: bool,
}

fn settings(contender: Contender, page_size: u32, release: &str) -> Settings {
    let machine = Machine::new(page_size, 1);
    let (mut settings, _) =
        Settings::of_version(release, machine).expect("a release with a preset");
    let mut set = |text: &str| settings.set(text).expect("a key of the lab's own");
    match contender {
        Contender::Slob | Contender::Slab { .. } => {}
        Contender::Slub { max_order, empties, lists } => {
            set(&format!("max_order={max_order}"));
            if empties == Empties::Ended {
                set("min_partial=0");
            }
            if lists == Lists::Off {
                set("cpu_partial_lists=0");
            }
        }
        Contender::Tiny { max_order } => {
            set("tiny=1");
            set(&format!("max_order={max_order}"));
        }
    }
    settings
}

/// As a kernel of 5.4 or later names it.
fn class_name(size: u32, reclaimable: bool) -> String {
    let kind = if reclaimable { "kmalloc-rcl" } else { "kmalloc" };
    match size {
        ..1024 => format!("{kind}-{size}"),
        _ => format!("{kind}-{}k", size >> 10),
    }
}

impl Slabs {
    pub(super) fn new(
        contender: Contender,
        pages: &pages::Pages,
        page_size: u32,
        caches: usize,
        release: &str,
    ) -> Slabs {
        let classes = match contender {
            // A class of 96 bytes has objects of 128 there: it is aligned to a line.
            Contender::Slab { .. } => slab::kmalloc_sizes(page_size),
            _ => crate::geometry::kmalloc_sizes(page_size),
        };
        Slabs {
            contender,
            settings: settings(contender, page_size, release),
            made: Vec::new(),
            of_cache: vec![None; caches],
            of_class: vec![None; 2 * classes.len()],
            classes,
            pages: pages.clone(),
            has_arrays_of_one: false,
        }
    }

    /// Allocates an object; `None` if there are no pages for a slab.
    pub(super) fn alloc(
        &mut self,
        of: AllocType,
        caches: &[Cache],
    ) -> Result<Option<ObjectLocation>, NoSlab> {
        let found = match (self.found(of), of) {
            (Some(found), _) => found,
            (None, AllocType::Cache(number)) => {
                let made = self.cache(&caches[number as usize])?;
                *self.of_cache[number as usize].insert(made)
            }
            (None, AllocType::Kmalloc(bytes) | AllocType::KmallocReclaimable(bytes)) => {
                let Some(at) = self.class_at(of) else {
                    let page = self.settings.machine.page_size;
                    return Ok(Some(ObjectLocation::Pages(order_for(bytes.into(), page))));
                };
                let nr_classes = self.classes.len();
                let made = self.class(self.classes[at % nr_classes], at >= nr_classes)?;
                *self.of_class[at].insert(made)
            }
        };
        let object = self.made[found as usize].cache.alloc(CPU, None);
        Ok((object != NONE).then_some(ObjectLocation::Slab(found, object)))
    }

    /// The cache, if it was made.
    fn found(&self, of: AllocType) -> Option<u32> {
        match of {
            AllocType::Cache(number) => self.of_cache[number as usize],
            AllocType::Kmalloc(_) | AllocType::KmallocReclaimable(_) => {
                self.of_class[self.class_at(of)?]
            }
        }
    }

    /// Where a size class is in `of_class`.
    fn class_at(&self, of: AllocType) -> Option<usize> {
        let (AllocType::Kmalloc(bytes) | AllocType::KmallocReclaimable(bytes)) = of else {
            return None;
        };
        let class = self.classes.iter().position(|class| *class >= bytes)?;
        let reclaimable = matches!(of, AllocType::KmallocReclaimable(_)) && !self.settings.tiny;
        Some(class + usize::from(reclaimable) * self.classes.len())
    }

    pub(super) fn free(&mut self, cache: u32, object: u32) {
        let cache = &mut self.made[cache as usize].cache;
        cache.free(CPU, object);
        // Nobody asks what began and ended.
        drop(cache.take_pages());
    }

    pub(super) fn shrink(&self) {
        self.made.iter().for_each(|made| made.cache.shrink());
    }

    pub(super) fn begin_with_arrays_of_one(&mut self) {
        self.has_arrays_of_one = true;
    }

    pub(super) fn grow_arrays(&mut self) {
        self.has_arrays_of_one = false;
        let page_size = self.settings.machine.page_size;
        for made in self.made.iter_mut().filter(|made| made.cache.has_arrays()) {
            made.cache.tune_arrays(Choice::default().limits(made.size, page_size, 1));
        }
    }

    pub(super) fn reap(&self, of: AllocType, part: ReapPart) {
        let Some(found) = self.found(of) else { return };
        let cache = &self.made[found as usize].cache;
        match part {
            ReapPart::Cpu => cache.reap_cpu(CPU),
            ReapPart::Node => cache.reap_nodes(),
        }
    }

    /// Each cache's name, the order of its slabs, and how many it has.
    pub(super) fn all(&self) -> impl Iterator<Item = (String, u8, u32)> {
        self.made.iter().map(|made| (made.name.clone(), made.order, made.cache.nr_slabs()))
    }

    /// Caches that were made.
    pub(super) fn len(&self) -> u32 {
        self.made.len() as u32
    }

    fn class(&mut self, size: u32, reclaimable: bool) -> Result<u32, NoSlab> {
        let align = match self.contender {
            Contender::Slab { .. } => size.min(LINE),
            _ => LEAST_ALIGN,
        };
        // Classes are there first, and merge with nothing.
        self.make(&CacheRequest {
            name: &class_name(size, reclaimable),
            object_size: size,
            size: size.next_multiple_of(align),
            align,
            kind: kind(reclaimable),
            contents: Contents::Lost,
            merging: Merging::Alone,
        })
    }

    fn cache(&mut self, cache: &Cache) -> Result<u32, NoSlab> {
        let align = cache.align.max(LEAST_ALIGN);
        let link = match self.contender {
            // SLAB has its free objects in an index beside them.
            Contender::Slab { .. } => 0,
            _ => LEAST_ALIGN,
        };
        let behind = if cache.keeps_contents { link } else { 0 };
        let bytes = cache.object_size.max(1).next_multiple_of(LEAST_ALIGN) + behind;
        let size = bytes.next_multiple_of(align);
        let reclaimable = cache.reclaimable && !self.settings.tiny;
        let fits = |made: &CreatedCache| {
            let arrays_fit = !matches!(self.contender, Contender::Slab { .. })
                || made.align.is_multiple_of(align);
            made.merges
                && made.reclaimable == reclaimable
                && made.size >= size
                && made.size - size < LEAST_ALIGN
                && made.size.is_multiple_of(align)
                && arrays_fit
        };
        if !cache.keeps_contents
            && !cache.stays_alone
            && let Some(found) = self.made.iter().rposition(fits)
        {
            return Ok(found as u32);
        }
        let contents = if cache.keeps_contents { Contents::Kept } else { Contents::Lost };
        let merging = match cache.keeps_contents || cache.stays_alone {
            true => Merging::Alone,
            false => Merging::WithOthers,
        };
        let (name, object_size, kind) = (&*cache.name, cache.object_size, kind(reclaimable));
        self.make(&CacheRequest { name, object_size, size, align, kind, contents, merging })
    }

    fn make(&mut self, wanted: &CacheRequest<'_>) -> Result<u32, NoSlab> {
        let &CacheRequest { name, object_size, size, align, .. } = wanted;
        let reclaimable = wanted.kind == PageMobility::Reclaimable;
        let keeps_contents = wanted.contents == Contents::Kept;
        let merges = wanted.merging == Merging::WithOthers;
        let no_slab = |why: String| NoSlab { name: name.into(), why };
        let geometry =
            crate::geometry::of(size, &self.settings).map_err(|e| no_slab(e.to_string()))?;
        let (mut rules, mut order) = (geometry.rules(&self.settings), geometry.order);
        let mut least = (geometry.min_order, geometry.least_objects(&self.settings));
        if let Contender::Slab { max_order } = self.contender {
            let machine = &self.settings.machine;
            let of_slab = slab::Rules { max_order, ..slab::Rules::of(machine) };
            let request = slab::Request { object_size, size, align, keeps_contents, reclaimable };
            let found = slab::of(&request, &of_slab).map_err(|e| no_slab(e.to_string()))?;
            order = found.order;
            // It has no smaller slabs.
            least = (order, found.objects);
            let limits = if self.has_arrays_of_one { ARRAYS_OF_ONE } else { found.limits };
            rules = rules.of_arrays(found.objects, limits);
        }
        let mut cache = KernelCache::new(rules, &NODE_OF);
        cache.begin();
        let slabs = pages::Slabs {
            cache: self.len(),
            order,
            least: least.0,
            of: if reclaimable { Type::Reclaimable } else { Type::Unmovable },
            delay_ns: 0,
        };
        cache.supply(self.pages.supply(slabs), least.1);
        self.made.push(CreatedCache {
            name: name.into(),
            cache,
            order,
            size,
            align,
            reclaimable,
            merges,
        });
        Ok(self.made.len() as u32 - 1)
    }
}
