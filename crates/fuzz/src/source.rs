//! What `list`, `show`, `diff`, `export` and `doctor` open: snapshots, texts that people paste,
//! archives, timelines; and each view of what was read.
//!
//! Neighbours: [`crate::corefile`] has the views shown, too. Invariant: a snapshot that could be read
//! can be saved, and reads as the same again; no view steers a terminal.

use crate::tame::{Tame, printed};
use crate::{file, sealed};
use slabyard_doctor::diagnosis::examine;
use slabyard_doctor::look::Look;
use slabyard_doctor::text;
use slabyard_lab::snapshot::KernelSnapshot;
use slabyard_observe::Snapshot;
use slabyard_observe::delta::Delta;
use slabyard_observe::source::{self, SourceName};
use slabyard_observe::timeline::Timeline;
use slabyard_observe::view::diff::Columns;
use slabyard_observe::view::pick::CacheFilter;
use slabyard_observe::view::{Style, csv, diff, json, list, memory, openmetrics, orders};
use slabyard_observe::want::ReadScope;

/// A file of any kind but a core.
pub fn any(bytes: &[u8]) {
    let file = file::holding(bytes, "");
    let name = SourceName::File(file.path().into());
    if let Ok(snapshot) = source::sample(&name, ReadScope::default()) {
        reads_again(&snapshot);
        shown(&snapshot);
    }
    let _ = KernelSnapshot::parse(bytes);
}

/// A file of looks over time.
pub fn timeline(bytes: &[u8]) {
    let file = file::holding(bytes, "");
    if let Ok(timeline) = Timeline::open(file.path()) {
        let looks: Vec<Snapshot> = timeline.looks().flatten().collect();
        looks.iter().for_each(shown);
        if let [first, .., last] = &looks[..] {
            differ(first, last);
        }
    }
    let name = SourceName::File(file.path().into());
    if let Ok(Some(looks)) = Look::of_timeline(&name, 4) {
        printed(&text::of(&examine(&looks, None), None));
    }
}

/// The same, of parts that are sealed here.
pub fn timeline_of_parts(parts: &[u8]) {
    timeline(&sealed::timeline(parts));
}

/// In each view.
pub fn shown(snapshot: &Snapshot) {
    let out = &mut Tame::default();
    let options = list::Options::default();
    let caches = CacheFilter::by_bytes().caches(snapshot).caches;
    for width in [None, Some(40)] {
        let style = Style { width, ..Style::PLAIN };
        list::write(out, snapshot, &options, style).expect("it takes all");
        memory::write(out, snapshot, style).expect("it takes all");
        orders::write(out, &orders::orders(snapshot, &caches), style).expect("it takes all");
    }
    json::write(out, snapshot, &caches).expect("it takes all");
    csv::write(out, snapshot, &options).expect("it takes all");
    openmetrics::write(out, snapshot, 10).expect("it takes all");
    differ(snapshot, snapshot);
    let name = SourceName::File("fuzzed".into());
    printed(&text::of(&examine(&[Look::of(&name, snapshot.clone())], None), Some(80)));
}

fn differ(old: &Snapshot, new: &Snapshot) {
    let delta = Delta::between(old, new);
    let out = &mut Tame::default();
    diff::write(out, &delta, Columns::default(), Style::PLAIN).expect("it takes all");
}

/// What is saved of it reads as the same.
fn reads_again(snapshot: &Snapshot) {
    let saved = file::holding(&[], "");
    slabyard_observe::file::save(snapshot, saved.path()).expect("a file can be written");
    let again = slabyard_observe::file::open(saved.path()).expect("what was saved reads");
    assert_eq!(*snapshot, again);
}
