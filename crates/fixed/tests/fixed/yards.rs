//! Yards on fixed memory: an oracle that writes into each block and checks it later, for each
//! engine, page size and memory; exhaustion; typed objects; threads.

use slabyard_fixed::{
    Alone, Board, CacheSettings, Counts, CpuSlab, FixedEngine, Memory, ObjectCache, Settings, Slab,
    Slob, Slub, Spin, Tiny, Yard,
};
use std::alloc::Layout;
use std::ptr::NonNull;

/// Memory that a test never frees.
fn memory(bytes: usize, align: usize) -> *mut u8 {
    // SAFETY: the size is not 0.
    unsafe { std::alloc::alloc(Layout::from_size_align(bytes, align).unwrap()) }
}

/// A generator of numbers (Marsaglia's xorshift, 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
}

/// A live block: what was requested, and where it is.
struct Live {
    at: NonNull<u8>,
    bytes: usize,
    cache: Option<usize>,
    stamp: u8,
}

impl Live {
    fn write(&self) {
        // SAFETY: the block is this owner's.
        unsafe { self.at.as_ptr().write_bytes(self.stamp, self.bytes) };
    }

    fn check(&self) {
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.bytes) };
        assert!(bytes.iter().all(|byte| *byte == self.stamp), "somebody else wrote to the block");
    }
}

const SIZES: [(usize, usize); 6] = [(8, 8), (24, 8), (72, 8), (200, 16), (500, 4), (1200, 64)];

fn stress<B: Board, E: FixedEngine>(
    board: B,
    settings: Settings,
    bytes: usize,
    steps: usize,
) -> Counts {
    let yard: Yard<B, E> = Yard::with(board, settings);
    // SAFETY: nobody else has it.
    unsafe { yard.init_at(memory(bytes, 16), bytes) }.expect("room");
    let caches: Vec<_> = SIZES
        .iter()
        .filter_map(|&(size, align)| {
            let align = align.min(B::PAGE_BYTES);
            Some((yard.create("objects", CacheSettings { size, align })?, size, align))
        })
        .collect();
    let (mut live, mut random): (Vec<Live>, _) = (Vec::new(), Random(bytes as u64 + 1));
    let (mut failed, mut after_failure) = (0, 0);
    let mut grows = true;
    for step in 0..steps {
        if live.is_empty() || random.below(100) < if grows { 60 } else { 40 } {
            let which = random.below(caches.len() + 3);
            let (at, bytes, cache) = if let Some((id, size, align)) = caches.get(which) {
                let at = yard.alloc(*id);
                if let Some(at) = at {
                    assert!(at.addr().get().is_multiple_of(*align), "{size} at {at:?}");
                }
                (at, *size, Some(which))
            } else {
                let bytes = [random.below(120), random.below(1500), random.below(9000)]
                    [which - caches.len()];
                (yard.malloc(bytes), bytes, None)
            };
            let Some(at) = at else {
                failed += 1;
                grows = false;
                continue;
            };
            after_failure += usize::from(failed > 0);
            let block = Live { at, bytes, cache, stamp: step as u8 };
            block.write();
            live.push(block);
        } else {
            let block = live.swap_remove(random.below(live.len()));
            block.check();
            // SAFETY: the block is live, and forgotten.
            let freed = unsafe {
                match block.cache {
                    Some(cache) => yard.free(caches[cache].0, block.at),
                    None => {
                        assert!(yard.usable(block.at) >= block.bytes);
                        yard.mfree(block.at)
                    }
                }
            };
            assert!(freed);
            grows |= live.len() < 20;
        }
        if step % 4099 == 0 {
            yard.verify().unwrap_or_else(|what| panic!("{} at {step}: {what}", E::NAME));
        }
    }
    assert!(failed > 0 && after_failure > 0, "{}: the memory never ran out", E::NAME);
    let counts = yard.verify().unwrap();
    if E::NAME != "slob" {
        assert_eq!(counts.live, live.iter().filter(|b| yard_counts(&yard, b)).count() as u64);
    }
    for block in live {
        block.check();
        // SAFETY: as above.
        assert!(unsafe {
            match block.cache {
                Some(cache) => yard.free(caches[cache].0, block.at),
                None => yard.mfree(block.at),
            }
        });
    }
    yard.shrink();
    let empty = yard.verify().unwrap();
    assert_eq!((empty.live, empty.parked, empty.slab_pages, empty.run_pages), (0, 0, 0, 0));
    for (id, ..) in caches {
        assert!(yard.destroy(id) && yard.alloc(id).is_none());
    }
    counts
}

/// True for what is no run of pages.
fn yard_counts<B: Board, E: FixedEngine>(yard: &Yard<B, E>, block: &Live) -> bool {
    let usable = yard.usable(block.at);
    block.cache.is_some()
        || usable <= 2 * B::PAGE_BYTES && usable.is_power_of_two()
        || usable == 96
        || usable == 192
}

