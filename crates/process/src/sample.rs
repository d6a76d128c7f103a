//! Samples a cache while other threads use it: reads its numbers within the process, without
//! locking, stopping threads or allocating. A number that changed meanwhile is reported as a range.
//!
//! ```text
//! words  tops  words  tops  words
//! ```
//! If the cache's words are equal at each reading, and as many slow paths ended as began, only the
//! fast path moved objects, and it changes only the stacks' tops. Stacks whose tops are equal at
//! both readings did not move; then live = out - parked is exact. A top that moved is known only
//! roughly; each slow path under way may hold objects of two stacks, or have moved them.
//!
//! Neighbours: `slabyard::engine::Header` defines the words, and their version rule, which this
//! module follows; readers in other processes sample the same words by the same rule
//! (`abi::region`). Invariants: a sample takes at most [`SAMPLE_ATTEMPTS`] times as long as reading
//! two entries of each row; each range contains the number's true value at some moment of the
//! sample.

use slabyard::cache::Cache;
use slabyard::engine::Engine;
use slabyard::platform::{GRANULE, Platform, Slot};
use slabyard::yard::Yard;
use slabyard_abi::region::CacheWord::{self, *};
use slabyard_abi::region::front;

/// Samples until one is exact; else the best of them counts.
const SAMPLE_ATTEMPTS: usize = 4;
/// Rows of which each top is compared by itself.
const NEAR_ROWS: usize = 32;

/// A number within bounds, both included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// It is at least this.
    pub low: u64,
    /// And at most this.
    pub high: u64,
}

impl Span {
    fn between(a: u64, b: u64) -> Span {
        Span { low: a.min(b), high: a.max(b) }
    }

    fn widened(self, by: u64) -> Span {
        Span { low: self.low.saturating_sub(by), high: self.high.saturating_add(by) }
    }

    fn at_most(self, most: u64) -> Span {
        Span { low: self.low.min(most), high: self.high.min(most) }
    }

    /// Both bounds times a factor.
    #[must_use]
    pub fn times(self, factor: u64) -> Span {
        Span { low: self.low.saturating_mul(factor), high: self.high.saturating_mul(factor) }
    }

    /// Exactly a number.
    #[must_use]
    pub const fn exact(n: u64) -> Span {
        Span { low: n, high: n }
    }

    /// Without this many.
    #[must_use]
    pub fn minus(self, other: Span) -> Span {
        Span { low: self.low.saturating_sub(other.high), high: self.high.saturating_sub(other.low) }
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Span) -> Span {
        Span { low: self.low.saturating_add(other.low), high: self.high.saturating_add(other.high) }
    }
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Its name, with zeros behind it.
    pub name: [u8; 32],
    /// Largest request that it serves.
    pub object_size: u64,
    /// Bytes from one object to the next.
    pub slab_size: u64,
    /// From one slab to the next: 2^`order` of the machine's pages.
    pub bytes_of_slab: u64,
    /// A slab is 2^order of the machine's pages.
    pub order: u64,
    /// Objects in a slab.
    pub objs_per_slab: u64,
    /// Objects in a full stack of a CPU's; 0 where CPUs have none.
    pub sheaf_capacity: u64,
    /// These are arrays (SLAB's), and no sheaves.
    pub has_arrays: bool,
    /// Empty slabs that it keeps.
    pub min_partial: u64,
    /// Slow paths begun, a wrapping number of 32 bits.
    pub slow_paths: u64,
    /// Full, partial and empty ones.
    pub slabs: Span,
    /// Objects in all slabs.
    pub total_objects: Span,
    /// Objects that left their slabs: live, parked or in transit.
    pub out: Span,
    /// Slabs on the list of partial ones.
    pub partial: Span,
    /// Objects handed out and not freed.
    pub live: Span,
    /// Free objects that CPUs keep.
    pub parked_cpu: Span,
    /// Free objects that the node keeps beside slabs.
    pub parked_node: Span,
    /// Free objects in slabs.
    pub free_partial: Span,
    /// Objects that slow paths may have had in their hands.
    pub in_transit: Span,
}

