//! Empty slabs: a drain of them alone, which leaves the others on CPU partial lists in their
//! order; and how many of a cache stay.

use slabyard::cache::classes;
use slabyard::engine::SlowPaths;
use slabyard::engine::cpu_slabs::{Accounting, Freezing, OnCpus, Rules};
use slabyard::platform::PerCpu;
use slabyard::slab::freeset;
use slabyard::sync::Ordering;
use slabyard::yard::{Settings, Yard};
use slabyard_abi::region::{Mail, Outcome, Request, check};
use slabyard_testkit::machine::{Config, Machine};
use std::collections::BTreeSet;

/// Few objects in a slab.
const CLASS: usize = 24;

fn yard_of(config: Config, kind: &Rules) -> Yard<Machine, OnCpus> {
    let yard = Yard::new(Machine::new(config));
    for cache in yard.caches().classes() {
        OnCpus::follow(&cache.engine, kind);
    }
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 1000 }));
    let cache = yard.cache(CLASS);
    cache.engine.set(cache.on(&yard.heap), "cpu_partial", 200).expect("a tunable");
    yard
}

/// Full slabs; each second one's objects are freed on another CPU, of the others one object.
fn fill_lists(yard: &Yard<Machine, OnCpus>, cpu: usize) {
    let shape = yard.cache(CLASS).shape();
    let (bytes, each) = (classes::ROWS[CLASS].0 as usize, shape.geometry.objects as usize);
    yard.platform().set_cpu(0);
    let objects: Vec<_> =
        (0..each * 12).map(|_| yard.alloc_fast(bytes, 16).expect("memory")).collect();
    yard.platform().set_cpu(cpu);
    for (nth, slab) in objects.chunks(each).enumerate() {
        let freed = if nth % 2 == 0 { slab.len() } else { 1 };
        slab[..freed].iter().for_each(|object| yard.free_fast(*object).expect("live"));
    }
}

/// Slabs of a CPU's list, the first to be used last, with their free objects.
fn list_of(yard: &Yard<Machine, OnCpus>, cpu: usize) -> Vec<(u32, u32)> {
    let entry = yard.platform().rows().entry(cpu, yard.cache(CLASS).shape().spare());
    let elements = yard.heap.sheaves.objects_of(entry.top());
    let slab =
        |element: usize| (element as u32, freeset::free_of(&yard.heap.region, element as u32).1);
    elements.iter().map(|element| slab(element.load(Ordering::Relaxed))).collect()
}

fn ask(yard: &Yard<Machine, OnCpus>, token: u64) -> Option<Outcome> {
    let header = yard.platform().rows().header();
    let request = [token, Request::ShrinkEmpty as u64, CLASS as u64, 1, 0, 0];
    let words = [Mail::Asked, Mail::What, Mail::Cache, Mail::Generation, Mail::Key, Mail::Value];
    header[Mail::Check.index()].store(check(request), Ordering::Relaxed);
    for (word, value) in words.iter().zip(request).rev() {
        header[word.index()].store(value, Ordering::Relaxed);
    }
    // Any slow path answers.
    let large = yard.alloc(100_000, 16).expect("memory");
    yard.free(large).expect("a live run");
    assert_eq!(header[Mail::Answered.index()].load(Ordering::Relaxed), token);
    Outcome::of(header[Mail::Result.index()].load(Ordering::Relaxed))
}

fn each_kind(mut f: impl FnMut(&Rules)) {
    for freezing in Freezing::ALL {
        for accounting in [Accounting::Objects, Accounting::Slabs] {
            f(&Rules::of_kind(freezing, accounting, true));
        }
    }
}

