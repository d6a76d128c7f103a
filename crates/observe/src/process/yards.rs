//! From a target's memory to a snapshot, whatever the target is.
//!
//! Neighbours: [`super::sample`] and [`crate::corefile`] above.

use super::find;
use super::front::{Front, Unusable};
use super::look::{self, Look};
use super::memory::{Fault, Memory};
use super::tell;
use crate::snapshot::{Missing, Snapshot, Source};
use crate::want::Want;
use slabyard_abi::region::{VERSION, Word};
use std::time::Instant;

/// Why there is no snapshot.
#[derive(Debug)]
pub(crate) enum Lost {
    /// Nothing begins with the magic.
    NoYard,
    /// Only yards of another version.
    Layout { found: u64, known: u64 },
    /// Only yards whose words cannot be.
    Damaged(String),
    /// The memory cannot be read.
    Fault(Fault),
}

impl From<Fault> for Lost {
    fn from(fault: Fault) -> Lost {
        Lost::Fault(fault)
    }
}

/// Samples the yard with the most committed bytes; names the others.
pub(crate) fn sample(memory: &dyn Memory, want: Want, source: Source) -> Result<Snapshot, Lost> {
    let began = Instant::now();
    let mut others = Vec::new();
    let (front, look) = largest(memory, want, &mut others)?;
    let mut snapshot = Snapshot::new(source);
    tell::tell(&front, &look, want.slabs, &mut snapshot);
    snapshot.missing.extend(others);
    snapshot.took_ns = u64::try_from(began.elapsed().as_nanos()).ok();
    Ok(snapshot)
}

/// The yard that a target runs on.
pub(crate) fn front(memory: &dyn Memory) -> Result<Front, Lost> {
    // Which of several is the largest, a look at each tells.
    let mut found = find::fronts(memory)?.fronts;
    if found.len() == 1
        && let Some(front) = found.pop()
    {
        return Ok(front);
    }
    Ok(largest(memory, Want::default(), &mut Vec::new())?.0)
}

fn largest(
    memory: &dyn Memory,
    want: Want,
    others: &mut Vec<Missing>,
) -> Result<(Front, Look), Lost> {
    let found = find::fronts(memory)?;
    let mut best: Option<(Front, Look)> = None;
    let mut lost = None;
    for front in found.fronts {
        let look = match look::look(memory, &front, want) {
            Ok(look) => look,
            Err(Fault::Absent(at)) => {
                others.push(Missing {
                    what: format!("the yard at {:#x}", front.at),
                    why: format!("it points to {at:#x}, where no memory is"),
                });
                lost = Some(Lost::Fault(Fault::Absent(at)));
                continue;
            }
            Err(why) => return Err(why.into()),
        };
        let new = (front, look);
        match &best {
            Some(old) if committed(old) >= committed(&new) => others.push(beside(&new)),
            _ => others.extend(best.replace(new).as_ref().map(beside)),
        }
    }
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
    best.ok_or_else(|| match (lost, found.unusable.first()) {
        (Some(lost), _) => lost,
        (None, Some((_, Unusable::Version(found)))) => {
            Lost::Layout { found: *found, known: VERSION }
        }
        (None, Some((_, Unusable::Word(name, number)))) => {
            Lost::Damaged(format!("its {name} cannot be {number:#x}"))
        }
        (None, None) => Lost::NoYard,
    })
}

fn committed((_, look): &(Front, Look)) -> u64 {
    look.counter(Word::TopAt).map_or(0, |top| top.high)
}

fn beside(yard: &(Front, Look)) -> Missing {
    Missing {
        what: format!("the yard at {:#x}", yard.0.at),
        why: format!(
            "a snapshot is of one yard, the one with the most committed memory; this one has \
             {} granules",
            committed(yard)
        ),
    }
}
