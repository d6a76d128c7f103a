//! What each CPU holds of a modelled cache: its slab, its CPU partial list, its sheaves or arrays.
//!
//! Neighbours: [`super::slabs`] and [`super::on_cpu`] give the policy access to them.

use super::numbers::NONE;
use slabyard::engine::slabs::Held;
use std::cell::{Cell, RefCell};

/// What a CPU has of a cache, sheaves apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cpu {
    pub(crate) slab: Cell<u32>,
    /// Free objects of the slab that only this CPU may take.
    pub(crate) free: Cell<u32>,
    pub(crate) partial: Cell<CpuPartial>,
}

/// A CPU's list.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuPartial {
    pub(crate) head: u32,
    pub(crate) slabs: u32,
    /// Free objects as [`Rules::accounting`](super::Rules) counts them.
    pub(crate) objects: u32,
}

const _: () = assert!(NONE == 0, "what `default` has for no slab");

impl Held for CpuPartial {
    #[inline]
    fn len(&self) -> u32 {
        self.slabs
    }
}

/// A sheaf of numbers.
#[derive(Debug, Default)]
pub struct CountedSheaf(pub(crate) Vec<u32>);

impl Held for CountedSheaf {
    #[inline]
    fn len(&self) -> u32 {
        self.0.len() as u32
    }
}

#[derive(Default)]
pub(crate) struct CpuStacks {
    pub(crate) main: RefCell<Option<CountedSheaf>>,
    pub(crate) spare: RefCell<Option<CountedSheaf>>,
    /// What `kfree_rcu()` freed here.
    pub(crate) rcu_free: RefCell<CountedSheaf>,
    /// An array was allocated from since the last reap.
    pub(crate) touched: Cell<bool>,
    /// Reaps so far.
    pub(crate) reaps: Cell<u32>,
}
