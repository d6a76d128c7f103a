//! Reads the per-CPU banks: they hold freed runs of any number of granules, which the yard still
//! counts as live because the fast path moves runs into and out of banks. Each look reads the banks
//! once, subtracts their runs from the live ones, and adds them to the parked ones.
//!
//! Neighbour: [`super::collect`] reads the per-CPU rows.

use super::front::{Front, Top};
use super::memory::{self, Fault, Memory, MemoryPart};
use slabyard_abi::region::{GRANULE, Word, descriptor, row, sheaf};
use std::collections::BTreeSet;

/// Where in a row the stacks of page runs are.
pub(super) const SLOTS: core::ops::Range<usize> = row::FIRST_BANK..row::FIRST_BANK + row::BANKS;

/// Page runs that CPUs keep in banks, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Banked {
    pub(crate) runs: u64,
    pub(crate) bytes: u64,
}

/// Reads what is in stacks of these tops. What is no run of a bank by now counts among the live ones.
pub(super) fn read(
    memory: &dyn Memory,
    front: &Front,
    tops: impl Iterator<Item = Top>,
) -> Result<Banked, Fault> {
    let elements: Vec<MemoryPart> = tops
        .filter_map(|top| match top {
            Top::Stack { begin, objects } if objects > 0 => Some(MemoryPart {
                address: begin + sheaf::OBJECTS as u64,
                bytes: objects.min(row::MOST_BANKED as u64) as usize * 8,
            }),
            _ => None,
        })
        .collect();
    let runs = memory::read(memory, &elements)?;
    let top = front.address(Word::TopAt).map(|address| MemoryPart { address, bytes: 8 });
    let top = memory::read(memory, &top.into_iter().collect::<Vec<_>>())?;
    let top = memory::words(&top).next().unwrap_or(0).min(front.granules);
    // Each once, whatever the stacks say.
    let granules: BTreeSet<u64> = memory::words(&runs)
        .filter_map(|run| Some(run.checked_sub(front.region)? / GRANULE as u64))
        .filter(|granule| *granule < top)
        .collect();
    let bytes = descriptor::BYTES;
    let heads: Vec<MemoryPart> = granules
        .into_iter()
        .map(|granule| MemoryPart { address: front.descriptors + granule * bytes as u64, bytes })
        .collect();
    let heads = memory::read(memory, &heads)?;
    let mut sum = Banked::default();
    for head in heads.chunks(bytes) {
        let word = memory::half(head, descriptor::HEAD);
        if word as u8 == descriptor::PARKED && (word >> 16) as u16 == descriptor::BANKED {
            sum.runs += 1;
            sum.bytes += u64::from(memory::half(head, descriptor::GRANULES)) * GRANULE as u64;
        }
    }
    Ok(sum)
}