fn each_board<E: FixedEngine>(settings: Settings) {
    stress::<_, E>(Alone::<512>::new(), settings, 64 << 10, 60_000);
    stress::<_, E>(Alone::<1024>::new(), settings, 200 << 10, 60_000);
    stress::<_, E>(Alone::<4096>::new(), settings, 1 << 20, 60_000);
    stress::<_, E>(Alone::<16384>::new(), settings, 2 << 20, 30_000);
    stress::<_, E>(Alone::<65536>::new(), settings, 8 << 20, 60_000);
}

#[test]
fn no_block_is_in_two_hands_and_none_is_lost() {
    for max_order in [None, Some(0), Some(3)] {
        let settings = Settings { max_order, ..Settings::DEFAULT };
        each_board::<Tiny>(settings);
        each_board::<Slub>(settings);
        each_board::<Slab>(settings);
        each_board::<CpuSlab>(settings);
        each_board::<CpuSlab>(Settings { cpu_partial: 30, ..settings });
        each_board::<Slob>(settings);
    }
}

/// Exhaustion is an answer: null, again and again; what is freed then serves the next calls.
fn exhausts<E: FixedEngine>() {
    let yard: Yard<Alone<512>, E> = Yard::new(Alone::new());
    // SAFETY: nobody else has it.
    unsafe { yard.init_at(memory(64 << 10, 512), 64 << 10) }.expect("room");
    for size in [16, 100, 700, 3000] {
        let all: Vec<_> = std::iter::from_fn(|| yard.malloc(size)).collect();
        assert!(all.len() * size > 30 << 10, "{} of {size} bytes by {}", all.len(), E::NAME);
        assert!((0..3).all(|_| yard.malloc(size).is_none() && yard.pages(7).is_none()));
        let failure = yard.failure(491_520).expect("sound");
        assert!(failure.to_string().contains("allocation of length 491520 failed"), "{failure}");
        // SAFETY: each is live.
        assert!(unsafe { yard.mfree(all[all.len() / 2]) });
        let again = yard.malloc(size).expect("one was freed");
        for block in all.iter().enumerate().filter(|it| it.0 != all.len() / 2).map(|it| it.1) {
            // SAFETY: as above.
            assert!(unsafe { yard.mfree(*block) });
        }
        // SAFETY: as above.
        assert!(unsafe { yard.mfree(again) });
        yard.shrink();
        assert_eq!(yard.verify().expect("sound").live, 0);
    }
}

#[test]
fn exhaustion_is_an_answer() {
    exhausts::<Tiny>();
    exhausts::<Slub>();
    exhausts::<Slab>();
    exhausts::<CpuSlab>();
    exhausts::<Slob>();
}

static MEMORY: Memory<{ 64 << 10 }> = Memory::new();
static YARD: Yard<Spin<512>, Tiny> = Yard::new(Spin::new());

/// Values of a type, from several threads; and what an empty yard costs.
#[test]
fn threads_share_a_yard_of_64_kib() {
    YARD.init(&MEMORY).expect("room");
    assert!(YARD.init(&MEMORY).is_err(), "a memory has one yard");
    assert!(YARD.fixed_bytes() <= 4096, "{} bytes", YARD.fixed_bytes());
    let cache = ObjectCache::<(usize, String), _, _>::new("pairs", &YARD).expect("room");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let cache = &cache;
            scope.spawn(move || {
                for round in 0..1000 {
                    let values: Vec<_> = (0..40)
                        .map_while(|n| cache.alloc((thread * 40 + n, format!("{round}"))).ok())
                        .collect();
                    for (n, value) in values.iter().enumerate() {
                        assert_eq!((value.0, &value.1), (thread * 40 + n, &format!("{round}")));
                    }
                }
            });
        }
    });
    let counts = YARD.verify().expect("sound");
    assert_eq!(counts.live, 0, "{counts:?}");
    drop(cache);
    assert_eq!(YARD.verify().expect("sound").slab_pages, 0);
}

#[test]
fn an_empty_yard_of_8_mib_costs_24_kib() {
    fn fixed<E: FixedEngine>() -> usize {
        let yard: Yard<Alone, E> = Yard::new(Alone::new());
        // SAFETY: nobody else has it.
        unsafe { yard.init_at(memory(8 << 20, 4096), 8 << 20) }.expect("room");
        yard.fixed_bytes()
    }
    for fixed in
        [fixed::<Tiny>(), fixed::<Slub>(), fixed::<Slab>(), fixed::<CpuSlab>(), fixed::<Slob>()]
    {
        assert!(fixed <= 24 << 10, "{fixed} bytes");
    }
}

