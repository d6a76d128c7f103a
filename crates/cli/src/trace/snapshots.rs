//! Changes the snapshots in a trace along with the trace.

use super::renamer::Renamer;
use crate::failure::Failure;
use anyhow::Context;
use slabyard_lab::lists::json;
use slabyard_lab::snapshot::{COUNTS, SIZES};
use slabyard_observe::{Reading, Snapshot, Value, file};
use std::path::Path;

pub fn parse(bytes: &[u8]) -> Result<Snapshot, Failure> {
    let snapshot = file::read(bytes, Path::new("the snapshot in the trace"));
    Ok(snapshot.map_err(anyhow::Error::from)?)
}

fn saved(snapshot: &Snapshot) -> Result<Vec<u8>, Failure> {
    Ok(serde_json::to_vec(snapshot).context("the snapshot")?)
}

/// The caches without what changes with time.
pub fn sizes_only(bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut snapshot = parse(bytes)?;
    for cache in &mut snapshot.caches {
        cache.readings.retain(|name, _| SIZES.contains(&name.as_str()));
        cache.slabs = None;
        cache.fullness = None;
    }
    saved(&snapshot)
}

/// What tells of whom it is replaced.
pub fn anonymous(bytes: &[u8], renamer: &Renamer) -> Result<Vec<u8>, Failure> {
    let mut snapshot = parse(bytes)?;
    let source = &mut snapshot.source;
    (source.pid, source.program, source.path) = (None, None, None);
    source.boot = source.boot.as_deref().map(slabs_of).filter(|boot| !boot.is_empty());
    snapshot.taken_at_ms = 0;
    snapshot.took_ns = None;
    snapshot.missing.clear();
    for cache in &mut snapshot.caches {
        cache.name = renamer.name(&cache.name);
        cache.id = cache.id.as_deref().map(|id| renamer.name(id));
        cache.aliases.iter_mut().for_each(|alias| *alias = renamer.name(alias));
        // Readings in words, as constructors, name functions.
        cache.readings.retain(|name, reading| {
            name == "slabs_cpu_partial" || !matches!(reading.value, Value::Text(_))
        });
    }
    saved(&snapshot)
}

/// The lists of some caches.
pub fn lists_of(bytes: &[u8], stays: impl Fn(&str) -> bool) -> Result<Vec<u8>, Failure> {
    let mut lists = json::read(bytes).context("the lists in the trace make no sense")?;
    lists.caches.retain(|cache| stays(&cache.name));
    Ok(json::write(&lists))
}

/// Lists whose caches and addresses are others.
pub fn moved(
    bytes: &[u8],
    renamer: &Renamer,
    mut place: impl FnMut(u64) -> u64,
) -> Result<Vec<u8>, Failure> {
    let mut lists = json::read(bytes).context("the lists in the trace make no sense")?;
    for cache in &mut lists.caches {
        cache.name = renamer.name(&cache.name);
        cache.each_address_mut().for_each(|address| *address = place(*address));
    }
    Ok(json::write(&lists))
}

fn slabs_of(boot: &str) -> String {
    let ours = |word: &&str| word.starts_with("slab_") || word.starts_with("slub_");
    boot.split_whitespace().filter(ours).collect::<Vec<_>>().join(" ")
}

/// One machine of several: counts of caches of the same name added up, with the CPUs of each after
/// those of the machines before.
pub fn together(starts: &[(Vec<u8>, u32)]) -> Result<Vec<u8>, Failure> {
    let mut whole: Option<Snapshot> = None;
    let mut first_cpu = 0;
    for (bytes, cpus) in starts {
        let mut next = parse(bytes)?;
        let machine = &mut next.machine;
        (machine.possible_cpus, machine.online_cpus) = (Some(*cpus), Some(*cpus));
        match &mut whole {
            None => whole = Some(next),
            Some(whole) => add(whole, next, first_cpu),
        }
        first_cpu += cpus;
    }
    saved(&whole.context("no snapshot")?)
}

fn add(whole: &mut Snapshot, next: Snapshot, first_cpu: u32) {
    let sum = |a: Option<u32>, b: Option<u32>| Some(a? + b?);
    let (machine, other) = (&mut whole.machine, &next.machine);
    machine.possible_cpus = sum(machine.possible_cpus, other.possible_cpus);
    machine.online_cpus = sum(machine.online_cpus, other.online_cpus);
    for (name, value) in next.totals {
        if let (Some(Value::Exact(total)), Value::Exact(more)) =
            (whole.totals.get_mut(&name), value)
        {
            *total += more;
        }
    }
    for cache in next.caches {
        let id = |cache: &slabyard_observe::Cache| {
            cache.id.clone().unwrap_or_else(|| cache.name.clone())
        };
        match whole.caches.iter_mut().find(|known| id(known) == id(&cache)) {
            None => whole.caches.push(cache),
            Some(known) => {
                known.aliases.extend(cache.aliases.iter().cloned());
                known.aliases.sort_unstable();
                known.aliases.dedup();
                for (name, more) in cache.readings {
                    if let Some(reading) = known.readings.get_mut(&name) {
                        add_reading(&name, reading, more, first_cpu);
                    }
                }
            }
        }
    }
}

fn add_reading(name: &str, reading: &mut Reading, more: Reading, first_cpu: u32) {
    let adds = COUNTS.contains(&name);
    if let (true, Value::Exact(sum), Value::Exact(more)) = (adds, &mut reading.value, more.value) {
        *sum += more;
    } else {
        return;
    }
    reading.cpus.extend(more.cpus.into_iter().map(|(cpu, value)| (cpu + first_cpu, value)));
    for (node, value) in more.nodes {
        match reading.nodes.iter_mut().find(|(known, _)| *known == node) {
            Some((_, Value::Exact(sum))) => {
                *sum += value.exact().unwrap_or(0);
            }
            _ => reading.nodes.push((node, value)),
        }
    }
}
