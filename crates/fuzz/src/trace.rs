//! Traces: ours, those of other recorders, loads, and a replay of whatever was read.
//!
//! Neighbours: [`crate::file`], [`crate::sealed`]. Invariant: a trace that could be read can be written, and reads as
//! the same events again.

use crate::tame::printed;
use crate::{file, sealed};
use slabyard_lab::case::{self, Case};
use slabyard_lab::edit::anonymous::{self, anonymise};
use slabyard_lab::edit::cut::{Selection, cut};
use slabyard_lab::event::Event;
use slabyard_lab::import;
use slabyard_lab::leaks::{self, Limits};
use slabyard_lab::load as loads;
use slabyard_lab::replay::{self as replays, Start};
use slabyard_lab::rules::{Machine, Settings, find_release};
use slabyard_lab::snapshot::KernelSnapshot;
use slabyard_lab::trace::{self, Header, Source, Stream, Trace};
use std::path::Path;
use std::sync::OnceLock;

/// What a replay begins with.
const START: &[u8] = include_bytes!("../../lab/traces/hackbench.before.json.zst");

/// Its caches that stay: a fuzzer that sets up all of 235 for each replay makes five replays a second. Events
/// of others are of caches that the replay does not know.
const CACHES: [&str; 21] = [
    "filp",
    "dentry",
    "task_struct",
    "sighand_cache",
    "mm_struct",
    "names_cache",
    "kmalloc-8",
    "kmalloc-16",
    "kmalloc-32",
    "kmalloc-64",
    "kmalloc-96",
    "kmalloc-128",
    "kmalloc-192",
    "kmalloc-256",
    "kmalloc-512",
    "kmalloc-1k",
    "kmalloc-2k",
    "kmalloc-4k",
    "kmalloc-8k",
    "kmalloc-cg-64",
    "kmalloc-rcl-128",
];

/// Longer traces are read, but neither written nor replayed: a fuzzer that waits finds nothing.
const MOST_EVENTS: usize = 10_000;

/// A file in our format, or a text of events.
pub fn ours(bytes: &[u8]) {
    if let Ok(trace) = trace::read(bytes) {
        reads_again(&trace);
    }
    streams(bytes);
}

/// A file in our format, of parts that are sealed here.
pub fn of_parts(parts: &[u8]) {
    ours(&sealed::trace(parts));
}

/// `perf.data`, `trace.dat`, heaptrack's files.
pub fn foreign(bytes: &[u8]) {
    let file = file::holding(bytes, "");
    if let Ok(trace) = import::open(file.path()) {
        reads_again(&trace);
    }
}

/// A load's text, of small numbers: a load may have 16 million events, which takes its time.
pub fn load(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if text.split(|c: char| !c.is_ascii_digit() && c != '_').any(|digits| digits.len() > 3) {
        return;
    }
    if let Ok(trace) = loads::read(text, Path::new("/")) {
        reads_again(&trace);
    }
}

/// A replay of what a trace of parts holds, by today's rules.
pub fn replay(parts: &[u8]) {
    static SNAPSHOT: OnceLock<KernelSnapshot> = OnceLock::new();
    let Ok(trace) = trace::read(&sealed::trace(parts)[..]) else { return };
    if trace.events.len() > MOST_EVENTS {
        return;
    }
    let snapshot = SNAPSHOT.get_or_init(|| {
        let mut all = KernelSnapshot::parse(START).expect("the kept snapshot reads");
        let mut first = all.remove(0);
        first.caches.retain(|cache| CACHES.contains(&&*cache.id));
        assert_eq!(first.caches.len(), CACHES.len());
        first
    });
    let (release, _) = find_release("7.3").expect("a release of the lab");
    let settings = Settings::new(release, Machine::new(4096, 4));
    let source = Source::from(trace);
    let order = case::order_of(snapshot);
    if let Ok(case) = Case::of_source(&source, snapshot, &settings, order) {
        // Both ends: a trace may be impossible.
        let _ = replays::replay(&case.plan(Start::LookAhead));
    }
}

/// What is written of it reads as the same events.
fn reads_again(trace: &Trace) {
    trace.names.iter().for_each(|(_, name)| printed(name));
    [&trace.header.release, &trace.header.source].into_iter().for_each(|text| printed(text));
    if trace.events.len() > MOST_EVENTS {
        return;
    }
    let Ok(written) = trace.write(Vec::new()) else { return };
    let again = trace::read(&written[..]).expect("what was written is read");
    assert!(again.damaged.is_empty(), "{:?}", again.damaged);
    assert_eq!(again.events.len(), trace.events.len());
    for (was, is) in trace.events.iter().zip(&again.events) {
        assert_eq!(unnamed(was), unnamed(is));
        assert_eq!(trace.names.get(was.name), again.names.get(is.name));
        assert_eq!(trace.names.get(was.site), again.names.get(is.site));
    }
}

/// Without its names' numbers, which are others in another file.
fn unnamed(event: &Event) -> Event {
    Event { name: 0, site: 0, ..*event }
}

/// All that takes a trace chunk by chunk.
fn streams(bytes: &[u8]) {
    let file = file::holding(bytes, "");
    let opened = || Stream::open(file.path());
    if let Ok(mut stream) = opened() {
        let _ = leaks::find(&mut stream, Limits { objects: 1 << 10 });
    }
    if let Ok(stream) = opened() {
        let part = Selection { times: 1..u64::MAX / 2, cpus: None, wanted: None };
        let _ = cut(stream, part, Vec::new(), &Header::default());
    }
    if let Ok(stream) = opened() {
        let names = anonymous::Names { cache: &str::to_owned, is_known_site: &|_| false };
        let _ = anonymise(stream, &names, Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: &[u8] = include_bytes!("../../../fuzz/corpus/trace_parts/events-of-damaged-chunks");

    #[test]
    fn more_lost_events_than_a_word_counts_are_as_many_as_it_counts() {
        let file = file::holding(&sealed::trace(MANY), "");
        let part = Selection { times: 0..u64::MAX, cpus: None, wanted: None };
        let stream = Stream::open(file.path()).expect("a trace");
        let (_, writer) = cut(stream, part, Vec::new(), &Header::default()).expect("a part");
        let written = writer.finish().expect("memory takes all");
        assert_eq!(trace::read(&written[..]).expect("a trace").lost, u64::MAX);
    }
}
