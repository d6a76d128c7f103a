//! Serves a load on a machine with a given number of pages.
//!
//! If an object request finds no pages, the allocator releases cached memory, and the request is
//! repeated once. If a page request finds no pages, the failure is reported and the load continues,
//! as a kernel does when it cannot start a process.
//!
//! [`super::kernel`] is the allocator, [`super::pages`] supplies the pages. The invariants of
//! [`super`] hold.

use super::buddy::{Block, Buddy, MOST_ORDER};
use super::contender::Contender;
use super::kernel::Kernel;
use super::load::{Load, Step};
use super::memory::Memory;
use super::mobility::Type;
use super::pages::{Pages, Slabs};
use super::slabs::{NoSlab, ObjectLocation};
use super::state::State;
use std::collections::HashMap;

/// How much memory there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallMachine {
    /// Bytes of a page.
    pub page_size: u32,
    /// All that there are, those of the kernel's own included.
    pub pages: u32,
    /// Of these, this many are the kernel's own: its text, its tables.
    pub reserved: u32,
}

/// What there is at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSample {
    /// The moment's name.
    pub moment: String,
    /// Free pages, and the blocks that they are, by order.
    pub free_pages: u32,
    /// How many of each order.
    pub free_blocks: [u32; MOST_ORDER as usize + 1],
    /// Pages that the CPU keeps: a kernel counts them as neither free nor taken.
    pub kept: u32,
    /// Pages of slabs whose objects a shrinker can free, and of the others.
    pub reclaimable: u32,
    /// Those of the others.
    pub unreclaimable: u32,
    /// Pages that the load requested.
    pub of_requests: u32,
    /// Each cache's name, the order of its slabs, and how many it has.
    pub slabs: Vec<(String, u8, u32)>,
}

impl MachineSample {
    /// Reclaimable or not.
    #[must_use]
    pub fn slab_pages(&self) -> u32 {
        self.reclaimable + self.unreclaimable
    }

    /// The share of free memory that is in blocks below an order, from 0 to 1: 1 if no block of the
    /// order is free.
    #[must_use]
    pub fn fragmentation(&self, order: u8) -> f64 {
        let large: u32 =
            (order..=MOST_ORDER).map(|order| self.free_blocks[order as usize] << order).sum();
        1.0 - f64::from(large) / f64::from(self.free_pages.max(1))
    }
}

/// A block of pages that was not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedBlock {
    /// The step, from 0 up.
    pub step: usize,
    /// The requested order.
    pub order: u8,
    /// As it was when the request failed.
    pub look: MachineSample,
}

/// What came of a load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// At each moment of the load.
    pub looks: Vec<MachineSample>,
    /// Requests for blocks of each order, and those of them that were served.
    pub asked: [u32; MOST_ORDER as usize + 1],
    /// Of [`Outcome::asked`], by order.
    pub served: [u32; MOST_ORDER as usize + 1],
    /// Those that were not, in order.
    pub failed: Vec<FailedBlock>,
    /// Objects that there was no memory for: their frees are left out.
    pub objects_refused: u32,
    /// Slabs that found no block of their order, only lower ones.
    pub fallbacks: u32,
    /// How often the allocator let go of what it kept.
    pub shrinks: u32,
    /// Caches of slabs that were made, merged ones once.
    pub caches: usize,
}

impl Outcome {
    /// The sample at the moment of this name.
    #[must_use]
    pub fn at(&self, moment: &str) -> Option<&MachineSample> {
        self.looks.iter().find(|look| look.moment == moment)
    }
}

/// Serves it.
///
/// # Errors
/// A cache of the load has objects that no slab holds.
pub fn run(small: SmallMachine, contender: Contender, load: &Load) -> Result<Outcome, NoSlab> {
    let pages = Pages::of(Memory::Plain(Box::new(plain(small))), Vec::new());
    let (page_size, caches) = (small.page_size, load.caches.len());
    let kernel = Kernel::new(contender, &pages, page_size, small.pages, caches, "6.1");
    Run::new(kernel, pages, load).serve_all(load)
}

/// Serves a load of a kernel's events, starting from what that kernel had when they began; its
/// release says which slabs its SLUB makes.
///
/// # Errors
/// A cache of the load has objects that no slab holds.
pub fn run_from(
    begin: &State,
    release: &str,
    contender: Contender,
    load: &Load,
) -> Result<Outcome, NoSlab> {
    let of_begin = begin.slabs.iter().rev().map(|slab| slab.block).collect();
    let pages = Pages::of(Memory::Kernel(Box::new(begin.zone(release))), of_begin);
    let caches = load.caches.len();
    let kernel = Kernel::new(contender, &pages, PAGE_SIZE, begin.pages, caches, release);
    Run::new(kernel, pages, load).serve_all(load)
}

const PAGE_SIZE: u32 = 4096;

fn plain(small: SmallMachine) -> Buddy {
    let mut buddy = Buddy::new(small.pages);
    let mut left = small.reserved;
    // The kernel's own lies at the begin of memory, in whole blocks.
    while left > 0 {
        let order = (left.ilog2() as u8).min(MOST_ORDER);
        match buddy.take(order) {
            Some(_) => left -= 1 << order,
            None => break,
        }
    }
    buddy
}

