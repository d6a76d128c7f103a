//! A kernel's allocator that serves a load: SLOB, or caches of slabs.
//!
//! Caches of slabs are merged as `mm/slab_common.c` does it: with one whose
//! objects are at most 7 bytes larger, of a fitting alignment and of the same kind of pages; not
//! if objects keep their contents. Size classes of kmalloc are caches, too; what is larger than the
//! largest is pages, which a kernel counts as slab, too.
//!
//! Neighbours: [`super::machine`] gives pages to what is new here, and takes back what ended.
//! Invariants: of a cache that the load never uses nothing is made.

use super::contender::{Contender, Empties, Lists};
use super::load::{Cache, Of};
use crate::rules::{Machine, Settings};
use crate::slab;
use slabyard::engine::counted::{Front, KernelCache, Page, Rules};
use slabyard::engine::slob::kernel::Kernel as Slob;
use thiserror::Error;

/// One CPU, of node 0.
const NODE_OF: [u16; 1] = [0];
const CPU: usize = 0;
/// What `kmalloc` aligns to at least, and caches.
const LEAST_ALIGN: u32 = 8;
/// A cache line: classes of SLAB are aligned to no less where they are as large.
const LINE: u32 = 64;

/// The load has a cache that no slab holds.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cache {name}: {why}")]
pub struct NoSlab {
    /// The cache.
    pub name: String,
    /// Why.
    pub why: String,
}

/// Pages that an allocator took or gave back, by its own numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A slab of a cache, or a page of SLOB's: cache, number, order.
    Took(u32, u32, u8),
    /// It ended.
    Gave(u32, u32),
}

/// Where an object lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// An address of SLOB's, and the bytes of a cache's object; 0: `kmalloc` made it.
    Slob(u64, u32),
    /// A cache and a slab, or an object in an array of it.
    Slab(u32, u32),
    /// A block of pages, of an order: too large for a size class.
    Pages(u8),
}

/// A cache that is there, and what merging compares.
struct Made {
    name: String,
    cache: KernelCache,
    order: u8,
    size: u32,
    align: u32,
    reclaimable: bool,
    merges: bool,
}

/// A cache that is to be made.
struct Wanted<'a> {
    name: &'a str,
    object_size: u32,
    size: u32,
    align: u32,
    pages: Pages,
    contents: Contents,
    merging: Merging,
}

/// What its pages count as.
#[derive(PartialEq, Eq)]
enum Pages {
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

fn pages(reclaimable: bool) -> Pages {
    if reclaimable { Pages::Reclaimable } else { Pages::Plain }
}

/// The allocator.
pub(super) enum Kernel {
    Slob { slob: Box<Slob>, page_size: u32 },
    Slabs(Box<Slabs>),
}

/// Caches of slabs.
pub(super) struct Slabs {
    contender: Contender,
    settings: Settings,
    made: Vec<Made>,
    /// By the load's cache, and by size class: plain ones, then reclaimable ones.
    of_cache: Vec<Option<u32>>,
    of_class: Vec<Option<u32>>,
    classes: Vec<u32>,
}

impl Kernel {
    pub(super) fn new(
        contender: Contender,
        page_size: u32,
        pages: u32,
        caches: usize,
        release: &str,
    ) -> Kernel {
        if contender == Contender::Slob {
            let slob = Box::new(Slob::new(page_size, LEAST_ALIGN, pages));
            return Kernel::Slob { slob, page_size };
        }
        let classes = match contender {
            // A class of 96 bytes has objects of 128 there: it is aligned to a line.
            Contender::Slab { .. } => slab::kmalloc_sizes(page_size),
            _ => crate::geometry::kmalloc_sizes(page_size),
        };
        Kernel::Slabs(Box::new(Slabs {
            contender,
            settings: settings(contender, page_size, release),
            made: Vec::new(),
            of_cache: vec![None; caches],
            of_class: vec![None; 2 * classes.len()],
            classes,
        }))
    }

    /// Allocates an object; `Pages` ones are to be taken by the caller.
    pub(super) fn alloc(&mut self, of: Of, caches: &[Cache]) -> Result<Option<Place>, NoSlab> {
        match self {
            Kernel::Slob { slob, .. } => Ok(match of {
                Of::Kmalloc(bytes) | Of::KmallocReclaimable(bytes) => {
                    slob.kmalloc(bytes.max(1)).map(|at| Place::Slob(at, 0))
                }
                Of::Cache(number) => {
                    let cache = &caches[number as usize];
                    let bytes = cache.object_size.max(1);
                    slob.cache_alloc(bytes, cache.align).map(|at| Place::Slob(at, bytes))
                }
            }),
            Kernel::Slabs(slabs) => slabs.alloc(of, caches).map(Some),
        }
    }

    pub(super) fn free(&mut self, place: Place) {
        match (self, place) {
            (Kernel::Slob { slob, .. }, Place::Slob(at, 0)) => slob.kfree(at),
            (Kernel::Slob { slob, .. }, Place::Slob(at, bytes)) => slob.cache_free(at, bytes),
            (Kernel::Slabs(slabs), Place::Slab(cache, object)) => {
                slabs.made[cache as usize].cache.free(CPU, object);
            }
            _ => {}
        }
    }

    /// Pages of SLOB before and after a call say what the call took; slabs say it themselves.
    pub(super) fn pages_of_slob(&self) -> u32 {
        match self {
            Kernel::Slob { slob, .. } => slob.nr_pages(),
            Kernel::Slabs(_) => 0,
        }
    }

