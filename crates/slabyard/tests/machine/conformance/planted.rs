//! Planted bugs: for each equation of the checkers a yard that breaks it, and
//! the check must say so. Marks that `verify` makes are gone afterwards: it
//! finds the same fault twice.

use super::actor::{Actor, Company, Request, Way};
use super::books::{self, find};
use super::oracle::{Oracle, Sums};
use super::yard_on;
use slabyard::cache::{classes, slots};
use slabyard::engine::partial::each_partial;
use slabyard::pages::{Descriptor, GranuleKind, percpu, runs};
use slabyard::platform::stack::Stack;
use slabyard::platform::{GRANULE, Memory, PerCpu, Slot, Takes};
use slabyard::slab;
use slabyard::slab::{Object, Word, freeset};
use slabyard::sync::{AtomicU64, Ordering};
use slabyard::yard::Yard;
use slabyard_abi::region::CacheWord;
use slabyard_testkit::machine::{Config, Machine};
use std::sync::Mutex;

/// Class of the objects that the bugs are planted on.
const CLASS: usize = 3;

/// A yard with live, parked and free objects, full and partial slabs, a live
/// run, a mapping, a parked run, and free blocks.
struct Scene {
    yard: Yard<Machine>,
    sums: Sums,
    live: Vec<usize>,
    run: usize,
    mapping: usize,
}

impl Scene {
    fn new() -> Self {
        let yard = yard_on(Config { seed: 2, ..Config::default() });
        let oracle = Mutex::new(Oracle::default());
        let mut actor = Actor::new(&yard, &oracle, 0, Company::Alone);
        let bytes = classes::ROWS[CLASS].0 as usize;
        let mut get = |bytes| actor.alloc(Request { bytes, align: 16 }, Way::Fast).expect("memory");
        let mut live: Vec<_> = (0..3000).map(|_| get(bytes)).collect();
        let (run, mapping) = (get(50_000), get(2 << 20));
        let (machine, g) = (yard.platform(), &yard.heap);
        // Every second object of the first slabs is flushed, so that they are
        // partial; some more are parked.
        for i in (0..1000).rev() {
            yard.cache(CLASS).on(g).free_direct(live.remove(2 * i));
        }
        for _ in 0..100 {
            assert_eq!(yard.free_fast(live.swap_remove(1000)), Ok(()));
        }
        // A slab of another class that ends at once: its run is parked.
        let block = g.take_block(3).expect("memory");
        g.free_block(block, 3);
        assert!(
            g.sheaves.count_of(machine.rows().entry(0, Slot(percpu::FIRST_SLOT + 3)).top())
                > Some(0)
        );
        let all = oracle.into_inner().unwrap().sums();
        let sums =
            Sums { objects: live.len() as u64, object_bytes: (live.len() * bytes) as u64, ..all };
        let scene = Scene { yard, sums, live, run, mapping };
        scene.inspect().unwrap();
        scene
    }

    /// All checks, each in its turn.
    fn inspect(&self) -> Result<(), String> {
        books::inspect(&self.yard, &self.sums)?;
        books::audit(&self.yard, &self.sums).map(drop)
    }

    fn object(&self, address: usize) -> Object {
        let shape = self.yard.cache(CLASS).shape();
        slab::resolve(&self.yard.heap.region, &shape.geometry, shape.slot, address)
            .expect("an object")
    }

    /// Addresses of parked objects in this CPU's main stack.
    fn parked(&self) -> Vec<usize> {
        let slot = slots::slot_of(CLASS);
        let top = self.yard.platform().rows().entry(0, slot).top();
        let objects = self.yard.heap.sheaves.objects_of(top).iter();
        let parked: Vec<_> = objects.map(|object| object.load(Ordering::Relaxed)).collect();
        assert!(parked.len() > 1, "too few parked");
        parked
    }

