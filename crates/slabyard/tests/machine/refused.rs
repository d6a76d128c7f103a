//! What a signal handler gets that interrupted a slow path of its thread: no slow path serves it,
//! and its allocations keep all promises.

use slabyard::cache::classes::{LARGEST, request_for_aligned};
use slabyard::calls::{resize, trim};
use slabyard::engine::cpu_slabs::OnCpus;
use slabyard::engine::{ArrayCaches, Engine, Sheaves, Slob, Tiny};
use slabyard::observe::count;
use slabyard::platform::Threads;
use slabyard::sync::Ordering;
use slabyard::yard::{AddressKind, Settings, Yard};
use slabyard_testkit::machine::{Config, Machine};
use std::collections::BTreeMap;

/// The bit of the depth word that says that a thread is in a slow path.
const INSIDE: u32 = 1;

fn usable<E: Engine>(yard: &Yard<Machine, E>, address: usize) -> usize {
    match yard.place_of(address) {
        AddressKind::Object { bytes, begin: true, .. } | AddressKind::Large(bytes) => bytes,
        place => panic!("{address:#x} is {place:?}"),
    }
}

fn serves_all<E: Engine>(can_stop: bool) {
    let yard = Yard::<_, E>::new(Machine::new(Config { can_stop, ..Config::default() }));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 250 }));
    // Some that the handler frees.
    let before: Vec<usize> = [16, 100, 3000, 40_000, 2 << 20]
        .iter()
        .map(|n| yard.alloc(*n, 16).expect("memory"))
        .collect();
    let mut live = BTreeMap::new();
    let mut add = |address: usize, bytes: usize, align: usize| {
        assert_eq!(address % align, 0, "{bytes} bytes aligned to {align} at {address:#x}");
        assert!(usable(&yard, address) >= bytes);
        if let Some((at, n)) = live.range(..address + bytes).next_back() {
            assert!(at + n <= address, "{address:#x} overlaps");
        }
        live.insert(address, bytes);
    };
    yard.platform().thread().depth.fetch_or(INSIDE, Ordering::Relaxed);
    for align in (4..=18).map(|order| 1usize << order) {
        for bytes in [1, 16, 100, 300, 4095, 4097, 9000, LARGEST, LARGEST + 1, 70_000, 3 << 20] {
            add(yard.alloc(bytes, align).expect("memory"), bytes, align);
            add(yard.alloc_fast(bytes, align).expect("memory"), bytes, align);
            // As the functions of C ask, whose fast path knows no alignment.
            if let Some(request) = request_for_aligned(bytes, align) {
                add(yard.alloc_fast(request, 16).expect("memory"), bytes, align);
            }
        }
    }
    for bytes in [1, 5000, 2 << 20] {
        add(resize::alloc_growing(&yard, bytes).expect("memory"), bytes, 16);
    }
    let all: Vec<usize> = live.into_keys().chain(before).collect();
    for (nth, address) in all.iter().enumerate() {
        if nth % 3 == 0 {
            // It may not be resized in place, and is as it was then.
            let have = usable(&yard, *address);
            let at = yard.resize(*address, have + 1).unwrap_or(*address);
            yard.free(at).expect("a live block");
        } else {
            yard.free_fast(*address).expect("a live block");
        }
    }
    yard.platform().thread().depth.fetch_and(!INSIDE, Ordering::Relaxed);
    // A slow path: it makes the frees that were deferred.
    trim::drain_thread(&yard);
    let sound = yard.verify().expect("outside of a slow path").expect("a sound yard");
    assert_eq!((sound.live, sound.runs, count::set_aside(&yard.heap)), (0, 0, 0));
    assert_eq!(yard.platform().mapped_bytes(), 0);
}

#[test]
fn a_handler_gets_what_is_promised() {
    for can_stop in [true, false] {
        serves_all::<Sheaves>(can_stop);
        serves_all::<Tiny>(can_stop);
        serves_all::<Slob>(can_stop);
        serves_all::<OnCpus>(can_stop);
        serves_all::<ArrayCaches>(can_stop);
    }
}
