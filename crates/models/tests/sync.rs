//! Locks, values that are set once, counts.
#![cfg(loom)]

use slabyard_models::{Data, Modelled, keep, model, spawn, watch_touched};
use slabyard_platform::sync::{AtomicU32, Lock, Once, Ordering, Rank};

/// Two threads, one value: who holds the lock sees what the holder before did.
#[test]
fn a_lock_orders_its_holders() {
    model(2, || {
        let p = keep(Modelled::new());
        let lock = keep(Lock::new(Rank::Pages, Data::new()));
        watch_touched(&["sync/lock.rs"], || drop(lock.lock(p)));
        let other = spawn(|| {
            let guard = lock.lock(p);
            guard.write(guard.read() + 1);
        });
        let guard = lock.lock(p);
        guard.write(guard.read() + 1);
        drop(guard);
        other.join().unwrap();
        assert_eq!(lock.lock(p).read(), 2);
    });
}

/// As above, of a thread that only tries.
#[test]
fn a_try_orders_its_holders() {
    model(2, || {
        let p = keep(Modelled::new());
        let lock = keep(Lock::new(Rank::Pages, Data::new()));
        watch_touched(&["sync/lock.rs"], || drop(lock.lock(p)));
        let other = spawn(|| lock.lock(p).write(1));
        if let Some(guard) = lock.try_lock(p) {
            assert!(guard.read() <= 1);
            guard.write(2);
        }
        other.join().unwrap();
    });
}

/// Who finds the value of a `Once` sees what was done before it was set.
#[test]
fn a_value_set_once_is_whole() {
    model(2, || {
        let once = keep(Once::new());
        let data: &Data = keep(Data::new());
        watch_touched(&["sync/once.rs"], || _ = once.try_get());
        let other = spawn(move || {
            data.write(7);
            assert!(once.set(data));
        });
        if let Some(data) = once.try_get() {
            assert_eq!(data.read(), 7);
            assert_eq!(once.get().read(), 7);
        }
        other.join().unwrap();
    });
}

/// `get`, of a thread that knows without an order that the value is set.
#[test]
fn a_value_is_whole_in_get() {
    model(2, || {
        let once = keep(Once::new());
        let data: &Data = keep(Data::new());
        let state = watch_touched(&["sync/once.rs"], || _ = once.try_get());
        // SAFETY: the state of the value, which lives as long as it does.
        let state = unsafe { AtomicU32::from_ptr(state[0] as *mut u32) };
        let other = spawn(move || {
            data.write(7);
            assert!(once.set(data));
        });
        const SET: u32 = 2;
        if state.load(Ordering::Relaxed) == SET {
            assert_eq!(once.get().read(), 7);
        }
        other.join().unwrap();
    });
}
