//! Events of the machine while a trace is replayed: CPUs go offline and come online, caches are
//! shrunk.
//!
//! - A CPU that goes offline releases everything that it held, as a kernel does for each cache of a
//!   dead CPU. Its slab and its partial slabs move to their nodes' lists, the objects in its
//!   sheaves (under SLAB, in its array) to their slabs, its page lists to the buddy allocator. Its
//!   tasks move to other CPUs ([`super::tasks`]).
//! - A CPU that comes online holds no slabs, and takes tasks as they wake. A CPU whose first event
//!   is to come online was offline at the start ([`super::start`]).
//! - A shrink is `kmem_cache_shrink` of every cache: CPUs are flushed, empty slabs are freed,
//!   nodes' lists are sorted. A trace does not say which objects a kernel's shrinkers would free,
//!   so these objects stay.
//!
//! [`super::replay`] runs each event before the first step of the same or a later time. Invariant:
//! events are in order of time, and at least one CPU is always online ([`check`]).

/// What can happen to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineEvent {
    /// A CPU goes.
    Offline(u16),
    /// A CPU comes.
    Online(u16),
    /// All caches are shrunk.
    Shrink,
    /// A cache is shrunk, as the traced kernel's was.
    ShrinkOf(u16),
}

/// Something that happens to the machine, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in nanoseconds since the trace began.
    pub at_ns: u64,
    /// What happens.
    pub what: MachineEvent,
}

/// Why events cannot happen to a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImpossibleEvent {
    /// There is no such CPU.
    #[error(
        "CPU {0} is none of the machine's {1}, which are numbered from 0; --cpus gives it more"
    )]
    NoCpu(u16, usize),
    /// The CPU is online already, or offline already.
    #[error("CPU {0} is {1} already at that time")]
    Already(u16, &'static str),
    /// No CPU is left.
    #[error("CPU {0} is the last one; a machine needs one")]
    Last(u16),
}

/// CPUs that are online at the start: all but those whose first event is to come online.
#[must_use]
pub fn there_at_start(events: &[Event], nr_cpus: usize) -> Vec<bool> {
    let first = |cpu: usize| {
        events.iter().find_map(|event| match event.what {
            MachineEvent::Offline(of) | MachineEvent::Online(of) if usize::from(of) == cpu => {
                Some(event.what)
            }
            _ => None,
        })
    };
    (0..nr_cpus).map(|cpu| !matches!(first(cpu), Some(MachineEvent::Online(_)))).collect()
}

/// Looks whether these events, in order of time, can happen to a machine.
///
/// # Errors
/// The first one that cannot.
pub fn check(events: &[Event], nr_cpus: usize) -> Result<(), ImpossibleEvent> {
    let mut there = there_at_start(events, nr_cpus);
    if let Some(MachineEvent::Online(cpu)) = events.first().map(|event| event.what)
        && !there.contains(&true)
    {
        return Err(ImpossibleEvent::Last(cpu));
    }
    for event in events {
        let (cpu, comes, already) = match event.what {
            MachineEvent::Shrink | MachineEvent::ShrinkOf(_) => continue,
            MachineEvent::Offline(cpu) => (cpu, false, "gone"),
            MachineEvent::Online(cpu) => (cpu, true, "there"),
        };
        let is_there =
            there.get_mut(usize::from(cpu)).ok_or(ImpossibleEvent::NoCpu(cpu, nr_cpus))?;
        if std::mem::replace(is_there, comes) == comes {
            return Err(ImpossibleEvent::Already(cpu, already));
        }
        if !there.contains(&true) {
            return Err(ImpossibleEvent::Last(cpu));
        }
    }
    Ok(())
}

impl MachineEvent {
    /// True if the set of CPUs changes with it.
    #[must_use]
    pub fn is_of_cpus(self) -> bool {
        matches!(self, MachineEvent::Offline(_) | MachineEvent::Online(_))
    }
}

#[cfg(test)]
mod tests {
    use super::MachineEvent::{Offline, Online, Shrink};
    use super::*;

    fn events(all: &[MachineEvent]) -> Vec<Event> {
        (0..).zip(all).map(|(at_ns, what)| Event { at_ns, what: *what }).collect()
    }

    #[test]
    fn a_cpu_that_comes_first_was_not_there() {
        let all = events(&[Shrink, Online(2), Offline(2), Offline(0), Online(0)]);
        assert_eq!(there_at_start(&all, 4), [true, true, false, true]);
        assert_eq!(check(&all, 4), Ok(()));
    }

    #[test]
    fn what_cannot_happen_is_told() {
        let wrong =
            |all: &[MachineEvent], cpus| check(&events(all), cpus).expect_err("it cannot happen");
        assert_eq!(wrong(&[Offline(4)], 4), ImpossibleEvent::NoCpu(4, 4));
        assert_eq!(wrong(&[Offline(1), Offline(1)], 4), ImpossibleEvent::Already(1, "gone"));
        assert_eq!(wrong(&[Online(1), Online(1)], 4), ImpossibleEvent::Already(1, "there"));
        assert_eq!(wrong(&[Offline(0), Offline(1)], 2), ImpossibleEvent::Last(1));
        assert_eq!(wrong(&[Online(0)], 1), ImpossibleEvent::Last(0));
    }
}
