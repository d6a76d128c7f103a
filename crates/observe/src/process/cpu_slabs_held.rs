//! Reads what CPUs hold of a cache with CPU slabs: each CPU's slab and CPU partial list.
//!
//! ```text
//! main stack    objects of the CPU slab; its array's first word names the slab
//! spare stack   the CPU partial list, its tail first: slab | what the list counted for it
//! ```
//!
//! If the cache also has sheaves, the sheaves are its stacks, and a further array has a bank per
//! CPU for its CPU slab and list.
//!
//! First the arrays are read, then the descriptors of the slabs that they name; between these reads
//! a slow path may move slabs. A reader that compares the cache's words from before and after
//! notices such a move.
//!
//! Neighbours: `slabyard_abi::region::front` says what each stack holds; [`super::collect`] calls
//! this module, [`super::judge`] decides how exact the result is. Invariants: lists are arrays, and
//! no link is followed; a slab counts only if its descriptor says that it belongs to the cache; the
//! first inconsistency is reported, and no inconsistent slab is counted.

use super::front::{Front, Top};
use super::memory::{self, Fault, Memory, MemoryPart};
use super::words::{CacheWords, Tops};
use crate::snapshot::{Slab, SlabPlace};
use slabyard_abi::region::{CacheWord, GRANULE, Word, descriptor, front as bits, sheaf};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Most slabs on lists that are read of one yard: what claims more is damaged.
const MOST_HELD: u64 = 1 << 20;

/// What one CPU holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuHoldings {
    /// Its CPU slab and those on its list.
    pub(crate) slabs: u64,
    /// On the CPU partial list alone.
    pub(crate) listed: u64,
    /// Of these, slabs without an object in use.
    pub(crate) empty: u64,
    /// Free objects in all of them.
    pub(crate) free: u64,
    /// Objects of the CPU slab that the CPU alone may take: out of their slab, and parked.
    pub(crate) own: u64,
    /// Free objects on its list, as the list counts them.
    pub(crate) counted: u64,
}

/// What all CPUs hold of one cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuSlabsHeld {
    /// By row; rows without a slab are left out.
    pub(crate) cpus: BTreeMap<u32, CpuHoldings>,
    /// The slabs on lists, each list from its head.
    pub(crate) lists: Vec<Slab>,
    /// The first thing that cannot be.
    pub(crate) fault: Option<String>,
}

impl CpuSlabsHeld {
    /// The sum over all CPUs.
    pub(crate) fn sum(&self, of: impl Fn(&CpuHoldings) -> u64) -> u64 {
        self.cpus.values().map(of).sum()
    }

    fn wrong(&mut self, what: impl FnOnce() -> String) {
        self.fault.get_or_insert_with(what);
    }
}

/// What CPUs have of a cache, in bits of [`bits`]; `None` where they have sheaves alone.
pub(crate) fn kind(words: &CacheWords) -> Option<u64> {
    let of_slabs = bits::CPU_SLABS | bits::BELOW_SHEAVES;
    Some(words.get(CacheWord::Front)).filter(|kind| kind & of_slabs != 0)
}

/// True if CPU slabs are the stacks of a cache.
pub(crate) fn are_stacks(words: &CacheWords) -> bool {
    words.get(CacheWord::Front) & bits::CPU_SLABS != 0
}

/// True if CPUs have array caches.
pub(crate) fn are_arrays(words: &CacheWords) -> bool {
    words.get(CacheWord::Front) & bits::ARRAYS != 0
}

/// The tops of CPU slabs and lists that are below sheaves, by bank.
pub(crate) fn banks(memory: &dyn Memory, front: &Front, words: &CacheWords) -> Result<Tops, Fault> {
    const BANK_BYTES: usize = bits::BANK * 8;
    let Some((begin, elements)) = front.top(words.get(CacheWord::Below) as u32).stack() else {
        return Ok(Tops::new());
    };
    let bytes = elements as usize * 8;
    let bytes =
        memory::read(memory, &[MemoryPart { address: begin + sheaf::OBJECTS as u64, bytes }])?;
    let banks = (0..).zip(bytes.chunks_exact(BANK_BYTES));
    let top = |bank: &[u8], at| front.top(memory::half(bank, at));
    Ok(banks.map(|(nth, bank)| (nth, [top(bank, 0), top(bank, 8)])).collect())
}

/// Reads what CPUs hold of these caches, by their words and the tops of their stacks.
pub(crate) fn read(
    memory: &dyn Memory,
    front: &Front,
    caches: &[(&CacheWords, &Tops)],
) -> Result<Vec<CpuSlabsHeld>, Fault> {
    match read_together(memory, front, caches) {
        // One of them leads astray: the others are read without it.
        Err(Fault::Absent(_)) if caches.len() > 1 => {
            caches.iter().map(|cache| Ok(read(memory, front, &[*cache])?.remove(0))).collect()
        }
        Err(Fault::Absent(at)) => {
            let fault = Some(format!("what CPUs hold of it leads to {at:#x}, where no memory is"));
            Ok(vec![CpuSlabsHeld { fault, ..CpuSlabsHeld::default() }])
        }
        held => held,
    }
}

