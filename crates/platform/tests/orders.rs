//! Protocols between threads, each by itself, for Miri: `ci/miri` runs them for many seeds, and each
//! fails for some of these if its ordering is weakened.
//!
//! A program of its own, which Miri alone runs: threads run at once, on real memory
//! (`slabyard_testkit::parallel`).
#![cfg(miri)]

use slabyard_platform::reader::ReaderSlot;
use slabyard_platform::sync::{AtomicU64, AtomicUsize, Ordering};
use slabyard_platform::table::Table;
use slabyard_testkit::parallel::{Body, Owner, Parallel};
use std::cell::UnsafeCell;

/// Looks of a thread for what another does.
const LOOKS: usize = 40;

/// What one thread has at a time, by an order that is under test.
struct Passed(UnsafeCell<u64>);

// SAFETY: whether one thread has it at a time is what Miri judges.
unsafe impl Sync for Passed {}

impl Passed {
    fn write(&self, value: u64) {
        // SAFETY: as above.
        unsafe { *self.0.get() = value };
    }
}

/// A table's items are committed before its length says so, and it has an address once it is
/// reserved.
#[test]
fn items_of_a_table_are_there() {
    let machine = Parallel::new(Owner::Threads, 2);
    let table: Table<AtomicU64> = Table::new();
    let maker: Body<'_> = Box::new(|machine| {
        assert!(table.reserve(machine, 1 << 14));
        // 64 KiB at a time.
        assert!(table.ensure(machine, 1) && table.ensure(machine, 9000));
    });
    let user: Body<'_> = Box::new(|_| {
        for _ in 0..LOOKS {
            let len = table.len();
            if len > 0 {
                assert_eq!(table.get(len / 2).load(Ordering::Relaxed), 0);
            }
            std::thread::yield_now();
        }
    });
    machine.run(vec![maker, user]);
}

#[test]
fn a_reserved_table_has_an_address() {
    let machine = Parallel::new(Owner::Threads, 2);
    let table: Table<AtomicU64> = Table::new();
    let maker: Body<'_> = Box::new(|machine| assert!(table.reserve(machine, 1 << 10)));
    let user: Body<'_> = Box::new(|_| {
        for _ in 0..LOOKS {
            assert!(!table.is_reserved() || table.base() != 0);
            std::thread::yield_now();
        }
    });
    machine.run(vec![maker, user]);
}

/// Who finds that a reader has left its section, or its place, comes after what it read there.
#[test]
fn what_a_reader_did_is_before_its_place_is_left() {
    let machine = Parallel::new(Owner::Threads, 2);
    for of_word in [true, false] {
        let (place, data) = (
            ReaderSlot { word: AtomicU64::new(1), thread: AtomicUsize::new(1) },
            Passed(UnsafeCell::new(0)),
        );
        let (place, data) = (&place, &data);
        let reader: Body<'_> = Box::new(|_| {
            data.write(1);
            place.leave();
        });
        let waiter: Body<'_> = Box::new(move |_| {
            for _ in 0..LOOKS {
                let is_left = if of_word {
                    place.word.load(Ordering::Acquire) == 0
                } else {
                    place.thread.load(Ordering::Acquire) == 0
                };
                if is_left {
                    data.write(2);
                    break;
                }
                std::thread::yield_now();
            }
        });
        machine.run(vec![reader, waiter]);
    }
}
