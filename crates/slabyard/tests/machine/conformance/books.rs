//! The checks that compare three views of a yard: its own checker, its
//! counters, and what the oracle and the machine know.

use super::oracle::Sums;
use slabyard::engine::Engine;
use slabyard::pages::GranuleKind;
use slabyard::platform::stack::{FIRST_ROW_BYTES, ROW_STRIDE};
use slabyard::platform::{GRANULE, Memory, PerCpu};
use slabyard::verify::Sound;
use slabyard::yard::Yard;
use slabyard_abi::counters::{CacheCounters, YARD_FIELDS, YardCounters};
use slabyard_abi::engines::EngineName;
use slabyard_testkit::machine::Machine;

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?}, and not {expected:?}")) }
}

/// What `verify` says of a yard.
pub fn verify<E: Engine>(yard: &Yard<Machine, E>) -> Result<Sound, String> {
    yard.verify().ok_or("verify refused outside of a slow path")?.map_err(|fault| fault.to_string())
}

/// The counters, and their sums: each cache's objects are in one place, and the
/// parts of the committed memory add up.
pub fn counters<E: Engine>(yard: &Yard<Machine, E>) -> Result<YardCounters, String> {
    let mut fault = Ok(());
    let mut one = |class: usize, c: &CacheCounters| {
        let sum = c.live + c.parked_cpu + c.parked_node + c.free_partial;
        if sum != c.total_objects || c.empty > c.partial || c.partial > c.slabs {
            fault = Err(format!("class {class} does not add up: {c:?}"));
        }
    };
    let sum = yard.quiesce(|quiesced| Yard::count(quiesced, &mut one)).ok_or("not quiesced")?;
    fault?;
    let parts: u64 = YARD_FIELDS.iter().filter(|f| f.field.part).map(|f| (f.get)(&sum)).sum();
    if parts != sum.committed {
        return Err(format!("parts are {parts} bytes of {}: {sum:?}", sum.committed));
    }
    Ok(sum)
}

/// What the counters say against what the oracle and the machine know. Nobody
/// else uses the yard.
pub fn audit<E: Engine>(yard: &Yard<Machine, E>, sums: &Sums) -> Result<YardCounters, String> {
    let machine = yard.platform();
    let sum = counters(yard)?;
    // Of SLOB, blocks are live with their headers.
    let header = if yard.engine() == EngineName::Slob { 16 } else { 0 };
    if yard.cache(0).engine.debug().is_none() {
        expect("bytes of live objects", sum.live, sums.object_bytes + header * sums.objects)?;
    }
    expect("live runs", (sum.nr_runs, sum.runs), (sums.runs, sums.run_bytes))?;
    let mapped = (sum.nr_mapped, sum.mapped);
    expect("live mappings", mapped, (sums.mappings, sums.mapped_bytes))?;
    expect("bytes that the machine mapped", machine.mapped_bytes() as u64, sum.mapped)?;
    // The machine gives the first page of each row, and the page in front of them, without
    // counting them.
    let page = machine.page_bytes();
    let first = FIRST_ROW_BYTES.next_multiple_of(page).min(ROW_STRIDE);
    let rows = (machine.rows().len() * first + page) as u64;
    // What the region has beyond its top is no part of it yet.
    let ahead = (yard.heap.region.ahead() * GRANULE) as u64;
    let committed = sum.committed + sum.returned + ahead - sum.mapped - rows;
    expect("bytes that the machine committed", machine.committed_bytes() as u64, committed)?;
    Ok(sum)
}

/// `verify` against the oracle. Nobody else uses the yard, and no other thread
/// has a private row with objects.
pub fn inspect<E: Engine>(yard: &Yard<Machine, E>, sums: &Sums) -> Result<Sound, String> {
    let sound = verify(yard)?;
    expect("live objects", sound.live, sums.objects)?;
    expect("live runs", sound.runs, sums.runs)?;
    Ok(sound)
}

/// After everything was freed and the yard was trimmed: all memory is in free
/// blocks, and given back.
pub fn empty<E: Engine>(yard: &Yard<Machine, E>) -> Result<(), String> {
    let sound = inspect(yard, &Sums::default())?;
    let granules = all_granules(yard) as u64;
    let all_free = Sound { free_granules: granules, ..Sound::default() };
    expect("what is left", sound, all_free)?;
    let sum = audit(yard, &Sums::default())?;
    let free = granules * GRANULE as u64;
    expect("free and returned bytes", (sum.free_runs, sum.returned), (0, free))?;
    expect("metadata", sum.metadata, sum.committed)
}

/// Granules of the region that are committed.
pub fn all_granules<E: Engine>(yard: &Yard<Machine, E>) -> usize {
    let region = &yard.heap.region;
    region.top() - yard.platform().page_bytes() / GRANULE
}

/// The first granule that begins a thing of this kind.
pub fn find<E: Engine>(yard: &Yard<Machine, E>, kind: GranuleKind) -> u32 {
    let region = &yard.heap.region;
    (1..region.top() as u32)
        .find(|i| region.descriptor(*i).kind() == kind)
        .unwrap_or_else(|| panic!("no granule begins a {kind:?}"))
}
