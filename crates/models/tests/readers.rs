//! Readers of RCU against grace periods: what was unlinked is freed when no section has it.
#![cfg(loom)]

use slabyard::calls::readers::{poll_rcu, wanted_rcu};
use slabyard::yard::{Settings, Yard};
use slabyard_models::{
    Data, Modelled, keep, model, prepare, spawn, watch, watch_range, watch_touched, yield_now,
};
use slabyard_platform::Threads;
use slabyard_platform::reader::ReaderSlot;
use slabyard_platform::sync::{AtomicUsize, Ordering};
use std::sync::atomic::AtomicBool;

/// A yard whose words for readers are watched, and the places of the first threads.
fn yard() -> &'static Yard<Modelled> {
    let yard: &Yard<Modelled> = keep(Yard::new(Modelled::new()));
    assert!(yard.init(Settings { reserve_bytes: 64 << 20, decay_ms: 250 }));
    yard.rcu_read_lock();
    yard.rcu_read_unlock();
    let over = wanted_rcu(&yard.heap);
    assert!(yard.synchronize_rcu().is_ok());
    // No look at the places of threads that there are not.
    watch_touched(&["slabyard/src/rcu/periods.rs"], || {
        let next = wanted_rcu(&yard.heap);
        assert!(next > over && poll_rcu(yard, over));
    });
    let place = yard.platform().thread().reader[0].load(Ordering::Relaxed);
    for nth in 0..3 {
        watch_range(place + nth * size_of::<ReaderSlot>(), 1, 8);
    }
    yard
}

/// The writer overwrites the object when the grace period is over; a reader that found it has read
/// it before, and one that has the next epoch, for which nobody waits, does not find it. The reader has
/// its place already: the taking of one would order what the section's own words must.
fn unlinks(yard: &'static Yard<Modelled>) {
    let object: &Data = keep(Data::new());
    let [pointer, step] = keep([AtomicUsize::new(1), AtomicUsize::new(0)]);
    let is_prepared: &AtomicBool = keep(AtomicBool::new(false));
    watch(pointer);
    watch(step);
    let reader = spawn(move || {
        prepare(|| {
            yard.rcu_read_lock();
            yard.rcu_read_unlock();
        });
        is_prepared.store(true, Ordering::Relaxed);
        yield_now();
        yard.rcu_read_lock();
        let found = pointer.load(Ordering::Relaxed);
        // The grace period's fence of this thread may come here: before one of these.
        step.load(Ordering::Relaxed);
        step.load(Ordering::Relaxed);
        if found == 1 {
            object.read();
        }
        yield_now();
        yard.rcu_read_unlock();
    });
    // The fences of the preparation come before.
    while !is_prepared.load(Ordering::Relaxed) {
        yield_now();
    }
    pointer.store(0, Ordering::Relaxed);
    assert!(yard.synchronize_rcu().is_ok());
    object.write(1);
    reader.join().unwrap();
}

/// With fences of all threads.
#[test]
fn an_object_is_freed_after_its_readers() {
    model(2, || unlinks(yard()));
}

/// Where the kernel refuses these fences, and the readers know it.
#[test]
fn an_object_is_freed_after_readers_with_fences() {
    model(1, || {
        let yard = yard();
        yard.platform().refuse_reader_fences();
        assert!(yard.synchronize_rcu().is_ok());
        unlinks(yard);
    });
}

/// A thread that finds a grace period over, which another one ended, comes after its readers.
#[test]
fn who_finds_a_period_over_comes_after_it() {
    model(1, || {
        let yard = yard();
        let object: &Data = keep(Data::new());
        let wanted = wanted_rcu(&yard.heap);
        yard.rcu_read_lock();
        assert!(!poll_rcu(yard, wanted), "a section is open");
        let poller = spawn(move || _ = poll_rcu(yard, wanted));
        let other = spawn(move || {
            if poll_rcu(yard, wanted) {
                object.write(2);
            }
        });
        object.read();
        yard.rcu_read_unlock();
        poller.join().unwrap();
        other.join().unwrap();
    });
}
