//! SLAB's geometry: each formula with its value, and every cache of real kernels.

use slabyard::engine::array_cache::Limits;
use slabyard_lab::geometry::SizeError;
use slabyard_lab::rules::Machine;
use slabyard_lab::slab::{Geometry, Index, Request, Rules, of};
use std::collections::BTreeSet;

/// A machine of so much memory, by its CPUs.
fn machine(page_size: u32, cpus: u32, memory_bytes: u64) -> Rules {
    Rules::of(&Machine { memory_bytes, ..Machine::new(page_size, cpus) })
}

fn small() -> Rules {
    machine(4096, 1, 16 << 20)
}

fn large() -> Rules {
    machine(4096, 2, 8 << 30)
}

fn plain(size: u32, rules: &Rules) -> Geometry {
    of(&Request::of(size), rules).expect("slabs of this size")
}

/// With a constructor.
fn constructed(size: u32, rules: &Rules) -> Geometry {
    let request = Request { keeps_contents: true, ..Request::of(size) };
    of(&request, rules).expect("slabs of this size")
}

fn shape(geometry: &Geometry) -> (u8, u32, Index) {
    (geometry.order, geometry.objects, geometry.index)
}

#[test]
fn every_cache_of_a_real_kernel_follows_the_rules() {
    let text = include_str!("data/slab_61.txt");
    let (mut rules, mut caches, mut placed) = (None, 0, BTreeSet::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(memory) = line.strip_prefix("memory ") {
            let mib: u64 = memory.trim_end_matches(" MiB").parse().expect("a number");
            rules = Some(machine(4096, 1, mib << 20));
            continue;
        }
        let (asked, told) = line.split_once(" | ").expect("two parts");
        let [name, object_size, flags] = asked.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let told: Vec<u32> = told.split(' ').map(|n| n.parse().expect("a number")).collect();
        let request = Request {
            object_size: object_size.parse().expect("a number"),
            keeps_contents: flags.contains('k'),
            reclaimable: flags.contains('r'),
            ..Request::of(told[0])
        };
        let found = of(&request, &rules.expect("a machine")).expect("slabs of this size");
        let Limits { limit, batchcount, sharedfactor } = found.limits;
        let ours = [found.size, found.objects, 1 << found.order, limit, batchcount, sharedfactor];
        assert_eq!(ours[..], told[..], "{name}: {found:?}");
        placed.insert(found.index.name());
        caches += 1;
    }
    assert_eq!(caches, 98);
    assert_eq!(placed.into_iter().collect::<Vec<_>>(), ["in an object", "on the slab"]);
}

#[test]
fn an_index_is_a_byte_on_small_pages() {
    assert_eq!((large().index_bytes(), large().most_objects()), (1, 255));
    let pages_of_16k = machine(16 << 10, 2, 8 << 30);
    assert_eq!((pages_of_16k.index_bytes(), pages_of_16k.most_objects()), (2, 65535));
    // So there are no objects of 8 bytes, as 512 fit into a page.
    assert_eq!((plain(8, &large()).size, plain(8, &pages_of_16k).size), (16, 8));
    assert_eq!(shape(&plain(8, &large())), (0, 240, Index::OnSlab));
}

#[test]
fn the_list_of_free_objects_lies_where_it_costs_least() {
    // An index each fits into an object.
    assert_eq!(shape(&plain(64, &large())), (0, 64, Index::InObject));
    // Or not: then it takes an object's place at the end.
    assert_eq!(shape(&plain(32, &large())), (0, 124, Index::OnSlab));
    // What users see of an object counts, and not its stride.
    let padded = Request { object_size: 56, ..Request::of(64) };
    assert_eq!(shape(&of(&padded, &large()).expect("slabs")), (0, 63, Index::OnSlab));
    // No free object may be written to: where nothing is left for the list, and an object for it
    // is at most half as large, it lies apart.
    assert_eq!(shape(&constructed(1024, &large())), (0, 4, Index::OffSlab));
    assert_eq!(shape(&constructed(128, &large())), (0, 32, Index::OffSlab));
    // Where something is left, it lies there.
    assert_eq!(shape(&constructed(544, &large())), (0, 7, Index::OnSlab));
    // An object for it would be larger than half of one here: a slab has one less.
    assert_eq!(shape(&constructed(64, &large())), (0, 63, Index::OnSlab));
}

#[test]
fn an_order_wastes_an_eighth_at_most_unless_it_is_the_highest() {
    // 1472 of 4096 bytes are too much, 320 of 8192 are not.
    assert_eq!(shape(&plain(2624, &large())), (1, 3, Index::InObject));
    assert_eq!(plain(2624, &large()).waste, 320);
    // On a machine of 32 MiB or less, order 0 is the highest.
    assert_eq!(shape(&plain(2624, &small())), (0, 1, Index::InObject));
    assert_eq!(machine(4096, 1, 32 << 20).max_order, 0);
    assert_eq!(machine(4096, 1, (32 << 20) + 1).max_order, 1);
    // Of reclaimable pages, the first order that holds an object is taken.
    let reclaimable = Request { reclaimable: true, ..Request::of(2624) };
    assert_eq!(shape(&of(&reclaimable, &large()).expect("slabs")), (0, 1, Index::InObject));
    // Above the highest order that is tried, what holds an object is taken.
    assert_eq!(shape(&plain(9000, &small())), (2, 1, Index::InObject));
    assert_eq!(shape(&plain(4 << 20, &small())), (10, 1, Index::InObject));
    let too_large = of(&Request::of((4 << 20) + 8), &small());
    assert!(matches!(too_large, Err(SizeError::TooLarge { order: 10, .. })), "{too_large:?}");
    assert_eq!(of(&Request::of(0), &small()), Err(SizeError::Empty));
}

#[test]
fn what_is_left_of_a_slab_colours_it() {
    // 4096 = 21 * 192 + 64: one line is left, which makes one colour.
    let dentry = plain(192, &large());
    assert_eq!((dentry.waste, dentry.colour_offset, dentry.colours), (64, 64, 1));
    // 4096 = 12 * 320 + 256.
    let mount = plain(320, &large());
    assert_eq!((mount.waste, mount.colours), (256, 4));
    // An alignment above a line's is the distance.
    let aligned = Request { align: 128, ..Request::of(1152) };
    let aligned = of(&aligned, &large()).expect("slabs");
    assert_eq!((aligned.objects, aligned.waste), (7, 128));
    assert_eq!((aligned.colour_offset, aligned.colours), (128, 1));
}

#[test]
fn a_node_may_have_a_batch_of_free_objects_for_each_cpu() {
    // (1 + CPUs of the node) * batchcount + objects of a slab.
    assert_eq!(plain(192, &large()).free_limit, 3 * 60 + 21);
    assert_eq!(plain(192, &small()).free_limit, 2 * 60 + 21);
    let two_nodes = Machine { nodes: 2, memory_bytes: 8 << 30, ..Machine::new(4096, 8) };
    assert_eq!(plain(192, &Rules::of(&two_nodes)).free_limit, 5 * 60 + 21);
}

#[test]
fn only_where_there_are_cpus_to_share_with_there_is_a_shared_array() {
    let limits = |size, rules: &Rules| plain(size, rules).limits;
    let two = Limits { limit: 120, batchcount: 60, sharedfactor: 8 };
    assert_eq!(limits(192, &large()), two);
    assert_eq!(limits(192, &small()), Limits { sharedfactor: 0, ..two });
    assert_eq!(limits(8192, &large()), Limits { limit: 8, batchcount: 4, sharedfactor: 0 });
}