/// A stack of a cache with CPU slabs.
struct CpuStack {
    /// Which of the caches.
    nth: usize,
    row: u32,
    /// It is a CPU partial list, or else the CPU slab.
    is_list: bool,
    /// How many a CPU slab has on its stack; of a list 0.
    objects: u64,
    /// Where its array names slabs.
    array: MemoryPart,
    /// The slabs, a list's tail first, once the array was read.
    slabs: Vec<NamedSlab>,
}

/// A slab that a stack names.
#[derive(Clone, Copy)]
struct NamedSlab {
    granule: u64,
    /// Of a list's element the half that is no granule.
    other: u32,
}

/// The same, all at once: an address where no memory is fails all.
fn read_together(
    memory: &dyn Memory,
    front: &Front,
    caches: &[(&CacheWords, &Tops)],
) -> Result<Vec<CpuSlabsHeld>, Fault> {
    let mut all = vec![CpuSlabsHeld::default(); caches.len()];
    let mut stacks = stacks(caches, &mut all);
    let granules = read_arrays(memory, front, &mut stacks)?;
    let descriptors = read_descriptors(memory, front, &granules, &stacks)?;
    let mut heads = descriptors.chunks(descriptor::BITS);
    let mut seen = vec![BTreeSet::new(); caches.len()];
    for stack in &stacks {
        let judge = StackJudge { front, words: caches[stack.nth].0, stack };
        let (held, seen) = (&mut all[stack.nth], &mut seen[stack.nth]);
        let begin = held.lists.len();
        for named in &stack.slabs {
            let head = granules.contains(&named.granule).then(|| heads.next()).flatten();
            match judge.slab(named, head) {
                Ok(None) => {}
                Ok(Some(_)) if !seen.insert(named.granule) => {
                    held.wrong(|| format!("{} twice, or two CPUs hold it", judge.naming(named)));
                }
                Ok(Some(slab)) => judge.add(slab, held, begin),
                Err(what) => held.wrong(|| format!("{}: {what}", judge.naming(named))),
            }
        }
        held.lists[begin..].reverse();
    }
    Ok(all)
}

/// The stacks of all caches, as their tops say; a cache whose lists are too long is reported as
/// damaged.
fn stacks(caches: &[(&CacheWords, &Tops)], all: &mut [CpuSlabsHeld]) -> Vec<CpuStack> {
    let mut stacks = Vec::new();
    let mut elements = 0;
    for (nth, (_, tops)) in caches.iter().enumerate() {
        for (row, [main, spare]) in tops.iter() {
            let slab = main.stack().map(|(begin, n)| (false, begin + sheaf::NEXT as u64, 1, n));
            let list = spare.stack().map(|(begin, n)| (true, begin + sheaf::OBJECTS as u64, n, 0));
            for (is_list, address, count, objects) in slab.into_iter().chain(list) {
                elements += count;
                if elements > MOST_HELD {
                    all[nth].wrong(|| format!("CPU partial lists of more than {MOST_HELD} slabs"));
                    break;
                }
                let array = MemoryPart { address, bytes: count as usize * 8 };
                stacks.push(CpuStack {
                    nth,
                    row: *row,
                    is_list,
                    objects,
                    array,
                    slabs: Vec::new(),
                });
            }
        }
    }
    stacks
}

/// Reads which slabs the stacks name; returns the granules that are in use, which are read after them.
fn read_arrays(
    memory: &dyn Memory,
    front: &Front,
    stacks: &mut [CpuStack],
) -> Result<Range<u64>, Fault> {
    let mut parts: Vec<MemoryPart> = stacks.iter().map(|stack| stack.array).collect();
    parts.extend(front.address(Word::TopAt).map(|address| MemoryPart { address, bytes: 8 }));
    let bytes = memory::read(memory, &parts)?;
    let mut words = memory::words(&bytes);
    for stack in stacks {
        let array = words.by_ref().take(stack.array.bytes / 8);
        let named = |word: u64| NamedSlab {
            granule: word & u64::from(u32::MAX),
            other: (word >> 32) as u32,
        };
        stack.slabs = array.map(named).collect();
    }
    Ok(front.unit()..words.next().unwrap_or(0).min(front.granules))
}

