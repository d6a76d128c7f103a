//! A process's memory by use, and the caches in which it is bound.
//!
//! Where it is known which pages are present, a part has the bytes of its pages that are in memory;
//! else what the allocator was lent, and a part of its own takes off what is not in memory.

use super::bounded::{MOST, middle, product};
use super::{MemoryPart, Total, Verdict, part, signed};
use crate::look::Look;
use crate::mappings::{self, KindSum, MappingKind};
use slabyard_observe::{Cache, Snapshot};
use std::collections::BTreeMap;

/// A process's memory by use, in bytes.
#[derive(Clone, Debug, Default)]
pub struct ProcessMemory {
    /// Resident bytes; of a core file or a report without them what the allocator was lent.
    pub total: u64,
    /// True if `total` is what is resident.
    pub is_resident: bool,
    /// The process runs on Slabyard.
    pub on_slabyard: bool,
    /// It is known how much its allocator has handed out.
    pub is_told: bool,
    /// Address space that has no memory: in no total.
    pub reserved: u64,
    /// Live objects of slabs.
    pub objects: u64,
    /// Live page runs, and blocks in mappings of their own.
    pub blocks: u64,
    /// Free objects and pages that CPUs, threads and barns keep.
    pub parked: u64,
    /// Free objects in slabs of which at most a quarter is in use.
    pub pinned: u64,
    /// Other free objects in slabs, and what is behind the last object.
    pub free_in_slabs: u64,
    /// Free pages that were not given back.
    pub free: u64,
    /// Free pages that were given back: in no total.
    pub returned: u64,
    /// The allocator's tables.
    pub metadata: u64,
    /// Lent and not in memory, where the parts above are what was lent.
    pub absent: u64,
    /// Swapped out: in no total.
    pub swapped: u64,
    /// Other mappings.
    pub kinds: BTreeMap<MappingKind, KindSum>,
    /// Caches with slabs.
    pub caches: Vec<CacheMemory>,
}

/// Where a cache's memory is, in bytes.
#[derive(Clone, Debug, Default)]
pub struct CacheMemory {
    /// As `list` shows it.
    pub name: String,
    /// Of its slabs, as they were lent.
    pub bytes: u64,
    /// Of live objects.
    pub live: u64,
    /// Of free objects in its slabs, and of padding, as far as it is in memory.
    pub free: u64,
    /// Of free objects in slabs of which at most a quarter is in use.
    pub pinned: u64,
    /// How many there are.
    pub slabs: u64,
    /// Objects in one slab.
    pub objs_per_slab: u64,
    /// Slabs of which at most a quarter is in use, and objects in use in them.
    pub sparse: (u64, u64),
    /// Slabs with one object in use.
    pub single: u64,
}

/// `part` of `whole` of something, without overflow.
fn share_of(bytes: u64, part: u64, whole: u64) -> u64 {
    if whole == 0 {
        return 0;
    }
    u64::try_from(u128::from(bytes) * u128::from(part) / u128::from(whole)).unwrap_or(u64::MAX)
}

impl ProcessMemory {
    /// Of a look at a process, or at a file of one.
    #[must_use]
    pub fn of(look: &Look) -> ProcessMemory {
        let mut memory = ProcessMemory::default();
        if let Some(process) = &look.process {
            memory.kinds = mappings::by_kind(process);
            memory.total = process.mappings.iter().map(|it| it.resident).sum();
            memory.swapped = process.mappings.iter().map(|it| it.swapped).sum();
            memory.is_resident = memory.total > 0;
        }
        let Some(snapshot) = &look.snapshot else { return memory };
        memory.on_slabyard = snapshot.source.kind.is_yard();
        memory.is_told = snapshot.total("live").is_some();
        memory.reserved = middle(snapshot.total("reserved"));
        memory.caches = snapshot.caches.iter().filter_map(CacheMemory::of).collect();
        let residence = look.process.as_ref().and_then(|process| process.residence.as_ref());
        match residence {
            Some(residence) => {
                for cache in &mut memory.caches {
                    let resident = residence.caches.get(&cache.name).copied().unwrap_or(0);
                    cache.keep_to(resident);
                }
                memory.fill_from_pages(snapshot, residence);
            }
            None => memory.fill_from_totals(snapshot),
        }
        memory
    }

