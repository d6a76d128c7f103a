//! Objects of 8 bytes and less: a slab has more of them than its descriptors have bits, so a part
//! of the free set lies in the slab, in front of the objects.

use super::{begun, sound};
use slabyard::cache::{CacheId, CacheSettings};
use slabyard::calls::trim;
use slabyard::created::NotDestroyed;
use slabyard::engine::cpu_slabs::OnCpus;
use slabyard::engine::{ArrayCaches, Engine, Sheaves, Tiny};
use slabyard::observe::count;
use slabyard::pages::Cause;
use slabyard::platform::{GRANULE, Threads};
use slabyard::slab::{self, Geometry, Object, Word, freeset};
use slabyard::yard::{AddressKind, Yard};
use slabyard_testkit::Random;
use slabyard_testkit::machine::{Body, Config, Machine};
use slabyard_testkit::write_word;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// The first object whose bit lies in a slab of 32 KiB.
const FIRST_FAR: u32 = 2048;
/// The begin of such a slab, where these bits are.
const FAR_BYTES: usize = 256;

thread_local! {
    static REPORTED: RefCell<Vec<(usize, Cause)>> = const { RefCell::new(Vec::new()) };
}

fn shuffle(random: &mut Random, objects: &mut [usize]) {
    for i in (1..objects.len()).rev() {
        objects.swap(i, random.below(i + 1));
    }
}

fn yard_of<E: Engine>(config: Config) -> Yard<Machine, E> {
    let yard = begun(Yard::new(Machine::new(config)));
    yard.on_misuse(|found| REPORTED.with_borrow_mut(|all| all.push((found.address, found.cause))));
    yard
}

fn create<E: Engine>(yard: &Yard<Machine, E>, bytes: u32) -> (CacheId, Geometry) {
    let id = yard.create_cache("small", &CacheSettings::of(bytes)).expect("a cache");
    (id, yard.cache(id.number()).shape().geometry)
}

fn alloc_many<E: Engine>(yard: &Yard<Machine, E>, id: CacheId, n: usize) -> Vec<usize> {
    (0..n).map(|_| yard.alloc_from(id).expect("memory")).collect()
}

fn free_all<E: Engine>(yard: &Yard<Machine, E>, id: CacheId, objects: &[usize]) {
    objects.iter().for_each(|object| assert_eq!(yard.free_to(id, *object), Ok(())));
}

fn destroy<E: Engine>(yard: &Yard<Machine, E>, id: CacheId) -> Result<(), NotDestroyed> {
    // SAFETY: no other thread runs.
    unsafe { yard.destroy_cache(id) }
}

fn object_at<E: Engine>(yard: &Yard<Machine, E>, id: CacheId, address: usize) -> Object {
    let shape = yard.cache(id.number()).shape();
    slab::resolve(&yard.heap.region, &shape.geometry, shape.slot, address).expect("an object")
}

/// Objects of whole slabs are handed out and freed in any order, in memory that other objects
/// used before, and in memory that is clean.
fn fill_and_free<E: Engine>(page_bytes: usize) {
    let yard = yard_of::<E>(Config { page_bytes, ..Config::default() });
    let mut random = Random::new(page_bytes as u64);
    for bytes in 1..=8 {
        let (id, geometry) = create(&yard, bytes);
        let Geometry { objects, size, .. } = geometry;
        assert_eq!((geometry.object, size), (bytes, 8));
        if page_bytes <= 16 << 10 {
            assert!(objects as usize * GRANULE >= 500 * geometry.slab_bytes(), "{geometry:?}");
            assert_eq!(geometry.first as usize, FAR_BYTES);
        }
        let n = 3 * objects as usize;
        let mut all = alloc_many(&yard, id, n);
        assert_eq!(BTreeSet::from_iter(&all).len(), n, "an object is handed out twice");
        for object in &all {
            let offset = object % geometry.slab_bytes();
            assert!(object.is_multiple_of(8) && offset >= geometry.first as usize);
            assert!(offset + bytes as usize <= geometry.slab_bytes());
            assert_eq!(yard.usable(*object), Some(bytes as usize));
            // SAFETY: a word of an object that is live.
            unsafe { write_word(yard.platform(), *object, random.below(1 << 31)) };
        }
        assert_eq!(sound(&yard).live, n as u64);
        assert!(yard.cache(id.number()).nr_slabs() <= 4, "{n} objects fill 3 slabs");
        let begin = all[0] & !(geometry.slab_bytes() - 1);
        for inside in [all[0] + 1, begin, begin + FAR_BYTES - 8] {
            let is_object = geometry.object_at((inside - begin) as u32).is_some();
            let place =
                AddressKind::Object { class: id.number(), bytes: bytes as usize, begin: false };
            assert!(is_object || yard.free(inside) == Err(place), "{inside:#x} is an object");
        }
        shuffle(&mut random, &mut all);
        free_all(&yard, id, &all.split_off(n / 2));
        all.extend(alloc_many(&yard, id, n / 3));
        assert_eq!(sound(&yard).live, all.len() as u64);
        assert_eq!(destroy(&yard, id), Err(NotDestroyed::Live(all.len() as u64)));
        shuffle(&mut random, &mut all);
        free_all(&yard, id, &all);
        assert!(yard.shrink_cache(id));
        assert_eq!(yard.cache(id.number()).nr_slabs(), 0, "all are free");
        assert_eq!(destroy(&yard, id), Ok(()));
        if bytes % 2 == 0 {
            yard.trim();
        }
        assert_eq!(sound(&yard).slabs, 0);
    }
    assert_eq!((count::set_aside(&yard.heap), REPORTED.take()), (0, vec![]));
}

