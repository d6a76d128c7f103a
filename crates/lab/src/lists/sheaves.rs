//! Reads which objects are in a cache's sheaves.
//!
//! [`super::walk`] reads them before and after the lists, and accepts a look in which both are equal.
//! Invariant: each sheaf that is read belongs to the cache and holds no more than its capacity.

use super::error::{ChangedMeanwhile, Unreadable};
use super::layout::{BarnPlace, Layout, SheafLayout};
use super::memory::{ADDRESS, Memory, u32_at, u64_at};
use super::{Barn, CpuSheaves, Sheaf};

/// Full sheaves that a barn may have: links that lead in a circle end there. The kernel's limit is
/// 10, which races pass by a few.
const MOST_FULL: usize = 1 << 10;
/// No sheaf has more objects.
const MOST_OBJECTS: u32 = 1 << 12;

/// Where a cache's sheaves are.
#[derive(Clone, Default)]
pub(super) struct Places {
    cache: u64,
    /// The address of what each CPU has.
    cpus: Vec<u64>,
    /// The barn of each node; 0 without one.
    barns: Vec<u64>,
    /// Objects in a full one; 0 without sheaves.
    capacity: u32,
}

/// What a cache's sheaves and barns hold.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Sheaves {
    pub(super) cpus: Vec<CpuSheaves>,
    pub(super) barns: Vec<Barn>,
}

impl Places {
    /// Of a cache, whose first bytes and nodes were read.
    pub(super) fn of(
        memory: &mut dyn Memory,
        layout: &Layout,
        (cache, bytes): (u64, &[u8]),
        nodes: &[u64],
        cpu_offsets: &[u64],
    ) -> Result<Places, ChangedMeanwhile> {
        let Some(of) = &layout.sheaves else { return Ok(Places::default()) };
        let (capacity, variable) = (u32_at(bytes, of.capacity), u64_at(bytes, of.variable));
        if capacity == 0 || variable == 0 {
            return Ok(Places::default());
        }
        if capacity > MOST_OBJECTS {
            return Err(ChangedMeanwhile);
        }
        let stride = u64::from(layout.cache.node_stride);
        let barn = |(nth, node): (u64, &u64)| match of.barn {
            _ if *node == 0 => Ok(0),
            BarnPlace::OfNode(at) => memory.word(node + u64::from(at)),
            BarnPlace::OfCache(at) => memory.word(cache + u64::from(at) + stride * nth),
        };
        let barns = (0..).zip(nodes).map(barn).collect::<Result<_, Unreadable>>()?;
        let cpus = cpu_offsets.iter().map(|offset| variable.wrapping_add(*offset)).collect();
        Ok(Places { cache, cpus, barns, capacity })
    }

    /// What they hold now.
    pub(super) fn read(
        &self,
        memory: &mut dyn Memory,
        layout: &SheafLayout,
    ) -> Result<Sheaves, ChangedMeanwhile> {
        let mut found = Sheaves::default();
        for (cpu, at) in (0..).zip(&self.cpus) {
            let [main, spare, rcu_free] = layout.of_cpu;
            let mut of = |field: u32| match memory.word(at + u64::from(field))? {
                0 => Ok(None),
                address => self.sheaf(memory, layout, address).map(|(sheaf, _)| Some(sheaf)),
            };
            let main = of(main)?.unwrap_or_default();
            found.cpus.push(CpuSheaves { cpu, main, spare: of(spare)?, rcu_free: of(rcu_free)? });
        }
        for barn in &self.barns {
            let barn = match *barn {
                0 => Barn::default(),
                at => self.barn(memory, layout, at)?,
            };
            found.barns.push(barn);
        }
        Ok(found)
    }

    fn barn(
        &self,
        memory: &mut dyn Memory,
        layout: &SheafLayout,
        at: u64,
    ) -> Result<Barn, ChangedMeanwhile> {
        let head = at + u64::from(layout.full);
        let mut full = Vec::new();
        let (mut before, mut link) = (head, memory.word(head)?);
        while link != head {
            let address = link.wrapping_sub(layout.list.into());
            let (objects, [next, previous]) = self.sheaf(memory, layout, address)?;
            if previous != before || full.len() >= MOST_FULL {
                return Err(ChangedMeanwhile);
            }
            (before, link) = (link, next);
            full.push(objects);
        }
        let counted = memory.int(at + u64::from(layout.nr_full))?;
        let empty = memory.int(at + u64::from(layout.nr_empty))?;
        if counted as usize == full.len() {
            Ok(Barn { full, empty })
        } else {
            Err(ChangedMeanwhile)
        }
    }

    /// The objects in a sheaf, and its links.
    fn sheaf(
        &self,
        memory: &mut dyn Memory,
        layout: &SheafLayout,
        at: u64,
    ) -> Result<(Sheaf, [u64; 2]), ChangedMeanwhile> {
        let mut bytes = vec![0; layout.objects as usize + 8 * self.capacity as usize];
        memory.read(at, &mut bytes)?;
        let size = u32_at(&bytes, layout.size);
        if u64_at(&bytes, layout.cache) != self.cache || size > self.capacity {
            return Err(ChangedMeanwhile);
        }
        let objects = (0..size).map(|nth| u64_at(&bytes, layout.objects + 8 * nth) & ADDRESS);
        let links = [0, 8].map(|nth| u64_at(&bytes, layout.list + nth));
        Ok((objects.collect(), links))
    }
}
