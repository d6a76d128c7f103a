//! Serves a load on a machine of so many pages.
//!
//! A slab takes a block of its order, and where there is none, blocks of lower orders (the kernel
//! falls back to a slab of a lower order); for an object there is nothing, the allocator lets go of
//! what it keeps, and the request is made once more. What a request for pages does not find is
//! told, and the load goes on, as a kernel does whose process could not start.
//!
//! Neighbours: [`super::kernel`] has the allocator, [`super::buddy`] the pages.
//! Invariants: those of [`super`].

use super::buddy::{Block, Buddy, MOST_ORDER};
use super::contender::Contender;
use super::kernel::Kernel;
use super::load::{Load, Step};
use super::memory::Memory;
use super::mobility::Type;
use super::slabs::{Change, NoSlab, Place};
use super::state::State;
use std::collections::HashMap;

/// A machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Small {
    /// Bytes of a page.
    pub page_size: u32,
    /// Its pages.
    pub pages: u32,
    /// Of these, as many are the kernel's own: its text, its tables.
    pub reserved: u32,
}

/// What there is at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The moment's name.
    pub moment: String,
    /// Free pages, and the blocks that they are, by order.
    pub free_pages: u32,
    /// By order.
    pub free_blocks: [u32; MOST_ORDER as usize + 1],
    /// Pages that the CPU keeps: a kernel counts them as neither free nor taken.
    pub kept: u32,
    /// Pages of slabs that a shrinker's objects lie in, and of the others.
    pub reclaimable: u32,
    /// Those of the others.
    pub unreclaimable: u32,
    /// Pages that the load asked for.
    pub of_requests: u32,
    /// Each cache's name, the order of its slabs, and how many it has.
    pub slabs: Vec<(String, u8, u32)>,
}

impl Look {
    /// Pages of slabs.
    #[must_use]
    pub fn slab_pages(&self) -> u32 {
        self.reclaimable + self.unreclaimable
    }

    /// How much of what is free lies in blocks below an order, from 0 to 1: 1 if no block of the
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
pub struct Failed {
    /// The step, from 0 up.
    pub step: usize,
    /// The order that was asked for.
    pub order: u8,
    /// The machine then.
    pub look: Look,
}

/// What came of a load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// At each moment of the load.
    pub looks: Vec<Look>,
    /// Requests for blocks of each order, and those of them that were served.
    pub asked: [u32; MOST_ORDER as usize + 1],
    /// By order.
    pub served: [u32; MOST_ORDER as usize + 1],
    /// Those that were not, in order.
    pub failed: Vec<Failed>,
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
    /// The look at a moment of this name.
    #[must_use]
    pub fn at(&self, moment: &str) -> Option<&Look> {
        self.looks.iter().find(|look| look.moment == moment)
    }
}

/// Serves it.
///
/// # Errors
/// A cache of the load has objects that no slab holds.
pub fn run(small: Small, contender: Contender, load: &Load) -> Result<Outcome, NoSlab> {
    let kernel = Kernel::new(contender, small.page_size, small.pages, load.caches.len(), "6.1");
    Run::new(kernel, Memory::Plain(Box::new(plain(small))), load).serve_all(load)
}

/// Serves a load of a kernel's events, from what that kernel had at their begin; its release says
/// which slabs its SLUB makes.
///
/// # Errors
/// A cache of the load has objects that no slab holds.
pub fn run_from(
    begin: &State,
    release: &str,
    contender: Contender,
    load: &Load,
) -> Result<Outcome, NoSlab> {
    let kernel = Kernel::new(contender, PAGE_SIZE, begin.pages, load.caches.len(), release);
    let mut run = Run::new(kernel, Memory::Kernel(Box::new(begin.zone(release))), load);
    run.of_begin = begin.slabs.iter().rev().map(|slab| slab.block).collect();
    run.serve_all(load)
}