    /// Slabs on the partial list of which nothing is parked.
    fn listed(&self) -> Vec<u32> {
        let mut slabs = Vec::new();
        each_partial(self.yard.cache(CLASS).on(&self.yard.heap), |slab, _| slabs.push(slab));
        let parked: Vec<_> = self.parked().iter().map(|at| self.object(*at).slab).collect();
        slabs.retain(|slab| !parked.contains(slab));
        assert!(slabs.len() > 2, "too few partial slabs");
        slabs
    }
}

/// Plants a bug; a check must speak of it, twice in the same words.
fn plant(expected: &str, bug: impl FnOnce(&Scene)) {
    let scene = Scene::new();
    bug(&scene);
    for time in ["first", "second"] {
        let found = scene.inspect().expect_err(expected);
        assert!(found.starts_with(expected), "{time}: '{found}', and not '{expected}'");
    }
}

#[test]
fn a_parked_object_that_its_slab_calls_free_is_found() {
    plant("object free or parked twice", |scene| {
        let Object { slab, index } = scene.object(scene.parked()[0]);
        assert!(!freeset::mark(&scene.yard.heap, slab, index, true));
    });
}

#[test]
fn a_live_object_that_its_slab_calls_free_is_found() {
    plant("bits of slabs", |scene| {
        let Object { slab, index } = scene.object(scene.live[0]);
        assert!(!freeset::mark(&scene.yard.heap, slab, index, true));
    });
}

#[test]
fn a_free_object_without_its_bit_is_found() {
    plant("bits of slab", |scene| {
        let slab = scene.listed()[0];
        let free =
            (0..).find(|i| freeset::is_free(&scene.yard.heap, slab, *i)).expect("a free object");
        freeset::mark(&scene.yard.heap, slab, free, false);
    });
}

#[test]
fn a_free_that_was_counted_twice_is_found() {
    plant("bits of slab", |scene| {
        let slab = scene.listed()[0];
        scene.yard.heap.region.descriptor(slab).word.fetch_add(1, Ordering::Relaxed);
    });
}

#[test]
fn an_object_parked_twice_is_found() {
    plant("object free or parked twice", |scene| {
        let first = scene.parked()[0];
        assert!(scene.yard.platform().push(slots::slot_of(CLASS), first, Takes::Each));
    });
}

#[test]
fn a_live_object_that_is_parked_is_found() {
    plant("live objects", |scene| {
        assert!(scene.yard.platform().push(slots::slot_of(CLASS), scene.live[0], Takes::Each));
    });
}

#[test]
fn an_object_parked_with_another_class_is_found() {
    plant("parked object is none", |scene| {
        let other = scene.yard.alloc(1000, 16).expect("memory");
        let class = scene.yard.heap.class_at(other).expect("an object");
        assert!(scene.yard.platform().push(slots::slot_of(class), scene.live[0], Takes::Each));
    });
}

#[test]
fn a_dropped_sheaf_is_found() {
    plant("live objects", |scene| {
        let slot = slots::slot_of(CLASS);
        let sheaf = scene.yard.platform().exchange(slot, Stack::NONE).expect("a stack");
        assert!(scene.yard.heap.sheaves.count_of(sheaf.top) > Some(0));
    });
}

#[test]
fn a_slab_that_a_free_forgot_to_list_is_found() {
    // The count of free objects rises, and the slab is not brought to its list.
    plant("slab listed", |scene| {
        let g = &scene.yard.heap;
        let is_full =
            |address: &&usize| freeset::free_of(&g.region, scene.object(**address).slab).1 == 0;
        let full = scene.live.iter().find(is_full).expect("a full slab");
        let Object { slab, index } = scene.object(*full);
        let (word, bit) = Word::of(index);
        let put = freeset::put(g, slab, word, bit);
        assert_eq!((put.before, put.added, put.twice), (0, 1, 0));
    });
}

#[test]
fn a_slab_that_thinks_it_is_unlisted_is_found() {
    plant("slab listed", |scene| {
        let slab = scene.listed()[1];
        scene.yard.heap.region.descriptor(slab).time.store(0, Ordering::Relaxed);
    });
}