#[test]
fn small_objects_fill_their_slabs_and_go() {
    for page_bytes in [4 << 10, 16 << 10, 64 << 10] {
        fill_and_free::<Sheaves>(page_bytes);
        fill_and_free::<Tiny>(page_bytes);
        fill_and_free::<OnCpus>(page_bytes);
        fill_and_free::<ArrayCaches>(page_bytes);
    }
}

/// The free set of one slab against a set of numbers.
#[test]
fn each_object_has_a_bit_of_its_own() {
    let yard = yard_of::<Sheaves>(Config::default());
    for first in [0, 8, 100, 3000] {
        let settings = CacheSettings { first, ..CacheSettings::of(8) };
        let id = yard.create_cache("bits", &settings).expect("a cache");
        let shape = *yard.cache(id.number()).shape();
        let (heap, g) = (&yard.heap, shape.geometry);
        let slab = heap.take_block(g.order).expect("memory");
        freeset::begin_slab(heap, slab, &g, shape.slot);
        let mut free: BTreeSet<u32> = (0..g.objects).collect();
        let mut random = Random::new(first.into());
        for step in 0..600 {
            if random.below(2) == 0 {
                let (most, whole) = (1 + random.below(500) as u32, random.below(2) == 0);
                let mut taken = 0;
                let (n, left) = freeset::take(heap, slab, most, whole, |word, mut mask| {
                    while mask != 0 {
                        let index = word.index_of(mask.trailing_zeros());
                        assert!(free.remove(&index), "object {index} was not free");
                        taken += 1;
                        mask &= mask - 1;
                    }
                });
                assert_eq!((n, left), (taken, free.len() as u32));
            } else {
                let (word, _) = Word::of(random.below(g.objects as usize) as u32);
                let last = (g.objects - word.index_of(0)).min(64);
                let mask = random.next() & u64::MAX >> (64 - last);
                let objects = (0..last).filter(|bit| mask >> bit & 1 != 0);
                let fresh = objects.filter(|bit| free.insert(word.index_of(*bit))).count();
                let put = freeset::put(heap, slab, word, mask);
                assert_eq!(put.added, fresh as u32);
                assert_eq!(put.twice.count_ones(), mask.count_ones() - put.added);
            }
            assert_eq!(freeset::free_of(&heap.region, slab).1, free.len() as u32);
            assert_eq!(freeset::bits_of(heap, slab, &g), free.len() as u32);
            if step % 50 == 0 {
                let by_bits = (0..g.objects).filter(|index| freeset::is_free(heap, slab, *index));
                assert!(by_bits.eq(free.iter().copied()));
            }
        }
        for index in 0..g.objects {
            let object = Object { slab, index };
            let address = slab::address_of(&heap.region, &g, object);
            assert_eq!(slab::resolve(&heap.region, &g, shape.slot, address), Ok(object));
            let (word, _) = Word::of(index);
            assert_eq!(slab::word_at(&heap.region, &g, address), Some((slab, word)));
            let _ = freeset::put(heap, slab, word, 1 << (index % 64));
        }
        assert_eq!(lost_bits(&yard, slab, &g), 0);
        // The planted bug: a geometry that leaves too little room for the words.
        if g.order == 3 {
            let mut crowded = g;
            crowded.first = FAR_BYTES as u32 - 8;
            let of_last_word = g.objects % Word::OBJECTS;
            assert_eq!(lost_bits(&yard, slab, &crowded), of_last_word);
        } else {
            assert_eq!(g.first, 3000, "the descriptors of larger slabs have bits for all");
        }
        freeset::begin_slab(heap, slab, &g, shape.slot);
        freeset::end_slab(&heap.region, slab, &g);
        heap.free_block(slab, g.order);
        assert_eq!(destroy(&yard, id), Ok(()));
    }
    sound(&yard);
}

