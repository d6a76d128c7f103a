//! Yards and caches as the allocators of collections: tables of `hashbrown`, and random calls of
//! the trait itself against what each block holds.

use super::in_modes::{check, in_each_mode, nr_caches};
use allocator_api2::alloc::Allocator;
use hashbrown::HashMap;
use slabyard::platform::linux::Mode;
use slabyard::yard::{Settings, Yard};
use slabyard::{Global, ObjectCache, ProcessYard};
use slabyard_testkit::Random;
use std::alloc::Layout;
use std::collections::BTreeMap;
use std::hash::RandomState;
use std::ptr::NonNull;
use std::sync::Mutex;

type Tables = ObjectCache<[u8; 1024]>;
type Table<A> = HashMap<u64, u64, RandomState, A>;

/// Entries of a table whose memory is one object: 32 buckets, of which 7 in 8 may be used.
const IN_ONE_OBJECT: usize = 28;

fn tables(yard: &'static ProcessYard) -> Tables {
    ObjectCache::<[u8; 1024]>::builder("tables").align(16).create(yard).expect("a cache")
}

fn table<A: Allocator>(allocator: A) -> Table<A> {
    HashMap::with_hasher_in(RandomState::new(), allocator)
}

/// Live objects of malloc's classes.
fn live_in_classes(yard: &'static ProcessYard) -> u64 {
    let yard = yard.start().expect("memory");
    let classes = 0..yard.caches().classes().len();
    let live = yard.quiesce(|quiesced| {
        classes.map(|class| Yard::count_cache(quiesced, class).live).sum::<u64>()
    });
    live.expect("outside of a slow path")
}

/// Fills and drains a table as an oracle says.
fn use_table<A: Allocator>(table: &mut Table<A>, random: &mut Random, most: usize) {
    let mut oracle = BTreeMap::new();
    for step in 0..4000 {
        let key = random.below(most) as u64;
        match random.below(20) {
            0..12 => assert_eq!(table.insert(key, step), oracle.insert(key, step)),
            12..18 => assert_eq!(table.remove(&key), oracle.remove(&key)),
            18 => table.shrink_to_fit(),
            _ if step % 7 == 0 => assert_eq!(table.drain().count(), {
                let n = oracle.len();
                oracle.clear();
                n
            }),
            _ => table.reserve(random.below(200)),
        }
        assert_eq!(table.get(&key), oracle.get(&key));
    }
    assert_eq!(table.len(), oracle.len());
    assert!(oracle.iter().all(|(key, value)| table.get(key) == Some(value)));
}

#[test]
fn each_table_that_fits_is_an_object() {
    in_each_mode("collections::each_table_that_fits_is_an_object", |yard| {
        let cache = tables(yard);
        let before = live_in_classes(yard);
        let mut held: Vec<_> = (0..500).map(|_| table(&cache)).collect();
        assert_eq!(cache.live(), Some(0), "an empty table has no memory");
        for (nr, table) in (1..).zip(&mut held) {
            table.extend((0..IN_ONE_OBJECT as u64).map(|key| (key, key * nr)));
            assert_eq!(table.capacity(), IN_ONE_OBJECT);
        }
        assert_eq!((cache.live(), live_in_classes(yard)), (Some(500), before));
        // What grows leaves the cache, and comes back when it shrinks.
        for table in &mut held[..100] {
            table.extend((100..300).map(|key| (key, 1)));
        }
        assert_eq!((cache.live(), live_in_classes(yard)), (Some(400), before + 100));
        for table in &mut held[..50] {
            table.retain(|key, _| *key < 20);
            table.shrink_to_fit();
        }
        assert_eq!((cache.live(), live_in_classes(yard)), (Some(450), before + 50));
        for (nr, table) in (1..).zip(&held) {
            assert!((0..20).all(|key| table[&key] == key * nr));
        }
        // Planted: a table that nobody drops is live.
        std::mem::forget(held.pop());
        drop(held);
        assert_eq!((cache.live(), live_in_classes(yard)), (Some(1), before));
        let in_use = cache.destroy().expect_err("a table is there");
        assert_eq!(in_use.live, Some(1));
    });
}