#[test]
fn slabs_that_a_list_lost_are_found() {
    plant("partial list of cache", |scene| {
        let slab = scene.listed()[0];
        scene.yard.heap.region.descriptor(slab).next.store(0, Ordering::Relaxed);
    });
}

#[test]
fn a_slab_that_its_cache_does_not_know_is_found() {
    plant("slabs of cache", |scene| {
        let g = &scene.yard.heap;
        let shape = scene.yard.cache(CLASS).shape();
        let slab = g.take_block(shape.geometry.order).expect("memory");
        freeset::begin_slab(g, slab, &shape.geometry, shape.slot);
        g.region.descriptor(slab).time.store(1, Ordering::Relaxed);
    });
}

#[test]
fn a_slab_that_has_gone_is_found() {
    plant("granule of nobody", |scene| {
        let slab = scene.listed()[0];
        scene.yard.heap.region.descriptor(slab).set(GranuleKind::None, 0, 0);
    });
}

#[test]
fn a_slab_of_no_cache_is_found() {
    plant("slab of no cache", |scene| {
        let descriptor = scene.yard.heap.region.descriptor(scene.listed()[0]);
        descriptor.set(GranuleKind::Slab, descriptor.order(), 0);
    });
}

#[test]
fn a_wrong_page_map_is_found() {
    for value in [0, slots::slot_of(CLASS + 1).offset() as u16] {
        plant("page map", |scene| {
            scene.yard.heap.region.set_map(scene.listed()[1] + 1, 1, value);
        });
    }
}

#[test]
fn a_run_of_a_wrong_size_is_found() {
    plant("granule of nobody", |scene| {
        let granule = scene.yard.heap.region.granule_of(scene.run).expect("a run");
        scene.yard.heap.region.descriptor(granule).granules.fetch_sub(1, Ordering::Relaxed);
    });
}

#[test]
fn a_run_freed_behind_its_count_is_found() {
    plant("granules of runs", |scene| {
        let g = &scene.yard.heap;
        let bytes = g.run_bytes(scene.run).expect("a run");
        let granule = g.region.granule_of(scene.run).expect("a run");
        g.region.descriptor(granule).set(GranuleKind::None, 0, 0);
        g.free_run(granule, bytes / GRANULE);
    });
}

#[test]
fn a_run_counted_twice_is_found() {
    // Half of the run becomes a run of its own, which is not counted.
    plant("runs", |scene| {
        let g = &scene.yard.heap;
        let first = g.region.granule_of(scene.run).expect("a run");
        let granules = g.run_bytes(scene.run).expect("a run") / GRANULE;
        let half = granules as u32 / 2;
        g.region.descriptor(first).granules.store(half, Ordering::Relaxed);
        let second = g.region.descriptor(first + half);
        second.granules.store(granules as u32 - half, Ordering::Relaxed);
        second.set(GranuleKind::Run, 0, 0);
    });
}

#[test]
fn a_lost_run_is_found() {
    plant("granule of nobody", |scene| {
        scene.yard.heap.take_run(2, 1).expect("memory");
    });
}

#[test]
fn a_live_run_that_is_parked_is_found() {
    plant("parked run is no run", |scene| {
        let slot = Slot(percpu::FIRST_SLOT + 3);
        assert!(scene.yard.platform().push(slot, scene.run, Takes::Each));
    });
}

#[test]
fn a_parked_run_that_its_list_lost_is_found() {
    plant("parked granules", |scene| {
        let slot = Slot(percpu::FIRST_SLOT + 3);
        scene.yard.platform().pop(slot).expect("a parked run");
    });
}

