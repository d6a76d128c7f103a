//! The slab orders of a yard on fixed memory equal those of the lab's kernels, for each size: the
//! lab has the rules of each release and machine, the yard those of one release.

use slabyard_fixed::orders;
use slabyard_lab::rules::{Machine, Settings, find_release};
use slabyard_lab::{geometry, slab};

/// Pages of these sizes.
const PAGES: [u32; 3] = [4096, 16 << 10, 64 << 10];

#[test]
fn slub_has_the_orders_of_6_1() {
    let (release, _) = find_release("6.1").unwrap();
    for page in PAGES {
        for cpus in [1, 2, 4, 16] {
            for max_order in 0..=3 {
                let mut settings = Settings::new(release, Machine::new(page, cpus));
                settings.max_order = Some(max_order);
                for size in (8..4 * page + 64).step_by(8) {
                    let lab = geometry::of(size, &settings).ok();
                    let lab = lab.filter(|lab| lab.objects < 32_767 && lab.objects > 0);
                    let Some(lab) = lab else { continue };
                    let ours = orders::slub(size, page, max_order.into(), cpus);
                    assert_eq!(
                        ours,
                        Some(lab.order.into()),
                        "{size} bytes, pages of {page}, {cpus} CPUs, order {max_order}"
                    );
                }
            }
        }
    }
}

/// Where no slab has a list of its own: SLAB's list of free objects takes room of large slabs, and
/// a yard's is stored in the free objects.
#[test]
fn slab_has_the_orders_of_a_small_machine() {
    let mut machine = Machine::new(4096, 1);
    machine.memory_bytes = 8 << 20;
    let rules = slab::Rules::of(&machine);
    assert_eq!(rules.max_order, 0);
    let (mut same, mut others) = (0, 0);
    for size in (32..=8192).step_by(8) {
        let lab = slab::of(&slab::Request::of(size), &rules).unwrap();
        if lab.index == slab::Index::InObject {
            let ours = orders::slab(size, 4096, 0);
            assert_eq!(ours, Some(lab.order.into()), "{size} bytes");
            same += 1;
        } else {
            others += 1;
        }
    }
    assert!(same > 900 && others < 200, "{same} in objects, {others} elsewhere");
}
