//! On real CPUs: threads that are bound to a CPU each, two declared nodes, and a ring of objects
//! that go from one to the next.

use super::{BYTES, CLASS, Nodes, node_of};
use slabyard::engine::ArrayCaches;
use slabyard::engine::Counter;
use slabyard::engine::nodes::NodeSettings;
use slabyard::engine::sheaves::SheavesOnNodes;
use slabyard::platform::Memory;
use slabyard::platform::linux::{CountingLinux, Mode};
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::bind_to;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

const ROUNDS: usize = 2000;
const OBJECTS: usize = 300;

/// What is counted of the class, after two bound threads freed each other's objects; `None` where
/// that cannot be tried.
fn counts_of_bound_threads<E: Nodes>(remote_percent: u32) -> Option<Vec<u64>> {
    let yard: Yard<CountingLinux, E> = Yard::new(CountingLinux::new());
    let settings = NodeSettings { remote_percent, ..E::SETTINGS };
    yard.caches().classes().iter().for_each(|cache| cache.engine.follow(settings));
    let far = AtomicU64::new(0);
    let p = yard.platform();
    assert!(p.init(None) && p.set_nodes(2) && p.count_slow_paths());
    if p.mode() == Mode::Slots {
        println!("not run: no restartable sequences here");
        return None;
    }
    if p.real_nodes().0 {
        println!("not run: the machine has several nodes");
        return None;
    }
    assert!(yard.init(Settings { reserve_bytes: 1 << 30, decay_ms: 20 }));
    let (to_one, from_zero) = mpsc::sync_channel::<Vec<usize>>(4);
    let (to_zero, from_one) = mpsc::sync_channel::<Vec<usize>>(4);
    let work = |cpu: usize, to: mpsc::SyncSender<Vec<usize>>, from: mpsc::Receiver<Vec<usize>>| {
        if bind_to(cpu).is_err() {
            return false;
        }
        for _ in 0..ROUNDS {
            let get = |nth: usize| {
                let address = yard.alloc_fast(BYTES - nth % 2 * 16, 16).expect("memory");
                let is_near = node_of(&yard, address) == Some(cpu % 2);
                assert!(is_near || remote_percent > 0, "{address:#x} on CPU {cpu}");
                // Those of the other size are another cache's.
                if !is_near && nth.is_multiple_of(2) {
                    far.fetch_add(1, Ordering::Relaxed);
                }
                address
            };
            let objects: Vec<usize> = (0..OBJECTS).map(get).collect();
            // The other one may have ended: it must not run there.
            if to.send(objects).is_err() {
                return false;
            }
            let Ok(others) = from.recv() else { return false };
            for address in others {
                yard.free_fast(address).expect("a live object");
            }
        }
        true
    };
    let ran = std::thread::scope(|scope| {
        let zero = scope.spawn(|| work(0, to_one, from_one));
        let one = scope.spawn(|| work(1, to_zero, from_zero));
        [zero, one].map(|thread| thread.join().expect("each object of its own node"))
    });
    if ran != [true; 2] {
        println!("not run: one CPU alone");
        return None;
    }
    let sound = yard.verify().expect("outside of a slow path").expect("a sound yard");
    assert_eq!(sound.live, 0);
    assert_eq!(yard.platform().nodes(), 2);
    let counts = yard.platform().counted(CLASS).expect("it counts");
    // By the rule, and never but by the rule.
    assert_eq!(counts[Counter::NodeAllocs as usize], far.into_inner());
    Some(counts.to_vec())
}

#[test]
fn bound_threads_get_memory_of_their_node() {
    let Some(counts) = counts_of_bound_threads::<ArrayCaches>(0) else { return };
    let frees = counts[Counter::NodeFrees as usize];
    assert_eq!(frees, (ROUNDS * OBJECTS) as u64, "half of the objects are of this class, twice");
    assert_eq!(counts[Counter::NodeAllocs as usize], 0);
    assert!(counts[Counter::NodeOverflow as usize] > frees / 20);
}

#[test]
fn bound_threads_get_memory_of_their_node_by_sheaves() {
    let Some(counts) = counts_of_bound_threads::<SheavesOnNodes>(0) else { return };
    let frees = (ROUNDS * OBJECTS) as u64;
    assert_eq!(counts[Counter::NodeFrees as usize], frees);
    assert_eq!(counts[Counter::FreeSlowpath as usize], frees, "each went to its slab");
    assert_eq!(counts[Counter::NodeAllocs as usize], 0);
}

#[test]
fn bound_threads_get_others_memory_by_the_ratio_alone() {
    for percent in [10, 100] {
        let Some(counts) = counts_of_bound_threads::<SheavesOnNodes>(percent) else {
            return;
        };
        assert!(counts[Counter::NodeFrees as usize] > 0);
    }
}