#[test]
fn tables_are_dropped_in_other_threads() {
    in_each_mode("collections::tables_are_dropped_in_other_threads", |yard| {
        let cache = tables(yard);
        let before = live_in_classes(yard);
        let handed = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for seed in 0..8 {
                let (cache, handed) = (&cache, &handed);
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    for _ in 0..20 {
                        let mut own = table(cache);
                        let most = if random.chance(50) { 25 } else { 600 };
                        use_table(&mut own, &mut random, most);
                        let mut handed = handed.lock().expect("no panic");
                        handed.push(own);
                        let nth = random.below(handed.len());
                        let other = handed.swap_remove(nth);
                        drop((handed, other));
                    }
                });
            }
        });
        drop(handed);
        assert_eq!((cache.live(), live_in_classes(yard)), (Some(0), before));
        cache.destroy().expect("no table is there");
    });
}

/// A table may outlive the function that made the cache, and a cache its handle.
#[test]
fn a_table_owns_its_cache() {
    in_each_mode("collections::a_table_owns_its_cache", |yard| {
        let mut own = table(tables(yard));
        // The cache has a block of its own.
        assert_eq!((own.allocator().live(), live_in_classes(yard)), (Some(0), 1));
        use_table(&mut own, &mut Random::new(1), 25);
        let mut moved = std::thread::spawn(move || {
            own.clear();
            use_table(&mut own, &mut Random::new(2), 600);
            own
        })
        .join()
        .expect("no panic");
        moved.clear();
        moved.insert(1, 2);
        assert_eq!(moved.allocator().live().map(|live| live + live_in_classes(yard)), Some(2));
        drop(moved);
        assert_eq!((nr_caches(yard), live_in_classes(yard)), (0, 0));
    });
}

#[test]
fn refused_memory_is_an_error_of_a_table() {
    static SMALL: ProcessYard = ProcessYard::new().settings(FEW);
    static SMALL_SLOTS: ProcessYard = ProcessYard::new().settings(FEW).mode(Mode::Slots);
    const FEW: Settings = Settings { reserve_bytes: 16 << 20, decay_ms: 250 };
    in_each_mode("collections::refused_memory_is_an_error_of_a_table", |yard| {
        let mode = yard.start().expect("memory").platform().mode();
        let small = if mode == Mode::Slots { &SMALL_SLOTS } else { &SMALL };
        let cache = tables(small);
        let mut held = Vec::new();
        loop {
            let mut next = table(&cache);
            if next.try_reserve(10).is_err() {
                assert_eq!(next.capacity(), 0);
                break;
            }
            next.insert(1, held.len() as u64);
            held.push(next);
        }
        assert!((12_000..16_384).contains(&held.len()), "{}", held.len());
        assert_eq!(cache.live(), Some(held.len() as u64));
        // A table that may not grow is as it was.
        held[0].extend((0..IN_ONE_OBJECT as u64).map(|key| (key, key)));
        assert!(held[0].try_reserve(40).is_err());
        assert!((0..IN_ONE_OBJECT as u64).all(|key| held[0][&key] == key));
        held.truncate(6000);
        assert!(held[0].try_reserve(40).is_ok());
        assert!((0..IN_ONE_OBJECT as u64).all(|key| held[0][&key] == key));
        let mut fits = table(&cache);
        assert!(fits.try_reserve(10).is_ok());
        assert!((1..).zip(&held[1..]).all(|(nr, table)| table[&1] == nr));
        drop((held, fits));
        assert_eq!(cache.live(), Some(0));
        check(small);
    });
}

/// A block, filled with its mark.
struct Block<A: Allocator> {
    allocator: A,
    pointer: NonNull<u8>,
    layout: Layout,
    mark: u8,
}

// SAFETY: it is its owner's alone, and the allocators here are for all threads.
unsafe impl<A: Allocator> Send for Block<A> {}

fn any_layout(random: &mut Random) -> Layout {
    let most = 1 << random.below(21);
    let orders = if random.chance(5) { 17 } else { 6 };
    Layout::from_size_align(random.below(most), 1 << random.below(orders)).expect("a layout")
}