const PAGE_SIZE: u32 = 4096;

fn plain(small: Small) -> Buddy {
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

/// An object, and the block of its own that it has if it is too large for a size class.
type Placed = (Place, Option<Block>);

struct Run {
    kernel: Kernel,
    memory: Memory,
    /// Pages of slabs that the kernel had at the begin: the engine's first slabs are there.
    of_begin: Vec<Block>,
    /// Blocks of slabs, by cache and number.
    of_slabs: HashMap<(u32, u32), Vec<Block>>,
    /// Pages of slabs: reclaimable ones, and others.
    slab_pages: [u32; 2],
    places: Vec<Option<Placed>>,
    blocks: HashMap<u32, Block>,
    of_requests: u32,
    outcome: Outcome,
}

impl Run {
    fn new(kernel: Kernel, memory: Memory, load: &Load) -> Run {
        Run {
            kernel,
            memory,
            of_begin: Vec::new(),
            of_slabs: HashMap::new(),
            slab_pages: [0; 2],
            places: vec![None; load.numbers as usize],
            blocks: HashMap::new(),
            of_requests: 0,
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
                Step::Pages(number, order, of) => self.pages(nth, number, order, of),
                Step::FreePages(number) => {
                    if let Some(block) = self.blocks.remove(&number) {
                        self.put_of_requests(block);
                    }
                }
                Step::FreePart(number, first, order) => {
                    if let Some(block) = self.blocks.get(&number) {
                        self.put_of_requests((block.0 + first, order));
                    }
                }
                Step::Release(at, order) => self.memory.put((at, order)),
                Step::Limit(limits) => self.memory.limit(limits),
                Step::WholeArrays => (0..self.kernel.grow_arrays()).for_each(|cache| {
                    self.follow(cache);
                }),
                Step::Reap(of, part) => {
                    if let Some(cache) = self.kernel.reap(of, part) {
                        self.follow(cache);
                    }
                }
                Step::Begin => {
                    // Slabs that the kernel had, and the engine does not need.
                    while let Some(block) = self.of_begin.pop() {
                        self.memory.put(block);
                    }
                }
                Step::Reach(moment) => {
                    let look = self.look(&load.moments[moment as usize]);
                    self.outcome.looks.push(look);
                }
            }
        }
        self.outcome.caches = self.kernel.caches();
        Ok(self.outcome)
    }

    fn put_of_requests(&mut self, block: Block) {
        self.of_requests -= 1 << block.1;
        self.memory.put(block);
    }

    /// Allocates, and once more after everything that is kept was let go.
    fn alloc(&mut self, of: super::load::Of, load: &Load) -> Result<Option<Placed>, NoSlab> {
        let placed = self.alloc_once(of, load)?;
        if placed.is_some() {
            return Ok(placed);
        }
        self.shrink();
        self.alloc_once(of, load)
    }

    fn alloc_once(&mut self, of: super::load::Of, load: &Load) -> Result<Option<Placed>, NoSlab> {
        let before = self.kernel.pages_of_slob();
        let Some(place) = self.kernel.alloc(of, &load.caches)? else { return Ok(None) };
        let (has_pages, block) = match place {
            Place::Slob(at, _) => {
                let more = self.kernel.pages_of_slob() - before;
                let page = self.kernel.page_of(at);
                (more == 0 || self.serve(0, page, more.ilog2() as u8), None)
            }
            Place::Slab(cache, _) => (self.follow(cache), None),
            Place::Pages(order) => {
                let block = self.memory.take(order, Type::Unmovable);
                self.slab_pages[1] += block.map_or(0, |block| 1 << block.1);
                (block.is_some(), block)
            }
        };
        if has_pages {
            return Ok(Some((place, block)));
        }
        // A slab without pages: its object goes back, and the slab ends.
        self.free((place, None));
        if let Place::Slab(..) = place {
            self.shrink();
        }
        Ok(None)
    }

    fn free(&mut self, (place, block): Placed) {
        let before = self.kernel.pages_of_slob();
        self.kernel.free(place);
        match place {
            Place::Slob(at, _) => {
                if self.kernel.pages_of_slob() < before {
                    self.give_back(0, self.kernel.page_of(at));
                }
            }
            Place::Slab(cache, _) => {
                self.follow(cache);
            }
            Place::Pages(_) => {
                if let Some(block) = block {
                    self.slab_pages[1] -= 1 << block.1;
                    self.memory.put(block);
                }
            }
        }
    }

    /// Gives pages to the slabs that a cache began, and takes back those that ended. False: there
    /// are too few.
    fn follow(&mut self, cache: u32) -> bool {
        let mut changes = Vec::new();
        self.kernel.changes(cache, |change| changes.push(change));
        let mut all = true;
        for change in changes {
            match change {
                Change::Took(cache, slab, order) => all &= self.serve(cache, slab, order),
                Change::Gave(cache, slab) => self.give_back(cache, slab),
            }
        }
        all
    }

    fn serve(&mut self, cache: u32, slab: u32, order: u8) -> bool {
        let found = match self.of_begin.iter().rposition(|block| block.1 == order) {
            Some(nth) => Some(self.of_begin.remove(nth)),
            None => self.memory.take(order, self.type_of(cache)),
        };
        let blocks = match found {
            Some(block) => vec![block],
            None if self.memory.free_pages() >= 1 << order && !self.is_slob() => {
                self.outcome.fallbacks += 1;
                self.smaller(order)
            }
            None => return false,
        };
        self.slab_pages[usize::from(!self.kernel.is_reclaimable(cache))] += 1 << order;
        self.of_slabs.insert((cache, slab), blocks);
        true
    }

    /// Blocks of lower orders that are as many pages; there are as many.
    fn smaller(&mut self, order: u8) -> Vec<Block> {
        let (mut left, mut blocks) = (1u32 << order, Vec::new());
        for order in (0..order).rev() {
            while left >= 1 << order
                && let Some(block) = self.memory.take(order, Type::Unmovable)
            {
                left -= 1 << order;
                blocks.push(block);
            }
        }
        blocks
    }

    fn give_back(&mut self, cache: u32, slab: u32) {
        let blocks = self.of_slabs.remove(&(cache, slab)).unwrap_or_default();
        let at = usize::from(!self.kernel.is_reclaimable(cache));
        for block in blocks {
            self.slab_pages[at] -= 1 << block.1;
            self.memory.put(block);
        }
    }

    fn type_of(&self, cache: u32) -> Type {
        if self.kernel.is_reclaimable(cache) { Type::Reclaimable } else { Type::Unmovable }
    }

    fn is_slob(&self) -> bool {
        matches!(self.kernel, Kernel::Slob { .. })
    }

    fn shrink(&mut self) {
        self.outcome.shrinks += 1;
        for cache in 0..self.kernel.shrink() {
            self.follow(cache);
        }
    }

    fn pages(&mut self, nth: usize, number: u32, order: u8, of: Type) {
        self.outcome.asked[order as usize] += 1;
        let block = self.memory.take(order, of);
        match block {
            Some(block) => {
                self.outcome.served[order as usize] += 1;
                self.of_requests += 1 << order;
                self.blocks.insert(number, block);
            }
            None => {
                let look = self.look("failed");
                self.outcome.failed.push(Failed { step: nth, order, look });
            }
        }
    }

    fn look(&self, moment: &str) -> Look {
        Look {
            moment: moment.into(),
            free_pages: self.memory.free_pages(),
            free_blocks: self.memory.counts(),
            kept: self.memory.kept_pages(),
            reclaimable: self.slab_pages[0],
            unreclaimable: self.slab_pages[1],
            of_requests: self.of_requests,
            slabs: self.kernel.slabs(),
        }
    }
}
