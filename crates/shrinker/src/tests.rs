//! Tests well-behaved and misbehaving shrinkers under the same pressure.

use super::*;
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64 as Std, Ordering::SeqCst};

const ALL: Rule = Rule::Priority(0);

/// Memory, and a clock that advances by one at each reading.
#[derive(Default)]
struct World {
    bytes: Std,
    now: Std,
}

impl ShrinkScope for World {
    fn now_ns(&self) -> u64 {
        self.now.fetch_add(1, SeqCst)
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(SeqCst)
    }
}

fn world(bytes: u64) -> &'static World {
    Box::leak(Box::new(World { bytes: bytes.into(), now: 0.into() }))
}

/// A cache of objects of 100 bytes. Those that are pinned cannot go.
struct Objects {
    world: &'static World,
    free: Std,
    pinned: u64,
    lies: bool,
    scans: Mutex<Vec<u64>>,
}

impl Objects {
    fn new(world: &'static World, free: u64, pinned: u64) -> &'static Objects {
        let free = free.into();
        Box::leak(Box::new(Objects { world, free, pinned, lies: false, scans: Mutex::default() }))
    }

    fn liar(world: &'static World, pinned: u64) -> &'static Objects {
        let scans = Mutex::default();
        Box::leak(Box::new(Objects { world, free: 0.into(), pinned, lies: true, scans }))
    }
}

impl Shrink for Objects {
    fn count(&self) -> u64 {
        self.free.load(SeqCst) + self.pinned
    }

    fn scan(&self, objects: u64) -> Option<u64> {
        self.scans.lock().unwrap().push(objects);
        let n = objects.min(self.free.load(SeqCst));
        self.free.fetch_sub(n, SeqCst);
        self.world.bytes.fetch_sub(100 * n, SeqCst);
        Some(if self.lies { objects.min(self.pinned) } else { n })
    }
}

fn registered(shrink: &'static dyn Shrink, name: &'static str) -> Registered {
    Registered { shrink, name, seeks: rule::DEFAULT_SEEKS, batch: 0 }
}

#[test]
fn two_kinds_under_the_same_pressure_are_told_apart() {
    let world = world(100_000);
    let table = Shrinkers::<4>::new();
    let (cheap, dear) = (Objects::new(world, 600, 0), Objects::new(world, 400, 0));
    let cheap_id = table.register(Registered { seeks: 1, ..registered(cheap, "cheap") }).unwrap();
    let dear_id = table.register(Registered { seeks: 8, ..registered(dear, "dear") }).unwrap();
    // Cheap: 600 >> 1, * 4: capped at 1200, while no batch is left or all is scanned. Dear:
    // 200 * 4 / 8 = 100, less than a batch.
    assert_eq!(table.relieve(Rule::Priority(1), world), Pass::Done(600));
    let (a, b) = (table.counts(cheap_id).unwrap(), table.counts(dear_id).unwrap());
    assert_eq!((a.asked, a.freed, a.bytes, a.unproved), (1152, 600, 60_000, 0));
    assert_eq!((b.asked, b.freed, b.bytes, b.deferred), (0, 0, 0, 100));
    assert!(a.ns >= u64::from(u8::from(a.calls > 0)) && a.longest_ns > 0);
    // The next passes do what was left.
    assert_eq!(table.relieve(Rule::Priority(1), world), Pass::Done(128));
    assert_eq!(*dear.scans.lock().unwrap(), [128]);
    assert_eq!(table.counts(dear_id).unwrap().deferred, 100 + 100 - 128);
    assert_eq!(table.counts(cheap_id).unwrap().passes, 2, "an empty one is counted, and not asked");
}

#[test]
fn the_table_says_who_frees_nothing_and_who_frees_nothing_that_counts() {
    let world = world(100_000);
    let table = Shrinkers::<4>::new();
    let honest = table.register(registered(Objects::new(world, 300, 0), "honest")).unwrap();
    let nothing = table.register(registered(Objects::new(world, 0, 300), "nothing")).unwrap();
    let liar = table.register(registered(Objects::liar(world, 300), "in use elsewhere")).unwrap();
    table.relieve(ALL, world);
    let told = [honest, nothing, liar].map(|id| table.counts(id).unwrap());
    assert_eq!(told.map(|c| c.freed), [300, 0, 512]);
    assert_eq!(told.map(|c| c.unproved), [0, 0, 512]);
    assert_eq!(told.map(|c| c.bytes), [30_000, 0, 0]);
    assert_eq!(told.map(|c| c.vain), [0, 1, 0]);
    assert_eq!(told.map(|c| c.hollow), [0, 0, 1]);
    let mut names = Vec::new();
    table.each(|name, _| names.push(name));
    assert_eq!(names, ["honest", "nothing", "in use elsewhere"]);
}

/// A callback that allocates, so that there is pressure while it runs.
struct Allocates {
    table: &'static Shrinkers<4>,
    world: &'static World,
    passes: Mutex<Vec<Pass>>,
}

impl Shrink for Allocates {
    fn count(&self) -> u64 {
        100
    }

    fn scan(&self, _: u64) -> Option<u64> {
        self.passes.lock().unwrap().push(self.table.relieve(ALL, self.world));
        let id = self.table.register(registered(Objects::new(self.world, 1, 0), "made inside"));
        assert_eq!(self.table.remove(id.unwrap()), Some(RemovalState::Done));
        None
    }
}

#[test]
fn an_allocation_inside_of_a_callback_begins_no_pass_and_waits_for_nothing() {
    let world = world(0);
    let table: &Shrinkers<4> = Box::leak(Box::default());
    let it = Box::leak(Box::new(Allocates { table, world, passes: Mutex::default() }));
    let id = table.register(registered(it, "allocates")).unwrap();
    assert_eq!(table.relieve(ALL, world), Pass::Done(0));
    assert_eq!(*it.passes.lock().unwrap(), [Pass::Busy]);
    let counts = table.counts(id).unwrap();
    assert_eq!((counts.reentered, counts.stops, counts.calls), (1, 1, 1));
    assert_eq!(counts.deferred, 200, "what it could not do is left");
    assert_eq!(table.relieve(ALL, world), Pass::Done(0), "the pass has ended");
}

/// A callback that removes itself.
struct Leaves {
    table: &'static Shrinkers<4>,
    id: Mutex<Option<Id>>,
}

impl Shrink for Leaves {
    fn count(&self) -> u64 {
        10
    }

    fn scan(&self, _: u64) -> Option<u64> {
        let id = self.id.lock().unwrap().unwrap();
        assert_eq!(self.table.remove(id), Some(RemovalState::Running));
        assert_eq!(self.table.removal(id), RemovalState::Running);
        Some(10)
    }
}

#[test]
fn a_callback_may_remove_its_own_shrinker() {
    let world = world(0);
    let table: &Shrinkers<4> = Box::leak(Box::default());
    let it = Box::leak(Box::new(Leaves { table, id: Mutex::default() }));
    let id = table.register(registered(it, "leaves")).unwrap();
    *it.id.lock().unwrap() = Some(id);
    assert_eq!(table.relieve(ALL, world), Pass::Done(10));
    assert_eq!(table.removal(id), RemovalState::Done);
    assert_eq!((table.remove(id), table.counts(id)), (None, None));
    assert_eq!(table.relieve(ALL, world), Pass::Done(0));
}

#[test]
fn a_callback_that_unwinds_ends_the_pass() {
    struct Panics;
    impl Shrink for Panics {
        fn count(&self) -> u64 {
            panic!("on purpose")
        }
        fn scan(&self, _: u64) -> Option<u64> {
            None
        }
    }
    let world = world(0);
    let table: &Shrinkers<4> = Box::leak(Box::default());
    let id = table.register(registered(&Panics, "panics")).unwrap();
    let pass = std::panic::catch_unwind(AssertUnwindSafe(|| table.relieve(ALL, world)));
    assert!(pass.is_err());
    assert_eq!(table.remove(id), Some(RemovalState::Done));
    assert_eq!(table.relieve(ALL, world), Pass::Done(0));
}

#[test]
fn a_full_table_says_so_and_a_removal_makes_room() {
    let world = world(0);
    let table = Shrinkers::<2>::new();
    let it = || registered(Objects::new(world, 0, 0), "one");
    let first = table.register(it()).unwrap();
    table.register(it()).unwrap();
    assert_eq!(table.register(it()), Err(Full));
    assert_eq!(table.remove(first), Some(RemovalState::Done));
    let again = table.register(it()).unwrap();
    assert!(again != first && table.remove(first).is_none(), "an old registration ends no new one");
}

/// Says whether it is called after its removal was done.
struct Watched {
    is_gone: AtomicBool,
    calls: Std,
}

impl Shrink for Watched {
    fn count(&self) -> u64 {
        assert!(!self.is_gone.load(SeqCst), "called after it was removed");
        1000
    }

    fn scan(&self, _: u64) -> Option<u64> {
        assert!(!self.is_gone.load(SeqCst), "called after it was removed");
        self.calls.fetch_add(1, SeqCst);
        std::thread::yield_now();
        assert!(!self.is_gone.load(SeqCst), "its removal was done while it was called");
        Some(1)
    }
}

#[test]
fn registrations_race_with_passes_and_no_call_comes_after_a_removal() {
    let world = world(0);
    let table: &Shrinkers<4> = Box::leak(Box::default());
    let stop = AtomicBool::new(false);
    let ran = std::thread::scope(|scope| {
        let passes = || {
            let mut ran = 0;
            while !stop.load(SeqCst) {
                ran += u64::from(table.relieve(ALL, world) != Pass::Busy);
            }
            ran
        };
        let passers = [scope.spawn(passes), scope.spawn(passes)];
        let register = || {
            for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
                let watched: &Watched =
                    Box::leak(Box::new(Watched { is_gone: false.into(), calls: 0.into() }));
                // Full now and then, though there is room: entries change hands while one looks at
                // them in turn.
                let id = loop {
                    match table.register(registered(watched, "watched")) {
                        Ok(id) => break id,
                        Err(Full) => std::thread::yield_now(),
                    }
                };
                std::thread::yield_now();
                let mut removal = table.remove(id).unwrap();
                while removal == RemovalState::Running {
                    std::thread::yield_now();
                    removal = table.removal(id);
                }
                watched.is_gone.store(true, SeqCst);
            }
        };
        let registrars = [scope.spawn(register), scope.spawn(register), scope.spawn(register)];
        let fine = registrars.map(|thread| thread.join().is_ok());
        stop.store(true, SeqCst);
        let ran = passers.map(|thread| thread.join());
        assert_eq!(fine, [true; 3]);
        ran.map(|ran| ran.expect("no call after a removal"))
    });
    assert!(ran[0] + ran[1] > 0);
    let mut left = 0;
    table.each(|_, _| left += 1);
    assert_eq!(left, 0, "all entries are free");
}