impl<A: Allocator> Block<A> {
    fn new(allocator: A, random: &mut Random) -> Self {
        let layout = any_layout(random);
        let zeroed = random.chance(30);
        let block = if zeroed { A::allocate_zeroed } else { A::allocate }(&allocator, layout);
        let block = block.expect("memory");
        if zeroed {
            // SAFETY: a fresh block of zeros.
            assert!(unsafe { block.as_ref() }.iter().all(|byte| *byte == 0));
        }
        let mut this = Block { allocator, pointer: block.cast(), layout, mark: 0 };
        this.takes(block, layout, random);
        this
    }

    /// Has this memory from now on, of any size between the one asked for and the one given.
    fn takes(&mut self, block: NonNull<[u8]>, asked: Layout, random: &mut Random) {
        assert!(block.len() >= asked.size());
        assert!(block.cast::<u8>().addr().get().is_multiple_of(asked.align()));
        let bytes = asked.size() + random.below(block.len() - asked.size() + 1);
        self.pointer = block.cast();
        self.layout = Layout::from_size_align(bytes, asked.align()).expect("a layout");
        self.mark = random.next() as u8;
        // SAFETY: the whole block is ours.
        unsafe { self.pointer.write_bytes(self.mark, block.len()) };
    }

    fn check(&self, bytes: usize) {
        // SAFETY: a live block of so many bytes.
        let held = unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), bytes) };
        assert!(held.iter().all(|byte| *byte == self.mark));
    }

    fn resize(&mut self, random: &mut Random) {
        let (old, to) = (self.layout, any_layout(random));
        let grows = to.size() >= old.size();
        let zeroed = grows && random.chance(30);
        // SAFETY: a live block with this layout, which is not used unless it comes back.
        let block = unsafe {
            match (grows, zeroed) {
                (true, true) => self.allocator.grow_zeroed(self.pointer, old, to),
                (true, false) => self.allocator.grow(self.pointer, old, to),
                _ => self.allocator.shrink(self.pointer, old, to),
            }
        };
        let block = block.expect("memory");
        self.pointer = block.cast();
        self.check(old.size().min(to.size()));
        if zeroed {
            // SAFETY: all of it was written to.
            assert!(unsafe { &block.as_ref()[old.size()..] }.iter().all(|byte| *byte == 0));
        }
        self.takes(block, to, random);
    }
}

impl<A: Allocator> Drop for Block<A> {
    fn drop(&mut self) {
        self.check(self.layout.size());
        // SAFETY: a live block with this layout.
        unsafe { self.allocator.deallocate(self.pointer, self.layout) };
    }
}

fn blocks_keep_their_bytes(allocator: impl Allocator + Copy + Send + Sync) {
    let handed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let handed = &handed;
            scope.spawn(move || {
                let mut random = Random::new(seed);
                let mut held = Vec::new();
                for _ in 0..2000 {
                    match random.below(10) {
                        0..4 => held.push(Block::new(allocator, &mut random)),
                        4..6 if !held.is_empty() => {
                            let nth = random.below(held.len());
                            held[nth].resize(&mut random);
                        }
                        6 => handed.lock().expect("no panic").extend(held.pop()),
                        7 => held.extend(handed.lock().expect("no panic").pop()),
                        _ if !held.is_empty() => drop(held.swap_remove(random.below(held.len()))),
                        _ => {}
                    }
                    held.truncate(40);
                }
            });
        }
    });
}

fn blocks_of_a_cache<const BYTES: usize>(yard: &'static ProcessYard, align: usize) {
    let builder = ObjectCache::<[u8; BYTES]>::builder("blocks").align(align);
    let cache = builder.create(yard).expect("a cache");
    blocks_keep_their_bytes(&cache);
    cache.destroy().expect("no block is there");
}

#[test]
fn blocks_of_a_yard_and_of_a_cache_keep_their_bytes() {
    static GLOBAL: Global = Global::new();
    in_each_mode("collections::blocks_of_a_yard_and_of_a_cache_keep_their_bytes", |yard| {
        blocks_keep_their_bytes(yard);
        blocks_keep_their_bytes(&GLOBAL);
        check(GLOBAL.yard().expect("memory"));
        blocks_of_a_cache::<0>(yard, 8);
        blocks_of_a_cache::<1>(yard, 1);
        blocks_of_a_cache::<100>(yard, 8);
        blocks_of_a_cache::<1024>(yard, 64);
        blocks_of_a_cache::<4096>(yard, 4096);
        assert_eq!(live_in_classes(yard), 0);
    });
}
