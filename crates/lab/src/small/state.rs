//! A kernel's reports about its memory at the marked moments of a load: free blocks in list order,
//! caches, and slabs. `ci/small/probe.c` prints them, in lines of `KIND: KEY=VALUE ...`.
//!
//! [`super::events`] makes a load that starts from the first report; [`super::zone`] starts with
//! that report's free blocks. Invariant: lines that are not recognised are ignored.

use super::buddy::{Block, MOST_ORDER};
use super::kept::Limits;
use super::mobility::{Mobility, Rules, Type};
use super::text::{Line, field};
use super::zone::Zone;
use crate::packed::ZSTD;
use std::ops::Range;
use std::path::Path;
use std::{fs, io};

/// Everything that a boot reported besides its events.
#[derive(Clone, Debug, Default)]
pub struct KernelReport {
    /// In order; the first is the start of the events.
    pub states: Vec<State>,
    /// By the time in nanoseconds at which the kernel reported each.
    pub changes: Vec<(u64, Change)>,
}

/// What a kernel reports between its moments besides calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Lists of pages on the CPU have other limits.
    Limits(Limits),
    /// SLAB's arrays, of one object until then, are as large as they should be.
    WholeArrays,
    /// SLAB's timer reaps a part of the cache of this name.
    Reap(String, ReapPart),
}

/// What SLAB's timer reaps at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReapPart {
    /// A CPU's array.
    Cpu,
    /// What the node has: the shared array, and free slabs.
    Node,
}

/// At a moment.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Its name.
    pub moment: String,
    /// Pages of the machine in which free blocks, and pages kept on CPUs, may be.
    pub pages: u32,
    /// Free pages.
    pub free: u32,
    /// Free blocks and their types, in the order of their lists.
    pub blocks: Vec<(Block, Type)>,
    /// Pages that the zone spans; none if it did not say.
    pub span: Range<u32>,
    /// Whether pages are grouped by mobility.
    pub is_grouped: bool,
    /// Pages of a pageblock, as an order, and the types of all.
    pub pageblock_order: u8,
    /// By their place in the zone.
    pub pageblocks: Vec<Type>,
    /// Pages that the CPU keeps.
    pub kept: u32,
    /// Pages of slabs.
    pub slab: u32,
    /// Those of caches that a shrinker frees from.
    pub reclaimable: u32,
    /// The caches that exist at that moment.
    pub caches: Vec<KernelCacheState>,
    /// Of all caches; those of SLOB have no name.
    pub slabs: Vec<Slab>,
    /// For an allocator that counts no objects: what `kmalloc` gave to requests that no event
    /// shows; bytes, and how often.
    pub live: Vec<(u32, u32)>,
}

/// What a cache was created with, and what its slabs count as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelCacheState {
    /// As the kernel prints it.
    pub name: String,
    /// Bytes that users see.
    pub object_size: u32,
    /// Bytes from one object to the next.
    pub size: u32,
    /// Objects begin at multiples of it.
    pub align: u32,
    /// Objects keep their contents while they are free.
    pub keeps_contents: bool,
    /// Because readers may still access them (`SLAB_TYPESAFE_BY_RCU`).
    pub has_readers: bool,
    /// Its pages count as reclaimable.
    pub is_reclaimable: bool,
}

/// A slab as the kernel has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slab {
    /// Its pages.
    pub block: Block,
    /// Its cache's name; of SLOB's pages empty.
    pub name: String,
    /// Objects that it has room for.
    pub objects: u32,
    /// Those of them that are handed out.
    pub live: u32,
}

/// Reads what a boot reported, from a file that may be compressed by zstd.
///
/// # Errors
/// The file cannot be read, or unpacked.
pub fn open(path: &Path) -> io::Result<KernelReport> {
    parse(&fs::read(path)?)
}

/// The same of a file's bytes.
///
/// # Errors
/// They cannot be unpacked.
pub fn parse(bytes: &[u8]) -> io::Result<KernelReport> {
    let unpacked;
    let text = if bytes.starts_with(&ZSTD) {
        unpacked = zstd::decode_all(bytes)?;
        &unpacked
    } else {
        bytes
    };
    Ok(read(&String::from_utf8_lossy(text)))
}

/// Reads what a boot reported.
#[must_use]
pub fn read(text: &str) -> KernelReport {
    let mut told = KernelReport::default();
    for line in text.lines() {
        if line.starts_with('[') {
            let change = |line: Line<'_>| Some((line.time, Change::of(&line)?));
            told.changes.extend(Line::of(line).and_then(change));
        } else if let Some(moment) = line.strip_prefix("=== ") {
            if moment != "end" {
                told.states.push(State { moment: moment.into(), ..State::default() });
            }
        } else if let (Some((kind, rest)), Some(state)) =
            (line.split_once(": "), told.states.last_mut())
        {
            state.add(kind, rest);
        }
    }
    told
}

impl Change {
    fn of(line: &Line<'_>) -> Option<Change> {
        let text = line.text;
        let name = || field(text, "name=").map(str::to_owned);
        Some(match line.kind {
            "cpu_pages" => {
                let [high, most, batch] = ["high=", "most=", "batch="].map(|key| number(text, key));
                Change::Limits(Limits { high, most, batch })
            }
            "arrays" => Change::WholeArrays,
            "reap" if text.contains("part=cpu") => Change::Reap(name()?, ReapPart::Cpu),
            "reap" => Change::Reap(name()?, ReapPart::Node),
            _ => return None,
        })
    }
}