#[test]
fn free_blocks_that_a_list_lost_are_found() {
    plant("granules in free lists", |scene| {
        let g = &scene.yard.heap;
        // Single granules, each with a live neighbour.
        let runs = [(); 6].map(|()| g.alloc_run(GRANULE, GRANULE).expect("memory"));
        for run in runs.iter().step_by(2) {
            assert!(g.free_live_run(*run).is_some());
        }
        let mut blocks = Vec::new();
        runs::each_free_block(g, |block, _| blocks.push(g.region.descriptor(block)));
        let has_next = |descriptor: &&&Descriptor| descriptor.next.load(Ordering::Relaxed) != 0;
        let descriptor = blocks.iter().find(has_next).expect("a list of two");
        descriptor.next.store(0, Ordering::Relaxed);
    });
}

#[test]
fn a_freed_run_that_its_list_lost_is_found() {
    plant("granules in free lists", |scene| {
        let g = &scene.yard.heap;
        runs::each_free_block(g, |_, _| {});
        let runs = [(); 2].map(|()| g.alloc_run(GRANULE, GRANULE).expect("memory"));
        let descriptors = runs.map(|run| {
            assert!(g.free_live_run(run).is_some());
            g.region.descriptor(g.region.granule_of(run).expect("a run"))
        });
        // The newest is first.
        assert_eq!(descriptors[1].kind(), GranuleKind::Freed);
        descriptors[1].next.store(0, Ordering::Relaxed);
    });
}

#[test]
fn a_freed_run_of_a_wrong_size_is_found() {
    plant("granule", |scene| {
        let g = &scene.yard.heap;
        assert!(g.free_live_run(scene.run).is_some());
        let descriptor = g.region.descriptor(g.region.granule_of(scene.run).expect("a run"));
        assert_eq!(descriptor.kind(), GranuleKind::Freed);
        descriptor.granules.fetch_sub(1, Ordering::Relaxed);
    });
}

#[test]
fn a_free_block_of_a_wrong_order_is_found() {
    plant("granule", |scene| {
        let descriptor = scene.yard.heap.region.descriptor(find(&scene.yard, GranuleKind::Free));
        descriptor.set(GranuleKind::Free, descriptor.order() + 1, descriptor.slot());
    });
}

/// Adds 1 to a word that is published to readers.
fn publish_wrongly(scene: &Scene, word: CacheWord) {
    let words = scene.yard.cache(CLASS).shown_at() as *const AtomicU64;
    // SAFETY: the cache's words, as its type says; a number of theirs is in bounds.
    unsafe { &*words.add(word.index()) }.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn objects_out_that_nobody_counted_are_found() {
    plant("objects out of cache", |scene| publish_wrongly(scene, CacheWord::Out));
}

#[test]
fn a_list_and_a_barn_told_wrongly_are_found() {
    for word in
        [CacheWord::NrPartial, CacheWord::PartialHead, CacheWord::BarnObjects, CacheWord::BarnFull]
    {
        plant("cache published as it is", |scene| publish_wrongly(scene, word));
    }
}

#[test]
fn a_mapping_ended_behind_its_table_is_found() {
    plant("bytes that the machine mapped", |scene| {
        let bytes = scene.yard.usable(scene.mapping).expect("a mapping");
        scene.yard.platform().unmap(scene.mapping, bytes);
    });
}

#[test]
fn memory_committed_behind_the_books_is_found() {
    plant("bytes that the machine committed", |scene| {
        let region = &scene.yard.heap.region;
        assert!(scene.yard.platform().commit(region.address(region.top() as u32), GRANULE));
    });
}

#[test]
#[should_panic(expected = "is still held")]
fn an_object_handed_out_twice_is_found() {
    let yard = yard_on(Config::default());
    let oracle = Mutex::new(Oracle::default());
    let mut actor = Actor::new(&yard, &oracle, 0, Company::Alone);
    let request = Request { bytes: 64, align: 16 };
    let address = actor.alloc(request, Way::Slow).expect("memory");
    assert_eq!(yard.free_fast(address), Ok(()));
    actor.alloc(request, Way::Fast);
}