/// What is no block of the yard's is refused, as far as it can be seen.
#[test]
fn strangers_are_refused() {
    let yard: Yard<Alone, Tiny> = Yard::new(Alone::new());
    // SAFETY: nobody else has it.
    unsafe { yard.init_at(memory(1 << 20, 4096), 1 << 20) }.expect("room");
    let (block, mut stranger) = (yard.malloc(100).expect("room"), 0u64);
    let inside = block.map_addr(|at| at.checked_add(8).unwrap());
    let run = yard.pages(2).expect("room");
    // SAFETY: no block is freed.
    unsafe {
        assert!(!yard.mfree(NonNull::from(&mut stranger).cast()));
        assert!(!yard.mfree(inside));
        assert!(!yard.free_pages(block));
        assert!(!yard.mfree(run.map_addr(|at| at.checked_add(4096).unwrap())));
    }
    // SAFETY: they are live.
    assert!(unsafe { yard.mfree(block) && yard.free_pages(run) });
    assert_eq!(yard.usable(run), 0);
}

/// The checkers find what is planted: a write to freed memory, a free that is made twice, a block
/// that somebody else writes to.
#[test]
fn planted_bugs_are_found() {
    fn yard<E: FixedEngine>() -> (Yard<Alone, E>, [NonNull<u8>; 3]) {
        let yard: Yard<Alone, E> = Yard::new(Alone::new());
        // SAFETY: nobody else has it.
        unsafe { yard.init_at(memory(256 << 10, 4096), 256 << 10) }.expect("room");
        let blocks = [0; 3].map(|_| yard.malloc(64).expect("room"));
        yard.verify().expect("sound");
        (yard, blocks)
    }
    // A bug of the program's: none of this is memory that it has.
    let (slabs, [first, second, _]) = yard::<Tiny>();
    // SAFETY: that this breaks the yard is what is tested, and nobody uses it afterwards.
    unsafe {
        slabs.mfree(first);
        slabs.mfree(second);
        second.cast::<u16>().write(12_345);
    }
    assert!(slabs.verify().is_err(), "a write to freed memory");
    let (slabs, [first, second, _]) = yard::<Tiny>();
    // One more is live, so that the slab does not end.
    let _live = slabs.malloc(64);
    // SAFETY: as above.
    unsafe {
        slabs.mfree(first);
        slabs.mfree(second);
        slabs.mfree(first);
    }
    assert!(slabs.verify().is_err(), "freed twice");
    let (blocks, [first, ..]) = yard::<Slob>();
    // SAFETY: as above. What is free from the page's begin on is one block, with its size there.
    unsafe {
        blocks.mfree(first);
        first.map_addr(|at| (at.get() & !4095).try_into().unwrap()).cast::<u16>().write(3);
    }
    assert!(blocks.verify().is_err(), "a write to a free block");
    let (arrays, [first, second, third]) = yard::<Slab>();
    // SAFETY: as above.
    let freed = unsafe { [first, second, third, first].map(|block| arrays.mfree(block)) };
    assert_eq!(freed, [true; 4], "an array keeps what it is given");
    assert!(arrays.verify().is_err(), "parked twice");
    let (_yard, [block, ..]) = yard::<Tiny>();
    let live = Live { at: block, bytes: 64, cache: None, stamp: 7 };
    live.write();
    // SAFETY: the block is ours.
    unsafe { block.write(8) };
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| live.check()));
    assert!(found.is_err(), "the oracle looks at each byte");
}

/// For Miri: a few calls of each engine.
#[test]
fn miri_calls() {
    fn calls<E: FixedEngine>() {
        let layout = Layout::from_size_align(12 << 10, 16).unwrap();
        let yard: Yard<Alone<512>, E> = Yard::new(Alone::new());
        // SAFETY: the size is not 0.
        let at = unsafe { std::alloc::alloc(layout) };
        // SAFETY: nobody else has it, and the yard is not used after its end.
        unsafe { yard.init_at(at, layout.size()) }.expect("room");
        let id = yard.create("objects", CacheSettings { size: 40, align: 8 }).expect("room");
        let mut live = Vec::new();
        // SAFETY: what is freed is live, and forgotten.
        let free =
            |(is_object, at)| unsafe { if is_object { yard.free(id, at) } else { yard.mfree(at) } };
        for n in 0..70 {
            let is_object = n % 3 == 0;
            let block = if is_object { yard.alloc(id) } else { yard.malloc(n * 7 % 300) };
            live.extend(block.map(|block| (is_object, block)));
            if n % 4 == 3 {
                assert!(free(live.swap_remove(n % live.len())));
            }
        }
        yard.verify().expect("sound");
        assert!(live.into_iter().all(free));
        yard.shrink();
        yard.verify().expect("sound");
        // SAFETY: as above.
        unsafe { std::alloc::dealloc(at, layout) };
    }
    calls::<Tiny>();
    calls::<Slub>();
    calls::<Slab>();
    calls::<CpuSlab>();
    calls::<Slob>();
}
