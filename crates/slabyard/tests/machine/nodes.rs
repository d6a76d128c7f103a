//! Memory nodes: the objects that a CPU gets are of its node, and objects of another node return
//! there.

mod aliens;
mod barns;
#[cfg(target_os = "linux")]
mod on_linux;
mod slub;

use slabyard::cache::CacheSettings;
use slabyard::engine::array_cache::{Limits, alien};
use slabyard::engine::nodes::NodeSettings;
use slabyard::engine::sheaves::SheavesOnNodes;
use slabyard::engine::{ArrayCaches, Counter, Engine, Inspect};
use slabyard::pages::nodes::STRIPE;
use slabyard::pages::runs;
use slabyard::platform::{GRANULE, PerCpu, Platform, Takes};
use slabyard::slab;
use slabyard::yard::{LARGEST_RUN, Settings, Yard};
use slabyard_testkit::Random;
use slabyard_testkit::machine::{Config, Machine};

type OnTwo<E = ArrayCaches> = Yard<Machine, E>;

/// An engine of several nodes.
trait Nodes: Engine {
    /// Its kernel's settings.
    const SETTINGS: NodeSettings;
    fn follow(&self, settings: NodeSettings);
}

impl Nodes for ArrayCaches {
    const SETTINGS: NodeSettings = NodeSettings::SLAB;
    fn follow(&self, settings: NodeSettings) {
        self.follow_nodes(settings);
    }
}

impl Nodes for SheavesOnNodes {
    const SETTINGS: NodeSettings = NodeSettings::SLUB;
    fn follow(&self, settings: NodeSettings) {
        SheavesOnNodes::follow(self, settings);
    }
}

/// Objects of this class have 64 bytes.
const CLASS: usize = 3;
const BYTES: usize = 64;

fn yard_of<E: Nodes>(config: Config, settings: NodeSettings) -> OnTwo<E> {
    let yard = Yard::<_, E>::new(Machine::new(Config { preemption: 0, ..config }));
    yard.caches().classes().iter().for_each(|cache| cache.engine.follow(settings));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 250 }));
    yard
}

fn yard<E: Nodes>(nodes: usize) -> OnTwo<E> {
    yard_of(Config { cpus: 4, nodes, ..Config::default() }, E::SETTINGS)
}

fn node_of<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) -> Option<usize> {
    let region = &yard.heap.region;
    region.granule_of(address).map(|granule| region.node_of(granule))
}

fn counted<E: Engine>(yard: &OnTwo<E>, counter: Counter) -> u64 {
    yard.platform().counted()[counter as usize]
}

fn check<E: Engine>(yard: &OnTwo<E>) {
    yard.verify().expect("outside of a slow path").expect("a sound yard");
}

/// So many objects of one CPU.
fn take<E: Engine>(yard: &OnTwo<E>, cpu: usize, objects: usize) -> Vec<usize> {
    yard.platform().set_cpu(cpu);
    (0..objects).map(|_| yard.alloc_fast(BYTES, 16).expect("memory")).collect()
}

fn give<E: Engine>(yard: &OnTwo<E>, cpu: usize, objects: impl IntoIterator<Item = usize>) {
    yard.platform().set_cpu(cpu);
    objects.into_iter().for_each(|object| yard.free_fast(object).expect("a live object"));
}

/// Calls on CPUs in any order, each free by any of them. `free` is how one frees. The first
/// allocation of a node that is not the CPU's is an error.
fn each_is_near<E: Nodes>(
    nodes: usize,
    seed: u64,
    free: impl Fn(&OnTwo<E>, usize),
) -> Result<OnTwo<E>, (usize, usize)> {
    let settings = NodeSettings { remote_percent: 0, ..E::SETTINGS };
    let yard = yard_of(Config { cpus: 4, nodes, ..Config::default() }, settings);
    let mut random = Random::new(seed);
    let mut live = Vec::new();
    for _ in 0..40_000 {
        let cpu = random.below(4);
        yard.platform().set_cpu(cpu);
        for _ in 0..random.below(30) {
            let bytes = match random.below(50) {
                0 => random.below(LARGEST_RUN),
                1..5 => random.below(32 << 10),
                _ => random.below(512),
            };
            let address = yard.alloc_fast(bytes, 16).expect("memory");
            // Else it is a mapping.
            if let Some(node) = node_of(&yard, address).filter(|node| *node != cpu % nodes) {
                return Err((cpu, node));
            }
            live.push(address);
        }
        for _ in 0..random.below(30).min(live.len()) {
            let nth = random.below(live.len());
            free(&yard, live.swap_remove(nth));
        }
        yard.platform().advance(u64::from(random.below(200) == 0) * 50);
    }
    check(&yard);
    live.into_iter().for_each(|address| free(&yard, address));
    check(&yard);
    yard.trim();
    let sound = yard.verify().expect("outside of a slow path").expect("a sound yard");
    assert_eq!((sound.live, sound.slabs, sound.parked), (0, 0, 0));
    Ok(yard)
}

