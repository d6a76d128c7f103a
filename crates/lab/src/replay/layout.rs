//! Lays out the initial slabs for any machine's geometry.
//!
//! A kernel with slabs of another size would have held the same objects, and its tasks would have
//! freed the same ones. Objects that were neighbours in the traced slabs stay neighbours. The slabs
//! of a list are concatenated in the list's order, including holes (free objects), and cut into
//! pieces of as many objects as the machine's slabs have. So a larger slab has all holes of the
//! slabs that it is made from, and a smaller slab has its share; pieces without a live object count
//! as freed. The last piece may be shorter than a slab: the rest of its slab is free, as in a CPU
//! slab that is being filled.
//!
//! If the slabs have the traced size, each piece is a slab, so settings that change nothing yield
//! exactly the traced kernel's initial state.
//!
//! [`super::lists`] finds the lists, and puts the pieces on them. Invariant: the live objects are
//! those of the traced slabs, each exactly once.

use crate::prepare::Prepared;

/// A slab of the machine before it is begun, with the objects that it begins with.
pub(super) struct PlannedSlab {
    /// The traced slab that it begins in; `None` of one that no event shows.
    pub(super) first: Option<u32>,
    /// The objects that are live in it.
    pub(super) live: Vec<u32>,
    /// Its free objects.
    pub(super) free: u32,
}

/// Cuts traced slabs into slabs of `objects`.
pub(super) fn cut(prepared: &Prepared, slabs: &[u32], objects: u32) -> Vec<PlannedSlab> {
    let mut pieces: Vec<PlannedSlab> = Vec::new();
    let mut room = 0;
    for slab in slabs {
        for object in prepared.slabs[*slab as usize].objects_range() {
            if room == 0 {
                pieces.push(PlannedSlab { first: Some(*slab), live: Vec::new(), free: objects });
                room = objects;
            }
            room -= 1;
            let piece = pieces.last_mut().expect("one was made");
            if prepared.live_at_start[object] {
                piece.live.push(object as u32);
                piece.free -= 1;
            }
        }
    }
    pieces
}

/// Slabs that the snapshot counts and the trace does not show, as other slabs: how many, and
/// their free objects in all.
pub(super) fn cut_unseen(slabs: u32, free: u32, traced: u32, objects: u32) -> (u32, u32) {
    let all = slabs.saturating_mul(traced);
    let live = all.saturating_sub(free);
    if traced == objects {
        return (slabs, all - live);
    }
    // Empty ones are given back.
    let slabs = all.div_ceil(objects).min(live);
    (slabs, slabs.saturating_mul(objects).saturating_sub(live))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::{NO_CACHE, Slab, Steps, Tally};
    use std::sync::Arc;

    /// Slabs of four objects, each with its live ones as bits.
    fn prepared(live: &[u8]) -> Prepared {
        let slab = |nth: usize| Slab {
            frame: nth as u64,
            first_object: nth as u32 * 4,
            objects: 4,
            cache: NO_CACHE,
            ..Slab::ONE
        };
        Prepared {
            caches: Vec::new(),
            slabs: Arc::new((0..live.len()).map(slab).collect()),
            steps: Steps::default(),
            live_at_start: live
                .iter()
                .flat_map(|bits| (0..4).map(move |n| bits >> n & 1 == 1))
                .collect(),
            untold: vec![0; live.len()],
            known: Vec::new(),
            readers: Default::default(),
            grace: Default::default(),
            tally: Tally::default(),
            span: 0..=0,
            oddities: Default::default(),
        }
    }

    fn cut_of(live: &[u8], objects: u32) -> Vec<(Vec<u32>, u32)> {
        let slabs: Vec<u32> = (0..live.len() as u32).collect();
        let pieces = cut(&prepared(live), &slabs, objects);
        pieces.into_iter().map(|piece| (piece.live, piece.free)).collect()
    }

    #[test]
    fn as_traced_each_slab_is_a_piece() {
        assert_eq!(cut_of(&[0b0101, 0b1000], 4), [(vec![0, 2], 2), (vec![7], 3)]);
    }

    #[test]
    fn smaller_slabs_are_parts_and_larger_ones_have_the_holes_of_all() {
        let halves = [(vec![0], 1), (vec![2], 1), (vec![], 2), (vec![7], 1)];
        assert_eq!(cut_of(&[0b0101, 0b1000], 2), halves);
        assert_eq!(cut_of(&[0b0101, 0b1000, 0b0001], 8), [(vec![0, 2, 7], 5), (vec![8], 7)]);
    }

    #[test]
    fn what_the_snapshot_counts_keeps_its_live_objects() {
        assert_eq!(cut_unseen(5, 8, 4, 4), (5, 8));
        assert_eq!(cut_unseen(5, 8, 4, 16), (2, 20));
        assert_eq!(cut_unseen(5, 18, 4, 1), (2, 0));
        assert_eq!(cut_unseen(0, 0, 4, 8), (0, 0));
    }
}
