//! Finds the yards of a target: the mappings that begin with a yard's magic number.

use super::front::{Front, Unusable};
use super::memory::{self, Fault, Memory, MemoryPart};
use slabyard_abi::region::MAGIC;

/// Mappings looked at in one call.
const BATCH: usize = 1000;

/// The fronts of a target.
#[derive(Debug, Default)]
pub(crate) struct FoundFronts {
    /// Fronts that can be read.
    pub(crate) fronts: Vec<Front>,
    /// Fronts that cannot.
    pub(crate) unusable: Vec<(u64, Unusable)>,
}

/// All yards of a target.
pub(crate) fn fronts(memory: &dyn Memory) -> Result<FoundFronts, Fault> {
    let heads: Vec<MemoryPart> = memory
        .mappings()?
        .into_iter()
        .filter(|map| map.end.saturating_sub(map.start) >= Front::part(0).bytes as u64)
        .map(|map| MemoryPart { address: map.start, bytes: MAGIC.len() })
        .collect();
    let mut found = FoundFronts::default();
    for heads in heads.chunks(BATCH) {
        for at in beginning(memory, heads)? {
            // Between the two reads the process may have gone on: no front then.
            let Some(bytes) = readable(memory, &[Front::part(at)])? else { continue };
            match Front::decode(at, memory::words(&bytes).collect()) {
                Ok(front) => found.fronts.push(front),
                Err(why) => found.unusable.push((at, why)),
            }
        }
    }
    Ok(found)
}

/// Addresses of the heads that begin with the magic.
fn beginning(memory: &dyn Memory, heads: &[MemoryPart]) -> Result<Vec<u64>, Fault> {
    let mut addresses = Vec::new();
    if let Some(bytes) = readable(memory, heads)? {
        let each = heads.iter().zip(bytes.chunks_exact(MAGIC.len()));
        addresses.extend(each.filter(|(_, b)| Front::begins(b)).map(|(head, _)| head.address));
    } else if let [_, _, ..] = heads {
        // One of them cannot be read: halve until it is alone.
        let (left, right) = heads.split_at(heads.len() / 2);
        addresses.extend(beginning(memory, left)?);
        addresses.extend(beginning(memory, right)?);
    }
    Ok(addresses)
}

/// The bytes of parts; `None` where nothing is.
fn readable(memory: &dyn Memory, parts: &[MemoryPart]) -> Result<Option<Vec<u8>>, Fault> {
    match memory::read(memory, parts) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Fault::Absent(_)) => Ok(None),
        Err(why) => Err(why),
    }
}
