//! Turns a kernel's traced events into a load.
//!
//! The alignment of a cache's objects is inferred from their addresses; which of Linux's caches are
//! `SLAB_TYPESAFE_BY_RCU` or reclaimable is known by name ([`FACTS`]). Allocated pages in which no
//! object ever appears are the load's own page requests; markers in the trace become the load's
//! marked moments. Objects from before the trace are missing; [`Load::begin_with`] adds them.
//!
//! [`super::text`] parses a trace, [`super::load`] defines the load. Invariant: a free without an
//! allocation is left out and counted.

use super::load::{AllocType, Cache, Load, Step};
use super::mobility::Type;
use super::state::{Change, KernelCacheState, KernelReport, State};
use super::text::{MOBILITY, RECLAIMABLE};
use crate::event::{Event, EventKind};
use crate::slob::Machine;
use crate::trace::Trace;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

/// Alignments are sought up to this one, 2^8, and need this many objects.
const MOST_ALIGN: u32 = 8;
const FEW_OBJECTS: u32 = 6;
const LEAST_ALIGN: u32 = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Contents {
    Kept,
    /// Kept, because readers may still access them.
    Read,
    Lost,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pages {
    Reclaimable,
    Plain,
}

/// Caches of Linux whose objects keep their contents (they have a constructor, or
/// `SLAB_TYPESAFE_BY_RCU`) or are reclaimable.
const FACTS: [(&str, Contents, Pages); 11] = [
    ("inode_cache", Contents::Kept, Pages::Reclaimable),
    ("proc_inode_cache", Contents::Kept, Pages::Reclaimable),
    ("shmem_inode_cache", Contents::Kept, Pages::Plain),
    ("sock_inode_cache", Contents::Kept, Pages::Reclaimable),
    ("ext4_inode_cache", Contents::Kept, Pages::Reclaimable),
    ("radix_tree_node", Contents::Kept, Pages::Reclaimable),
    ("anon_vma", Contents::Read, Pages::Plain),
    ("sighand_cache", Contents::Read, Pages::Plain),
    ("dentry", Contents::Lost, Pages::Reclaimable),
    ("buffer_head", Contents::Lost, Pages::Reclaimable),
    ("ext4_extent_status", Contents::Lost, Pages::Reclaimable),
];

/// A load that was made of a trace.
#[derive(Clone, Debug, Default)]
pub struct Cut {
    /// All that fits into one.
    pub load: Load,
    /// Frees of objects and pages from before.
    pub left_out: usize,
}

impl Load {
    /// The load that a trace shows; marks are times and names of moments, in order.
    #[must_use]
    pub fn of_trace(trace: &Trace, marks: &[(u64, String)], machine: Machine) -> Cut {
        Load::of_kernel(trace, marks, &KernelReport::default(), machine)
    }

    /// The same, for a kernel that reported more than its events: what was live at their start, and
    /// which pages it had; its caches are as it merged them.
    #[must_use]
    pub fn of_kernel(
        trace: &Trace,
        marks: &[(u64, String)],
        told: &KernelReport,
        machine: Machine,
    ) -> Cut {
        let (mut caches, mut of_name) = caches(trace);
        let begin = told.states.first();
        for state in &told.states {
            state.caches.iter().for_each(|known| know(&mut caches, known));
        }
        if begin.is_some() {
            // A cache that others are merged with has larger objects from then on.
            for ((name, _), number) in &mut of_name {
                let name = trace.names.get(*name);
                let first = caches.iter().position(|cache| cache.name == name);
                *number = first.map_or(*number, |first| first as u16);
            }
        }
        // A cache that is merged with a size class has the class's name.
        let class = |name: u32| Some((name, class_of(begin?, trace.names.get(name))?));
        let classes = of_name.keys().filter_map(|(name, _)| class(*name)).collect();
        let mut cutter = Cutter {
            load: Load { caches, ..Load::default() },
            of_name,
            classes,
            left_out: 0,
            objects: HashMap::new(),
            blocks: Blocks::default(),
            of_begin: HashMap::new(),
            is_told: begin.is_some(),
        };
        if let Some(begin) = begin {
            cutter.begin(begin);
        }
        let of_slabs = of_slabs(trace, begin, machine);
        let mut marks = marks.iter().peekable();
        let mut changes = told.changes.iter().peekable();
        // Events before the first state are in it.
        let from = match begin {
            Some(_) => marks.next().map_or(0, |(time, _)| *time),
            None => 0,
        };
        for (event, is_of_slab) in trace.events.iter().zip(of_slabs) {
            if event.time < from {
                continue;
            }
            while let Some((_, change)) = changes.next_if(|(time, _)| *time <= event.time) {
                let step = cutter.step_of(change, begin);
                cutter.load.steps.extend(step);
            }
            while let Some((_, name)) = marks.next_if(|(time, _)| *time <= event.time) {
                cutter.load.reach(name);
            }
            cutter.cut(event, is_of_slab, machine);
        }
        marks.for_each(|(_, name)| cutter.load.reach(name));
        Cut { load: cutter.load, left_out: cutter.left_out }
    }

    /// Puts objects before everything else, of lines `NAME OBJECT_SIZE COUNT`; those of a cache that
    /// the load does not have come from the size class of their bytes.
    pub fn begin_with_live(&mut self, text: &str) {
        let of_line = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, size, count] = words[..] else { return None };
            let known = self.caches.iter().position(|cache| cache.name == name);
            let of = match known {
                Some(number) => AllocType::Cache(number as u16),
                None => AllocType::Kmalloc(size.parse().ok()?),
            };
            Some((of, count.parse().ok()?))
        };
        let objects: Vec<(AllocType, u32)> = text.lines().filter_map(of_line).collect();
        self.begin_with(objects);
    }

    fn reach(&mut self, name: &str) {
        self.steps.push(Step::Reach(self.moments.len() as u8));
        self.moments.push(name.into());
    }
}

