//! Runs two kinds of objects, and three shrinkers that free nothing, under the same pressure by
//! each rule, and prints what each was asked, what it answered, what it freed, and how long that
//! took.
//!
//! `cargo run --release -p slabyard-shrinker --example shrinkers`

use slabyard::cache::{CacheId, CacheSettings};
use slabyard::platform::Time;
use slabyard::platform::linux::Linux;
use slabyard::yard::{Settings, Yard};
use slabyard_shrinker::{Counts, Id, Pass, Registered, Rule, Shrink, ShrinkScope, Shrinkers, rule};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

static YARD: Yard<Linux> = Yard::new(Linux::new());
static TABLE: Shrinkers = Shrinkers::new();

/// Objects in the order of their last use.
struct Lru {
    cache: CacheId,
    objects: Mutex<VecDeque<usize>>,
}

impl Lru {
    fn of(name: &str, bytes: u32, objects: usize) -> &'static Lru {
        let cache = YARD.create_cache(name, &CacheSettings::of(bytes)).expect("a cache");
        let make = |_| YARD.alloc_from(cache).expect("memory");
        let objects = Mutex::new((0..objects).map(make).collect());
        Box::leak(Box::new(Lru { cache, objects }))
    }

    fn free_all(&self) {
        for object in self.objects.lock().expect("no panic").drain(..) {
            YARD.free(object).expect("ours");
        }
    }
}

impl Shrink for Lru {
    fn count(&self) -> u64 {
        self.objects.lock().expect("no panic").len() as u64
    }

    fn scan(&self, objects: u64) -> Option<u64> {
        let mut all = self.objects.lock().expect("no panic");
        let n = all.len().min(objects as usize);
        for object in all.drain(..n) {
            YARD.free(object).expect("ours");
        }
        Some(n as u64)
    }
}

/// Everything is in use elsewhere; it drops its own reference and says that it freed.
struct InUse(u64);

impl Shrink for InUse {
    fn count(&self) -> u64 {
        self.0
    }

    fn scan(&self, objects: u64) -> Option<u64> {
        Some(objects.min(self.0))
    }
}

/// It finds nothing to free.
struct Nothing(u64);

impl Shrink for Nothing {
    fn count(&self) -> u64 {
        self.0
    }

    fn scan(&self, _: u64) -> Option<u64> {
        Some(0)
    }
}

/// It allocates, and so wants a pass itself.
struct Allocates {
    rule: Rule,
    refused: AtomicU64,
}

impl Shrink for Allocates {
    fn count(&self) -> u64 {
        1000
    }

    fn scan(&self, _: u64) -> Option<u64> {
        let object = YARD.alloc(4096, 16)?;
        let busy = TABLE.relieve(self.rule, &World::default()) == Pass::Busy;
        self.refused.fetch_add(busy.into(), Ordering::Relaxed);
        YARD.free(object).expect("ours");
        Some(0)
    }
}

/// The clock, and the slabs of the caches.
#[derive(Default)]
struct World(Vec<&'static Lru>);

impl ShrinkScope for World {
    fn now_ns(&self) -> u64 {
        YARD.platform().now_ns()
    }

    fn bytes(&self) -> u64 {
        let bytes = |lru: &&Lru| {
            // What is freed is parked at first; what counts is what slabs take without that.
            YARD.shrink_cache(lru.cache);
            let cache = YARD.find_cache(lru.cache).expect("it is there");
            u64::from(cache.nr_slabs()) << (12 + cache.shape().geometry.order)
        };
        self.0.iter().map(bytes).sum()
    }
}

fn run(name: &str, rule: Rule, passes: usize) {
    let (small, large) = (Lru::of("name", 192, 100_000), Lru::of("inode", 600, 50_000));
    let world = World(vec![small, large]);
    let before = world.bytes();
    let allocates = Box::leak(Box::new(Allocates { rule, refused: AtomicU64::new(0) }));
    let registered = |shrink, name, seeks| Registered { shrink, name, seeks, batch: 0 };
    let ids: Vec<Id> = [
        registered(small, "name", 2),
        registered(large, "inode", 8),
        registered(Box::leak(Box::new(InUse(20_000))), "in use elsewhere", 2),
        registered(Box::leak(Box::new(Nothing(20_000))), "frees nothing", 2),
        registered(allocates, "allocates", 2),
    ]
    .map(|it| TABLE.register(it).expect("room"))
    .into();
    let mut said = 0;
    for _ in 0..passes {
        if let Pass::Done(freed) = TABLE.relieve(rule, &world) {
            said += freed;
        }
    }
    println!(
        "\n{name}, {passes} passes: {said} objects said to be freed, slabs {before} -> {} bytes",
        world.bytes()
    );
    print!("{:<17}", "");
    Counts::NAMES.iter().for_each(|name| print!("{name:>11}"));
    println!();
    TABLE.each(|name, counts| {
        print!("{name:<17}");
        counts.values().iter().for_each(|n| print!("{n:>11}"));
        println!();
    });
    let counts = TABLE.counts(ids[4]).expect("it is there");
    assert_eq!(allocates.refused.load(Ordering::Relaxed), counts.calls, "no pass inside of a pass");
    ids.iter().for_each(|id| assert!(TABLE.remove(*id).is_some()));
    small.free_all();
    large.free_all();
}

fn main() {
    assert!(YARD.platform().init(None) && YARD.init(Settings::default()));
    YARD.platform().prepare_fence();
    // 1 of 20 pages is scanned in each pass, and a tenth of them is mapped.
    let (pages, scanned, mapped) = (100_000, 5_000, 10_000);
    run("ratio of 2.5.39", Rule::Ratio { pages, scanned, mapped, times: 1 }, 6);
    let seeks = |batch| Rule::Seeks { scanned, lru_pages: pages, batch };
    run("seeks of 2.5.43, batch 32", seeks(rule::BATCH_2002), 6);
    run("seeks, batch 128", seeks(rule::BATCH), 6);
    run("priority 6 of today", Rule::Priority(6), 6);
    run("priority 2 of today", Rule::Priority(2), 6);
}