/// The words of a cache, as they were read once.
type Words = [u64; WORDS];
const WORDS: usize = Name3.index() + 1;

fn word(words: &Words, word: CacheWord) -> u64 {
    words[word.index()]
}

fn span([first, _, last]: &[Words; 3], name: CacheWord) -> Span {
    Span::between(word(first, name), word(last, name))
}

/// What one pass over the tops met.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tops {
    /// Objects of each of the first entries; [`UNKNOWN`] of a stopped stack.
    near: [u16; 2 * NEAR_ROWS],
    /// Objects behind these, and a number that tells their distribution from others.
    far: u64,
    far_mix: u64,
    nr_far: u64,
}

impl Tops {
    const NONE: Tops = Tops { near: [0; 2 * NEAR_ROWS], far: 0, far_mix: 0, nr_far: 0 };
}

/// A stack that is stopped, so that its entry does not tell its top.
const UNKNOWN: u16 = u16::MAX;

/// Samples the cache of a number. `None` if there is none, if it came or went meanwhile, and of
/// caches with CPU slabs, whose free objects are known to a quiesced yard alone.
pub fn sample<P: Platform, E: Engine>(yard: &Yard<P, E>, number: usize) -> Option<Sample> {
    let doubt = |sample: &Sample| sample.live.high - sample.live.low;
    let mut best = Sample::default();
    sample_once(yard, number, &mut best)?;
    for _ in 1..SAMPLE_ATTEMPTS {
        if doubt(&best) == 0 {
            break;
        }
        let mut next = Sample::default();
        sample_once(yard, number, &mut next)?;
        if doubt(&next) < doubt(&best) {
            best = next;
        }
    }
    Some(best)
}

// Apart, and by reference: callers may have small stacks.
#[inline(never)]
fn sample_once<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    number: usize,
    sample: &mut Sample,
) -> Option<()> {
    let id = yard.caches().id_of(number)?;
    let cache = yard.caches().find(id)?;
    let (mut words, mut tops) = ([[0; WORDS]; 3], [Tops::NONE; 2]);
    cache.words(&mut words[0]);
    read_tops(yard, cache, &mut tops[0]);
    cache.words(&mut words[1]);
    read_tops(yard, cache, &mut tops[1]);
    cache.words(&mut words[2]);
    // Its number may have another cache by now.
    yard.caches().find(id)?;
    if word(&words[0], Front) & !front::ARRAYS != 0 {
        return None;
    }
    let page_order = (yard.platform().page_bytes() / GRANULE).ilog2();
    fill(&words, &tops, page_order, sample);
    Some(())
}

/// Objects in the stacks of all rows.
#[inline(never)]
fn read_tops<P: Platform, E: Engine>(yard: &Yard<P, E>, cache: &Cache<E>, tops: &mut Tops) {
    let p = yard.platform();
    let shape = cache.shape();
    for row in p.rows().used() {
        for (nth, slot) in [shape.main(), shape.spare()].into_iter().enumerate() {
            let count = objects_in(yard, row, slot);
            if let Some(near) = tops.near.get_mut(2 * row + nth) {
                *near = count;
            } else if count > 0 {
                tops.nr_far += 1;
                tops.far += u64::from(if count == UNKNOWN { 0 } else { count });
                let of_entry = (row as u64) << 20 | u64::from(slot.0) << 40 | u64::from(count);
                tops.far_mix ^= of_entry.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            }
        }
    }
}

fn objects_in<P: Platform, E: Engine>(yard: &Yard<P, E>, row: usize, slot: Slot) -> u16 {
    let entry = yard.platform().rows().entry(row, slot);
    if entry.is_stopped() {
        return UNKNOWN;
    }
    let count = yard.heap.sheaves.count_of(entry.top()).unwrap_or(0);
    u16::try_from(count).unwrap_or(UNKNOWN)
}

