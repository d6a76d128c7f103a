//! The other names of merged caches.
//!
//! Neighbours: `slabyard_abi::region::alias` defines the records' layout; [`super::look`] reads
//! them, [`super::to_snapshot`] adds them to the cache's name. Invariant: a record belongs to a
//! cache only while both have the same generation.

use super::front::Front;
use super::memory::{self, Fault, Memory, MemoryPart};
use super::words;
use slabyard_abi::region::{Word, alias};

/// Most records that are read.
const MOST: u64 = 1 << 16;

/// A cache's number, its generation's low half, and a name.
pub(crate) type Aliases = Vec<(u32, u32, String)>;

/// Reads the names; none where equal caches do not merge.
pub(crate) fn read(memory: &dyn Memory, front: &Front) -> Result<Aliases, Fault> {
    let Some(address) = front.address(Word::Aliases) else { return Ok(Vec::new()) };
    let nr = front.word(Word::NrAliases).min(MOST) as usize;
    let bytes = match memory::read(memory, &[MemoryPart { address, bytes: nr * alias::WORDS * 8 }])
    {
        Err(Fault::Absent(_)) => return Ok(Vec::new()),
        bytes => bytes?,
    };
    let all: Vec<u64> = memory::words(&bytes).collect();
    let told = all.chunks_exact(alias::WORDS).filter(|record| record[0] != 0);
    Ok(told.map(|it| (it[0] as u32, (it[0] >> 32) as u32, words::text(&it[1..]))).collect())
}
