//! The page heap's part of the header for readers outside of the process: the addresses of its
//! tables and counters.
//!
//! Neighbours: each part of the heap supplies the addresses of its own words; [`crate::mail`]
//! publishes the rest of the header.

use super::heap::PageHeap;
use super::percpu::COLD_SLOT;
use crate::platform::Platform;
use crate::sync::Ordering;
use slabyard_abi::region::Word;

/// Publishes the addresses of all tables and counters in the header, for readers outside
/// of the process.
pub fn publish<P: Platform>(heap: &PageHeap<P>) {
    let header = heap.platform.rows().header();
    let tell = |word: Word, value: usize| {
        header[word.index()].store(value as u64, Ordering::Relaxed);
    };
    let rows = heap.platform.rows();
    tell(Word::PageBytes, heap.platform.page_bytes());
    tell(Word::Rows, rows.base());
    tell(Word::NrRows, rows.len());
    tell(Word::Region, heap.region.base());
    tell(Word::Granules, heap.region.granules());
    tell(Word::TopAt, heap.region.top_at());
    tell(Word::Descriptors, heap.region.descriptors_base());
    tell(Word::Map, heap.region.map_base());
    tell(Word::FixedMetadata, heap.platform.page_bytes());
    tell(Word::RowBytesAt, rows.row_bytes_at());
    tell(Word::NodeLimitAt, heap.barn_bytes.limit_at());
    tell(Word::SetAsideAt, heap.reports.set_aside.as_ptr() as usize);
    let [descriptors, map, dirty] = heap.region.metadata_at();
    tell(Word::MetadataAt0, descriptors);
    tell(Word::MetadataAt1, map);
    tell(Word::MetadataAt2, dirty);
    let (elements, sheaves) = heap.sheaves.begin();
    tell(Word::Elements, elements);
    tell(Word::Sheaves, sheaves);
    let [small, middle, large] = heap.sheaves.words_at();
    tell(Word::MetadataAt3, small);
    tell(Word::MetadataAt7, middle);
    tell(Word::MetadataAt8, large);
    tell(Word::MetadataAt11, heap.rcu.metadata_at());
    let [nr_mapped, mapped, keys, sizes] = heap.mappings.words_at();
    tell(Word::NrMappedAt, nr_mapped);
    tell(Word::MappedAt, mapped);
    tell(Word::MetadataAt4, keys);
    tell(Word::MetadataAt5, sizes);
    if heap.page_lists().is_some_and(|lists| lists.rules.has_cold_lists()) {
        tell(Word::ColdRuns, COLD_SLOT.into());
    }
    let [free, dirty, nr_runs, run_granules] = heap.buddy.words_at();
    tell(Word::FreeGranulesAt, free);
    tell(Word::DirtyGranulesAt, dirty);
    tell(Word::NrRunsAt, nr_runs);
    tell(Word::RunGranulesAt, run_granules);
}
