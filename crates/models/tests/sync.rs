//! Locks, values that are set once, counts.
#![cfg(loom)]

use slabyard_models::{Data, Modelled, keep, model, spawn, watch, watch_touched};
use slabyard_platform::sync::{
    AtomicU32, Lock, Once, OnceNumber, Ordering, Rank, SleepLock, TryLock,
};

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

/// Who finds a number that was set once, or loses against who set it, comes after that.
#[test]
fn a_number_set_once_comes_with_what_it_names() {
    model(2, || {
        let number: &OnceNumber = keep(OnceNumber::new());
        let made: &[Data; 2] = keep([Data::new(), Data::new()]);
        watch(number);
        let set = move |mine: usize| {
            if number.get() == 0 {
                made[mine - 1].write(7);
                return number.set(mine).map_or_else(|theirs| theirs, |()| mine);
            }
            number.get()
        };
        let other = spawn(move || made[set(1) - 1].read());
        assert_eq!(made[set(2) - 1].read(), 7);
        assert_eq!(other.join().unwrap(), 7);
    });
}

/// As above, of a thread that never sets it.
#[test]
fn a_number_that_is_found_comes_with_what_it_names() {
    model(2, || {
        let number: &OnceNumber = keep(OnceNumber::new());
        let made: &Data = keep(Data::new());
        watch(number);
        let other = spawn(move || {
            made.write(7);
            assert!(number.set(1).is_ok());
        });
        if number.get() == 1 {
            assert_eq!(made.read(), 7);
        }
        other.join().unwrap();
    });
}

/// Who takes a lock of those that sleep sees what the holder before did.
#[test]
fn a_lock_that_sleeps_orders_its_holders() {
    model(2, || {
        let p = keep(Modelled::new());
        let lock: &SleepLock = keep(SleepLock::new());
        let data: &Data = keep(Data::new());
        watch(lock);
        let add = move || {
            lock.acquire(p);
            data.write(data.read() + 1);
            lock.release(p);
        };
        let other = spawn(add);
        add();
        other.join().unwrap();
        lock.acquire(p);
        assert_eq!(data.read(), 2);
    });
}

/// Who finds a lock open that nobody waits for sees what the holder before did.
#[test]
fn a_lock_that_is_tried_orders_its_holders() {
    model(2, || {
        let lock: &TryLock = keep(TryLock::new());
        let data: &Data = keep(Data::new());
        watch(lock);
        let add = move || {
            if lock.try_acquire() {
                data.write(data.read() + 1);
                lock.release();
            }
        };
        let other = spawn(add);
        add();
        other.join().unwrap();
    });
}
