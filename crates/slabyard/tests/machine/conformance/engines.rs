//! The choice of an engine, what an engine without stacks leaves unchanged, and engines with
//! planted bugs: the checks of a yard must find them, whatever the engine.

use super::actor::{Actor, Company};
use super::oracle::Oracle;
use super::{Says, books, each_machine, settings, yard_of};
use crate::each_engine::{each_kind, next_kind};
use slabyard::cache::{classes, slots};
use slabyard::engine::cpu_slabs::{Front, OnCpus, Rules};
use slabyard::engine::partial::nr_partial;
use slabyard::engine::{
    Any, Changed, Engine, EngineFacts, EngineKind, Found, Inspect, PageSlabs, Repair, SlowPaths,
    Tiny,
};
use slabyard::pages::Sheaf;
use slabyard::platform::{PerCpu, Platform, Slot, Stack};
use slabyard::slab;
use slabyard::slab::{Object, Word, freeset};
use slabyard::yard::Yard;
use slabyard_abi::engines::EngineName;
use slabyard_testkit::machine::{Config, Machine};
use std::cell::RefCell;
use std::sync::Mutex;

#[test]
fn the_engine_that_was_chosen_serves() {
    for name in EngineName::ALL {
        each_machine(|config| {
            let _says = Says::of(&config);
            let settings = settings(&config);
            let yard: Yard<Machine, Any> = Yard::new(Machine::new(config));
            yard.choose(*name);
            assert!(yard.init(settings));
            assert_eq!(yard.engine(), *name);
            let has_stacks = yard.cache(0).sheaf_capacity() > 0;
            assert_eq!(has_stacks, !matches!(name, EngineName::Tiny | EngineName::Slob));
            let oracle = Mutex::new(Oracle::default());
            let mut actor = Actor::new(&yard, &oracle, 7, Company::Alone);
            for _ in 0..100 {
                actor.step();
                actor.check();
            }
            actor.finish();
        });
    }
}

/// Classes have slabs of the orders that were chosen, not of their table, and these serve: the least
/// that hold an object, and such as the table never has.
#[test]
fn the_orders_that_were_chosen_serve() {
    let least = |size: u32| size.div_ceil(4096).next_power_of_two().ilog2();
    for more in [0, 1, 3] {
        each_machine(|config| {
            let _says = Says::of(&config);
            let (settings, page) = (settings(&config), config.page_bytes / 4096);
            let yard: Yard<Machine, Any> = Yard::new(Machine::new(config));
            let order_of = |size: u32| (least(size) + more).clamp(page.ilog2(), 6);
            yard.choose_orders(order_of);
            assert!(yard.init(settings));
            for (cache, (size, of_table)) in yard.caches().classes().iter().zip(classes::ROWS) {
                assert_eq!(cache.shape().geometry.order, order_of(size), "not {of_table}");
            }
            let oracle = Mutex::new(Oracle::default());
            let mut actor = Actor::new(&yard, &oracle, 11, Company::Alone);
            for _ in 0..100 {
                actor.step();
                actor.check();
            }
            actor.finish();
        });
    }
}

#[test]
fn without_a_choice_the_engine_is_slub() {
    let yard = yard_of::<Any>(Config::default());
    assert_eq!(yard.engine(), EngineName::Slub);
    assert!(!yard.cache(0).engine.choose(EngineName::Tiny), "chosen before it begins, or not");
}

#[test]
fn the_engine_tiny_has_nothing_for_each_cpu() {
    each_machine(|config| {
        let _says = Says::of(&config);
        let yard = yard_of::<Tiny>(config);
        let oracle = Mutex::new(Oracle::default());
        let mut actor = Actor::new(&yard, &oracle, 3, Company::Alone);
        let p = yard.platform();
        let of_classes = || (0..classes::CLASSES).map(slots::slot_of);
        for _ in 0..200 {
            actor.step();
            let mut entries =
                (0..p.rows().len()).flat_map(|row| of_classes().map(move |s| (row, s)));
            assert!(entries.all(|(row, slot)| p.rows().entry(row, slot).is_none()));
        }
        actor.finish();
    });
}

#[test]
fn min_partial_is_the_engine_tiny_s_one_tunable() {
    let yard = yard_of::<Tiny>(Config::default());
    let cache = yard.cache(CLASS);
    let on = cache.on(&yard.heap);
    for name in ["sheaf_capacity", "barn_full", "barn_empty"] {
        assert_eq!(cache.engine.set(on, name, 1), None, "{name}");
    }
    let partial_after = |min_partial| {
        let changed = cache.engine.set(on, "min_partial", min_partial);
        assert!(changed.is_some_and(|changed| !changed.drains));
        let take = |_| yard.alloc(BYTES, 16).expect("memory");
        let objects: Vec<_> = (0..20 * cache.shape().geometry.objects).map(take).collect();
        objects.into_iter().for_each(|object| assert_eq!(yard.free(object), Ok(())));
        nr_partial(on)
    };
    // As in the kernel, a listed slab that became empty counts itself.
    assert_eq!([0, 7, 2].map(partial_after), [0, 6, 1]);
}

thread_local! {
    /// Kinds that yards had, in order.
    static HAD: RefCell<Vec<Rules>> = const { RefCell::new(Vec::new()) };
}

fn keep_kind() {
    let yard = yard_of::<OnCpus>(Config::default());
    let kind = yard.cache(CLASS).engine.rules(yard.cache(CLASS));
    HAD.with_borrow_mut(|had| had.push(kind));
}