#[inline(never)]
fn fill(words: &[Words; 3], [tops, again]: &[Tops; 2], page_order: u32, sample: &mut Sample) {
    let [first, middle, last] = words;
    let steady = first == middle && middle == last;
    let begun = |words: &Words| word(words, Version) as u32;
    let ended = |words: &Words| (word(words, Version) >> 32) as u32;
    let underway = u64::from(begun(last).wrapping_sub(ended(first)));

    let known = tops.near.iter().chain(&again.near).filter(|count| **count != UNKNOWN);
    let largest = known.max().copied().unwrap_or(0);
    let sheaf = word(last, SheafCapacity).max(largest.into());
    let in_stacks = parked(tops, again, sheaf);
    let stands = tops == again && !tops.near.contains(&UNKNOWN);

    let hull = |name: CacheWord| {
        let [a, b, c] = [word(first, name), word(middle, name), word(last, name)];
        Span { low: a.min(b).min(c), high: a.max(b).max(c) }
    };
    let (out, parked_node) = (hull(Out), hull(BarnObjects));
    let objects = |words: &Words| word(words, NrSlabs).saturating_mul(word(words, Objects));
    let transit = underway.saturating_mul(2 * sheaf).min(out.high);
    let held = out.minus(in_stacks.plus(parked_node));
    // Where nothing moves, what is in transit is missing from live, and no more.
    let live = if steady && stands {
        Span { low: held.low.saturating_sub(transit), high: held.high }
    } else {
        held.widened(transit)
    };
    let most = objects(first).max(objects(last)).max(out.high);
    for (bytes, word) in sample.name.as_chunks_mut().0.iter_mut().zip(&last[Name0.index()..]) {
        *bytes = u64::to_le_bytes(*word);
    }
    sample.object_size = word(last, ObjectSize);
    sample.slab_size = word(last, SlabSize);
    sample.bytes_of_slab = (GRANULE as u64) << word(last, Order).min(32);
    sample.order = word(last, Order).saturating_sub(page_order.into());
    sample.objs_per_slab = word(last, Objects);
    sample.sheaf_capacity = word(last, SheafCapacity);
    sample.has_arrays = word(last, Front) & front::ARRAYS != 0;
    sample.min_partial = word(last, MinPartial);
    sample.slow_paths = begun(last).into();
    // There were as many as were out of their slabs at any of the looks.
    sample.total_objects = Span { low: objects(first).min(objects(last)), high: most };
    sample.out = out;
    sample.slabs = span(words, NrSlabs);
    sample.partial = span(words, NrPartial);
    sample.live = live.at_most(most);
    sample.parked_cpu = in_stacks.at_most(most);
    sample.parked_node = parked_node;
    sample.free_partial = Span::between(objects(first), objects(last)).minus(out);
    sample.in_transit = Span { low: 0, high: transit };
}

/// Objects in stacks, from two passes over their tops.
fn parked(tops: &Tops, again: &Tops, sheaf: u64) -> Span {
    let near = tops.near.iter().zip(&again.near).map(|pair| match pair {
        (&UNKNOWN, _) | (_, &UNKNOWN) => Span { low: 0, high: sheaf },
        (before, after) => {
            let (before, after) = (u64::from(*before), u64::from(*after));
            // It may have gone further, and come back, before the second look.
            Span::between(before, after).widened(before.abs_diff(after)).at_most(sheaf)
        }
    });
    let far = if (tops.far, tops.far_mix) == (again.far, again.far_mix) {
        Span::between(tops.far, again.far)
    } else {
        Span { low: 0, high: tops.nr_far.max(again.nr_far).saturating_mul(sheaf) }
    };
    near.fold(far, Span::plus)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slab that came and went between the first look and the last.
    #[test]
    fn no_more_objects_are_live_than_there_are() {
        let mut words = [[0; WORDS]; 3];
        for (words, (slabs, out)) in words.iter_mut().zip([(1, 10), (3, 40), (2, 12)]) {
            words[NrSlabs.index()] = slabs;
            words[Objects.index()] = 16;
            words[Out.index()] = out;
        }
        let mut sample = Sample::default();
        fill(&words, &[Tops::NONE; 2], 0, &mut sample);
        assert_eq!((sample.total_objects.low, sample.total_objects.high), (16, 40));
        assert!(sample.live.high <= sample.total_objects.high);
    }
}
