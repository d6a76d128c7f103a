//! How much of a process's yards is resident, by use: what was lent but never touched, or was
//! swapped out, is not.
//!
//! [`super::present`] tells which pages are in memory; the descriptors say what each page is used
//! for. Neighbours: [`super::walk`] goes over the descriptors, [`super::resident`] sums mappings.
//! Invariant: blocks in mappings of their own are told only if those found in the tables add up to
//! what the yard counts.

use super::collect;
use super::find;
use super::front::Front;
use super::memory::{self, Fault, Memory, MemoryPart};
use super::present::Pages;
use super::resident;
use super::walk::{self, Shape};
use super::yards::Unreadable;
use slabyard_abi::region::{CacheWord, GRANULE, Word, descriptor, mapping_table};
use std::collections::BTreeMap;
use std::ops::Range;

/// Resident bytes of all yards of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Residence {
    /// In pages of live slabs, whatever of them is used.
    pub slabs: u64,
    /// Of slabs, by cache; of several yards' caches of one name together.
    pub caches: BTreeMap<String, u64>,
    /// Of live page runs.
    pub runs: u64,
    /// Of free page runs in the lists of CPUs.
    pub parked_pages: u64,
    /// Of other free pages.
    pub free: u64,
    /// Of blocks in mappings of their own; `None` where they cannot be found.
    pub blocks: Option<Vec<ResidentBlock>>,
    /// Addresses in each mapping of a yard.
    pub ranges: Vec<Range<u64>>,
}

/// A live block in a mapping of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResidentBlock {
    /// Its addresses.
    pub range: Range<u64>,
    /// Bytes of it that are in memory.
    pub resident: u64,
}

/// Reads the residence of all yards.
pub(super) fn read(memory: &dyn Memory, pid: u32) -> Result<Residence, Unreadable> {
    let fronts = find::fronts(memory)?.fronts;
    if fronts.is_empty() {
        return Err(Unreadable::NoYard);
    }
    let mut pages = Pages::open(pid).map_err(|why| Unreadable::Fault(Fault::Io(why)))?;
    let mut sum = Residence { blocks: Some(Vec::new()), ..Residence::default() };
    for front in &fronts {
        sum.ranges.extend(resident::of_yard(front));
        region(memory, front, &mut pages, &mut sum)?;
        let blocks = blocks(memory, front)?;
        sum.blocks = sum.blocks.zip(blocks).map(|(mut all, blocks)| {
            all.extend(
                blocks
                    .into_iter()
                    .map(|range| ResidentBlock { resident: pages.present(&range), range }),
            );
            all
        });
    }
    Ok(sum)
}

/// Adds the pages of a yard's region.
fn region(
    memory: &dyn Memory,
    front: &Front,
    pages: &mut Pages,
    sum: &mut Residence,
) -> Result<(), Fault> {
    let Some(address) = front.address(Word::TopAt) else { return Ok(()) };
    let top = word(memory, address)?;
    let takes = collect::collect(memory, front)?.takes;
    let named = takes.iter().filter_map(|take| {
        let words = &take.words[2];
        let shape = Shape {
            slot: words.slot()?,
            objects: u32::try_from(words.get(CacheWord::Objects)).ok()?,
            order: u32::try_from(words.get(CacheWord::Order)).ok()?,
        };
        Some((shape, words.name()))
    });
    let (shapes, names): (Vec<Shape>, Vec<String>) = named.unzip();
    let mut by_slot: BTreeMap<usize, u64> = BTreeMap::new();
    walk::blocks(memory, front, top, &shapes, &mut |block| {
        let at = |granule: u64| front.region.saturating_add(granule * GRANULE as u64);
        let present = pages.present(&(at(block.at)..at(block.at + block.granules)));
        match block.kind() {
            descriptor::SLAB => {
                sum.slabs += present;
                if let Some(shape) = block.slab {
                    *by_slot.entry(shape.slot).or_default() += present;
                }
            }
            descriptor::RUN => sum.runs += present,
            descriptor::PARKED => sum.parked_pages += present,
            _ => sum.free += present,
        }
    })?;
    for (shape, name) in shapes.iter().zip(names) {
        *sum.caches.entry(name).or_default() += by_slot.get(&shape.slot).copied().unwrap_or(0);
    }
    Ok(())
}

/// Blocks in mappings of their own; `None` if they are not what the yard counts.
fn blocks(memory: &dyn Memory, front: &Front) -> Result<Option<Vec<Range<u64>>>, Fault> {
    let Some(counted) = front.address(Word::MappedAt) else { return Ok(None) };
    let mut blocks = Vec::new();
    let tables = [Word::MetadataAt4, Word::MetadataAt5];
    for (word_of, most) in tables.into_iter().zip(mapping_table::MOST_BYTES) {
        let Some(at) = front.address(word_of) else { continue };
        let (table, bytes) = (word(memory, at - mapping_table::BEFORE)?, word(memory, at)?);
        if table == 0 || bytes == 0 {
            continue;
        }
        let Some(bytes) = usize::try_from(bytes).ok().filter(|bytes| *bytes <= most) else {
            return Ok(None);
        };
        let part = MemoryPart { address: table, bytes };
        let entries = match memory::read(memory, &[part]) {
            Ok(entries) => entries,
            Err(Fault::Absent(_)) => return Ok(None),
            Err(why) => return Err(why),
        };
        let words: Vec<u64> = memory::words(&entries).collect();
        blocks.extend(words.as_chunks::<2>().0.iter().filter_map(|[address, bytes]| {
            (*address >= GRANULE as u64).then_some(*address..address.checked_add(*bytes)?)
        }));
    }
    let sum = blocks.iter().fold(0u64, |sum, block| sum.saturating_add(block.end - block.start));
    blocks.sort_by_key(|block| block.start);
    Ok((sum == word(memory, counted)?).then_some(blocks))
}

fn word(memory: &dyn Memory, address: u64) -> Result<u64, Fault> {
    let bytes = memory::read(memory, &[MemoryPart { address, bytes: 8 }])?;
    Ok(memory::words(&bytes).next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::planted::PlantedTarget;

    #[test]
    fn blocks_that_do_not_add_up_are_not_told() {
        const TABLE: u64 = 0x6000_0000;
        const WORDS: u64 = 0x6100_0000;
        let planted = PlantedTarget::yard();
        planted.word(Word::MetadataAt4, WORDS + mapping_table::BEFORE);
        planted.word(Word::MetadataAt5, 0);
        planted.word(Word::MappedAt, WORDS + 64);
        planted.room(WORDS, 128);
        planted.room(TABLE, 4096);
        planted.put(WORDS, TABLE);
        planted.put(WORDS + mapping_table::BEFORE, 4096);
        for (nth, (address, bytes)) in
            [(0u64, 0u64), (1, 7), (0x7000_0000, 8192)].iter().enumerate()
        {
            planted.put(TABLE + nth as u64 * 16, *address);
            planted.put(TABLE + nth as u64 * 16 + 8, *bytes);
        }
        let told = |mapped: u64| {
            planted.put(WORDS + 64, mapped);
            let fronts = find::fronts(&planted).expect("a yard").fronts;
            blocks(&planted, &fronts[0]).expect("it is readable")
        };
        let block = 0x7000_0000..0x7000_2000;
        assert_eq!(told(8192), Some(std::iter::once(block).collect()));
        assert_eq!(told(4096), None);
    }
}