/// Reads the descriptors of the slabs that are named and can be there, one behind the other.
fn read_descriptors(
    memory: &dyn Memory,
    front: &Front,
    granules: &Range<u64>,
    stacks: &[CpuStack],
) -> Result<Vec<u8>, Fault> {
    let named = stacks.iter().flat_map(|stack| &stack.slabs);
    let parts: Vec<MemoryPart> = named
        .filter(|named| granules.contains(&named.granule))
        .map(|named| MemoryPart {
            address: front.descriptors + named.granule * descriptor::BYTES as u64,
            bytes: descriptor::BITS,
        })
        .collect();
    memory::read(memory, &parts)
}

/// Checks what a stack names against the descriptors.
struct StackJudge<'a> {
    front: &'a Front,
    words: &'a CacheWords,
    stack: &'a CpuStack,
}

impl StackJudge<'_> {
    fn has(&self, bit: u64) -> bool {
        self.words.get(CacheWord::Front) & bit != 0
    }

    fn naming(&self, named: &NamedSlab) -> String {
        let what = if self.stack.is_list { "CPU partial list" } else { "CPU slab" };
        format!("the {what} of CPU {} names granule {}", self.stack.row, named.granule)
    }

    /// The slab; `None` if it has left the list since; an error says what is wrong with it.
    fn slab(&self, named: &NamedSlab, head: Option<&[u8]>) -> Result<Option<Slab>, String> {
        use descriptor::word::{FREE, FROZEN, PARKED};
        let Some(head) = head else { return Err("there are not so many".into()) };
        let what = memory::half(head, descriptor::HEAD);
        let slot = self.words.slot().unwrap_or(0);
        let is_slab = what as u8 == descriptor::SLAB && (what >> 16) as usize == slot;
        let word = u64::from(memory::half(head, descriptor::WORD));
        let version = memory::half(head, descriptor::WORD + 4);
        if self.stack.is_list && self.has(bits::EXACT) {
            // It may have left the list by the free that made it empty, and ended since.
            if !is_slab || word & PARKED == 0 || version != named.other {
                return Ok(None);
            }
        }
        if !is_slab {
            return Err("no slab of the cache begins there".into());
        }
        let frozen = !self.stack.is_list || self.has(bits::FREEZES_PARKED);
        if frozen != (word & FROZEN != 0) {
            return Err(if frozen { "it is not frozen" } else { "it is frozen" }.into());
        }
        if memory::half(head, descriptor::LISTED) == 1 {
            return Err("it is on its node's list".into());
        }
        let objects = u32::try_from(self.words.get(CacheWord::Objects)).unwrap_or(u32::MAX);
        let order = u32::try_from(self.words.get(CacheWord::Order)).unwrap_or(u32::MAX);
        let free = (word & FREE) as u32;
        let inuse = objects.checked_sub(free);
        let inuse = inuse.ok_or_else(|| format!("{free} of its {objects} objects are free"))?;
        let counted = if self.has(bits::EXACT) { free } else { named.other };
        Ok(Some(Slab {
            page: self.front.region + named.granule * GRANULE as u64,
            order: order.saturating_sub(self.front.page_order()),
            objects,
            inuse,
            place: SlabPlace::Cpu(self.stack.row),
            partial_pages: None,
            partial_objects: Some(counted),
        }))
    }

    /// Adds a slab to what the CPU holds: one on a list goes behind those that were added since
    /// `begin`.
    fn add(&self, mut slab: Slab, held: &mut CpuSlabsHeld, begin: usize) {
        let cpu = held.cpus.entry(self.stack.row).or_default();
        cpu.slabs += 1;
        cpu.free += u64::from(slab.free());
        if !self.stack.is_list {
            cpu.own = self.stack.objects;
            return;
        }
        cpu.listed += 1;
        cpu.empty += u64::from(slab.inuse == 0);
        // As a kernel: a slab that joins counts those behind it and itself.
        let behind = held.lists[begin..].last();
        let sum = |n: Option<u32>, more: u32| Some(n.unwrap_or(0).saturating_add(more));
        slab.partial_pages = sum(behind.and_then(|slab| slab.partial_pages), 1);
        let counted = slab.partial_objects.unwrap_or(0);
        slab.partial_objects = if self.has(bits::SLABS) {
            None
        } else {
            sum(behind.and_then(|slab| slab.partial_objects), counted)
        };
        cpu.counted = match slab.partial_objects {
            Some(counted) => counted.into(),
            // Such lists take their slabs to be half full.
            None => cpu.listed * u64::from(slab.objects) / 2,
        };
        held.lists.push(slab);
    }
}

impl Top {
    /// Where the array of a stack begins, and its elements.
    fn stack(self) -> Option<(u64, u64)> {
        match self {
            Top::Stack { begin, objects } => Some((begin, objects)),
            Top::None | Top::Stopped | Top::Odd => None,
        }
    }
}
