//! Finds objects that lie in the barn or on the list of another node than their own.

use slabyard::engine::PageSlabs;
use slabyard::engine::node_set::NodeSet;
use slabyard::engine::partial_list::End;
use slabyard::engine::sheaves::SheavesOnNodes;
use slabyard::engine::slabs::{NodeList, SheafAccess};
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::machine::{Config, Machine};

const CLASS: usize = 3;

/// A yard of two nodes with objects of node 0, after `f` had one of them and their cache.
fn after(f: impl Fn(&SheavesOnNodes, PageSlabs<'_, Machine>, usize)) -> Result<(), &'static str> {
    let yard =
        Yard::<_, SheavesOnNodes>::new(Machine::new(Config { nodes: 2, ..Config::default() }));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 250 }));
    let take = |_| yard.alloc_fast(64, 16).expect("memory");
    let objects: Vec<usize> = (0..100).map(take).collect();
    let cache = yard.cache(CLASS);
    f(&cache.engine, cache.on(&yard.heap), objects[50]);
    yard.verify().expect("outside of a slow path").map(|_| ()).map_err(|fault| fault.what)
}

/// Puts a sheaf with an object into a node's barn.
fn park(engine: &SheavesOnNodes, on: PageSlabs<'_, Machine>, node: usize, object: usize) {
    let (sheaves, there) = engine.0.at(on, node);
    let mut sheaf = there.new_sheaf(10).expect("memory");
    there.push(&mut sheaf, object);
    sheaves.barn_keep(there, sheaf);
}

#[test]
fn what_is_parked_where_it_belongs_is_sound() {
    assert_eq!(after(|engine, on, object| park(engine, on, 0, object)), Ok(()));
}

#[test]
fn an_object_in_the_barn_of_another_node_is_found() {
    let found = after(|engine, on, object| park(engine, on, 1, object));
    assert_eq!(found, Err("cache published as it is"));
}

#[test]
fn a_slab_on_another_node_s_list_is_found() {
    let found = after(|engine, on, _| {
        let [here, other] = [0, 1].map(|node| engine.0.at(on, node).1);
        let slab = here.list().lock(here.park()).first().expect("a slab with free objects");
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