    /// The page of SLOB's that an object lies in.
    pub(super) fn page_of(&self, at: u64) -> u32 {
        match self {
            Kernel::Slob { page_size, .. } => (at / u64::from(*page_size)) as u32,
            Kernel::Slabs(_) => 0,
        }
    }

    /// Slabs that a call on a cache began and ended.
    pub(super) fn changes(&mut self, cache: u32, mut each: impl FnMut(Change)) {
        if let Kernel::Slabs(slabs) = self {
            let made = &mut slabs.made[cache as usize];
            for page in made.cache.take_pages() {
                each(match page {
                    Page::New(slab) => Change::Took(cache, slab, made.order),
                    Page::Freed(slab) => Change::Gave(cache, slab),
                });
            }
        }
    }

    /// Lets go of free objects that CPUs keep, and of empty slabs; the caches that it had.
    pub(super) fn shrink(&mut self) -> u32 {
        let Kernel::Slabs(slabs) = self else { return 0 };
        slabs.made.iter().for_each(|made| made.cache.shrink());
        slabs.made.len() as u32
    }

    /// Pages of reclaimable slabs are counted apart.
    pub(super) fn is_reclaimable(&self, cache: u32) -> bool {
        match self {
            Kernel::Slob { .. } => false,
            Kernel::Slabs(slabs) => slabs.made[cache as usize].reclaimable,
        }
    }

    /// A cache's name, the order of its slabs, and how many it has.
    pub(super) fn slabs(&self) -> Vec<(String, u8, u32)> {
        let Kernel::Slabs(slabs) = self else { return Vec::new() };
        let of = |made: &Made| (made.name.clone(), made.order, made.cache.nr_slabs());
        slabs.made.iter().map(of).collect()
    }

    /// Caches, and the bytes of their objects.
    pub(super) fn caches(&self) -> usize {
        match self {
            Kernel::Slob { .. } => 0,
            Kernel::Slabs(slabs) => slabs.made.len(),
        }
    }
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
    fn alloc(&mut self, of: Of, caches: &[Cache]) -> Result<Place, NoSlab> {
        let found = match of {
            Of::Cache(number) => match self.of_cache[number as usize] {
                Some(made) => made,
                None => {
                    let made = self.cache(&caches[number as usize])?;
                    *self.of_cache[number as usize].insert(made)
                }
            },
            Of::Kmalloc(bytes) | Of::KmallocReclaimable(bytes) => {
                let Some(class) = self.classes.iter().position(|class| *class >= bytes) else {
                    let page = self.settings.machine.page_size;
                    return Ok(
                        Place::Pages(bytes.div_ceil(page).next_power_of_two().ilog2() as u8),
                    );
                };
                let reclaimable = matches!(of, Of::KmallocReclaimable(_)) && !self.settings.tiny;
                let at = class + usize::from(reclaimable) * self.classes.len();
                match self.of_class[at] {
                    Some(made) => made,
                    None => {
                        let made = self.class(self.classes[class], reclaimable)?;
                        *self.of_class[at].insert(made)
                    }
                }
            }
        };
        let object = self.made[found as usize].cache.alloc(CPU, None);
        Ok(Place::Slab(found, object))
    }

    fn class(&mut self, size: u32, reclaimable: bool) -> Result<u32, NoSlab> {
        let align = match self.contender {
            Contender::Slab { .. } => size.min(LINE),
            _ => LEAST_ALIGN,
        };
        // Classes are there first, and merge with nothing.
        self.make(&Wanted {
            name: &class_name(size, reclaimable),
            object_size: size,
            size: size.next_multiple_of(align),
            align,
            pages: pages(reclaimable),
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
        let fits = |made: &Made| {
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
        let (name, object_size, pages) = (&*cache.name, cache.object_size, pages(reclaimable));
        self.make(&Wanted { name, object_size, size, align, pages, contents, merging })
    }

    fn make(&mut self, wanted: &Wanted<'_>) -> Result<u32, NoSlab> {
        let &Wanted { name, object_size, size, align, .. } = wanted;
        let reclaimable = wanted.pages == Pages::Reclaimable;
        let keeps_contents = wanted.contents == Contents::Kept;
        let merges = wanted.merging == Merging::WithOthers;
        let no_slab = |why: String| NoSlab { name: name.into(), why };
        let geometry =
            crate::geometry::of(size, &self.settings).map_err(|e| no_slab(e.to_string()))?;
        let (mut rules, mut order) = (geometry.rules(&self.settings), geometry.order);
        if let Contender::Slab { max_order } = self.contender {
            let machine = &self.settings.machine;
            let of_slab = slab::Rules { max_order, ..slab::Rules::of(machine) };
            let request = slab::Request { object_size, size, align, keeps_contents, reclaimable };
            let found = slab::of(&request, &of_slab).map_err(|e| no_slab(e.to_string()))?;
            order = found.order;
            rules = Rules {
                objects: found.objects,
                front: Front::ArrayCaches(found.limits),
                min_partial: 0,
                cpu_partial: 0,
                cpu_partial_slabs: 0,
                cpu_partial_lists: false,
                ..rules
            };
        }
        let mut cache = KernelCache::new(rules, &NODE_OF);
        cache.begin();
        self.made.push(Made { name: name.into(), cache, order, size, align, reclaimable, merges });
        Ok(self.made.len() as u32 - 1)
    }
}