    /// From the pages that are present.
    fn fill_from_pages(
        &mut self,
        snapshot: &Snapshot,
        residence: &slabyard_observe::process::Residence,
    ) {
        let total = |name| middle(snapshot.total(name));
        // What is in slabs is live first: free objects that were never touched are not in memory.
        let mut left = residence.slabs;
        let mut take = |bytes: u64| {
            let taken = bytes.min(left);
            left -= taken;
            taken
        };
        self.objects = take(total("live"));
        let parked = take(total("parked_cpu") + total("parked_node") + total("in_transit"));
        self.split(left);
        let blocks = residence.blocks.as_ref();
        let blocks = blocks.map(|blocks| blocks.iter().map(|block| block.resident).sum());
        self.blocks = residence.runs
            + blocks.unwrap_or_else(|| {
                // Blocks are mapped like what programs map.
                let own = self.kinds.get_mut(&MappingKind::Own);
                own.map_or(0, |own| {
                    let blocks = total("mapped").min(own.resident);
                    own.resident -= blocks;
                    blocks
                })
            });
        self.parked = parked + residence.parked_pages;
        self.free = residence.free;
        self.returned = total("returned");
        let pages = residence.slabs + residence.runs + residence.parked_pages + residence.free;
        let yard = self.kinds.remove(&MappingKind::Yard).unwrap_or_default();
        self.metadata = yard.resident.saturating_sub(pages);
    }

    /// From what the allocator was lent.
    fn fill_from_totals(&mut self, snapshot: &Snapshot) {
        let total = |name| middle(snapshot.total(name));
        self.objects = total("live");
        self.split(total("free_partial") + total("padding"));
        self.parked = total("parked_cpu")
            + total("parked_node")
            + total("in_transit")
            + total("parked_pages");
        self.free = total("free_runs");
        self.returned = total("returned");
        self.metadata = total("metadata");
        let mut mapped = total("mapped");
        let committed = total("committed");
        // A snapshot has the sums of the mappings, and no mapping by itself.
        if let (None, Some(resident)) =
            (self.kinds.remove(&MappingKind::Yard), snapshot.total("resident"))
            && snapshot.total("resident_other").is_some()
        {
            self.total = middle(Some(resident));
            self.is_resident = true;
            mapped = mapped.min(total("resident_other"));
            for (kind, bytes) in [
                (MappingKind::Program, total("resident_files")),
                (MappingKind::Stack, total("resident_stack")),
                (MappingKind::Heap, total("resident_brk")),
                (MappingKind::Own, total("resident_other") - mapped),
            ] {
                let sum = KindSum { resident: bytes, count: 1, largest: None };
                self.kinds.insert(kind, sum);
            }
            let lent = committed.saturating_sub(total("mapped"));
            self.absent = lent.saturating_sub(total("resident_allocator"));
        } else if !self.is_resident {
            // Other allocators tell what of them is resident, and not what was lent.
            let sum = self.objects + self.pinned + self.free_in_slabs + self.parked + self.free;
            let known = [committed, total("resident_allocator"), sum + self.metadata + mapped];
            self.total = known.into_iter().find(|bytes| *bytes > 0).unwrap_or(0);
            self.absent = 0;
        } else {
            let others: u64 = self.kinds.values().map(|sum| sum.resident).sum();
            self.absent = (committed + others).saturating_sub(self.total);
        }
        self.blocks = total("runs") + mapped;
    }

    /// Splits what is free in slabs by how full the slabs are.
    fn split(&mut self, free: u64) {
        let pinned: u64 = self.caches.iter().map(|cache| cache.pinned).sum();
        let all: u64 = self.caches.iter().map(|cache| cache.free).sum();
        self.pinned = share_of(free, pinned, all.max(pinned));
        self.free_in_slabs = free - self.pinned;
    }

    /// Resident bytes of mappings of a kind.
    #[must_use]
    pub fn kind(&self, kind: MappingKind) -> u64 {
        self.kinds.get(&kind).map_or(0, |sum| sum.resident)
    }

