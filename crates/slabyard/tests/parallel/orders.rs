//! Protocols between threads, each by itself: `ci/orderings.toml` names for a weak ordering the test
//! that Miri fails for some seed when it is weakened.
//!
//! Threads find what the others did by relaxed words of the tests' own, which order nothing.

use crate::owned::Owned;
use crate::{begun, new_yard};
use slabyard::cache::CacheSettings;
use slabyard::calls::readers::{poll_rcu, wanted_rcu};
use slabyard::calls::trim;
use slabyard::engine::{Engine, Sheaves, Tiny};
use slabyard::platform::reader::ReaderSlot;
use slabyard::platform::{GRANULE, Threads};
use slabyard::slab::{self, Word, freeset};
use slabyard::sync::{AtomicUsize, Ordering};
use slabyard::yard::Yard;
use slabyard_testkit::parallel::{Body, Owner, Parallel};

/// A class with several objects in each slab.
const CLASS: usize = 3;
const BYTES: usize = 64;
/// Looks of a thread for what another does.
const LOOKS: usize = 40;

fn yard<E: Engine>() -> Yard<Parallel, E> {
    begun(new_yard(Owner::Threads))
}

/// A word that tells something to other threads, and orders nothing.
#[derive(Default)]
struct Told(AtomicUsize);

impl Told {
    fn tell(&self, value: usize) {
        self.0.store(value, Ordering::Relaxed);
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A slab of the class of which no object is free, and two of its objects, alone in theirs words.
fn full_slab(yard: &Yard<Parallel, Tiny>) -> (u32, [(usize, Word, u64); 2]) {
    let shape = yard.cache(CLASS).shape();
    let objects: Vec<_> =
        (0..shape.geometry.objects).map(|_| yard.alloc(BYTES, 8).expect("memory")).collect();
    let of = |address: usize| {
        let object = slab::resolve(&yard.heap.region, &shape.geometry, shape.slot, address);
        object.expect("an object")
    };
    let slab = of(objects[0]).slab;
    let [first, second] = [objects[0], objects[1]].map(|address| {
        let (word, bit) = Word::of(of(address).index);
        (address, word, bit)
    });
    (slab, [first, second])
}

/// Threads give two objects back while another takes what is free.
fn pass(
    yard: &Yard<Parallel, Tiny>,
    put: impl Fn(u32, Word, u64) + Sync,
    take: impl Fn(u32, &mut dyn FnMut(Word, u64)) + Sync,
) {
    let (slab, objects) = full_slab(yard);
    let giver = |(address, word, bit): (usize, Word, u64)| -> Body<'_> {
        let put = &put;
        Box::new(move |_| {
            assert_eq!(Owned::new(address, BYTES, 7).end(), address);
            put(slab, word, bit);
        })
    };
    let taker: Body<'_> = Box::new(|_| {
        let mut left = objects.len();
        for _ in 0..LOOKS {
            take(slab, &mut |word, mask| {
                for (address, _, _) in objects.iter().filter(|of| of.1 == word && of.2 & mask != 0)
                {
                    // It is ours now.
                    let _ = Owned::new(*address, BYTES, 9);
                    left -= 1;
                }
            });
            if left == 0 {
                break;
            }
            std::thread::yield_now();
        }
    });
    yard.platform().run(vec![giver(objects[0]), giver(objects[1]), taker]);
}

#[test]
fn slab_gives_what_was_put() {
    let yard = yard::<Tiny>();
    let heap = &yard.heap;
    pass(
        &yard,
        |slab, word, bit| _ = freeset::put(heap, slab, word, bit),
        |slab, f| _ = freeset::take(heap, slab, 2, false, f),
    );
}