/// A page of SLOB's, or a block of them.
fn of_slob(order: u8) -> Slabs {
    Slabs { cache: 0, order, least: order, of: Type::Unmovable, delay_ns: 0 }
}

/// An object, and the block of its own that it has if it is too large for a size class.
type Placed = (ObjectLocation, Option<Block>);

struct Run {
    kernel: Kernel,
    pages: Pages,
    places: Vec<Option<Placed>>,
    blocks: HashMap<u32, Block>,
    outcome: Outcome,
}

impl Run {
    fn new(kernel: Kernel, pages: Pages, load: &Load) -> Run {
        Run {
            kernel,
            pages,
            places: vec![None; load.numbers as usize],
            blocks: HashMap::new(),
            outcome: Outcome::default(),
        }
    }

    fn serve_all(mut self, load: &Load) -> Result<Outcome, NoSlab> {
        if load.steps.contains(&Step::WholeArrays) {
            self.kernel.begin_with_arrays_of_one();
        }
        for (nth, step) in load.steps.iter().enumerate() {
            match *step {
                Step::Alloc(number, of) => {
                    let place = self.alloc(of, load)?;
                    self.outcome.objects_refused += u32::from(place.is_none());
                    self.places[number as usize] = place;
                }
                Step::Free(number) => {
                    if let Some(place) = self.places[number as usize].take() {
                        self.free(place);
                    }
                }
                Step::Pages(number, order, of) => self.request(nth, number, order, of),
                Step::FreePages(number) => {
                    if let Some(block) = self.blocks.remove(&number) {
                        self.pages.put(block);
                    }
                }
                Step::FreePart(number, first, order) => {
                    if let Some(block) = self.blocks.get(&number) {
                        self.pages.put((block.0 + first, order));
                    }
                }
                Step::Release(at, order) => self.pages.release((at, order)),
                Step::Limit(limits) => self.pages.limit(limits),
                Step::WholeArrays => self.kernel.grow_arrays(),
                Step::Reap(of, part) => self.kernel.reap(of, part),
                Step::Begin => self.pages.release_slabs_of_begin(),
                Step::Reach(moment) => {
                    let look = self.look(&load.moments[moment as usize]);
                    self.outcome.looks.push(look);
                }
            }
        }
        self.outcome.caches = self.kernel.caches();
        self.outcome.fallbacks = self.pages.counts().fallbacks as u32;
        Ok(self.outcome)
    }

    /// Allocates, and once more after everything that is kept was let go.
    fn alloc(&mut self, of: super::load::AllocType, load: &Load) -> Result<Option<Placed>, NoSlab> {
        let placed = self.alloc_once(of, load)?;
        if placed.is_some() {
            return Ok(placed);
        }
        self.outcome.shrinks += 1;
        self.kernel.shrink();
        self.alloc_once(of, load)
    }

    fn alloc_once(
        &mut self,
        of: super::load::AllocType,
        load: &Load,
    ) -> Result<Option<Placed>, NoSlab> {
        let before = self.kernel.pages_of_slob();
        let Some(place) = self.kernel.alloc(of, &load.caches)? else { return Ok(None) };
        let (has_pages, block) = match place {
            ObjectLocation::Slob(at, _) => {
                let more = self.kernel.pages_of_slob() - before;
                let page = self.kernel.page_of(at);
                let has =
                    |more: u32| self.pages.begin_slab(of_slob(more.ilog2() as u8), page).is_some();
                (more == 0 || has(more), None)
            }
            ObjectLocation::Slab(..) => (true, None),
            ObjectLocation::Pages(order) => {
                let block = self.pages.take_large(order);
                (block.is_some(), block)
            }
        };
        if has_pages {
            return Ok(Some((place, block)));
        }
        // A page of SLOB's without pages: its object goes back, and it ends.
        self.free((place, None));
        Ok(None)
    }

    fn free(&mut self, (place, block): Placed) {
        let before = self.kernel.pages_of_slob();
        self.kernel.free(place);
        match place {
            ObjectLocation::Slob(at, _) => {
                if self.kernel.pages_of_slob() < before {
                    self.pages.end_slab(of_slob(0), self.kernel.page_of(at));
                }
            }
            ObjectLocation::Slab(..) => {}
            ObjectLocation::Pages(_) => {
                block.into_iter().for_each(|block| self.pages.put_large(block))
            }
        }
    }

    fn request(&mut self, nth: usize, number: u32, order: u8, of: Type) {
        self.outcome.asked[order as usize] += 1;
        match self.pages.take(order, of) {
            Some(block) => {
                self.outcome.served[order as usize] += 1;
                self.blocks.insert(number, block);
            }
            None => {
                let look = self.look("failed");
                self.outcome.failed.push(FailedBlock { step: nth, order, look });
            }
        }
    }

    fn look(&self, moment: &str) -> MachineSample {
        let (free, counts) = (self.pages.free(), self.pages.counts());
        MachineSample {
            moment: moment.into(),
            free_pages: free.pages,
            free_blocks: free.blocks,
            kept: free.kept,
            reclaimable: counts.reclaimable,
            unreclaimable: counts.of_slabs - counts.reclaimable,
            of_requests: counts.of_requests,
            slabs: self.kernel.slabs(),
        }
    }
}
