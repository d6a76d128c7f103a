//! While a thread forks, no other thread waits for it: it may wait for a lock that they hold.

use slabyard::engine::cpu_slabs::OnCpus;
use slabyard::engine::{ArrayCaches, Engine, Sheaves, Slob, Tiny, array_cache, sheaves};
use slabyard::platform::Park;
use slabyard::platform::machine::{Body, Config, Machine};
use slabyard::sync::{AtomicU32, Ordering};
use slabyard::yard::{Settings, Yard};

fn yard_on<E: Engine>(config: Config) -> Yard<Machine, E> {
    // More than the engines of one node ask for.
    let yard = Yard::new(Machine::new(Config { nodes: 2, ..config }));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 250 }));
    yard
}

/// A thread that forks waits for a lock, as of the C library's streams, whose holder
/// allocates, frees, resizes, trims and counts: the machine would report a deadlock.
fn a_thread_with_a_lock_is_served<E: Engine>() {
    for seed in 0..200 {
        for can_stop in [true, false] {
            let yard =
                yard_on::<E>(Config { seed, can_stop, preemption: 300, ..Config::default() });
            let held = AtomicU32::new(1);
            let kept = yard.alloc(100, 16).expect("memory");
            let holder: Body<'_> = Box::new(|machine| {
                for bytes in [16, 100, 5000, 40_000, 2 << 20] {
                    let address = yard.alloc(bytes, 16).expect("memory");
                    let address = yard.resize(address, bytes + bytes / 8).unwrap_or(address);
                    yard.free(address).expect("a live block");
                }
                yard.free(kept).expect("a live object");
                yard.trim();
                // It may fail, but it must not wait for ever.
                let _ = yard.verify();
                held.store(0, Ordering::SeqCst);
                machine.wake(&held);
            });
            let forks: Body<'_> = Box::new(|machine| {
                yard.close();
                while held.load(Ordering::SeqCst) == 1 {
                    machine.wait(&held, 1);
                }
                yard.open();
            });
            yard.platform().run(vec![holder, forks]);
            // A slow path: it does the deferred frees.
            yard.drain_thread();
            if !can_stop {
                // Private rows of ended threads.
                yard.adopt_rows(1..=2);
            }
            let sound = yard.verify().expect("outside of a slow path").expect("a sound yard");
            assert_eq!((sound.live, sound.runs), (0, 0), "seed {seed}");
        }
    }
}

#[test]
fn a_thread_with_a_lock_that_fork_waits_for_is_served() {
    a_thread_with_a_lock_is_served::<Sheaves>();
}

#[test]
fn so_it_is_by_the_engine_tiny() {
    a_thread_with_a_lock_is_served::<Tiny>();
    a_thread_with_a_lock_is_served::<Slob>();
    a_thread_with_a_lock_is_served::<OnCpus>();
    a_thread_with_a_lock_is_served::<ArrayCaches>();
    a_thread_with_a_lock_is_served::<array_cache::OnNodes>();
    a_thread_with_a_lock_is_served::<sheaves::nodes::OnNodes>();
}
