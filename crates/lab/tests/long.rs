//! A replay of a long trace takes no more memory than one of a short trace: enough for live
//! objects, slabs and some blocks of events.
//!
//! The traces are generated: objects of some caches of a real snapshot are allocated and freed, and
//! their number swings, so that slabs are allocated and freed all the time. The test counts the
//! bytes that the replay allocates.
//!
//! `SLABYARD_LONG=100000000 cargo test --release -p slabyard-lab --test long how_long -- --ignored
//! --nocapture` does so with a hundred million events; `SLABYARD_KEEP=FILE` saves the trace.

use slabyard_lab::case::{self, Case};
use slabyard_lab::event::{ANY_NODE, Event, EventKind};
use slabyard_lab::prepare::Steps;
use slabyard_lab::replay::{Replayed, Start, replay};
use slabyard_lab::snapshot::KernelSnapshot;
use slabyard_lab::trace::{self, Header, LONG, Source, Writer};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does all that is promised; what is counted beside it does no harm.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(now, Relaxed);
        // SAFETY: the caller owes it to us as we owe it to the system.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: it is from the system, as all are.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The most bytes that were allocated at a time while something was done, beside those before.
fn most_bytes<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    let done = work();
    (MOST.load(Relaxed) - before, done)
}

const PAGE_OFFSET: u64 = 0x8880_0000_0000;
/// Caches of the load.
const CACHES: usize = 12;
/// Live objects at the least and at the most; events from one to the other.
const LIVE: (usize, usize, u64) = (20_000, 45_000, 50_000);
/// Those allocated last, some of which are freed next: objects allocated together are freed
/// together.
const YOUNG: usize = 2000;

fn snapshot() -> KernelSnapshot {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/hackbench.before.json.zst");
    KernelSnapshot::open(&path).unwrap().remove(0)
}

/// One cache of the load: its slabs with free objects, by first frame.
struct Cache {
    name: u32,
    size: u64,
    objects: u64,
    order: u8,
    partial: BTreeMap<u64, Vec<u64>>,
}

/// A load that never ends.
struct Load<W: std::io::Write> {
    writer: Writer<W>,
    caches: Vec<Cache>,
    /// Cache and address.
    live: Vec<(usize, u64)>,
    free_frames: [Vec<u64>; 4],
    next_frame: u64,
    random: u64,
    events: u64,
}

impl<W: std::io::Write> Load<W> {
    fn random(&mut self, below: usize) -> usize {
        // xorshift64, after Marsaglia (2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % below as u64) as usize
    }

    fn push(&mut self, kind: EventKind, name: u32, address: u64, order: u8) {
        self.events += 1;
        let cpu = (self.events / 64 % 2) as u16;
        let event = Event {
            time: self.events * 700,
            address,
            name,
            pid: 1 + self.events as u32 / 64 % 40,
            requested: 0,
            allocated: 0,
            gfp: 0,
            cpu,
            node: ANY_NODE,
            order,
            kind,
            accounted: false,
            site: 0,
        };
        self.writer.push(&event).unwrap();
    }

    fn alloc(&mut self) {
        let nth = self.random(self.caches.len());
        let Cache { order, objects, size, name, .. } = self.caches[nth];
        if self.caches[nth].partial.is_empty() {
            let frame = self.free_frames[order as usize].pop().unwrap_or_else(|| {
                self.next_frame += 8;
                self.next_frame
            });
            self.push(EventKind::PageAlloc, 0, frame, order);
            let first = PAGE_OFFSET + frame * 4096;
            let free = (0..objects).rev().map(|object| first + object * size).collect();
            self.caches[nth].partial.insert(frame, free);
        }
        let mut slab = self.caches[nth].partial.first_entry().unwrap();
        let address = slab.get_mut().pop().unwrap();
        if slab.get().is_empty() {
            slab.remove();
        }
        self.push(EventKind::CacheAlloc, name, address, 0);
        self.live.push((nth, address));
    }

    fn free(&mut self) {
        let at = self.live.len() - 1 - self.random(self.live.len().min(YOUNG));
        let (nth, address) = self.live.swap_remove(at);
        let Cache { order, objects, name, .. } = self.caches[nth];
        self.push(EventKind::CacheFree, name, address, 0);
        let frame = (address - PAGE_OFFSET) / 4096 / 8 * 8;
        let free = self.caches[nth].partial.entry(frame).or_default();
        free.push(address);
        if free.len() as u64 == objects && self.caches[nth].partial.len() > 4 {
            self.caches[nth].partial.remove(&frame);
            self.free_frames[order as usize].push(frame);
            self.push(EventKind::PageFree, 0, frame, order);
        }
    }
}

