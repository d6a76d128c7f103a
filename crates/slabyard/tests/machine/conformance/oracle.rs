//! The oracle: which addresses are handed out, and how far each reaches.

use slabyard_testkit::Random;
use std::collections::BTreeMap;

/// Where an allocation lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    Slab,
    Run,
    Mapping,
}

/// One allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    pub address: usize,
    /// Usable bytes: no other allocation may have one of them.
    pub bytes: usize,
    pub kind: BlockKind,
}

/// All allocations that are handed out.
#[derive(Default)]
pub struct Oracle {
    held: BTreeMap<usize, Allocation>,
    /// Keys of `held`, for a fair choice.
    addresses: Vec<usize>,
    /// Freed inside of a slow path, and still to be freed by the yard.
    pub deferred: Vec<Allocation>,
}

/// What the oracle expects the yard to count.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub objects: u64,
    pub object_bytes: u64,
    pub runs: u64,
    pub run_bytes: u64,
    pub mappings: u64,
    pub mapped_bytes: u64,
}

impl Oracle {
    /// Something is handed out: no byte of it may be of another allocation.
    pub fn give(&mut self, new: Allocation) {
        let end = new.address + new.bytes;
        let below = self.held.range(..end).next_back().map(|(_, held)| *held);
        for other in below.iter().chain(&self.deferred) {
            assert!(
                other.address >= end || other.address + other.bytes <= new.address,
                "{new:x?} was handed out, and {other:x?} is still held"
            );
        }
        self.held.insert(new.address, new);
        self.addresses.push(new.address);
    }

    /// Takes any allocation out, to free or resize it.
    pub fn take(&mut self, random: &mut Random) -> Option<Allocation> {
        if self.addresses.is_empty() {
            return None;
        }
        let nth = random.below(self.addresses.len());
        let address = self.addresses.swap_remove(nth);
        self.held.remove(&address)
    }

    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// What the yard still owns to us, deferred frees included.
    pub fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        for held in self.held.values().chain(&self.deferred) {
            let (n, bytes) = match held.kind {
                BlockKind::Slab => (&mut sums.objects, &mut sums.object_bytes),
                BlockKind::Run => (&mut sums.runs, &mut sums.run_bytes),
                BlockKind::Mapping => (&mut sums.mappings, &mut sums.mapped_bytes),
            };
            *n += 1;
            *bytes += held.bytes as u64;
        }
        sums
    }
}
