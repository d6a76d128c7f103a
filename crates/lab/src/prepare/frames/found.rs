//! The slabs that the first pass over a trace found, numbered.
//!
//! [`super::Walk`] finds them, and asks here in the second pass. Invariant: initial slabs come
//! first, and each part is in order of opening.

use super::super::error::Error;
use super::super::numbers::{NO_NUMBER, Numbering};
use super::super::oddities::Oddities;
use super::slab::Slab;
use super::table::frames_of;
use std::collections::HashMap;
use std::sync::Arc;

/// The slabs of a trace, found by a first pass over it, so that a later pass knows of a slab's
/// pages what becomes of them.
#[derive(Debug)]
pub(crate) struct KnownSlabs {
    /// Initial slabs first, each part in order of opening.
    pub(crate) slabs: Arc<Vec<Slab>>,
    /// Which of all allocated pages, in their order, belong to a slab.
    pub(super) of_slabs: Bits,
    /// Which of those existed when the cache's steps begin.
    pub(super) initial: Bits,
    pub(super) nr_initial: u32,
    /// The initial slab of each frame in which an object was freed before the trace showed it.
    pub(super) waited: HashMap<u64, u32>,
}

/// Frees by address alone in a frame that the trace had not shown.
pub(super) struct PendingFrees {
    pub(super) frees: u64,
    pub(super) first_at: u64,
}

impl KnownSlabs {
    /// Those that were found, each with its place among all allocated pages, of which there were
    /// `nr_opened`.
    pub(super) fn of(
        mut found: Vec<(u32, Slab)>,
        waiting: HashMap<u64, PendingFrees>,
        nr_opened: u32,
        numbering: Numbering,
        oddities: &mut Oddities,
    ) -> Result<KnownSlabs, Error> {
        found.sort_unstable_by_key(|(ordinal, slab)| (!slab.initial, *ordinal));
        let mut of_slabs = Bits::of(nr_opened);
        found.iter().for_each(|(ordinal, _)| of_slabs.set(*ordinal));
        let mut initial = Bits::of(nr_opened);
        let before = found.iter().filter(|(_, slab)| slab.initial);
        before.for_each(|(ordinal, _)| initial.set(*ordinal));
        let mut slabs: Vec<Slab> = found.into_iter().map(|(_, slab)| slab).collect();
        let nr_initial = slabs.partition_point(|slab| slab.initial) as u32;
        let mut waited = HashMap::new();
        for (number, slab) in (0..nr_initial).zip(&mut slabs) {
            for frame in frames_of(slab.frame, slab.order) {
                if waiting.contains_key(&frame) {
                    waited.insert(frame, number);
                }
            }
        }
        for (frame, PendingFrees { frees, first_at }) in waiting {
            match waited.get(&frame) {
                Some(number) => {
                    let opened_at = &mut slabs[*number as usize].opened_at;
                    *opened_at = (*opened_at).min(first_at);
                }
                None => oddities.unplaced += frees,
            }
        }
        number_objects(&mut slabs, numbering)?;
        let slabs = Arc::new(slabs);
        Ok(KnownSlabs { slabs, of_slabs, initial, nr_initial, waited })
    }
}

fn number_objects(slabs: &mut [Slab], numbering: Numbering) -> Result<(), Error> {
    let mut next = 0u32;
    for slab in slabs {
        if !slab.initial && numbering == Numbering::Again {
            slab.first_object = NO_NUMBER;
            continue;
        }
        slab.first_object = next;
        let after = next.checked_add(slab.objects);
        next = after.ok_or(Error::TooLong("objects of all slabs"))?;
    }
    Ok(())
}

/// A bit for each of some numbers.
#[derive(Debug)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    fn of(numbers: u32) -> Bits {
        Bits(vec![0; numbers.div_ceil(64) as usize])
    }

    fn set(&mut self, number: u32) {
        self.0[number as usize / 64] |= 1 << (number % 64);
    }

    pub(super) fn has(&self, number: u32) -> bool {
        self.0.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}