/// What is cut so far.
struct Cutter {
    load: Load,
    of_name: HashMap<(u32, u32), u16>,
    /// Names that are those of size classes.
    classes: HashMap<u32, AllocType>,
    left_out: usize,
    /// Numbers of objects by their address.
    objects: HashMap<u64, u32>,
    blocks: Blocks,
    /// By frame: the slab from the start, and the numbers of its objects whose frees are still to
    /// come.
    of_begin: HashMap<u64, Rc<RefCell<Vec<u32>>>>,
    is_told: bool,
}

impl Cutter {
    /// What is live at the start.
    fn begin(&mut self, begin: &State) {
        for slab in &begin.slabs {
            let Some(of) = self.named(begin, &slab.name) else { continue };
            let numbers = self.live(of, slab.live);
            let numbers = Rc::new(RefCell::new(numbers));
            for frame in slab.block.0..slab.block.0 + (1 << slab.block.1) {
                self.of_begin.insert(u64::from(frame), Rc::clone(&numbers));
            }
        }
        for (bytes, count) in &begin.live {
            self.live(AllocType::Kmalloc(*bytes), *count);
        }
        self.load.steps.push(Step::Begin);
    }

    fn live(&mut self, of: AllocType, count: u32) -> Vec<u32> {
        let numbers: Vec<u32> = (0..count).map(|_| self.load.number()).collect();
        self.load.steps.extend(numbers.iter().map(|number| Step::Alloc(*number, of)));
        numbers
    }

    /// The cache, or the size class.
    fn named(&self, begin: &State, name: &str) -> Option<AllocType> {
        class_of(begin, name).or_else(|| {
            let number = self.load.caches.iter().position(|cache| cache.name == name)?;
            Some(AllocType::Cache(number as u16))
        })
    }

    fn step_of(&self, change: &Change, begin: Option<&State>) -> Option<Step> {
        Some(match change {
            Change::Limits(limits) => Step::Limit(*limits),
            Change::WholeArrays => Step::WholeArrays,
            Change::Reap(name, part) => Step::Reap(self.named(begin?, name)?, *part),
        })
    }