impl State {
    fn add(&mut self, kind: &str, line: &str) {
        let (is, page) = (|key| number(line, key) == 1, || number(line, "pfn="));
        let order = || number(line, "order=") as u8;
        let name = || field(line, "name=").unwrap_or("").to_owned();
        match kind {
            "zone" => {
                self.free += number(line, "free=");
                self.is_grouped = is("grouped=");
                self.span = number(line, "start=")..number(line, "end=");
            }
            "pageblock" => {
                self.pageblock_order = order();
                let at = (page() >> order()) as usize;
                self.pageblocks.resize(self.pageblocks.len().max(at + 1), Type::Movable);
                self.pageblocks[at] = Type::of(number(line, "type=") as u8);
                self.pages = self.pages.max((page() >> order() << order()) + (1 << order()));
            }
            "block" => {
                self.blocks.push(((page(), order()), Type::of(number(line, "type=") as u8)));
            }
            "pcp" => self.kept += number(line, "count="),
            "pages" => {
                self.slab = number(line, "slab=");
                self.reclaimable = number(line, "reclaimable=");
            }
            "cache" => self.caches.push(KernelCacheState {
                name: name(),
                object_size: number(line, "object_size="),
                size: number(line, " size="),
                align: number(line, "align="),
                keeps_contents: is("kept="),
                has_readers: is("readers="),
                is_reclaimable: is("reclaimable="),
            }),
            "slab" => self.slabs.push(Slab {
                block: (page(), order()),
                name: name(),
                objects: number(line, "objects="),
                live: number(line, "live="),
            }),
            "live" => self.live.push((number(line, "bytes="), number(line, "count="))),
            _ => {}
        }
    }

    /// The free pages as a zone of a kernel of this release.
    #[must_use]
    pub fn zone(&self, release: &str) -> Zone {
        let mobility = if self.is_grouped { Mobility::Grouped } else { Mobility::Off };
        let (rules, types) = (Rules::of(release), &self.pageblocks);
        let mut zone = Zone::new(rules, self.pages, mobility, self.pageblock_order, types);
        if !self.span.is_empty() {
            zone.span(self.span.clone());
        }
        for (block, of) in &self.blocks {
            zone.begin_with(*block, *of);
        }
        zone
    }

    /// Free blocks of each order.
    #[must_use]
    pub fn counts(&self) -> [u32; MOST_ORDER as usize + 1] {
        let mut counts = [0; MOST_ORDER as usize + 1];
        self.blocks.iter().for_each(|((_, order), _)| counts[usize::from(*order)] += 1);
        counts
    }
}

/// 0 if there is none.
fn number(line: &str, key: &str) -> u32 {
    let Some(word) = field(line, key) else { return 0 };
    match word.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).unwrap_or(0),
        None => word.parse().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
[0] 0.000002: tracing_mark_write: BEGIN
=== BEGIN
zone: name=DMA32 managed=100 free=5 grouped=0
pageblock: pfn=0x1 order=9 type=0
pageblock: pfn=0x200 order=9 type=1
block: order=0 type=1 pfn=0x10
block: order=2 type=0 pfn=0x204
pcp: cpu=0 count=3 high=0 batch=1
pages: slab=1 reclaimable=0
cache: name=dentry object_size=192 size=192 align=8 kept=0 reclaimable=1
live: bytes=64 count=7
slab: pfn=0x20 order=0 name=dentry objects=21 live=4
=== end
[0] 0.000009: cpu_pages: high=125 most=125 batch=1
[0] 0.000010: arrays: whole
[0] 0.000011: kfree: ptr=10
[0] 0.000012: reap: part=cpu name=dentry
[0] 0.000013: reap: part=node name=dentry
";

    #[test]
    fn what_a_boot_told_is_read() {
        let told = read(TEXT);
        let reap = |part| Change::Reap("dentry".into(), part);
        let changes = [
            (9000, Change::Limits(Limits { high: 125, most: 125, batch: 1 })),
            (10_000, Change::WholeArrays),
            (12_000, reap(ReapPart::Cpu)),
            (13_000, reap(ReapPart::Node)),
        ];
        assert_eq!(told.changes, changes);
        let [state] = &told.states[..] else { panic!("one state") };
        assert_eq!((&*state.moment, state.free, state.kept, state.slab), ("BEGIN", 5, 3, 1));
        assert_eq!(
            (state.pages, &*state.pageblocks),
            (1024, &[Type::Unmovable, Type::Movable][..])
        );
        assert_eq!(state.blocks, [((16, 0), Type::Movable), ((516, 2), Type::Unmovable)]);
        assert_eq!(state.slabs[0].block, (32, 0));
        assert_eq!((state.slabs[0].objects, state.slabs[0].live), (21, 4));
        assert_eq!(state.live, [(64, 7)]);
        let known = &state.caches[0];
        assert_eq!((known.object_size, known.size, known.is_reclaimable), (192, 192, true));
        let mut zone = state.zone("6.1");
        assert_eq!((zone.free_pages(), zone.counts()[2]), (5, 1));
        assert_eq!(zone.take(1, Type::Movable), Some((516, 1)), "its own type first");
    }
}