/// Of two threads that free the last objects of a slab one ends it, and has all of its memory.
#[test]
fn slab_that_is_empty_is_its_enders() {
    let yard = yard::<Tiny>();
    let (shape, heap) = (yard.cache(CLASS).shape(), &yard.heap);
    let (slab, objects) = full_slab(&yard);
    // The others are free.
    let mut all = [0u64; 8];
    for index in 0..shape.geometry.objects {
        let (word, bit) = Word::of(index);
        all[word.0 as usize] |= bit;
    }
    for (_, word, bit) in objects {
        all[word.0 as usize] &= !bit;
    }
    for (nth, mask) in all.into_iter().enumerate().filter(|(_, mask)| *mask != 0) {
        let _ = freeset::put(heap, slab, Word(nth as u32), mask);
    }
    let ended = Told::default();
    let giver = |(address, word, bit): (usize, Word, u64)| -> Body<'_> {
        let ended = &ended;
        Box::new(move |_| {
            assert_eq!(Owned::new(address, BYTES, 7).end(), address);
            let put = freeset::put(heap, slab, word, bit);
            if put.before + put.added == shape.geometry.objects {
                freeset::end_slab(&heap.region, slab, &shape.geometry);
                let bytes = shape.geometry.granules() as usize * GRANULE;
                let _ = Owned::new(heap.region.address(slab), bytes, 9);
                objects.iter().for_each(|(address, _, _)| {
                    let _ = Owned::new(*address, BYTES, 9);
                });
                ended.tell(1);
            }
        })
    };
    yard.platform().run(vec![giver(objects[0]), giver(objects[1])]);
    assert_eq!(ended.get(), 1);
}

/// A handler's free waits in a list through the objects, which the next slow path of any thread frees.
#[test]
fn deferred_frees_are_done_by_another() {
    let yard = yard::<Tiny>();
    let objects: Vec<_> = (0..4).map(|_| yard.alloc(BYTES, 8).expect("memory")).collect();
    let [first, second] = [&objects[..2], &objects[2..]];
    let handler = |objects: &[usize]| -> Body<'_> {
        let (yard, objects) = (&yard, objects.to_vec());
        Box::new(move |machine| {
            for address in objects {
                let address = Owned::new(address, BYTES, 7).end();
                // As if it interrupted a slow path of its thread: bit 0 says so.
                let depth = &machine.thread().depth;
                depth.fetch_or(1, Ordering::Relaxed);
                assert_eq!(yard.free(address), Ok(()));
                depth.fetch_and(!1, Ordering::Relaxed);
            }
        })
    };
    let other: Body<'_> = Box::new(|_| {
        for _ in 0..4 {
            trim::drain_thread(&yard);
            if let Some(object) = Owned::alloc(&yard, BYTES, 9) {
                let _ = object.end();
            }
        }
    });
    yard.platform().run(vec![handler(first), handler(second), other]);
}

/// Readers use what they found until their section ends; who unlinked it waits for them.
#[test]
fn readers_end_before_what_they_read_is_freed() {
    let yard = yard::<Sheaves>();
    let object = |token| Owned::alloc(&yard, BYTES, token).expect("memory");
    let link = AtomicUsize::new(object(1).address);
    let reader = || -> Body<'_> {
        Box::new(|_| {
            for _ in 0..3 {
                yard.rcu_read_lock();
                let found = link.load(Ordering::Acquire);
                // SAFETY: it is live until the section ends.
                assert!(unsafe { (found as *const u64).read() } != 0, "it was freed");
                yard.rcu_read_unlock();
            }
        })
    };
    let writer: Body<'_> = Box::new(|_| {
        for token in 2..4 {
            let old = link.swap(object(token).address, Ordering::Release);
            assert!(yard.synchronize_rcu().is_ok());
            // SAFETY: no reader has it any more.
            unsafe { (old as *mut u64).write(0) };
            assert_eq!(yard.free_fast(old), Ok(()));
        }
    });
    yard.platform().run(vec![reader(), reader(), writer]);
}

