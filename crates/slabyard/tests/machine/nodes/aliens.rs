//! Finds objects that wait for another node than their own, or are on the list of another one.

use slabyard::engine::array_cache::alien;
use slabyard::engine::node_set::NodeSet;
use slabyard::engine::partial_list::End;
use slabyard::engine::slabs::NodeList;
use slabyard::engine::{ArrayCaches, PageSlabs};
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::machine::{Config, Machine};

const CLASS: usize = 3;

/// A yard of two nodes with objects of node 0, after `f` had one of them and their cache.
fn after(f: impl Fn(&ArrayCaches, PageSlabs<'_, Machine>, usize)) -> Result<(), &'static str> {
    let yard = Yard::<_, ArrayCaches>::new(Machine::new(Config { nodes: 2, ..Config::default() }));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 250 }));
    let take = |_| yard.alloc_fast(64, 16).expect("memory");
    let objects: Vec<usize> = (0..100).map(take).collect();
    let cache = yard.cache(CLASS);
    f(&cache.engine, cache.on(&yard.heap), objects[50]);
    yard.verify().expect("outside of a slow path").map(|_| ()).map_err(|fault| fault.what)
}

#[test]
fn what_waits_where_it_belongs_is_sound() {
    let found = after(|engine, on, object| {
        alien::free(engine.nodes.at(on, 1).1, engine.nodes.at(on, 0).1, object);
    });
    assert_eq!(found, Ok(()));
}

#[test]
fn an_object_that_waits_for_another_node_is_found() {
    let found = after(|engine, on, object| {
        alien::free(engine.nodes.at(on, 0).1, engine.nodes.at(on, 1).1, object);
    });
    assert_eq!(found, Err("cache published as it is"));
}

#[test]
fn a_slab_on_another_node_s_list_is_found() {
    let found = after(|engine, on, object| {
        let region = &on.heap.region;
        let granule = region.granule_of(object).expect("a granule");
        let [here, other] = [0, 1].map(|node| engine.nodes.at(on, node).1);
        let slab = here.list().lock(here.park()).first().expect("a slab with free objects");
        assert_eq!(region.node_of(granule), 0);
        let mut list = here.list().lock(here.park());
        list.unlink(here, slab);
        here.publish(&list);
        drop(list);
        let mut list = other.list().lock(other.park());
        list.add(other, slab, End::Head);
        other.publish(&list);
    });
    assert_eq!(found, Err("cache published as it is"));
}
