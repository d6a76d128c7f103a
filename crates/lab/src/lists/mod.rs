//! The slab lists of a kernel's caches, slab by slab: each node's partial slabs in their order,
//! each CPU's slab and partial list, and which objects in these slabs are free; and the objects in
//! each CPU's sheaves and each node's barn.
//!
//! `/sys/kernel/slab` reports only counts, so this module reads the kernel's memory, using the
//! kernel's description of its structures ([`layout`]). [`walk`] follows the lists through a trait
//! ([`memory`]) that [`bpf`] implements, and checks what it reads. If all lists of a cache were
//! read, its slabs on no list are full, but for objects in sheaves.
//!
//! [`crate::record`] reads the lists at a recording's start; [`crate::prepare`] and
//! [`crate::replay`] take them as the initial state; [`json`] is their form in a trace file.
//! Invariant: a listed slab's free objects are within the slab.

pub mod bpf;
mod error;
pub mod json;
pub mod layout;
pub mod memory;
mod sheaves;
pub mod walk;

pub use error::{ListsError, Unreadable};

/// A set of a slab's objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objects(pub Vec<u64>);

impl Objects {
    /// Adds one; false if it was in the set already.
    pub fn add(&mut self, nth: u32) -> bool {
        let (word, bit) = (nth as usize / 64, 1 << (nth % 64));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        new
    }

    /// Whether it has one.
    #[must_use]
    pub fn has(&self, nth: u32) -> bool {
        self.0.get(nth as usize / 64).is_some_and(|word| word >> (nth % 64) & 1 == 1)
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A slab on a list, or a CPU's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlabOnList {
    /// Where its first page is in the kernel's map of all memory, the low 48 bits.
    pub base: u64,
    /// How many it has room for.
    pub objects: u32,
    /// Those that are free, a CPU's own among them; `None` where the slab did not stand still while it
    /// was read.
    pub free: Option<Objects>,
}

/// What a CPU has of a cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSlabLists {
    /// The kernel's number of it.
    pub cpu: u32,
    /// The one that it allocates from.
    pub slab: Option<SlabOnList>,
    /// Its list, the slab to be used next first.
    pub partial: Vec<SlabOnList>,
}

/// The objects in a sheaf, by the low 48 bits of their addresses, the next to be allocated last.
pub type Sheaf = Vec<u64>;

/// What a CPU has of a cache in its sheaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSheaves {
    /// The kernel's number of it.
    pub cpu: u32,
    /// The one that it allocates from and frees to.
    pub main: Sheaf,
    /// The one that is exchanged with it, if there is one.
    pub spare: Option<Sheaf>,
    /// The one of objects that `kfree_rcu()` freed, if there is one.
    pub rcu_free: Option<Sheaf>,
}

/// A node's barn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Barn {
    /// The next to be taken first.
    pub full: Vec<Sheaf>,
    /// How many empty ones there are.
    pub empty: u32,
}

/// What a kernel had of a cache on CPUs and nodes when they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheLists {
    /// As the kernel's events name it.
    pub name: String,
    /// When they had been read, in nanoseconds since the trace began.
    pub read_at: u64,
    /// Of each node, the slab to be used next first.
    pub nodes: Vec<Vec<SlabOnList>>,
    /// Of each CPU that has something.
    pub cpus: Vec<CpuSlabLists>,
    /// Of each CPU; none of a cache without sheaves.
    pub sheaves: Vec<CpuSheaves>,
    /// Of each node, likewise.
    pub barns: Vec<Barn>,
}

/// The lists of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// Of each cache that was read.
    pub caches: Vec<CacheLists>,
    /// Caches that could not be read.
    pub unread: u32,
}

impl SlabOnList {
    /// How many are free, as far as it is known.
    #[must_use]
    pub fn nr_free(&self) -> u32 {
        self.free.as_ref().map_or(0, Objects::len)
    }
}

impl CpuSheaves {
    /// The main sheaf, and those of the others that there are.
    pub fn each(&self) -> impl Iterator<Item = &Sheaf> {
        [Some(&self.main), self.spare.as_ref(), self.rcu_free.as_ref()].into_iter().flatten()
    }

    fn each_mut(&mut self) -> impl Iterator<Item = &mut Sheaf> {
        std::iter::once(&mut self.main).chain(&mut self.spare).chain(&mut self.rcu_free)
    }
}

impl CacheLists {
    /// The addresses in it: of slabs, and of objects in sheaves.
    pub fn each_address_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        let cpus = self.cpus.iter_mut().flat_map(|cpu| cpu.slab.iter_mut().chain(&mut cpu.partial));
        let slabs = self.nodes.iter_mut().flatten().chain(cpus).map(|slab| &mut slab.base);
        let sheaves = self.sheaves.iter_mut().flat_map(CpuSheaves::each_mut);
        let barns = self.barns.iter_mut().flat_map(|barn| &mut barn.full);
        slabs.chain(sheaves.chain(barns).flatten())
    }

    /// Those of nodes first, then of CPUs.
    pub fn each(&self) -> impl Iterator<Item = &SlabOnList> {
        let cpus = self.cpus.iter().flat_map(|cpu| cpu.slab.iter().chain(&cpu.partial));
        self.nodes.iter().flatten().chain(cpus)
    }
}

impl CacheLists {
    /// The objects in sheaves, of CPUs and of barns.
    pub fn in_sheaves(&self) -> impl Iterator<Item = u64> {
        let cpus = self.sheaves.iter().flat_map(CpuSheaves::each);
        cpus.chain(self.barns.iter().flat_map(|barn| &barn.full)).flatten().copied()
    }
}

impl Lists {
    /// The addresses of all slabs on them.
    pub fn bases(&self) -> impl Iterator<Item = u64> {
        self.caches.iter().flat_map(CacheLists::each).map(|slab| slab.base)
    }
}