    fn cut(&mut self, event: &Event, is_of_slab: bool, machine: Machine) {
        match event.kind {
            EventKind::CacheAlloc | EventKind::Kmalloc => {
                let of = match event.kind {
                    EventKind::CacheAlloc => match self.classes.get(&event.name) {
                        Some(class) => *class,
                        None => AllocType::Cache(self.of_name[&(event.name, bytes_of(event))]),
                    },
                    _ if event.gfp & RECLAIMABLE != 0 => {
                        AllocType::KmallocReclaimable(event.requested)
                    }
                    _ => AllocType::Kmalloc(event.requested),
                };
                let number = self.load.number();
                // The free of what was there before is missing.
                if let Some(old) = self.objects.insert(event.address, number) {
                    self.load.steps.push(Step::Free(old));
                }
                self.load.steps.push(Step::Alloc(number, of));
            }
            EventKind::CacheFree | EventKind::Kfree => {
                let of_begin = || {
                    let slab = self.of_begin.get(&machine.frame(event.address))?;
                    slab.borrow_mut().pop()
                };
                match self.objects.remove(&event.address).or_else(of_begin) {
                    Some(number) => self.load.steps.push(Step::Free(number)),
                    None => self.left_out += 1,
                }
            }
            EventKind::PageAlloc if is_of_slab => {
                for frame in event.address..event.address + (1 << event.order) {
                    self.of_begin.remove(&frame);
                }
            }
            EventKind::PageAlloc => {
                let number = self.load.number();
                if let Some(old) = self.blocks.insert(event, number) {
                    self.load.steps.push(Step::FreePages(old));
                }
                let of = Type::of(((event.gfp & MOBILITY) >> MOBILITY.trailing_zeros()) as u8);
                self.load.steps.push(Step::Pages(number, event.order, of));
            }
            EventKind::PageFree => match self.blocks.remove(event) {
                Some(step) => self.load.steps.push(step),
                None if self.is_told && !is_of_slab => {
                    self.load.steps.push(Step::Release(event.address as u32, event.order));
                }
                None => self.left_out += usize::from(!is_of_slab),
            },
            // Small kernels are recorded without probes.
            _ => {}
        }
    }
}

/// Blocks of pages that requests hold; a block may be freed in parts.
#[derive(Default)]
struct Blocks {
    /// By the first frame: the number, the order, pages that are still held.
    all: BTreeMap<u64, (u32, u8, u32)>,
}

impl Blocks {
    /// The number of what is held there although its free is missing.
    fn insert(&mut self, event: &Event, number: u32) -> Option<u32> {
        let old = self.all.insert(event.address, (number, event.order, 1 << event.order));
        old.filter(|(_, order, left)| *left == 1 << order).map(|(number, ..)| number)
    }

    fn remove(&mut self, event: &Event) -> Option<Step> {
        let (first, (number, order, left)) = self.all.range_mut(..=event.address).next_back()?;
        let (first, number, order) = (*first, *number, *order);
        if event.address >= first + (1 << order) {
            return None;
        }
        *left = left.saturating_sub(1 << event.order);
        let is_last = *left == 0;
        if is_last {
            self.all.remove(&first);
        }
        Some(match order == event.order {
            true => Step::FreePages(number),
            false => Step::FreePart(number, (event.address - first) as u32, event.order),
        })
    }
}

/// The size class of a slab of `kmalloc`'s.
fn class_of(state: &State, name: &str) -> Option<AllocType> {
    let size = || Some(state.caches.iter().find(|cache| cache.name == name)?.object_size);
    if name.starts_with("kmalloc-rcl-") {
        Some(AllocType::KmallocReclaimable(size()?))
    } else if name.starts_with("kmalloc-") {
        Some(AllocType::Kmalloc(size()?))
    } else {
        None
    }
}

/// A cache that the kernel reported is as the report says, and exists.
fn know(caches: &mut Vec<Cache>, known: &KernelCacheState) {
    if known.name.starts_with("kmalloc-") {
        return;
    }
    let told = Cache {
        name: known.name.clone(),
        object_size: known.object_size,
        align: known.align,
        reclaimable: known.is_reclaimable,
        keeps_contents: known.keeps_contents,
        has_readers: known.has_readers,
        stays_alone: true,
    };
    match caches.iter_mut().find(|cache| cache.name == known.name) {
        Some(cache) => *cache = told,
        None => caches.push(told),
    }
}

/// The bytes of a cache's objects; an event without a size has what the object takes.
fn bytes_of(event: &Event) -> u32 {
    if event.requested > 0 { event.requested } else { event.allocated }
}

/// The caches, and their numbers by name and size.
fn caches(trace: &Trace) -> (Vec<Cache>, HashMap<(u32, u32), u16>) {
    let (mut list, mut seen, mut of_name) = (Vec::new(), Vec::new(), HashMap::new());
    for event in trace.events.iter().filter(|event| event.kind == EventKind::CacheAlloc) {
        let size = bytes_of(event);
        let number = *of_name.entry((event.name, size)).or_insert_with(|| {
            list.push(cache(trace.names.get(event.name), size));
            seen.push((MOST_ALIGN, 0));
            list.len() as u16 - 1
        });
        let (shift, objects): &mut (u32, u32) = &mut seen[number as usize];
        *shift = event.address.trailing_zeros().min(*shift);
        *objects += 1;
    }
    for (cache, (shift, objects)) in list.iter_mut().zip(seen) {
        let is_known = objects >= FEW_OBJECTS;
        cache.align = if is_known { (1 << shift).max(LEAST_ALIGN) } else { LEAST_ALIGN };
    }
    (list, of_name)
}

