//! Readers and writers on the modelled machine, preempted at any step.
//!
//! Writers publish objects that carry a token of their address, and free those that were published
//! before; readers look, within one section, again and again at the object that they found. An
//! object that is allocated again has no token at first. So a reader that is not waited for finds
//! another word, which each planted bug must cause.

use super::{check, yard_on};
use slabyard::cache::{CacheId, CacheSettings};
use slabyard::calls::readers;
use slabyard::platform::Park;
use slabyard::yard::Yard;
use slabyard_testkit::machine::{Body, Broken, Config, Machine};
use slabyard_testkit::{read_word, write_word};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How a writer frees.
#[derive(Clone, Copy, PartialEq)]
enum Freed {
    /// After it waited for readers.
    AfterWaiting,
    /// With others, after readers.
    Deferred,
    /// At once: the planted bug.
    AtOnce,
}

const ROUNDS: usize = 12;
const PUBLISHED: usize = 2;
const SEEDS: u64 = 25;

fn token(address: usize) -> usize {
    address ^ 0x5a5a_5a5a
}

struct Shared {
    cache: CacheId,
    published: [AtomicUsize; PUBLISHED],
}

impl Shared {
    fn new_object(&self, yard: &Yard<Machine>) -> usize {
        let address = yard.alloc_from(self.cache).expect("memory");
        let p = yard.platform();
        // SAFETY: an object of this yard's.
        unsafe { write_word(p, address, 0) };
        p.step();
        // SAFETY: as above.
        unsafe { write_word(p, address, token(address)) };
        address
    }

    fn write(&self, yard: &Yard<Machine>, nth: usize, freed: Freed) {
        let new = self.new_object(yard);
        let old = self.published[nth % PUBLISHED].swap(new, Ordering::SeqCst);
        match freed {
            Freed::AfterWaiting => {
                readers::free_after_waiting(yard, old).expect("no section").expect("an object");
            }
            Freed::Deferred => {
                yard.free_to_rcu(self.cache, old).expect("an object");
                if nth.is_multiple_of(3) {
                    yard.rcu_barrier().expect("no section");
                }
            }
            Freed::AtOnce => yard.free_to(self.cache, old).expect("an object"),
        }
    }

    fn read(&self, yard: &Yard<Machine>, nth: usize) {
        let p = yard.platform();
        yard.rcu_read_lock();
        p.step();
        let found = self.published[nth % PUBLISHED].load(Ordering::SeqCst);
        for look in 0..4 {
            p.step();
            // SAFETY: an object of this yard's: its slab stays while it is live.
            let word = unsafe { read_word(p, found) };
            assert_eq!(word, token(found), "a reader lost its object");
            if look == 1 {
                yard.rcu_read_lock();
            } else if look == 2 {
                yard.rcu_read_unlock();
            }
        }
        yard.rcu_read_unlock();
        assert!(!readers::is_in_rcu_section(yard));
    }
}

fn run(config: Config, freed: Freed) {
    let yard = yard_on(config);
    let cache = yard.create_cache("nodes", &CacheSettings::of(64)).expect("a cache");
    let shared = Shared { cache, published: [const { AtomicUsize::new(0) }; PUBLISHED] };
    for word in &shared.published {
        word.store(shared.new_object(&yard), Ordering::Relaxed);
    }
    let (yard, shared) = (&yard, &shared);
    let writer = || -> Body<'_> {
        Box::new(move |_| (0..ROUNDS).for_each(|nth| shared.write(yard, nth, freed)))
    };
    let reader = |ends: bool| -> Body<'_> {
        Box::new(move |machine| {
            for nth in 0..2 * ROUNDS {
                shared.read(yard, nth);
                if ends && nth == ROUNDS {
                    machine.end_reader();
                    machine.begin_reader();
                }
            }
        })
    };
    yard.platform().run(vec![writer(), reader(false), reader(true), writer(), reader(false)]);
    yard.rcu_barrier().expect("no section");
    check(yard);
    for word in &shared.published {
        yard.free_to(cache, word.load(Ordering::Relaxed)).expect("an object");
    }
    // SAFETY: no other thread.
    unsafe { yard.destroy_cache(cache) }.expect("no object is live");
}

fn config(seed: u64) -> Config {
    Config { seed, preemption: 150, cpus: 1 + seed as usize % 3, ..Config::default() }
}

fn each_way(config: impl Fn(u64) -> Config) {
    for seed in 0..SEEDS {
        for freed in [Freed::AfterWaiting, Freed::Deferred] {
            run(config(seed), freed);
        }
    }
}

#[test]
fn a_reader_keeps_what_it_found() {
    each_way(config);
}

#[test]
fn without_a_fence_of_all_threads_readers_fence() {
    each_way(|seed| Config { reader_fences: 0, ..config(seed) });
}

#[test]
fn a_fence_that_is_refused_later_is_made_up_for() {
    each_way(|seed| Config { reader_fences: seed % 7, ..config(seed) });
}

#[test]
fn readers_without_places_are_counted() {
    each_way(|seed| Config { finds_ends: false, ..config(seed) });
}

#[test]
fn readers_of_private_slots_are_waited_for() {
    each_way(|seed| Config { can_stop: false, ..config(seed) });
}

#[test]
fn miri_a_reader_keeps_what_it_found() {
    run(config(1), Freed::Deferred);
}

/// True if a run with one of the seeds fails by a reader that lost its object.
fn is_found(config: impl Fn(u64) -> Config, freed: Freed) -> bool {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let found = (0..400).any(|seed| {
        let failed = catch_unwind(AssertUnwindSafe(|| run(config(seed), freed)));
        failed.is_err_and(|panic| {
            panic.downcast_ref::<String>().is_some_and(|text| text.contains("lost its object"))
        })
    });
    std::panic::set_hook(hook);
    found
}

#[test]
fn a_free_that_waits_for_nobody_is_found() {
    assert!(is_found(config, Freed::AtOnce));
}

#[test]
fn a_fence_that_does_nothing_is_found() {
    let broken = |seed| Config { broken: Broken::ReaderFenceDoesNothing, ..config(seed) };
    assert!(is_found(broken, Freed::AfterWaiting));
}
