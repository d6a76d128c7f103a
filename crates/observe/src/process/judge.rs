//! What one cache holds, from its words and tops as they were read.
//!
//! Let the words be equal each time, and as many slow paths ended as begun. Then
//! objects came and went by the fast path alone, which changes tops:
//! live = out - parked. Tops that are equal both times were so all the time; one that
//! moved was, in between, somewhere near.
//!
//! Else up to as many slow paths as were under way hold objects of two sheaves each
//! (*in transit*), or have carried them past the reader, from a place not read yet to
//! one that was read, or the other way round: live is known within that.
//!
//! Neighbours: [`super::collect`] below, [`super::yard`] above.
//! Invariants: live + parked + in transit = out for some choice within the spans; all
//! spans are within the cache's objects.

use super::collect::{Take, Words};
use super::front::Top;
use super::span::Span;
use slabyard_abi::region::CacheWord::{self, BarnObjects, Out, SheafCapacity};

/// What a cache holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    /// As read last.
    pub(crate) words: Words,
    /// The words were the same each time, and no slow path was under way.
    pub(crate) quiet: bool,
    /// The words were the same each time.
    pub(crate) steady: bool,
    pub(crate) live: Span,
    /// Where the middle of live was in all reads without a slow path.
    pub(crate) seen: Option<Span>,
    pub(crate) parked_cpu: Span,
    /// Row and what is parked there; rows without objects are left out.
    pub(crate) rows: Vec<(u32, Span)>,
    pub(crate) parked_node: Span,
    pub(crate) in_transit: Span,
    pub(crate) out: Span,
    /// A top was no place of a sheaf.
    pub(crate) odd: bool,
    first: Words,
}

impl Judged {
    /// A word of the cache: as it was during the look.
    pub(crate) fn word(&self, word: CacheWord) -> Span {
        Span::between(self.first.get(word), self.words.get(word))
    }

    /// How well the cache is known: the smaller the better.
    pub(crate) fn doubt(&self) -> (bool, bool, u64) {
        (self.odd, !self.quiet, self.live.high - self.live.low)
    }
}

/// Judges what was read.
pub(crate) fn judge(take: &Take) -> Judged {
    let [first, middle, last] = &take.words;
    let steady = first == middle && middle == last;
    let underway = underway(first, last);
    let quiet = steady && underway == 0;

    let all = || take.tops.iter().flatten().flat_map(|(_, tops)| tops);
    let counted = all().filter_map(|top| match top {
        Top::Count(count) => Some(*count),
        _ => None,
    });
    // A sheaf may be older than a smaller capacity.
    let sheaf = counted.max().unwrap_or(0).max(last.get(SheafCapacity)).min(1 << 20);
    let rows = rows(&take.tops, sheaf);
    let stands = take.tops[0] == take.tops[1];

    let hull = |word| {
        let ends = take.words.iter().map(|w| Span::exact(w.get(word)));
        ends.reduce(Span::hull).unwrap_or_default()
    };
    let (out, parked_node) = (hull(Out), hull(BarnObjects));
    let parked_cpu = Span::sum(rows.iter().map(|(_, span)| *span));
    let transit = underway.saturating_mul(2 * sheaf).min(out.high);
    let held = out.minus(parked_cpu.plus(parked_node));
    // Nothing moves while we look: what is in transit is missing from live, no more.
    let live = if steady && stands {
        Span { low: held.low.saturating_sub(transit), high: held.high }
    } else {
        held.widened(transit)
    };
    let most = last.get(CacheWord::NrSlabs).saturating_mul(last.get(CacheWord::Objects));
    let live = live.at_most(most.max(out.high));
    Judged {
        words: *last,
        first: *first,
        quiet,
        steady,
        live,
        seen: quiet.then(|| Span::exact(live.low.midpoint(live.high))),
        parked_cpu,
        rows,
        parked_node,
        in_transit: Span { low: 0, high: transit },
        out,
        odd: all().any(|top| *top == Top::Odd),
    }
}

/// Most slow paths that were under way at any time between two reads.
fn underway(first: &Words, last: &Words) -> u64 {
    let (begun, _) = last.version();
    let (_, ended) = first.version();
    u64::from(begun.wrapping_sub(ended))
}

/// What is parked in each row; rows without objects are left out.
fn rows(tops: &[super::collect::Tops; 2], sheaf: u64) -> Vec<(u32, Span)> {
    let [before, after] = tops;
    let each = before.iter().zip(after).map(|((row, before), (_, after))| {
        let stacks = before.iter().zip(after);
        (*row, Span::sum(stacks.map(|(before, after)| parked(*before, *after, sheaf))))
    });
    each.filter(|(_, span)| span.high > 0).collect()
}

/// Objects of one stack whose top was read twice.
fn parked(before: Top, after: Top, sheaf: u64) -> Span {
    let count = |top| match top {
        Top::None => Some(0),
        Top::Count(count) => Some(count),
        Top::Stopped | Top::Odd => None,
    };
    match (count(before), count(after)) {
        (Some(before), Some(after)) => {
            // It may have gone further, and come back, before the second read.
            let moved = before.abs_diff(after);
            Span::between(before, after).widened(moved).at_most(sheaf)
        }
        _ => Span { low: 0, high: sheaf },
    }
}
