//! A load: caches, and steps that request objects and pages.
//!
//! `slabyard-small` generates a load from a seed ([`Load::generated`]); [`super::machine`] serves
//! the load. Invariant: each object or block of pages has its own unique number, counted from 0.

use super::kept::Limits;
use super::mobility::Type;
use super::state::ReapPart;
use slabyard_small::boot::Boot;
use slabyard_small::random::Random;
use slabyard_small::{CACHES, CacheKind, Checkpoint, ObjectType, Request, SLOTS};
use std::collections::HashMap;

/// What a kernel was asked to create, which merging may turn into an alias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// As it is created with, whatever it is merged with.
    pub name: String,
    /// Bytes that users see.
    pub object_size: u32,
    /// Objects begin at multiples of it.
    pub align: u32,
    /// Its pages count as reclaimable.
    pub reclaimable: bool,
    /// `SLAB_TYPESAFE_BY_RCU` or a constructor: its objects keep their contents while they are
    /// free, so the cache is not merged, and the link of free objects is behind the object.
    pub keeps_contents: bool,
    /// They do because readers may still access them; with SLOB, each has a footer for that.
    pub has_readers: bool,
    /// It is not merged, or was by the kernel that the load is of.
    pub stays_alone: bool,
}

/// What is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AllocType {
    /// `kmalloc` of so many bytes.
    Kmalloc(u32),
    /// The same, for what a shrinker may free.
    KmallocReclaimable(u32),
    /// An object of a cache, by its number.
    Cache(u16),
}

/// A request, or a moment at which the machine is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// An object is allocated.
    Alloc(u32, AllocType),
    /// The object of this number is freed.
    Free(u32),
    /// A block of pages is allocated, of an order, and of a type that matters where a kernel
    /// reported its memory.
    Pages(u32, u8, Type),
    /// It is freed, if it was allocated.
    FreePages(u32),
    /// A part of it is freed: its first page in the block, its order.
    FreePart(u32, u32, u8),
    /// Pages that nobody was given become free: the kernel's, from its start.
    Release(u32, u8),
    /// Lists of pages on the CPU have other limits.
    Limit(Limits),
    /// SLAB's arrays get their whole size; before, they have one object.
    WholeArrays,
    /// SLAB's timer reaps a part of a cache, or of a size class.
    Reap(AllocType, ReapPart),
    /// What was before is what lived when the events began.
    Begin,
    /// The moment of this number in [`Load::moments`] has come.
    Reach(u8),
}

/// Requests in order, of a boot or of a kernel's events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// By the number that steps have.
    pub caches: Vec<Cache>,
    /// In order of time.
    pub steps: Vec<Step>,
    /// Names of its moments.
    pub moments: Vec<String>,
    /// Numbers that objects and blocks of pages have.
    pub numbers: u32,
}

impl Load {
    /// The boot-like load of a seed.
    #[must_use]
    pub fn generated(seed: u64) -> Load {
        let mut load = Load {
            caches: CACHES.iter().map(of_table).collect(),
            moments: Checkpoint::ALL.iter().map(|moment| moment.name().into()).collect(),
            ..Load::default()
        };
        let mut at = vec![0; SLOTS];
        for request in Boot::new(seed) {
            if let Request::Alloc { slot, .. } | Request::Pages { slot, .. } = request {
                at[slot as usize] = load.numbers;
                load.numbers += 1;
            }
            load.steps.push(match request {
                Request::Alloc { slot, what } => Step::Alloc(at[slot as usize], of(what)),
                Request::Free { slot } => Step::Free(at[slot as usize]),
                Request::Pages { slot, order } => {
                    Step::Pages(at[slot as usize], order, Type::Unmovable)
                }
                Request::FreePages { slot } => Step::FreePages(at[slot as usize]),
                Request::Reach(moment) => Step::Reach(moment as u8),
            });
        }
        load
    }

    /// A number that nothing has yet.
    pub fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers - 1
    }

    /// Puts objects before everything else: what lived when the load's events began.
    pub fn begin_with(&mut self, objects: impl IntoIterator<Item = (AllocType, u32)>) {
        let mut steps = Vec::new();
        for (of, count) in objects {
            for _ in 0..count {
                steps.push(Step::Alloc(self.number(), of));
            }
        }
        self.steps.splice(0..0, steps);
    }

    /// First takes all pages of a machine that has this many, and keeps some single ones where the
    /// seed says: as a kernel keeps pages all over its memory.
    ///
    /// ```
    /// use slabyard_lab::small::{Contender, Load, SmallMachine, run};
    ///
    /// let small = SmallMachine { page_size: 4096, pages: 2048, reserved: 488 };
    /// let mut load = Load::generated(1);
    /// load.begin_scattered(small.pages - small.reserved, 200, 1);
    /// let outcome = run(small, Contender::Slob, &load)?;
    /// assert!(outcome.served[7] < outcome.asked[7], "no 128 pages are in a row");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn begin_scattered(&mut self, pages: u32, kept: u32, seed: u64) {
        let mut numbers: Vec<u32> = (0..pages).map(|_| self.number()).collect();
        let one = |number: &u32| Step::Pages(*number, 0, Type::Unmovable);
        let mut steps: Vec<Step> = numbers.iter().map(one).collect();
        Random::new(seed).shuffle(&mut numbers);
        // The lowest are given back last, and taken first.
        let mut given = numbers.split_off(kept.min(pages) as usize);
        given.sort_unstable_by(|one, other| other.cmp(one));
        steps.extend(given.into_iter().map(Step::FreePages));
        self.steps.splice(0..0, steps);
    }

    /// Objects of each kind that are live at a moment: what they are of, and how many.
    #[must_use]
    pub fn live_at(&self, moment: u8) -> HashMap<AllocType, u32> {
        let mut of_number = HashMap::new();
        for step in self.steps.iter().take_while(|step| **step != Step::Reach(moment)) {
            match *step {
                Step::Alloc(number, of) => drop(of_number.insert(number, of)),
                Step::Free(number) => drop(of_number.remove(&number)),
                _ => {}
            }
        }
        let mut live = HashMap::new();
        of_number.into_values().for_each(|of| *live.entry(of).or_default() += 1);
        live
    }
}

fn of(what: ObjectType) -> AllocType {
    match what {
        ObjectType::Kmalloc(bytes) => AllocType::Kmalloc(bytes),
        ObjectType::Cache(number) => AllocType::Cache(number.into()),
    }
}

fn of_table(cache: &slabyard_small::Cache) -> Cache {
    Cache {
        name: cache.name.into(),
        object_size: cache.bytes,
        align: cache.align,
        reclaimable: cache.kind == CacheKind::Reclaimable,
        keeps_contents: cache.kind == CacheKind::Typesafe,
        has_readers: cache.kind == CacheKind::Typesafe,
        stays_alone: false,
    }
}