#[test]
fn empty_slabs_leave_the_lists_of_all_cpus_and_no_other_does() {
    each_kind(|kind| {
        let yard = yard_of(Config { cpus: 3, ..Config::default() }, kind);
        yard.cache(CLASS).set_min_partial(0);
        let objects = yard.cache(CLASS).shape().geometry.objects;
        [1, 2].into_iter().for_each(|cpu| fill_lists(&yard, cpu));
        let before = [1, 2].map(|cpu| list_of(&yard, cpu));
        let empties = |lists: &[Vec<(u32, u32)>; 2]| {
            lists.iter().flatten().filter(|(_, free)| *free == objects).count()
        };
        assert!(empties(&before) > 2, "{kind:?}: {before:?}");
        let slabs = yard.cache(CLASS).nr_slabs();
        yard.platform().set_cpu(0);
        assert_eq!(ask(&yard, 5), Some(Outcome::Done));
        let after = [1, 2].map(|cpu| list_of(&yard, cpu));
        let kept = before
            .clone()
            .map(|list| list.into_iter().filter(|(_, free)| *free < objects).collect::<Vec<_>>());
        assert_eq!(after, kept, "{kind:?}");
        assert_eq!(yard.cache(CLASS).nr_slabs() as usize, slabs as usize - empties(&before));
        yard.verify().expect("no slow path is under way").expect("a sound yard");
        // What is left is used as before.
        yard.platform().set_cpu(1);
        let from = yard.alloc_fast(classes::ROWS[CLASS].0 as usize, 16).expect("memory");
        yard.free_fast(from).expect("live");
        yard.verify().expect("no slow path is under way").expect("a sound yard");
    });
}

/// Where no other thread's stacks can be stopped, those of the thread that serves are drained.
#[test]
fn where_stacks_cannot_be_stopped_the_thread_drains_its_own() {
    each_kind(|kind| {
        let config = Config { cpus: 3, can_stop: false, ..Config::default() };
        let yard = yard_of(config, kind);
        fill_lists(&yard, 0);
        let own = list_of(&yard, 0);
        assert_eq!(ask(&yard, 5), Some(Outcome::Own));
        let left = list_of(&yard, 0);
        assert!(left.len() < own.len(), "{kind:?}: {own:?}, {left:?}");
        yard.verify().expect("no slow path is under way").expect("a sound yard");
    });
}

/// By exact accounting an empty slab leaves its list by the free that made it empty.
#[test]
fn lists_that_count_exactly_have_no_empty_slab() {
    for freezing in Freezing::ALL {
        let kind = Rules::of_kind(freezing, Accounting::Exact, true);
        let yard = yard_of(Config { cpus: 3, ..Config::default() }, &kind);
        fill_lists(&yard, 1);
        let slabs = yard.cache(CLASS).nr_slabs();
        assert_eq!(ask(&yard, 5), Some(Outcome::Done));
        assert!(slabs - yard.cache(CLASS).nr_slabs() <= yard.cache(CLASS).min_partial());
        yard.verify().expect("no slow path is under way").expect("a sound yard");
    }
}

/// A buffer that grows through the classes leaves none of them with many large empty slabs. Slabs
/// as large as a kernel's stay as there.
#[test]
fn what_stays_of_a_cache_in_empty_slabs_is_small() {
    let yard: Yard<Machine> = Yard::new(Machine::new(Config { cpus: 1, ..Config::default() }));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 1000 }));
    for (class, (bytes, _)) in classes::ROWS.iter().enumerate() {
        let bytes = *bytes as usize;
        let cache = yard.cache(class);
        let geometry = &cache.shape().geometry;
        let objects: Vec<_> = (0..20 * geometry.objects as usize)
            .map(|_| yard.alloc_fast(bytes, 16).expect("memory"))
            .collect();
        for object in &objects {
            assert_eq!(yard.free_fast(*object), Ok(()));
        }
        let begins: BTreeSet<_> = objects
            .into_iter()
            .filter(|object| yard.heap.class_at(*object) == Some(class))
            .map(|object| yard.heap.region.granule_of(object).expect("of the region"))
            .map(|granule| granule & !(geometry.granules() - 1))
            .collect();
        let empty = begins
            .into_iter()
            .filter(|slab| freeset::free_of(&yard.heap.region, *slab).1 == geometry.objects);
        let kept = empty.count() * geometry.slab_bytes();
        let most = if geometry.slab_bytes() > 32 << 10 { 64 << 10 } else { 10 * (32 << 10) };
        assert!(kept <= most, "{kept} bytes of objects of {bytes}");
    }
}
