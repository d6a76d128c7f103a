//! The orders between threads that register, ask and remove shrinkers, for Miri: `ci/miri` runs each
//! test for many seeds, and it fails for some of these if its ordering is weakened.
//!
//! A program of its own, which Miri alone runs. What a callback touches is no atomic, so that Miri
//! sees a race where the table does not order its users.
#![cfg(miri)]

use slabyard_shrinker::{Registered, RemovalState, Rule, Shrink, ShrinkScope, Shrinkers};
use std::cell::UnsafeCell;
use std::thread::{scope, yield_now};

/// Looks of a thread for what another does.
const LOOKS: usize = 40;

/// A cache whose callbacks count in a plain word.
struct Plain(UnsafeCell<u64>);

// SAFETY: whether one thread has it at a time is what Miri judges.
unsafe impl Sync for Plain {}

impl Plain {
    const fn new() -> Self {
        Plain(UnsafeCell::new(0))
    }

    fn add(&self) -> u64 {
        // SAFETY: as above.
        unsafe {
            *self.0.get() += 1;
            *self.0.get()
        }
    }
}

impl Shrink for Plain {
    fn count(&self) -> u64 {
        self.add();
        0
    }

    fn scan(&self, _: u64) -> Option<u64> {
        None
    }
}

/// One that counts in the word of another.
struct Shared(&'static Plain);

impl Shrink for Shared {
    fn count(&self) -> u64 {
        self.0.count()
    }

    fn scan(&self, _: u64) -> Option<u64> {
        None
    }
}

/// No clock, no bytes.
struct Nothing;

impl ShrinkScope for Nothing {
    fn now_ns(&self) -> u64 {
        0
    }

    fn bytes(&self) -> u64 {
        0
    }
}

fn registered(shrink: &'static dyn Shrink) -> Registered {
    Registered { shrink, name: "plain", seeks: 2, batch: 0 }
}

fn passes<const N: usize>(table: &Shrinkers<N>, nr: usize) {
    for _ in 0..nr {
        table.relieve(Rule::Priority(0), &Nothing);
        yield_now();
    }
}

/// A pass finds what a registration wrote, and a registration writes where no pass reads any more.
#[test]
fn an_entry_is_written_between_its_users() {
    static TABLE: Shrinkers<1> = Shrinkers::new();
    static CACHE: Plain = Plain::new();
    scope(|scope| {
        scope.spawn(|| passes(&TABLE, LOOKS));
        scope.spawn(|| {
            for _ in 0..LOOKS / 2 {
                // Full, while a pass uses what was removed.
                if let Ok(id) = TABLE.register(registered(&CACHE)) {
                    yield_now();
                    assert!(TABLE.remove(id).is_some());
                }
                yield_now();
            }
        });
    });
}

/// Who removed a shrinker has what its callbacks touched: at once if none was under way, or when the
/// removal says so.
#[test]
fn what_callbacks_touched_is_the_removers() {
    static TABLE: Shrinkers<1> = Shrinkers::new();
    static CACHE: Plain = Plain::new();
    scope(|scope| {
        scope.spawn(|| passes(&TABLE, LOOKS));
        for _ in 0..LOOKS / 4 {
            let Ok(id) = TABLE.register(registered(&CACHE)) else { continue };
            yield_now();
            let mut state = TABLE.remove(id).expect("it was registered");
            while state == RemovalState::Running {
                yield_now();
                state = TABLE.removal(id);
            }
            CACHE.add();
        }
    });
}

/// A pass comes after the pass before: what one shrinker's callback touched last, another's touches
/// first.
#[test]
fn passes_follow_each_other() {
    static TABLE: Shrinkers<2> = Shrinkers::new();
    static CACHE: Plain = Plain::new();
    static SAME: Shared = Shared(&CACHE);
    TABLE.register(registered(&CACHE)).expect("room for two");
    TABLE.register(registered(&SAME)).expect("room for two");
    scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| passes(&TABLE, LOOKS / 4));
        }
    });
}