/// Who takes the place of a reader that ended hands on what that one did in its section: a grace
/// period looks at the new reader's sections.
#[test]
fn a_place_passes_with_what_its_reader_read() {
    let yard = yard::<Sheaves>();
    let object = Owned::alloc(&yard, BYTES, 1).expect("memory").address;
    let [entered, begun, left, taken, over] = std::array::from_fn(|_| Told::default());
    let until = |told: &Told| {
        let mut looks = 0..10 * LOOKS;
        looks.any(|_| {
            std::thread::yield_now();
            told.get() != 0
        })
    };
    let first: Body<'_> = Box::new(|machine| {
        yard.rcu_read_lock();
        entered.tell(1);
        // SAFETY: it is live, and nobody writes to it before this section ends.
        assert_eq!(unsafe { (object as *const u64).read() }, 1);
        until(&begun);
        // As if the thread ended in its section.
        let place = machine.thread().reader[0].load(Ordering::Relaxed);
        // SAFETY: its word names its place.
        unsafe { &*(place as *const ReaderSlot) }.leave();
        left.tell(1);
    });
    let second: Body<'_> = Box::new(|_| {
        if until(&left) {
            yard.rcu_read_lock();
            taken.tell(1);
            until(&over);
            yard.rcu_read_unlock();
        }
    });
    let writer: Body<'_> = Box::new(|_| {
        if until(&entered) {
            let wanted = wanted_rcu(&yard.heap);
            assert!(!poll_rcu(&yard, wanted), "the first reader's section is open");
            begun.tell(1);
            if until(&taken) && poll_rcu(&yard, wanted) {
                // SAFETY: no section is open that began before.
                unsafe { (object as *mut u64).write(2) };
            }
            over.tell(1);
        }
    });
    yard.platform().run(vec![first, second, writer]);
    assert_eq!(yard.free_fast(object), Ok(()));
}

/// Who finds a cache in the table finds what it is.
#[test]
fn caches_that_are_found_are_whole() {
    let yard = yard::<Tiny>();
    let classes = yard.caches().numbers().count();
    let maker: Body<'_> = Box::new(|_| {
        for size in [72, 104] {
            yard.create_cache("made", &CacheSettings::of(size)).expect("memory");
        }
    });
    let seeker = |walks: bool| -> Body<'_> {
        let yard = &yard;
        Box::new(move |_| {
            for _ in 0..LOOKS {
                let found = if walks {
                    yard.caches().numbers().nth(classes)
                } else {
                    Some(classes).filter(|number| yard.caches().is_there(*number))
                };
                if let Some(number) = found {
                    assert!(yard.cache(number).shape().geometry.size >= 72);
                    assert_eq!(yard.caches().id_of(number).map(|id| id.generation()), Some(1));
                    break;
                }
                std::thread::yield_now();
            }
        })
    };
    yard.platform().run(vec![seeker(true), seeker(false), maker]);
}

/// Who finds a mapping's address in the table finds its size.
#[test]
fn mappings_that_are_found_have_their_size() {
    let yard = yard::<Tiny>();
    let (machine, mappings) = (yard.platform(), &yard.heap.mappings);
    let told = Told::default();
    let maker: Body<'_> = Box::new(|_| {
        for granules in [2, 3] {
            let at = mappings.map(machine, granules * GRANULE, GRANULE).expect("memory");
            told.tell(at);
        }
    });
    let seeker: Body<'_> = Box::new(|_| {
        for _ in 0..LOOKS {
            let at = told.get();
            if at != 0 {
                let bytes = mappings.bytes_of(at);
                assert!(bytes.is_none_or(|bytes| bytes >= 2 * GRANULE), "{bytes:?}");
            }
            std::thread::yield_now();
        }
    });
    yard.platform().run(vec![maker, seeker]);
    let mut live = Vec::new();
    mappings.each(|at| live.push(at));
    live.into_iter().for_each(|at| assert!(mappings.unmap(machine, at).is_some()));
}

/// Who sees the region's top may use all granules below it.
#[test]
fn granules_below_the_top_are_there() {
    let yard = yard::<Tiny>();
    let region = &yard.heap.region;
    let grower: Body<'_> = Box::new(|_| {
        for _ in 0..6 {
            let _ = yard.alloc(100_000, 8).expect("memory");
        }
    });
    let looker: Body<'_> = Box::new(|_| {
        for _ in 0..LOOKS {
            let top = region.top();
            let _ = region.descriptor(top as u32 - 1).kind();
            let _ = region.map_value(top as u32 - 1);
            std::thread::yield_now();
        }
    });
    yard.platform().run(vec![grower, looker]);
}