#[test]
#[cfg_attr(miri, ignore = "long tests run some kinds there")]
fn each_kind_of_cpu_slabs_has_its_turn() {
    let is_kind = |kind: &Rules, of: &Rules| {
        let words = |it: &Rules| (it.freezing, it.accounting, it.cpu_partial_lists);
        words(kind) == words(of)
    };
    let dealt: [fn(); 2] = [
        || {
            next_kind();
            keep_kind();
        },
        || (0..30).for_each(|_| (next_kind(), keep_kind()).1),
    ];
    for body in [keep_kind as fn()].into_iter().chain(dealt) {
        each_kind(Front::CpuSlabs, body);
        let had = HAD.take();
        for kind in Rules::kinds() {
            assert!(had.iter().any(|of| is_kind(&kind, of)), "{kind:?} of {}", had.len());
        }
    }
}

/// Objects that the bugs are planted on.
const BYTES: usize = 64;
const CLASS: usize = 3;

/// A planted bug of an engine that is `tiny` otherwise.
trait Bug: Sync + Send + 'static {
    const NEW: Self;

    fn free<P: Platform>(on: PageSlabs<'_, P>, address: usize);
}

struct Broken<B>(B);

impl<B: Bug> Engine for Broken<B> {}

impl<B: Bug> EngineKind for Broken<B> {
    const NEW: Self = Broken(B::NEW);

    fn facts(&self) -> EngineFacts {
        Tiny.facts()
    }
}

impl<B: Bug> SlowPaths for Broken<B> {
    fn begin<P: Platform>(&self, _: PageSlabs<'_, P>) {}

    fn alloc<P: Platform>(&self, on: PageSlabs<'_, P>) -> Option<usize> {
        Tiny.alloc(on)
    }

    fn free<P: Platform>(&self, on: PageSlabs<'_, P>, address: usize) {
        B::free(on, address);
    }

    /// It does not drain what it published.
    fn flush_stopped<P: Platform>(
        &self,
        on: PageSlabs<'_, P>,
        _slot: Slot,
        mut stack: Sheaf,
    ) -> Sheaf {
        let objects = stack.len();
        on.heap.sheaves.shorten(&mut stack, objects);
        stack
    }

    fn reclaim<P: Platform>(&self, _: PageSlabs<'_, P>, _: &mut Option<Found>, _: u32) -> bool {
        false
    }

    fn shrink<P: Platform>(&self, on: PageSlabs<'_, P>) {
        Tiny.shrink(on);
    }

    fn set<P: Platform>(&self, _on: PageSlabs<'_, P>, _name: &str, _: u32) -> Option<Changed> {
        None
    }
}

impl<B: Bug> Repair for Broken<B> {}

impl<B: Bug> Inspect for Broken<B> {
    fn is_published<P: Platform>(&self, on: PageSlabs<'_, P>) -> bool {
        Tiny.is_published(on)
    }
}

/// Frees into a slab that was full, and does not list it.
struct LostSlab;

impl Bug for LostSlab {
    const NEW: Self = LostSlab;

    fn free<P: Platform>(on: PageSlabs<'_, P>, address: usize) {
        let shape = on.cache.shape();
        let object = slab::resolve(&on.heap.region, &shape.geometry, shape.slot, address);
        let Ok(Object { slab, index }) = object else { panic!("{address:#x} is no object") };
        let (word, bit) = Word::of(index);
        let _ = freeset::put(on.heap, slab, word, bit);
    }
}

/// Parks what is freed in a stack.
struct Hoard;

impl Bug for Hoard {
    const NEW: Self = Hoard;

    fn free<P: Platform>(on: PageSlabs<'_, P>, address: usize) {
        const ROOM: u32 = 60;
        let (p, sheaves) = (&on.heap.platform, &on.heap.sheaves);
        let slot = on.cache.shape().main();
        let Ok(stack) = p.exchange(slot, Stack::NONE) else { return on.free_direct(address) };
        let sheaf = sheaves.adopt(stack).or_else(|| sheaves.take(p, ROOM));
        let mut sheaf = sheaf.expect("memory");
        if sheaf.len() < ROOM {
            sheaves.push(&mut sheaf, address);
        } else {
            on.free_direct(address);
        }
        assert!(p.exchange(slot, sheaves.publish(sheaf, ROOM)).is_ok_and(|old| old == Stack::NONE));
    }
}

/// A yard of the engine with the bug, after as many allocations as two slabs have objects,
/// and their frees.
fn used<B: Bug>(config: Config) -> Yard<Machine, Broken<B>> {
    let yard = yard_of::<Broken<B>>(config);
    let objects = 2 * yard.cache(CLASS).shape().geometry.objects;
    let take = |_| yard.alloc(BYTES, 16).expect("memory");
    let all: Vec<_> = (0..objects).map(take).collect();
    books::verify(&yard).unwrap();
    all.into_iter().for_each(|object| assert_eq!(yard.free(object), Ok(())));
    yard
}

#[test]
fn an_engine_that_loses_a_slab_is_found() {
    let fault = books::verify(&used::<LostSlab>(Config::default())).expect_err("a lost slab");
    assert!(fault.starts_with("slab listed"), "{fault}");
}

#[test]
fn a_stack_that_an_engine_does_not_drain_is_found() {
    for (can_stop, expected) in [(true, "live objects"), (false, "what is left")] {
        let yard = used::<Hoard>(Config { can_stop, ..Config::default() });
        let sound = books::verify(&yard).expect("parked objects are no fault");
        assert!(sound.parked > 0 && sound.live == 0, "{sound:?}");
        yard.trim();
        let fault = books::empty(&yard).expect_err("a stack that was not drained");
        assert!(fault.starts_with(expected), "{fault}, and not {expected}");
    }
}
