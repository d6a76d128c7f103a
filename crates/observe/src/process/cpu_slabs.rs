//! What only a cache with CPU slabs reports: the kernel rules that it follows, and the slabs that
//! CPUs hold.
//!
//! Neighbours: [`super::to_snapshot`] calls this module; [`super::cpu_slabs_held`] reads the slabs,
//! [`super::judge`] decides how exact the numbers are.

use super::cpu_slabs_held::CpuHoldings;
use super::judge::CacheContents;
use crate::snapshot::Cache;
use crate::value::{Reading, Value};
use slabyard_abi::region::{CacheWord as W, front as bits};
use std::collections::BTreeSet;

/// Fields of what each CPU holds.
const HELD: [(&str, CpuNumber); 4] = [
    ("cpu_slabs", |cpu| cpu.slabs),
    ("slabs_cpu_partial", |cpu| cpu.listed),
    ("objects_cpu_partial", |cpu| cpu.counted),
    ("empties_parked", |cpu| cpu.empty),
];

type CpuNumber = fn(&CpuHoldings) -> u64;

/// Writes it down, begin and end of a look together.
pub(super) fn set(cache: &mut Cache, kind: u64, ends: [&CacheContents; 2], slab_bytes: u64) {
    let last = ends[1].words;
    let front = if kind & bits::BELOW_SHEAVES != 0 { "mixed" } else { "cpu-slabs" };
    cache.set("front", Value::Text(front.into()));
    cache.set("freezing", Value::Text(freezing(kind).into()));
    if kind & bits::LISTS != 0 {
        cache.set("accounting", Value::Text(accounting(kind).into()));
        cache.set("cpu_partial", last.get(W::CpuPartial));
        if kind & bits::SLABS != 0 {
            cache.set("cpu_partial_slabs", last.get(W::CpuPartialSlabs));
        }
    }
    for (name, of) in HELD {
        let a_slab = if name == "objects_cpu_partial" { last.get(W::Objects) } else { 1 };
        let reading = reading(ends, a_slab, of);
        if name == "empties_parked"
            && let Some(bytes) = reading.value.times(slab_bytes)
        {
            cache.set("empties_bytes", bytes);
        }
        cache.set(name, reading);
    }
}

/// A number of all CPUs, and of each.
fn reading(ends: [&CacheContents; 2], a_slab: u64, of: CpuNumber) -> Reading {
    let [(begin, before), (end, after)] = ends.map(|judged| judged.held_by_cpu(a_slab, of));
    let cpus: BTreeSet<u32> = begin.keys().chain(end.keys()).copied().collect();
    let span = |cpu: u32| {
        let [begin, end] = [&begin, &end].map(|all| all.get(&cpu).copied().unwrap_or_default());
        begin.hull(end)
    };
    let cpus = cpus.into_iter().map(|cpu| (cpu, span(cpu).into()));
    Reading { cpus: cpus.collect(), ..Reading::from(before.hull(after)) }
}

/// When slabs are frozen, as `SLABYARD_FREEZING` names it.
fn freezing(kind: u64) -> &'static str {
    let has = |bit: u64| kind & bit != 0;
    match (has(bits::FREEZES_PARKED), has(bits::THAWS_UNDER_LOCK)) {
        (true, true) => "eager",
        (true, false) => "patch-3",
        _ if has(bits::FREEZES_USED_UNDER_LOCK) => "patch-5",
        _ => "delayed",
    }
}

/// What CPU partial lists count, as `SLABYARD_ACCOUNTING` names it.
fn accounting(kind: u64) -> &'static str {
    match kind {
        _ if kind & bits::SLABS != 0 => "slabs",
        _ if kind & bits::EXACT != 0 => "exact",
        _ => "objects",
    }
}

/// What cannot be, of what CPUs hold: seen while no slow path was under way.
pub(super) fn damage(ends: [&CacheContents; 2]) -> Option<String> {
    let fault = |judged: &CacheContents| {
        let fault = judged.held.as_ref().filter(|_| judged.quiet)?.fault.as_ref()?;
        Some(format!("{fault}: the yard is damaged, and what CPUs hold is not known"))
    };
    ends.into_iter().find_map(fault)
}
