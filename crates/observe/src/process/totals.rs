//! The totals of a yard: what all of its memory is used for.
//!
//! Neighbours: [`super::look`] has the yard's counters, [`super::cache_numbers`] the sums over
//! caches; [`super::to_snapshot`] calls this module. Invariants: in an idle yard, the parts add up
//! to `committed` to the byte, although `committed` is measured independently; while a slow path is
//! under way, `in_transit` is the difference.

use super::front::Front;
use super::look::YardLook;
use super::span::Span;
use crate::value::Value;
use slabyard_abi::region::{GRANULE, METADATA, Word};
use std::collections::BTreeMap;

/// Bytes of all caches together, by where they are.
#[derive(Default)]
pub(super) struct CacheSums {
    pub(super) live: Span,
    pub(super) parked_cpu: Span,
    pub(super) parked_node: Span,
    pub(super) free_partial: Span,
    /// Behind the last objects of slabs.
    pub(super) padding: Span,
}

/// Bytes that are not in caches; `None` where the yard does not tell.
pub(super) struct YardMemory {
    /// Page runs that are handed out.
    runs: Option<Span>,
    mapped: Option<Span>,
    /// Free runs, and of these the ones that were not returned to the kernel.
    free: Option<Span>,
    dirty: Option<Span>,
    parked_pages: Span,
    metadata: Option<Span>,
    /// What the kernel ever lent: the region without its first page, which is never used; mappings;
    /// tables.
    lent: Option<Span>,
}

impl YardMemory {
    pub(super) fn of(front: &Front, look: &YardLook) -> YardMemory {
        let granules = |word| Some(look.counter(word)?.times(GRANULE as u64));
        let [_, banked] = look.banked();
        let mapped = look.counter(Word::MappedAt);
        let metadata = metadata(front, look);
        let lent = look.counter(Word::TopAt).zip(mapped).zip(metadata);
        let region = |top: Span| top.minus(Span::exact(front.unit())).times(GRANULE as u64);
        YardMemory {
            runs: granules(Word::RunGranulesAt).map(|runs| runs.minus(banked)),
            mapped,
            free: granules(Word::FreeGranulesAt),
            dirty: granules(Word::DirtyGranulesAt),
            parked_pages: look.parked_pages().plus(banked),
            metadata,
            lent: lent.map(|((top, mapped), metadata)| region(top).plus(mapped).plus(metadata)),
        }
    }

    /// Free runs that were returned to the kernel.
    fn returned(&self) -> Option<Span> {
        Some(self.free?.minus(self.dirty?))
    }

    /// What is nowhere while something is under way.
    fn in_transit(&self, look: &YardLook, sums: &CacheSums) -> Option<Span> {
        if look.quiet() {
            return Some(Span::exact(0));
        }
        let known = [
            sums.live,
            sums.parked_cpu,
            sums.parked_node,
            sums.free_partial,
            sums.padding,
            self.parked_pages,
            self.runs?,
            self.mapped?,
            self.free?,
            self.metadata?,
        ];
        Some(self.lent?.minus(Span::sum(known)))
    }

    /// Writes down all totals.
    pub(super) fn fill(
        &self,
        front: &Front,
        look: &YardLook,
        sums: &CacheSums,
        totals: &mut BTreeMap<String, Value>,
    ) {
        let returned = self.returned();
        let [nr_banked, _] = look.banked();
        let rows = Span::between(look.begin.rows_in_use, look.end.rows_in_use);
        let known = [
            ("live", Some(sums.live)),
            ("parked_cpu", Some(sums.parked_cpu)),
            ("parked_node", Some(sums.parked_node)),
            ("in_transit", self.in_transit(look, sums)),
            ("free_partial", Some(sums.free_partial)),
            ("padding", Some(sums.padding)),
            ("runs", self.runs),
            ("mapped", self.mapped),
            ("parked_pages", Some(self.parked_pages)),
            ("free_runs", self.dirty),
            ("metadata", self.metadata),
            ("committed", self.lent.zip(returned).map(|(lent, returned)| lent.minus(returned))),
            ("returned", returned),
            ("nr_runs", look.counter(Word::NrRunsAt).map(|runs| runs.minus(nr_banked))),
            ("nr_mapped", look.counter(Word::NrMappedAt)),
            ("set_aside", look.counter(Word::SetAsideAt)),
            ("mode", Some(Span::exact(front.mode))),
            ("nr_cpus", Some(rows)),
            ("decay_ms", look.counter(Word::DecayMsAt)),
            ("node_limit", look.counter(Word::NodeLimitAt)),
        ];
        let known = known.into_iter().filter_map(|(name, span)| Some((name.to_owned(), span?)));
        totals.extend(known.map(|(name, span)| (name, span.into())));
        if front.engine != 0 {
            totals.insert("engine".into(), Value::engine(front.engine));
        }
    }
}

/// The allocator's own memory: fixed tables, rows in use, and tables that grow.
fn metadata(front: &Front, look: &YardLook) -> Option<Span> {
    let rows = look.counter(Word::RowBytesAt)?.times(front.nr_rows as u64);
    let fixed = rows.plus(Span::exact(front.fixed_metadata));
    METADATA.iter().try_fold(fixed, |sum, word| Some(sum.plus(look.counter(*word)?)))
}
