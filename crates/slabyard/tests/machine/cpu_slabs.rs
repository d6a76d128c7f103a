//! CPU slabs: states that need two threads, or a stopped CPU, at one moment, brought about by one
//! thread.

use slabyard::cache::Cache;
use slabyard::cache::classes::ROWS;
use slabyard::engine::cpu_slabs::{Accounting, Front, OnCpus, Rules, free};
use slabyard::engine::slabs::Group;
use slabyard::platform::{PerCpu, Stack, stop};
use slabyard::slab;
use slabyard::slab::Word;
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::machine::{Config, Machine};

/// Few objects in a slab.
const CLASS: usize = 24;

/// A yard of one kind that has begun.
fn yard_of(kind: &Rules) -> Yard<Machine, OnCpus> {
    let yard = Yard::new(Machine::new(Config { cpus: 2, ..Config::default() }));
    yard.caches().classes().iter().for_each(|cache: &Cache<OnCpus>| cache.engine.follow(kind));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 1000 }));
    yard
}

fn kinds() -> impl Iterator<Item = Rules> {
    Rules::kinds().filter(|kind| kind.front == Front::CpuSlabs)
}

fn alloc(yard: &Yard<Machine, OnCpus>, most: u32) -> Vec<usize> {
    let size = ROWS[CLASS].0 as usize;
    (0..most).map(|_| yard.alloc_fast(size, 16).expect("memory")).collect()
}

/// Frees take a slab off a CPU's list, another CPU uses it up and parks it: the first list
/// still has the slab's element, and does not count it.
#[test]
fn a_slab_that_came_back_to_another_list_is_counted_once() {
    for kind in kinds() {
        let yard = yard_of(&kind);
        let objects = yard.cache(CLASS).shape().geometry.objects;
        yard.cache(CLASS).set_min_partial(8);
        yard.platform().set_cpu(0);
        let first = alloc(&yard, objects);
        let mut live = u64::from(objects) + 1;
        alloc(&yard, objects + 1);
        first.iter().for_each(|object| yard.free_fast(*object).expect("a live object"));
        yard.platform().set_cpu(1);
        let again = alloc(&yard, objects);
        live += u64::from(objects) + 1;
        alloc(&yard, 1);
        yard.free_fast(again[0]).expect("a live object");
        live -= 1;
        let counted = yard.quiesce(|quiesced| Yard::count_cache(quiesced, CLASS));
        assert_eq!(counted.expect("in no handler").live, live, "{kind:?}");
        let stays = kind.cpu_partial_lists && kind.accounting != Accounting::Exact;
        assert_eq!(first[0] == again[0], !stays, "{kind:?}");
    }
}

/// A free finds the CPU's list stopped, and others freed the rest of its slab before it has the
/// node's lock: the slab ends, and its pages go back.
#[test]
fn an_empty_slab_that_no_cpu_can_park_gives_its_pages_back() {
    for kind in kinds() {
        let yard = yard_of(&kind);
        let cache = yard.cache(CLASS);
        cache.set_min_partial(0);
        let (shape, machine) = (cache.shape(), yard.platform());
        let objects = shape.geometry.objects;
        let first = alloc(&yard, objects);
        let second = alloc(&yard, objects);
        alloc(&yard, 1);
        // Makes the list.
        yard.free_fast(second[0]).expect("a live object");
        let mut stops = [(machine.row_hint().expect("a row"), shape.spare(), 0)];
        let has_list = machine.rows().entry(stops[0].0, shape.spare()).top() != Stack::NONE.top;
        assert_eq!(has_list, kind.cpu_partial_lists, "{kind:?}");
        assert!(!has_list || stop(machine, &mut stops, &|_, _, _| ()));
        let before = cache.nr_slabs();
        let slab = slab::resolve(&yard.heap.region, &shape.geometry, shape.slot, first[0])
            .expect("live")
            .slab;
        let group = Group { slab, word: Word::FIRST, mask: (1 << objects) - 1 };
        free::free_to_slab(cache.engine.on(cache.on(&yard.heap)), shape, &group);
        assert_eq!(cache.nr_slabs(), before - 1, "{kind:?}");
        if has_list {
            machine.rows().entry(stops[0].0, shape.spare()).start(stops[0].2);
        }
        let sound = yard.verify().expect("in no handler");
        assert!(sound.is_ok(), "{kind:?}: {sound:?}");
    }
}
