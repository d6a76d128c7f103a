//! Makes a snapshot from the memory of any kind of target.
//!
//! A process may have several yards: malloc's, and those of libraries that have object caches. A
//! snapshot has the caches of all yards, and sums their memory; values that cannot be added (the
//! engine, the mode) come from the yard with the most committed bytes.
//!
//! Neighbours: [`super::sample`] and [`crate::corefile`] call this module.

use super::find;
use super::front::{Front, Unusable};
use super::look::{self, YardLook};
use super::memory::{Fault, Memory};
use super::to_snapshot;
use crate::fields::TOTALS;
use crate::snapshot::{Missing, Snapshot, Source};
use crate::want::ReadScope;
use slabyard_abi::region::{VERSION, Word};
use std::collections::BTreeSet;
use std::time::Instant;

/// Why there is no snapshot.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// Nothing begins with the magic.
    NoYard,
    /// Only yards of another version.
    Layout { found: u64, known: u64 },
    /// Only yards whose words cannot be.
    Damaged(String),
    /// The memory cannot be read.
    Fault(Fault),
}

impl From<Fault> for Unreadable {
    fn from(fault: Fault) -> Unreadable {
        Unreadable::Fault(fault)
    }
}

/// Samples all yards; names those that cannot be read.
pub(crate) fn sample(
    memory: &dyn Memory,
    want: ReadScope,
    source: Source,
) -> Result<Snapshot, Unreadable> {
    let began = Instant::now();
    let mut unread = Vec::new();
    let mut snapshot = Snapshot::new(source);
    for (nth, (front, look)) in looks(memory, want, &mut unread)?.into_iter().enumerate() {
        if nth == 0 {
            to_snapshot::fill(&front, &look, want.slabs, &mut snapshot);
            continue;
        }
        let mut other = Snapshot::new(snapshot.source.clone());
        to_snapshot::fill(&front, &look, want.slabs, &mut other);
        join(&mut snapshot, other);
    }
    snapshot.missing.extend(unread);
    snapshot.took_ns = u64::try_from(began.elapsed().as_nanos()).ok();
    Ok(snapshot)
}

/// Totals that can be added over several yards, besides the parts.
const SUMS: [&str; 7] =
    ["committed", "returned", "empties_parked", "nr_runs", "nr_mapped", "set_aside", "node_limit"];

/// Adds another yard's caches and memory.
fn join(snapshot: &mut Snapshot, other: Snapshot) {
    let mut names: BTreeSet<String> = snapshot.caches.iter().map(|it| it.name.clone()).collect();
    for mut cache in other.caches {
        cache.name = to_snapshot::free_name(&mut names, &cache.name);
        snapshot.caches.push(cache);
    }
    let parts = TOTALS.iter().filter(|total| total.part).map(|total| total.name);
    for name in parts.chain(SUMS) {
        let Some(more) = other.totals.get(name) else { continue };
        let sum = match snapshot.totals.get(name) {
            Some(known) => known.plus(more),
            None => Some(more.clone()),
        };
        if let Some(sum) = sum {
            snapshot.totals.insert(name.to_owned(), sum);
        }
    }
    snapshot.missing.extend(other.missing);
}

/// The yards of a target, that with the most committed bytes first.
pub(crate) fn fronts(memory: &dyn Memory) -> Result<Vec<Front>, Unreadable> {
    // Which of several is the largest, a look at each tells.
    let found = find::fronts(memory)?.fronts;
    if found.len() == 1 {
        return Ok(found);
    }
    let looks = looks(memory, ReadScope::default(), &mut Vec::new())?;
    Ok(looks.into_iter().map(|(front, _)| front).collect())
}

/// Looks at all yards, at that with the most committed bytes first; there is one.
fn looks(
    memory: &dyn Memory,
    want: ReadScope,
    others: &mut Vec<Missing>,
) -> Result<Vec<(Front, YardLook)>, Unreadable> {
    let found = find::fronts(memory)?;
    let mut all: Vec<(Front, YardLook)> = Vec::new();
    let mut lost = None;
    for front in found.fronts {
        let look = match look::look(memory, &front, want) {
            Ok(look) => look,
            Err(Fault::Absent(at)) => {
                others.push(Missing {
                    what: format!("the yard at {:#x}", front.at),
                    why: format!("it points to {at:#x}, where no memory is"),
                });
                lost = Some(Unreadable::Fault(Fault::Absent(at)));
                continue;
            }
            Err(why) => return Err(why.into()),
        };
        all.push((front, look));
    }
    all.sort_by_key(|yard| std::cmp::Reverse(committed(yard)));
    for (at, why) in &found.unusable {
        others.push(Missing {
            what: format!("the yard at {at:#x}"),
            why: match why {
                Unusable::Version(found) => {
                    format!("it has layout {found}; this slabyard reads {VERSION}")
                }
                Unusable::Word(name, number) => format!("its {name} cannot be {number:#x}"),
            },
        });
    }
    if !all.is_empty() {
        return Ok(all);
    }
    Err(match (lost, found.unusable.first()) {
        (Some(lost), _) => lost,
        (None, Some((_, Unusable::Version(found)))) => {
            Unreadable::Layout { found: *found, known: VERSION }
        }
        (None, Some((_, Unusable::Word(name, number)))) => {
            Unreadable::Damaged(format!("its {name} cannot be {number:#x}"))
        }
        (None, None) => Unreadable::NoYard,
    })
}

fn committed((_, look): &(Front, YardLook)) -> u64 {
    look.counter(Word::TopAt).map_or(0, |top| top.high)
}
