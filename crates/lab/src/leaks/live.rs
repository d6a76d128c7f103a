//! The live objects of a pass, by address, in bounded memory.
//!
//! When there are more than the limit, those whose address has a hash with another bit set are left
//! out, from then on and of those that are held: an object is followed from its allocation to its
//! free, or not at all. (Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015,
//! sample addresses in this way.)

use std::collections::HashMap;

/// When and by whom an object was allocated.
#[derive(Clone, Copy)]
pub(super) struct Birth {
    /// The number of its call site and cache.
    pub group: u32,
    pub pid: u32,
    pub time: u64,
    pub bytes: u32,
}

pub(super) struct Live {
    births: HashMap<u64, Birth>,
    most: usize,
    /// Low bits of the hash that must be 0.
    bits: u32,
}

impl Live {
    pub(super) fn new(most: usize) -> Live {
        Live { births: HashMap::new(), most: most.max(1), bits: 0 }
    }

    pub(super) fn insert(&mut self, address: u64, birth: Birth) {
        if !followed(address, self.bits) {
            return;
        }
        self.births.insert(address, birth);
        while self.births.len() > self.most && self.bits < 32 {
            self.bits += 1;
            let bits = self.bits;
            self.births.retain(|address, _| followed(*address, bits));
        }
    }

    pub(super) fn remove(&mut self, address: u64) -> Option<Birth> {
        self.births.remove(&address)
    }

    pub(super) fn births(&self) -> impl Iterator<Item = &Birth> {
        self.births.values()
    }

    /// Of how many addresses one is followed.
    pub(super) fn one_in(&self) -> u64 {
        1 << self.bits
    }
}

/// The hash multiplies by 2^64 divided by the golden ratio, and takes the high bits (Knuth, The Art
/// of Computer Programming, volume 3, 6.4).
fn followed(address: u64, bits: u32) -> bool {
    let hash = (address >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    hash & ((1 << bits) - 1) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_objects_than_the_limit_are_sampled_evenly() {
        let mut live = Live::new(1000);
        for object in 0..100_000u64 {
            let birth = Birth { group: 0, pid: 1, time: object, bytes: 64 };
            live.insert(0x8880_0000_0000 + object * 64, birth);
        }
        let estimate = live.births().count() as u64 * live.one_in();
        assert!(live.births().count() <= 1000 && live.one_in() >= 100);
        assert!((90_000..110_000).contains(&estimate), "{estimate}");
        for object in 0..100_000u64 {
            live.remove(0x8880_0000_0000 + object * 64);
        }
        assert_eq!(live.births().count(), 0);
    }
}