    /// Bytes that the program holds: it has not freed them.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.objects + self.blocks
    }

    /// The parts, with a remainder for what was read at another moment.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let of = if self.is_resident { Total::Resident } else { Total::Committed };
        let heap = if self.on_slabyard {
            "the C library's own heap, which is not used where malloc is Slabyard's"
        } else {
            "the C library's heap: what of it is live cannot be told from outside"
        };
        let mut parts = vec![
            part("live", self.objects, "objects in slabs that the program has not freed"),
            part("live_blocks", self.blocks, "larger blocks that it has not freed"),
            part("parked", self.parked, "free, and kept for CPUs or threads"),
            part(
                "pinned",
                self.pinned,
                "free, in slabs that few objects keep (a quarter or less in use)",
            ),
            part("free_in_slabs", self.free_in_slabs, "free in other slabs, and their padding"),
            part("free", self.free, "free pages that were not given back"),
            part("metadata", self.metadata, "the allocator's own tables"),
            MemoryPart {
                name: "absent",
                bytes: -signed(self.absent),
                help: "of the above: never touched, or swapped out",
            },
        ];
        let of_kind = |kind: MappingKind, name, help| part(name, self.kind(kind), help);
        parts.extend([
            of_kind(MappingKind::Yard, "yard", "an allocator of Slabyard that could not be read"),
            of_kind(
                MappingKind::Own,
                "own_mappings",
                "mapped by the program or a runtime in it (mmap)",
            ),
            of_kind(MappingKind::Static, "static", "static variables that were zero at the start"),
            of_kind(MappingKind::Stack, "stacks", "of the main thread and others"),
            of_kind(
                MappingKind::Program,
                "program",
                "code and data of the program and its libraries",
            ),
            of_kind(
                MappingKind::File,
                "files",
                "mapped as data: the kernel takes them back by itself",
            ),
            of_kind(MappingKind::Shared, "shared", "memory that processes can share"),
            of_kind(MappingKind::Heap, "heap", heap),
            of_kind(MappingKind::Arena, "arenas", "further heaps of the C library, for threads"),
            of_kind(MappingKind::System, "system", "mapped by the kernel"),
        ]);
        let mut beside = Vec::new();
        if self.on_slabyard {
            beside.push(part("given_back", self.returned, "free pages that the system has back"));
        }
        if self.reserved > 0 {
            beside.push(part("reserved", self.reserved, "address space, with or without memory"));
        }
        if self.swapped > 0 {
            beside.push(part("swapped", self.swapped, "swapped out"));
        }
        Verdict::new(of, self.total, parts, beside)
    }
}

impl CacheMemory {
    fn of(cache: &Cache) -> Option<CacheMemory> {
        let slabs = middle(cache.value("slabs"));
        let stride = cache.exact("slab_size")?;
        let objs_per_slab = cache.exact("objs_per_slab").filter(|n| *n > 0)?;
        if slabs == 0 {
            return None;
        }
        let live = product([middle(cache.value("live")), stride]);
        let parked = middle(cache.value("parked_cpu")) + middle(cache.value("parked_node"));
        let parked = product([parked, stride]);
        let bytes = middle(cache.value("bytes")).max(product([slabs, objs_per_slab, stride]));
        let mut found = CacheMemory {
            name: cache.name.clone(),
            bytes,
            live,
            free: bytes.saturating_sub(live + parked),
            slabs,
            objs_per_slab,
            ..CacheMemory::default()
        };
        for (inuse, slabs) in cache.fullness.iter().flatten() {
            let inuse = u64::from(*inuse);
            if inuse == 0 || inuse * 4 > objs_per_slab {
                continue;
            }
            let slabs = (*slabs).min(MOST);
            found.sparse = (found.sparse.0 + slabs, found.sparse.1 + product([slabs, inuse]));
            found.pinned += product([slabs, objs_per_slab.saturating_sub(inuse), stride]);
            if inuse == 1 {
                found.single += slabs;
            }
        }
        Some(found)
    }

    /// Keeps to what of its slabs is in memory: free objects that were never touched are not.
    fn keep_to(&mut self, resident: u64) {
        let free = self.free;
        self.free = resident.saturating_sub(self.bytes - free);
        self.pinned = share_of(self.free, self.pinned, free.max(self.pinned));
    }

    /// Live bytes in a hundred bytes of slabs.
    #[must_use]
    pub fn used_percent(&self) -> u64 {
        share_of(100, self.live, self.bytes)
    }
}