/// How many objects of an empty slab are free no more when a program wrote to all.
fn lost_bits(yard: &Yard<Machine>, slab: u32, geometry: &Geometry) -> u32 {
    let heap = &yard.heap;
    for index in 0..geometry.objects {
        let address = slab::address_of(&heap.region, geometry, Object { slab, index });
        // SAFETY: memory of a slab that no other thread knows.
        unsafe { write_word(yard.platform(), address, 0) };
    }
    geometry.objects - freeset::bits_of(heap, slab, geometry)
}

fn free_twice<E: Engine>() {
    let yard = yard_of::<E>(Config::default());
    let (id, geometry) = create(&yard, 8);
    let all = alloc_many(&yard, id, geometry.objects as usize);
    let far = |address: &&usize| object_at(&yard, id, **address).index >= FIRST_FAR;
    let twice: Vec<usize> = all.iter().filter(far).step_by(100).copied().collect();
    assert!(twice.len() > 10);
    for _ in 0..2 {
        free_all(&yard, id, &twice);
    }
    assert!(yard.shrink_cache(id));
    let mut reported = REPORTED.take();
    reported.sort_unstable_by_key(|(address, _)| *address);
    let mut expected: Vec<_> = twice.iter().map(|at| (*at, Cause::DoubleFree)).collect();
    expected.sort_unstable_by_key(|(address, _)| *address);
    assert_eq!(reported, expected);
    assert_eq!(sound(&yard).live, (all.len() - twice.len()) as u64);
}

#[test]
fn a_double_free_is_found_in_the_slabs_own_words() {
    free_twice::<Sheaves>();
    free_twice::<Tiny>();
    free_twice::<OnCpus>();
    free_twice::<ArrayCaches>();
}

/// Frees of a handler that interrupts a slow path are linked through the objects, of which a
/// link is all.
#[test]
fn deferred_frees_link_small_objects() {
    let yard = yard_of::<Sheaves>(Config::default());
    let (id, geometry) = create(&yard, 1);
    let all = alloc_many(&yard, id, geometry.objects as usize);
    let depth = &yard.platform().thread().depth;
    let before = depth.fetch_or(1, slabyard::sync::Ordering::Relaxed);
    all.iter().for_each(|object| assert_eq!(yard.free(*object), Ok(())));
    depth.store(before, slabyard::sync::Ordering::Relaxed);
    trim::drain_thread(&yard);
    assert_eq!(sound(&yard).live, 0);
    assert_eq!(destroy(&yard, id), Ok(()));
    assert_eq!(REPORTED.take(), []);
}

/// Plants a bug in the words of a slab with live, parked and free objects, the latter two among
/// the last ones; `verify` must find it.
fn plant<E: Engine>(expected: &str, bug: impl FnOnce(&Yard<Machine, E>, [Object; 3])) {
    let yard = yard_of::<E>(Config::default());
    let (id, geometry) = create(&yard, 8);
    let all = alloc_many(&yard, id, geometry.objects as usize);
    let far = |address: &&usize| object_at(&yard, id, **address).index >= FIRST_FAR;
    let [live, parked, free] = *all.iter().filter(far).take(3).copied().collect::<Vec<_>>() else {
        panic!("no far objects");
    };
    yard.cache(id.number()).on(&yard.heap).free_direct(free);
    assert_eq!(yard.free_to(id, parked), Ok(()));
    sound(&yard);
    bug(&yard, [live, parked, free].map(|address| object_at(&yard, id, address)));
    for _ in 0..2 {
        let fault = yard.verify().expect("outside of a slow path").expect_err(expected);
        assert_eq!(fault.what, expected);
    }
}