fn cache(name: &str, object_size: u32) -> Cache {
    let fact = FACTS.iter().find(|(known, ..)| *known == name);
    Cache {
        name: name.into(),
        object_size,
        align: LEAST_ALIGN,
        reclaimable: fact.is_some_and(|(.., pages)| *pages == Pages::Reclaimable),
        keeps_contents: fact.is_some_and(|(_, contents, _)| *contents != Contents::Lost),
        has_readers: fact.is_some_and(|(_, contents, _)| *contents == Contents::Read),
        stays_alone: false,
    }
}

/// By event: pages in which objects are placed before the pages are freed, and when that is.
fn of_slabs(trace: &Trace, begin: Option<&State>, machine: Machine) -> Vec<bool> {
    let mut of_slabs = vec![false; trace.events.len()];
    // By frame: the event that got it.
    let mut held: HashMap<u64, usize> = HashMap::new();
    let blocks = begin.into_iter().flat_map(|begin| &begin.slabs).map(|slab| slab.block);
    let frames = blocks.flat_map(|(at, order)| at..at + (1 << order));
    let mut of_begin: HashSet<u64> = frames.map(u64::from).collect();
    for (nth, event) in trace.events.iter().enumerate() {
        let frames = event.address..event.address + (1 << event.order);
        match event.kind {
            EventKind::PageAlloc => held.extend(frames.map(|frame| (frame, nth))),
            EventKind::PageFree => {
                let got = held.get(&event.address).copied();
                of_slabs[nth] = match got {
                    Some(got) => of_slabs[got],
                    None => of_begin.remove(&event.address),
                };
                for frame in frames {
                    held.remove(&frame);
                }
            }
            EventKind::Kmalloc | EventKind::CacheAlloc => {
                if let Some(got) = held.get(&machine.frame(event.address)) {
                    of_slabs[*got] = true;
                }
            }
            _ => {}
        }
    }
    of_slabs
}

#[cfg(test)]
mod tests {
    use super::super::text;
    use super::*;

    const TEXT: &str = "\
 <idle>-0 [000] d.... 0.1: mm_page_alloc: page=ffffea00 pfn=0x10 order=1 migratetype=0 gfp_flags=none
 <idle>-0 [000] d.... 0.2: kmem_cache_alloc: call_site=d_alloc+0x1/0x2 ptr=ffff888000010040 bytes_req=192 bytes_alloc=192 gfp_flags=none
 <idle>-0 [000] d.... 0.2: kmalloc: call_site=f+0x1/0x2 ptr=ffff888000011000 bytes_req=100 bytes_alloc=128 gfp_flags=GFP_KERNEL|__GFP_RECLAIMABLE
 <idle>-0 [000] d.... 0.3: mm_page_alloc: page=ffffea00 pfn=0x20 order=2 migratetype=1 gfp_flags=none
 init-1 [000] ..... 0.4: tracing_mark_write: LOAD-BEGIN
 init-1 [000] ..... 0.5: kmem_cache_free: call_site=d_free+0x1/0x2 ptr=ffff888000010040 name=dentry
 init-1 [000] ..... 0.5: kfree: call_site=d_free+0x1/0x2 ptr=ffff888000099000
 init-1 [000] ..... 0.6: mm_page_free: page=ffffea00 pfn=0x20 order=2
";

    #[test]
    fn events_become_steps() {
        let read = text::read(TEXT.as_bytes()).unwrap();
        let cut = Load::of_trace(&read.trace, &read.marks, Machine::X86_64);
        let dentry = &cut.load.caches[0];
        assert_eq!((&*dentry.name, dentry.object_size, dentry.reclaimable), ("dentry", 192, true));
        let steps = [
            Step::Alloc(0, AllocType::Cache(0)),
            Step::Alloc(1, AllocType::KmallocReclaimable(100)),
            Step::Pages(2, 2, Type::Movable),
            Step::Reach(0),
            Step::Free(0),
            Step::FreePages(2),
        ];
        assert_eq!(cut.load.steps, steps);
        assert_eq!((cut.left_out, cut.load.numbers, cut.load.moments.len()), (1, 3, 1));
        let live = cut.load.live_at(0);
        assert_eq!((live[&AllocType::Cache(0)], live.len()), (1, 2));
        let mut load = cut.load;
        load.begin_with_live("dentry 192 3\nkmalloc-64 64 5\nno line");
        let live = load.live_at(0);
        assert_eq!((live[&AllocType::Cache(0)], live[&AllocType::Kmalloc(64)]), (4, 5));
    }
}