fn free_by_sequence<E: Engine>(yard: &OnTwo<E>, address: usize) {
    yard.free_fast(address).expect("a live object");
}

#[test]
fn a_cpu_gets_memory_of_its_node() {
    for (nodes, seed) in [(2, 1), (2, 2), (4, 3)] {
        let yard =
            each_is_near::<ArrayCaches>(nodes, seed, free_by_sequence).expect("its own node");
        assert!(counted(&yard, Counter::NodeFrees) > 10_000);
        assert!(counted(&yard, Counter::NodeOverflow) > 100);
        assert_eq!(counted(&yard, Counter::NodeAllocs), 0);
    }
}

/// The planted bug: a push that asks for no tag.
fn is_found_without_tag<E: Nodes>() {
    let free = |yard: &OnTwo<E>, address: usize| {
        let class = (0..60).find(|class| {
            let shape = yard.cache(*class).shape();
            slab::resolve(&yard.heap.region, &shape.geometry, shape.slot, address).is_ok()
        });
        let slot = class.map(|class| yard.cache(class).shape().main());
        if !slot.is_some_and(|slot| yard.platform().push(slot, address, Takes::Each)) {
            free_by_sequence(yard, address);
        }
    };
    let found = each_is_near::<E>(2, 1, free).map(|_| ()).expect_err("an object of another node");
    assert_ne!(found.0 % 2, found.1);
}

#[test]
fn a_push_without_a_tag_is_found() {
    is_found_without_tag::<ArrayCaches>();
    is_found_without_tag::<SheavesOnNodes>();
}

#[test]
fn frees_of_another_node_wait_for_a_dozen() {
    let yard = yard::<ArrayCaches>(2);
    let mut objects = take(&yard, 0, 100);
    let most = u64::from(alien::MOST);
    for nth in 1..=50 {
        give(&yard, 1, objects.pop());
        let counts = [Counter::NodeFrees, Counter::NodeOverflow].map(|of| counted(&yard, of));
        assert_eq!(counts, [nth, (nth - 1) / most]);
        check(&yard);
    }
    // They are the other node's again.
    let before = counted(&yard, Counter::AllocSlab);
    let shared = 48;
    let again = take(&yard, 0, 60 + shared);
    assert!(again.iter().all(|object| node_of(&yard, *object) == Some(0)));
    assert_eq!(counted(&yard, Counter::AllocSlab), before);
    give(&yard, 0, again.into_iter().chain(objects));
    yard.trim();
    let sound = yard.verify().expect("outside of a slow path").expect("a sound yard");
    assert_eq!((sound.live, sound.slabs, sound.parked), (0, 0, 0));
}

#[test]
fn without_alien_arrays_none_waits() {
    let settings = NodeSettings { has_aliens: false, ..NodeSettings::SLAB };
    let yard = yard_of::<ArrayCaches>(Config { cpus: 2, nodes: 2, ..Config::default() }, settings);
    let objects = take(&yard, 0, 100);
    give(&yard, 1, objects);
    check(&yard);
    let mut waits = 0;
    let cache = yard.cache(CLASS);
    Inspect::each_parked(&cache.engine, cache.on(&yard.heap), |_| waits += 1);
    assert_eq!((waits, counted(&yard, Counter::NodeFrees)), (0, 100));
    assert_eq!(counted(&yard, Counter::NodeOverflow), 0);
}