#[test]
fn a_live_object_that_its_slabs_own_words_call_free_is_found() {
    fn bug<E: Engine>(yard: &Yard<Machine, E>, [live, ..]: [Object; 3]) {
        assert!(!freeset::mark(&yard.heap, live.slab, live.index, true));
    }
    plant::<Sheaves>("bits of slabs", bug);
    plant::<Tiny>("bits of slabs", bug);
    plant::<OnCpus>("bits of slabs", bug);
    plant::<ArrayCaches>("bits of slabs", bug);
}

#[test]
fn a_free_object_without_its_bit_in_the_slab_is_found() {
    fn bug<E: Engine>(yard: &Yard<Machine, E>, [.., free]: [Object; 3]) {
        assert!(freeset::mark(&yard.heap, free.slab, free.index, false));
    }
    // A parked object's mark makes up for it in its slab.
    plant::<Sheaves>("bits of slabs", bug);
    plant::<OnCpus>("bits of slabs", bug);
    plant::<ArrayCaches>("bits of slabs", bug);
    plant::<Tiny>("bits of slab", bug);
}

#[test]
fn a_parked_object_that_its_slabs_own_words_call_free_is_found() {
    plant::<Sheaves>("object free or parked twice", |yard, [_, parked, _]| {
        assert!(!freeset::mark(&yard.heap, parked.slab, parked.index, true));
    });
}

/// A program that writes in front of its slab's first object is found by the words it damages.
#[test]
fn an_overwritten_word_in_a_slab_is_found() {
    plant::<Tiny>("bits of slab", |yard, [Object { slab, index }, ..]| {
        let nth = (index - FIRST_FAR) / Word::OBJECTS;
        let address = yard.heap.region.address(slab) + nth as usize * 8;
        // SAFETY: a word of a slab; no other thread runs.
        unsafe { write_word(yard.platform(), address, 0) };
    });
}

/// Threads that free one another's objects while one verifies, trims and shrinks.
fn exchange<E: Engine>(config: Config) {
    const THREADS: usize = 4;
    let seed = config.seed;
    let yard = yard_of::<E>(config);
    let (id, geometry) = create(&yard, 8);
    let objects = alloc_many(&yard, id, geometry.objects as usize);
    let shared = Mutex::new((objects.iter().copied().collect::<BTreeSet<_>>(), objects));
    let lock = || shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let work = |nth: usize| {
        let mut random = Random::new(seed << 8 | nth as u64);
        for _ in 0..12 {
            for _ in 0..random.below(120) {
                let object = yard.alloc_from(id).expect("memory");
                let mut shared = lock();
                assert!(shared.0.insert(object), "{object:#x} is handed out twice");
                shared.1.push(object);
            }
            for _ in 0..random.below(120) {
                let object = {
                    let mut shared = lock();
                    let last = shared.1.len();
                    (last > 0).then(|| shared.1.swap_remove(random.below(last))).inspect(|object| {
                        shared.0.remove(object);
                    })
                };
                object.iter().for_each(|object| assert_eq!(yard.free_to(id, *object), Ok(())));
            }
        }
        trim::drain_thread(&yard);
    };
    let oversee = |machine: &Machine| {
        for _ in 0..4 {
            yard.verify().expect("no slow path").expect("a sound yard");
            yard.trim();
            assert!(yard.shrink_cache(id));
            machine.advance(30);
        }
    };
    let (work, oversee) = (&work, &oversee);
    let worker = |nth| -> Body<'_> { Box::new(move |_| work(nth)) };
    let mut bodies: Vec<Body<'_>> = (0..THREADS).map(worker).collect();
    bodies.push(Box::new(oversee));
    yard.platform().run(bodies);
    trim::drain_thread(&yard);
    if !yard.platform().config().can_stop {
        trim::adopt_rows(&yard, 1..=THREADS + 1);
    }
    let left = std::mem::take(&mut lock().1);
    assert_eq!(sound(&yard).live, left.len() as u64);
    free_all(&yard, id, &left);
    assert_eq!(destroy(&yard, id), Ok(()));
    assert_eq!((sound(&yard).slabs, count::set_aside(&yard.heap)), (0, 0));
}

#[test]
fn preempted_threads_exchange_small_objects() {
    for seed in 0..if cfg!(debug_assertions) { 3 } else { 12 } {
        for can_stop in [true, false] {
            let preemption = [20, 100, 300][seed as usize % 3];
            let config = Config { seed, preemption, can_stop, ..Config::default() };
            exchange::<Sheaves>(config.clone());
            exchange::<Tiny>(config.clone());
            exchange::<OnCpus>(config.clone());
            exchange::<ArrayCaches>(config);
        }
    }
}