/// Writes a trace of so many events.
fn write(path: &Path, events: u64) {
    let snapshot = snapshot();
    let header = Header {
        release: snapshot.kernel.clone().unwrap_or_default(),
        page_size: Some(4096),
        page_offset: Some(PAGE_OFFSET),
        cpus: Some(2),
        ..Header::default()
    };
    let out = BufWriter::new(File::create(path).unwrap());
    let mut writer = Writer::new(out, &header).unwrap();
    let usable = snapshot.caches.iter().filter(|cache| {
        cache.order <= 3 && cache.objs_per_slab >= 8 && !cache.id.starts_with("kmalloc")
    });
    let caches = usable.take(CACHES).map(|cache| Cache {
        name: writer.names().intern(&cache.id),
        size: cache.slab_size.into(),
        objects: cache.objs_per_slab.into(),
        order: cache.order,
        partial: BTreeMap::new(),
    });
    let caches = caches.collect();
    let mut load = Load {
        writer,
        caches,
        live: Vec::new(),
        free_frames: Default::default(),
        next_frame: 1 << 12,
        random: 0x9e37_79b9_7f4a_7c15,
        events: 0,
    };
    while load.events < events {
        let (least, most, length) = LIVE;
        let grows = (load.events / length).is_multiple_of(2);
        let live = load.live.len();
        // Always some of both.
        let allocates = live < least || live < most && load.random(4) < if grows { 3 } else { 1 };
        if allocates { load.alloc() } else { load.free() }
    }
    load.writer.finish().unwrap();
}

/// Opens, prepares and replays it, with what that took.
fn run(open: impl FnOnce() -> Source) -> (usize, Replayed) {
    let snapshot = snapshot();
    let (settings, _) = snapshot.settings().unwrap();
    most_bytes(|| {
        let source = open();
        let case = Case::of_source(&source, &snapshot, &settings, case::order_of(&snapshot));
        let case = case.unwrap();
        assert_eq!(case.prepared.oddities, Default::default());
        let slabs = case.prepared.slabs.len() - case.prepared.initial_slabs().len();
        assert!(slabs as u64 * 1000 > source.nr_events(), "{slabs} slabs: they come and go");
        if let Steps::Streamed(steps) = &case.prepared.steps {
            assert!(steps.early() * 100 <= steps.early() + slabs * 100, "few are early");
        }
        replay(&case.plan(Start::LookAhead)).unwrap()
    })
}

#[test]
fn ten_times_the_trace_takes_little_more_memory() {
    let dir = tempfile::tempdir().unwrap();
    let of = |events: u64| {
        let path = dir.path().join(format!("{events}.slabtrace"));
        write(&path, events);
        let streamed = run(|| Source::open_long(&path, 0).unwrap().expect("one of ours"));
        let whole = run(|| trace::open(&path).unwrap().into());
        assert!(streamed.1.changes == whole.1.changes && !whole.1.changes.is_empty());
        (streamed.0, whole.0)
    };
    let (short, long) = (of(300_000), of(3_000_000));
    let times = long.0 as f64 / short.0 as f64;
    assert!(times < 1.3, "{} and {} bytes: {times:.2} times", short.0, long.0);
    // What is in memory whole is seen by this test.
    assert!(long.1 > short.1 * 4, "{} and {} bytes", short.1, long.1);
}

#[test]
#[ignore = "takes minutes with many events; see above"]
fn how_long() {
    let dir = tempfile::tempdir().unwrap();
    let events = std::env::var("SLABYARD_LONG").map_or(LONG, |text| text.parse().unwrap());
    let kept = std::env::var_os("SLABYARD_KEEP").map(Into::into);
    let path = kept.unwrap_or_else(|| dir.path().join("long.slabtrace"));
    write(&path, events);
    let begun = Instant::now();
    let (bytes, replayed) = run(|| Source::open_long(&path, 0).unwrap().expect("one of ours"));
    println!(
        "{events} events, {} slabs made and given back: {:.1} s, {} MiB",
        replayed.changes.len(),
        begun.elapsed().as_secs_f64(),
        bytes >> 20
    );
}