/// Objects of node 0 that CPU 1 gets of so many, while node 0 has slabs to spare.
fn far_of<E: Nodes>(remote_percent: u32, objects: usize) -> usize {
    let settings = NodeSettings { remote_percent, ..E::SETTINGS };
    let yard = yard_of::<E>(Config { cpus: 2, nodes: 2, ..Config::default() }, settings);
    let spare = take(&yard, 0, 20_000);
    let kept: Vec<_> = spare.iter().copied().step_by(2).collect();
    give(&yard, 0, spare.into_iter().skip(1).step_by(2));
    let got = take(&yard, 1, objects);
    let far = got.iter().filter(|object| node_of(&yard, **object) == Some(0)).count();
    assert_eq!(counted(&yard, Counter::NodeAllocs), far as u64);
    check(&yard);
    give(&yard, 1, got);
    give(&yard, 0, kept);
    check(&yard);
    far
}

#[test]
fn a_node_without_free_objects_takes_others_by_the_ratio() {
    fn takes_more_the_higher_it_is<E: Nodes>() {
        assert_eq!(far_of::<E>(0, 3000), 0);
        // Where it takes none, it has a slab of its own for a while, and asks for no more.
        let [few, half, all] = [20, 60, 100].map(|percent| far_of::<E>(percent, 20_000));
        assert!(0 < few && few < half && half < all, "{few}, {half}, {all}");
    }
    takes_more_the_higher_it_is::<ArrayCaches>();
    takes_more_the_higher_it_is::<SheavesOnNodes>();
}

#[test]
fn a_node_keeps_as_many_slabs_as_it_may() {
    keeps_as_many_slabs_as_it_may::<ArrayCaches>();
    keeps_as_many_slabs_as_it_may::<SheavesOnNodes>();
}

fn keeps_as_many_slabs_as_it_may<E: Nodes>() {
    let settings = NodeSettings { remote_percent: 100, has_aliens: true };
    let yard = yard_of::<E>(Config { cpus: 2, nodes: 2, ..Config::default() }, settings);
    let cache = yard.cache(CLASS);
    let kept = take(&yard, 0, 300);
    let listed = Inspect::nr_partial(&cache.engine, cache.on(&yard.heap));
    assert!(listed > 0);
    cache.set_min_partial(listed);
    let got = take(&yard, 1, 10);
    assert!(got.iter().all(|object| node_of(&yard, *object) == Some(1)));
    give(&yard, 0, kept.into_iter().chain(got));
}

#[test]
fn a_run_lies_in_one_stripe() {
    let yard = yard::<ArrayCaches>(2);
    let region = &yard.heap.region;
    let mut random = Random::new(5);
    let mut live: Vec<(usize, usize)> = Vec::new();
    for nth in 0..3000 {
        yard.platform().set_cpu(nth % 4);
        let largest = [64 << 10, 1 << 20, 16 << 20][random.below(40) / 15 % 3];
        let bytes = 1 + random.below(largest);
        if let Some(address) = yard.heap.alloc_run(bytes, GRANULE << random.below(6)) {
            let first = region.granule_of(address).expect("a granule") as usize;
            let last = first + bytes.div_ceil(GRANULE) - 1;
            assert_eq!(first / STRIPE, last / STRIPE, "{bytes} bytes");
            // It grows within its stripe, or not at all.
            let grown = bytes + random.below(bytes);
            let bytes = yard.heap.grow_run(address, grown).map_or(bytes, |_| grown);
            let last = first + bytes.div_ceil(GRANULE) - 1;
            assert_eq!(first / STRIPE, last / STRIPE, "grown to {bytes} bytes");
            live.push((address, bytes));
        }
        while live.len() > 20 {
            let (address, bytes) = live.swap_remove(random.below(live.len()));
            let freed = yard.heap.free_live_run(address);
            assert!(freed.is_some_and(|freed| freed >= bytes), "{freed:?} of {bytes}");
        }
    }
    check(&yard);
    assert_eq!(yard.heap.alloc_run(STRIPE * GRANULE + 1, GRANULE), None);
    // No block of the buddy spans two either.
    runs::each_free_block(&yard.heap, |first, order| {
        let last = first as usize + (1 << order) - 1;
        assert_eq!(first as usize / STRIPE, last / STRIPE);
    });
}

