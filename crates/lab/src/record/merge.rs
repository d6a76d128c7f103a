//! Merges the events of all CPUs in order of time.
//!
//! Each CPU's reader says up to which time it has delivered all events; events before the earliest
//! of these times are complete and are passed on. Invariant: only events since that earliest time
//! are held.

use super::reader::Batch;
use crate::event::Event;
use crate::trace::{NO_NAME, Names};
use std::collections::HashMap;

/// Events that wait for those of other CPUs.
pub struct Merge {
    cpus: HashMap<u16, Cpu>,
}

struct Cpu {
    events: Vec<Event>,
    until: u64,
    /// Of the CPU's own numbers.
    names: Vec<u32>,
}

impl Merge {
    pub fn new(cpus: impl Iterator<Item = u16>) -> Merge {
        let cpu = |cpu| (cpu, Cpu { events: Vec::new(), until: 0, names: vec![NO_NAME] });
        Merge { cpus: cpus.map(cpu).collect() }
    }

    /// Takes a batch.
    pub fn add(&mut self, batch: Batch, names: &mut Names) {
        let Some(cpu) = self.cpus.get_mut(&batch.cpu) else { return };
        cpu.names.extend(batch.names.iter().map(|name| names.intern(name)));
        let numbers = &cpu.names;
        let rename = |event: Event| event.renamed(|name| numbers[name as usize]);
        cpu.events.extend(batch.events.into_iter().map(rename));
        cpu.until = cpu.until.max(batch.until);
    }

    /// What is complete, in order; events of the same time in that of their CPUs.
    pub fn complete(&mut self, ordered: &mut Vec<Event>) {
        let until = self.cpus.values().map(|cpu| cpu.until).min().unwrap_or(0);
        let mut cpus: Vec<u16> = self.cpus.keys().copied().collect();
        cpus.sort_unstable();
        for cpu in cpus {
            let Some(cpu) = self.cpus.get_mut(&cpu) else { continue };
            let n = cpu.events.partition_point(|event| event.time < until);
            ordered.extend(cpu.events.drain(..n));
        }
        // Runs that are in order each: the sort merges them.
        ordered.sort_by_key(|event| event.time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;

    fn batch(cpu: u16, times: &[u64], until: u64) -> Batch {
        let kind = EventKind::CacheFree;
        let event =
            |time: &u64| Event { kind, cpu, time: *time, address: 0x1000, name: 1, ..Event::BLANK };
        let names = if until < 100 { vec![format!("cache{cpu}").into()] } else { vec![] };
        Batch { cpu, events: times.iter().map(event).collect(), names, until, lost: 0 }
    }

    #[test]
    fn nothing_goes_on_before_every_cpu_has_told() {
        let mut merge = Merge::new([0, 1].into_iter());
        let (mut names, mut ordered) = (Names::new(), Vec::new());
        merge.add(batch(0, &[1, 5, 9], 10), &mut names);
        merge.complete(&mut ordered);
        assert_eq!(ordered, []);
        merge.add(batch(1, &[2, 6, 30], 31), &mut names);
        merge.complete(&mut ordered);
        let told: Vec<(u64, &str)> = ordered.iter().map(|e| (e.time, names.get(e.name))).collect();
        let want = [(1, "cache0"), (2, "cache1"), (5, "cache0"), (6, "cache1"), (9, "cache0")];
        assert_eq!(told, want);
        ordered.clear();
        merge.add(batch(0, &[], u64::MAX), &mut names);
        merge.add(batch(1, &[40], u64::MAX), &mut names);
        merge.complete(&mut ordered);
        assert_eq!(ordered.iter().map(|e| e.time).collect::<Vec<_>>(), [30, 40]);
    }
}
