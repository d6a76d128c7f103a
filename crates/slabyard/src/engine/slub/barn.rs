//! The barn: full and empty sheaves of one cache on one node, exchanged whole.

use super::Cache;
use crate::page::sheaf::NO_SHEAF;
use crate::page::{Ground, Sheaf};
use crate::platform::Platform;
use crate::sync::Ordering;

/// Most full sheaves of a barn. SLUB 6.18 has 10 of 32 objects; ours are much larger.
const MOST_FULL: u32 = 2;
/// Most empty sheaves of a barn.
const MOST_EMPTY: u32 = 2;

pub(super) struct Barn {
    full: u32,
    nr_full: u32,
    /// Least `nr_full` since the last tick: sheaves that nobody wanted (the
    /// depot's working set of Bonwick and Adams, USENIX 2001).
    least_full: u32,
    empty: u32,
    nr_empty: u32,
}

impl Barn {
    pub(super) const fn new() -> Self {
        Barn { full: NO_SHEAF, nr_full: 0, least_full: 0, empty: NO_SHEAF, nr_empty: 0 }
    }
}

impl Cache {
    fn sheaf_bytes(&self) -> usize {
        let shape = self.shape();
        (shape.sheaf_capacity * shape.geometry.size) as usize
    }

    /// Exchanges an empty sheaf for a full one.
    ///
    /// # Errors
    /// Gives the empty one back if there is no full one.
    pub(super) fn barn_swap<P: Platform>(
        &self,
        g: &Ground<P>,
        empty: Sheaf,
    ) -> Result<Sheaf, Sheaf> {
        let mut barn = self.barn.lock(&g.platform);
        let Some(full) = g.sheaves.unlink(&mut barn.full) else { return Err(empty) };
        barn.nr_full -= 1;
        barn.least_full = barn.least_full.min(barn.nr_full);
        let surplus = if barn.nr_empty < MOST_EMPTY {
            g.sheaves.link(&mut barn.empty, empty);
            barn.nr_empty += 1;
            None
        } else {
            Some(empty)
        };
        drop(barn);
        g.parked_node_bytes.fetch_sub(self.sheaf_bytes(), Ordering::Relaxed);
        if let Some(empty) = surplus {
            g.sheaves.give(&g.platform, empty);
        }
        Ok(full)
    }

    /// Takes a full sheaf, if there is one.
    pub(super) fn barn_take_full<P: Platform>(&self, g: &Ground<P>) -> Option<Sheaf> {
        let mut barn = self.barn.lock(&g.platform);
        let sheaf = g.sheaves.unlink(&mut barn.full)?;
        barn.nr_full -= 1;
        barn.least_full = barn.least_full.min(barn.nr_full);
        drop(barn);
        g.parked_node_bytes.fetch_sub(self.sheaf_bytes(), Ordering::Relaxed);
        Some(sheaf)
    }

    /// Puts a full sheaf, and returns an empty one in its place.
    ///
    /// # Errors
    /// Gives the sheaf back if the barn or the yard holds enough, or no empty
    /// sheaf is to be had.
    pub(super) fn barn_put_full<P: Platform>(
        &self,
        g: &Ground<P>,
        full: Sheaf,
    ) -> Result<Sheaf, Sheaf> {
        let bytes = self.sheaf_bytes();
        if g.parked_node_bytes.load(Ordering::Relaxed) + bytes > Ground::<P>::NODE_LIMIT {
            return Err(full);
        }
        // A new sheaf may need a system call: it is made before the lock is taken
        // again, and given back if it is not wanted then.
        let mut new = None;
        let (mut barn, empty) = loop {
            let mut barn = self.barn.lock(&g.platform);
            if barn.nr_full >= MOST_FULL {
                drop(barn);
                if let Some(new) = new {
                    g.sheaves.give(&g.platform, new);
                }
                return Err(full);
            }
            if let Some(empty) = new.take() {
                break (barn, empty);
            }
            if let Some(empty) = g.sheaves.unlink(&mut barn.empty) {
                barn.nr_empty -= 1;
                break (barn, empty);
            }
            drop(barn);
            new = g.sheaves.take(&g.platform);
            if new.is_none() {
                return Err(full);
            }
        };
        g.sheaves.link(&mut barn.full, full);
        barn.nr_full += 1;
        drop(barn);
        g.parked_node_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(empty)
    }

    /// An empty sheaf, from the barn or new; `None` without memory.
    pub(super) fn barn_take_empty<P: Platform>(&self, g: &Ground<P>) -> Option<Sheaf> {
        let mut barn = self.barn.lock(&g.platform);
        if let Some(sheaf) = g.sheaves.unlink(&mut barn.empty) {
            barn.nr_empty -= 1;
            return Some(sheaf);
        }
        drop(barn);
        g.sheaves.take(&g.platform)
    }

    /// Takes an empty sheaf back.
    pub(super) fn barn_put_empty<P: Platform>(&self, g: &Ground<P>, sheaf: Sheaf) {
        let mut barn = self.barn.lock(&g.platform);
        if barn.nr_empty < MOST_EMPTY {
            g.sheaves.link(&mut barn.empty, sheaf);
            barn.nr_empty += 1;
            return;
        }
        drop(barn);
        g.sheaves.give(&g.platform, sheaf);
    }

    /// Full sheaves that nobody wanted since the last call.
    pub(super) fn barn_unwanted<P: Platform>(&self, g: &Ground<P>) -> u32 {
        let mut barn = self.barn.lock(&g.platform);
        core::mem::replace(&mut barn.least_full, u32::MAX).min(barn.nr_full)
    }

    /// Gives the memory of empty sheaves back to the pool.
    pub(super) fn barn_forget_empty<P: Platform>(&self, g: &Ground<P>) {
        loop {
            let mut barn = self.barn.lock(&g.platform);
            let Some(sheaf) = g.sheaves.unlink(&mut barn.empty) else {
                return;
            };
            barn.nr_empty -= 1;
            drop(barn);
            g.sheaves.give(&g.platform, sheaf);
        }
    }

    /// Full sheaves in the barn.
    pub fn nr_full<P: Platform>(&self, g: &Ground<P>) -> u32 {
        self.barn.lock(&g.platform).nr_full
    }

    /// Calls `f` with each object in the barn.
    pub fn each_parked_node<P: Platform>(&self, g: &Ground<P>, f: impl FnMut(usize)) {
        let barn = self.barn.lock(&g.platform);
        g.sheaves.each_listed(barn.full, f);
    }
}
