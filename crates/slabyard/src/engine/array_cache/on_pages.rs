//! Array caches of a yard: a CPU's array is its main stack, whose capacity is the array's limit.
//!
//! Neighbour: [`super::engine`] works on these arrays.

use super::node::Shared;
use super::{Arrays, NodeArrays, array, lists};
use crate::engine::Shape;
use crate::engine::nodes::{AtNode, MOST_NODES, NodeSettings, OnNode};
use crate::pages::Sheaf;
use crate::pages::sheaf::NO_SHEAF;
use crate::platform::Platform;
use crate::slab::Put;
use crate::sync::{AtomicUsize, Lock, Rank};

/// CPUs that a yard of private slots is taken to have: a slot is a thread's, and of those few run
/// at a time.
const PRIVATE_ROWS: usize = 8;

/// What a cache has at one node, and what its CPUs have of the objects of each other one.
pub struct ArraysAndAliens {
    pub(super) own: NodeArrays,
    pub(super) aliens: [Lock<Shared<u32>>; MOST_NODES],
}

impl AtNode for ArraysAndAliens {
    const NEW: Self = ArraysAndAliens {
        own: NodeArrays::new(NO_SHEAF),
        aliens: [const { Lock::new(Rank::Barn, Shared::aside(NO_SHEAF)) }; MOST_NODES],
    };
    const SETTINGS: NodeSettings = NodeSettings::SLAB;

    fn keep<P: Platform>(on: OnNode<'_, P, Self>, sheaf: Sheaf) {
        array::keep(on, sheaf);
    }

    fn freed<P: Platform>(on: OnNode<'_, P, Self>, _shape: &Shape, slab: u32, put: &Put) {
        lists::freed(on, slab, put);
    }

    fn alloc_below<P: Platform>(on: OnNode<'_, P, Self>) -> Option<usize> {
        array::alloc_direct(on)
    }

    fn free_below<P: Platform>(on: OnNode<'_, P, Self>, address: usize) {
        on.free_direct(address);
        lists::trim(on);
    }

    fn take_listed<P: Platform>(on: OnNode<'_, P, Self>) -> Option<usize> {
        lists::take_one_listed(on)
    }
}

impl<P: Platform> Arrays for OnNode<'_, P, ArraysAndAliens> {
    fn node(&self) -> &NodeArrays {
        &self.rules.state().own
    }

    fn nr_cpus(self) -> u32 {
        let (rows, p) = (self.heap.platform.rows().len(), &self.heap.platform);
        let rows = if p.rows().are_private() { rows.min(PRIVATE_ROWS) } else { rows };
        if self.heap.region.nodes() == 1 {
            return rows as u32;
        }
        let is_here = |row: &usize| self.heap.node_of_row(Some(*row)) == self.rules.node;
        (0..rows).filter(is_here).count() as u32
    }

    fn alien(&self, home: Self) -> Option<&Lock<Shared<u32>>> {
        self.rules.has_aliens().then(|| &self.rules.state().aliens[home.rules.node])
    }

    fn touch(self, array: Option<&Sheaf>) -> bool {
        // A pass takes arrays away that nobody touched.
        array.is_some()
    }

    fn append(self, array: &mut Sheaf, objects: &[AtomicUsize]) {
        self.heap.sheaves.append(array, objects);
    }

    fn drop_oldest(self, array: &mut Sheaf, objects: u32) {
        self.heap.sheaves.drop_oldest(array, objects);
    }
}