#[test]
fn a_node_without_memory_gets_what_another_has() {
    gets_what_another_has::<ArrayCaches>();
    gets_what_another_has::<SheavesOnNodes>();
}

fn gets_what_another_has<E: Engine>() {
    let yard = Yard::<_, E>::new(Machine::new(Config { nodes: 2, ..Config::default() }));
    let stripe = STRIPE * GRANULE;
    assert!(yard.init(Settings { reserve_bytes: 2 * stripe, decay_ms: 250 }));
    let mut objects = Vec::new();
    while objects.len() * 1024 < stripe * 3 / 2 {
        objects.push(yard.alloc_fast(1024, 16).expect("memory"));
    }
    for node in [0, 1] {
        let of = objects.iter().filter(|object| node_of(&yard, **object) == Some(node)).count();
        assert!(of * 1024 > stripe / 3, "{of} objects of node {node}");
    }
    check(&yard);
    give(&yard, 0, objects);
    check(&yard);
}

#[test]
fn a_region_has_a_stripe_of_each_node_at_least() {
    let config = Config { nodes: 4, ..Config::default() };
    let yard = Yard::<_, ArrayCaches>::new(Machine::new(config));
    let region = &yard.heap.region;
    assert_eq!(region.nodes(), 1, "before it is made");
    assert!(yard.init(Settings { reserve_bytes: 16 << 20, decay_ms: 250 }));
    assert_eq!((region.nodes(), region.granules()), (4, 4 * STRIPE), "a stripe of each at least");
    let objects: Vec<usize> = [0, 1].into_iter().flat_map(|cpu| take(&yard, cpu, 100)).collect();
    check(&yard);
    give(&yard, 1, objects);
    check(&yard);
}

#[test]
fn free_objects_have_a_limit_at_each_node() {
    let yard = yard::<ArrayCaches>(2);
    let limits = Limits::of_cache(yard.cache(CLASS));
    let objects = yard.cache(CLASS).shape().geometry.objects as usize;
    // Two CPUs a node.
    let most = 3 * limits.batchcount as usize + objects;
    for cpu in [0, 1] {
        let all = take(&yard, cpu, 20 * objects);
        give(&yard, cpu, all);
        let sound = yard.verify().expect("outside of a slow path").expect("a sound yard");
        assert!(sound.free as usize <= (cpu + 1) * (most + objects), "{sound:?}");
    }
    let slabs = yard.cache(CLASS).nr_slabs();
    assert!(slabs < 20, "{slabs}");
}

/// Objects that are asked for by their node come from there, whichever CPU asks, and go back there.
fn a_named_node_serves<E: Nodes>() {
    let yard = yard::<E>(2);
    let id = yard.create_cache("packets", &CacheSettings::of(200)).expect("a cache");
    for cpu in [0, 1, 2, 3] {
        yard.platform().set_cpu(cpu);
        let mut objects = Vec::new();
        for nth in 0..300 {
            let node = nth % 2;
            let object = yard.alloc_from_node(id, node).expect("memory");
            assert_eq!(node_of(&yard, object), Some(node), "CPU {cpu}");
            objects.push(object);
        }
        // One that is not there is no error.
        objects.push(yard.alloc_from_node(id, 7).expect("memory"));
        objects.into_iter().for_each(|object| yard.free_to(id, object).expect("a live object"));
        check(&yard);
    }
}

#[test]
fn a_named_node_serves_slab() {
    a_named_node_serves::<ArrayCaches>();
}

#[test]
fn a_named_node_serves_slub() {
    a_named_node_serves::<SheavesOnNodes>();
}

/// Without memory on the named node an object is another one's, and with one node all are its.
#[test]
fn a_named_node_is_a_hint() {
    let yard = yard::<ArrayCaches>(1);
    let id = yard.create_cache("packets", &CacheSettings::of(200)).expect("a cache");
    assert!((0..500).all(|node| yard.alloc_from_node(id, node % 3).is_some()));
    check(&yard);
}
