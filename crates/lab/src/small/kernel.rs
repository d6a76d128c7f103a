//! The kernel's allocator that serves a load: SLOB, or slab caches.
//!
//! [`super::slabs`] has the slab caches, which allocate their slabs' pages themselves;
//! [`super::machine`] supplies SLOB's pages, and takes back freed slabs' pages. Invariant: an
//! allocator does nothing unprompted: timers are steps of the load.

use super::contender::Contender;
use super::load::{AllocType, Cache};
use super::pages::Pages;
use super::slabs::{LEAST_ALIGN, NoSlab, ObjectLocation, Slabs};
use super::state::ReapPart;
use slabyard_model::slob::Kernel as Slob;

/// Behind an object that readers may access, SLOB has a `struct rcu_head` and the object's size.
const SLOB_FOOTER: u32 = 24;

/// The allocator.
pub(super) enum Kernel {
    Slob { slob: Box<Slob>, page_size: u32 },
    Slabs(Box<Slabs>),
}

impl Kernel {
    pub(super) fn new(
        contender: Contender,
        machine: &Pages,
        page_size: u32,
        pages: u32,
        caches: usize,
        release: &str,
    ) -> Kernel {
        if contender == Contender::Slob {
            let slob = Box::new(Slob::new(page_size, LEAST_ALIGN, pages));
            return Kernel::Slob { slob, page_size };
        }
        Kernel::Slabs(Box::new(Slabs::new(contender, machine, page_size, caches, release)))
    }

    /// Allocates an object; `Pages` ones are to be taken by the caller.
    pub(super) fn alloc(
        &mut self,
        of: AllocType,
        caches: &[Cache],
    ) -> Result<Option<ObjectLocation>, NoSlab> {
        match self {
            Kernel::Slob { slob, .. } => Ok(match of {
                AllocType::Kmalloc(bytes) | AllocType::KmallocReclaimable(bytes) => {
                    slob.kmalloc(bytes.max(1)).map(|at| ObjectLocation::Slob(at, 0))
                }
                AllocType::Cache(number) => {
                    let cache = &caches[number as usize];
                    let footer = if cache.has_readers { SLOB_FOOTER } else { 0 };
                    let bytes = cache.object_size.max(1) + footer;
                    slob.cache_alloc(bytes, cache.align).map(|at| ObjectLocation::Slob(at, bytes))
                }
            }),
            Kernel::Slabs(slabs) => slabs.alloc(of, caches),
        }
    }

    pub(super) fn free(&mut self, place: ObjectLocation) {
        match (self, place) {
            (Kernel::Slob { slob, .. }, ObjectLocation::Slob(at, 0)) => slob.kfree(at),
            (Kernel::Slob { slob, .. }, ObjectLocation::Slob(at, bytes)) => {
                slob.cache_free(at, bytes)
            }
            (Kernel::Slabs(slabs), ObjectLocation::Slab(cache, object)) => {
                slabs.free(cache, object);
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

    /// The page of SLOB's that contains an object.
    pub(super) fn page_of(&self, at: u64) -> u32 {
        match self {
            Kernel::Slob { page_size, .. } => (at / u64::from(*page_size)) as u32,
            Kernel::Slabs(_) => 0,
        }
    }

    /// Lets go of free objects that CPUs keep, and of empty slabs.
    pub(super) fn shrink(&mut self) {
        if let Kernel::Slabs(slabs) = self {
            slabs.shrink();
        }
    }

    /// Until [`Kernel::grow_arrays`].
    pub(super) fn begin_with_arrays_of_one(&mut self) {
        if let Kernel::Slabs(slabs) = self {
            slabs.begin_with_arrays_of_one();
        }
    }

    /// Gives each cache's arrays their whole size.
    pub(super) fn grow_arrays(&mut self) {
        if let Kernel::Slabs(slabs) = self {
            slabs.grow_arrays();
        }
    }

    /// Does what a timer does with a part of a cache, or a size class, if it exists.
    pub(super) fn reap(&self, of: AllocType, part: ReapPart) {
        if let Kernel::Slabs(slabs) = self {
            slabs.reap(of, part);
        }
    }

    /// A cache's name, the order of its slabs, and how many it has.
    pub(super) fn slabs(&self) -> Vec<(String, u8, u32)> {
        match self {
            Kernel::Slob { .. } => Vec::new(),
            Kernel::Slabs(slabs) => slabs.all().collect(),
        }
    }

    /// Caches that were made.
    pub(super) fn caches(&self) -> usize {
        match self {
            Kernel::Slob { .. } => 0,
            Kernel::Slabs(slabs) => slabs.len() as usize,
        }
    }
}
