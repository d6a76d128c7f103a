//! A process's counters of memory pressure: events, the drains that they caused, and the returned
//! bytes.
//!
//! Neighbours: `slabyard_abi::pressure` names the counters; [`super::look`] reads them,
//! [`super::to_snapshot`] adds them to the totals. The report at the process's end has the same
//! counters.

use super::front::Front;
use super::memory::{self, Fault, Memory, MemoryPart};
use slabyard_abi::pressure::PressureCounter;
use slabyard_abi::region::Word;

/// Names of totals, and what the process counted.
pub(crate) type Pressure = Vec<(&'static str, u64)>;

/// Reads the counts; none where the yard has none, or nothing was ever watched or counted.
pub(crate) fn read(memory: &dyn Memory, front: &Front) -> Result<Pressure, Fault> {
    let Some(counts) = front.address(Word::Pressure) else { return Ok(Vec::new()) };
    let nr = (front.word(Word::NrPressure) as usize).min(PressureCounter::NAMES.len());
    // Counts that the platform keeps; older libraries have the first alone.
    let apart = [
        (PressureCounter::Refused, front.address(Word::RefusedAt)),
        (PressureCounter::Returned, front.address(Word::ReturnedAt)),
    ];
    let apart: Vec<_> =
        apart.into_iter().filter_map(|(count, address)| Some((count as usize, address?))).collect();
    let mut parts = vec![MemoryPart { address: counts, bytes: nr * 8 }];
    parts.extend(apart.iter().map(|(_, address)| MemoryPart { address: *address, bytes: 8 }));
    let bytes = match memory::read(memory, &parts) {
        Err(Fault::Absent(_)) => return Ok(Vec::new()),
        bytes => bytes?,
    };
    let mut words: Vec<u64> = memory::words(&bytes).collect();
    let kept = words.split_off(nr.min(words.len()));
    for ((nth, _), kept) in apart.iter().zip(kept) {
        if let Some(count) = words.get_mut(*nth) {
            *count = kept;
        }
    }
    let any = words.iter().any(|n| *n != 0);
    Ok(if any { PressureCounter::NAMES.iter().copied().zip(words).collect() } else { Vec::new() })
}
