//! Frees of large blocks with debugging by a signal handler that interrupted a slow path of its
//! thread: they wait, linked through the blocks, of which no byte that is looked at changes.

use crate::in_own_process;
use slabyard::calls::trim;
use slabyard::engine::Any;
use slabyard::platform::Threads;
use slabyard::platform::linux::Linux;
use slabyard::sync::Ordering;
use slabyard::yard::{Settings, Yard};
use slabyard_abi::debug::DebugFlags;
use slabyard_abi::engines::EngineName;

static YARD: Yard<Linux, Any> = Yard::new(Linux::new());

/// The bit of the depth word that says that a thread is in a slow path.
const INSIDE: u32 = 1;
/// No cache aligns so: each block is a large one, of a few bytes, too.
const ALIGN: usize = 64 << 10;

#[test]
fn the_zone_of_a_large_block_stays_whole() {
    in_own_process("handlers::the_zone_of_a_large_block_stays_whole", free_inside);
}

fn free_inside() {
    assert!(YARD.platform().init(None));
    assert!(YARD.choose_debug(|_| DebugFlags::DEFAULT));
    YARD.choose(EngineName::Slub);
    assert!(YARD.init(Settings { reserve_bytes: 4 << 30, decay_ms: 250 }));
    let alloc = |bytes| YARD.alloc(bytes, ALIGN).expect("memory");
    // Beyond these, large blocks are runs.
    let mappings: Vec<_> = (0..4096).map(|_| alloc(1)).collect();
    let runs = [0, 1, 4, 7, 8, 100, 40_000].map(alloc);
    assert!(runs.iter().all(|run| YARD.heap.run_bytes(*run).is_some()), "they are runs");
    let depth = &YARD.platform().thread().depth;
    depth.fetch_or(INSIDE, Ordering::Relaxed);
    let blocks = [mappings[0]].into_iter().chain(runs);
    blocks.for_each(|block| assert_eq!(YARD.free(block), Ok(())));
    depth.fetch_and(!INSIDE, Ordering::Relaxed);
    assert!(runs.iter().all(|run| YARD.heap.run_bytes(*run).is_some()), "the frees wait");
    trim::drain_thread(&YARD);
    assert!(runs.iter().all(|run| YARD.heap.run_bytes(*run).is_none()), "they are made");
    assert_eq!((YARD.findings(), YARD.validate()), (0, Some(0)));
}
