//! Yards on memory with holes: the holes' contents stay unchanged, and everything else is handed
//! out.

use slabyard_fixed::{Alone, CpuSlab, FixedEngine, Slab, Slob, Slub, Tiny, Yard};
use std::alloc::Layout;
use std::ops::Range;
use std::ptr::NonNull;

const PAGE: usize = 512;
const BYTES: usize = 128 << 10;
/// What a device or firmware has there.
const FOREIGN: u8 = 0xA5;

type Small<E> = Yard<Alone<PAGE>, E>;

fn memory() -> *mut u8 {
    // SAFETY: the size is not 0.
    let at = unsafe { std::alloc::alloc(Layout::from_size_align(BYTES, 4096).unwrap()) };
    assert!(!at.is_null());
    at
}

/// Three holes: one within a page, one over the edges of pages, one to the memory's end.
fn holes(at: *mut u8) -> [Range<usize>; 3] {
    let of = |from: usize, to: usize| at.addr() + from..at.addr() + to;
    [of(20 * PAGE + 100, 20 * PAGE + 101), of(64 * PAGE - 1, 80 * PAGE + 1), of(BYTES - 1, BYTES)]
}

/// Pages that the holes reach into.
const LOST: u32 = 1 + 18 + 1;

fn overlaps(block: NonNull<u8>, bytes: usize, holes: &[Range<usize>]) -> bool {
    let begin = block.addr().get();
    holes.iter().any(|hole| begin < hole.end && hole.start < begin + bytes)
}

fn holes_are_left_alone<E: FixedEngine>() {
    let (at, whole) = (memory(), memory());
    let holes = holes(at);
    for hole in &holes {
        for byte in hole.clone() {
            // SAFETY: in the memory.
            unsafe { at.with_addr(byte).write(FOREIGN) };
        }
    }
    let (yard, other) = (Small::<E>::new(Alone::new()), Small::<E>::new(Alone::new()));
    // SAFETY: nobody else has the memories.
    unsafe { yard.init_around(at, BYTES, &holes) }.expect("room");
    // SAFETY: as above.
    unsafe { other.init_at(whole, BYTES) }.expect("room");
    let counts = yard.verify().expect("sound");
    assert_eq!(counts.managed + LOST, other.verify().expect("sound").managed);
    let mut live = Vec::new();
    for round in 0.. {
        let bytes = [16, 48, 100, 400, 700][round % 5];
        let Some(block) = yard.malloc(bytes) else { break };
        assert!(!overlaps(block, bytes, &holes), "{}", E::NAME);
        // SAFETY: the block is ours.
        unsafe { block.as_ptr().write_bytes(1, bytes) };
        live.push(block);
    }
    assert!(live.len() > 200, "{}: {}", E::NAME, live.len());
    yard.verify().expect("sound while it is full");
    for block in live {
        // SAFETY: it is live.
        assert!(unsafe { yard.mfree(block) });
    }
    yard.shrink();
    let mut runs = Vec::new();
    for order in (0..=6).rev() {
        while let Some(run) = yard.pages(order) {
            assert!(!overlaps(run, PAGE << order, &holes), "{} {order}", E::NAME);
            runs.push(run);
        }
    }
    assert_eq!(yard.verify().expect("sound").free, 0, "all pages are handed out");
    // SAFETY: they are live.
    assert!(runs.into_iter().all(|run| unsafe { yard.free_pages(run) }));
    yard.verify().expect("sound");
    for byte in holes.into_iter().flatten() {
        // SAFETY: in the memory.
        assert_eq!(unsafe { at.with_addr(byte).read() }, FOREIGN, "{}", E::NAME);
    }
}

#[test]
fn each_engine_leaves_holes_alone() {
    holes_are_left_alone::<Tiny>();
    holes_are_left_alone::<Slub>();
    holes_are_left_alone::<Slab>();
    holes_are_left_alone::<CpuSlab>();
    holes_are_left_alone::<Slob>();
}

#[test]
fn holes_that_cannot_be_are_refused() {
    let at = memory();
    let of = |from: usize, to: usize| at.addr() + from..at.addr() + to;
    let refused = [
        vec![of(8, 16)],
        vec![of(70 * PAGE, 71 * PAGE), of(60 * PAGE, 61 * PAGE)],
        vec![of(60 * PAGE, 60 * PAGE)],
        vec![of(10 * PAGE, BYTES)],
    ];
    for holes in refused {
        let yard = Small::<Tiny>::new(Alone::new());
        // SAFETY: nobody else has it.
        let taken = unsafe { yard.init_around(at, BYTES, &holes) };
        let is_all = holes[0].end == at.addr() + BYTES;
        // Entries take 2,560 bytes: behind them five pages are left in front of the last hole.
        assert_eq!(taken.is_ok(), is_all, "{holes:?}");
    }
    let yard = Small::<Tiny>::new(Alone::new());
    // SAFETY: as above.
    let taken = unsafe { yard.init_around(at, BYTES, &[of(5 * PAGE + 1, BYTES)]) };
    assert!(taken.is_err(), "a memory that is one hole");
}
