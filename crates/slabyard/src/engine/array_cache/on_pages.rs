//! Array caches of a yard: a CPU's array is its main stack, whose capacity is the array's limit.
//!
//! Neighbours: [`super::engine`] is the engine for one memory node, [`super::nodes`] the engine for
//! several; [`OfArrays`] has the differences.

use super::shared::Shared;
use super::{ArrayCaches, Arrays, array, lists};
use crate::engine::page_slabs::Ruled;
use crate::engine::slabs::Rules;
use crate::engine::{PageSlabs, Shape};
use crate::pages::Sheaf;
use crate::platform::Platform;
use crate::slab::Put;
use crate::sync::{AtomicUsize, Lock};

/// CPUs that a yard of private slots is taken to have: a slot is a thread's, and of those few run
/// at a time.
const PRIVATE_ROWS: usize = 8;

/// The rules of slabs with array caches in front of them.
pub trait OfArrays: Ruled {
    /// What the cache has at the node.
    fn arrays(&self) -> &ArrayCaches;

    /// CPUs of the node, of this many of the machine.
    fn share<P: Platform>(_on: PageSlabs<'_, P, Self>, rows: usize) -> usize {
        rows
    }

    fn alien(&self, _home: &Self) -> Option<&Lock<Shared<u32>>> {
        None
    }
}

/// What a cache has at its node, as the rules of its slabs.
#[derive(Clone, Copy)]
pub struct Of<'a>(pub(super) &'a ArrayCaches);

impl Ruled for Of<'_> {
    const RULES: Rules = Rules::SLABYARD;

    fn alloc_below<P: Platform>(on: PageSlabs<'_, P, Self>) -> Option<usize> {
        array::alloc_direct(on)
    }

    fn freed<P: Platform>(on: PageSlabs<'_, P, Self>, _shape: &Shape, slab: u32, put: &Put) {
        lists::freed(on, slab, put);
    }

    fn free_below<P: Platform>(on: PageSlabs<'_, P, Self>, address: usize) {
        on.free_direct(address);
        lists::trim(on);
    }
}

impl OfArrays for Of<'_> {
    fn arrays(&self) -> &ArrayCaches {
        self.0
    }
}

impl<P: Platform, R: OfArrays> Arrays for PageSlabs<'_, P, R> {
    fn node(&self) -> &ArrayCaches {
        self.rules.arrays()
    }

    fn nr_cpus(self) -> u32 {
        let (rows, p) = (self.heap.platform.rows().len(), &self.heap.platform);
        let rows = if p.rows().are_private() { rows.min(PRIVATE_ROWS) } else { rows };
        R::share(self, rows) as u32
    }

    fn alien(&self, home: Self) -> Option<&Lock<Shared<u32>>> {
        // Both are of this cache's engine, which the answer borrows.
        self.rules.alien(&home.rules)
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
