//! Blocks that are mappings of their own: a search for an absent address is short however
//! many mappings came and went; and there may be more than the first table takes.

use slabyard::pages::mappings::LIMITS;
use slabyard::platform::GRANULE;
use slabyard::yard::{AddressKind, LARGEST_WARM_RUN, Settings, Yard};
use slabyard_testkit::machine::{Config, Machine};
use std::collections::HashSet;

/// Slots of a table that a search may look at; at most half of a table is used.
const SHORT: usize = 256;

fn yard() -> Yard<Machine> {
    let yard = <Yard<_>>::new(Machine::new(Config { memory_bytes: 1 << 46, ..Config::default() }));
    assert!(yard.init(Settings { reserve_bytes: 1 << 40, decay_ms: 250 }));
    yard
}

#[test]
fn a_search_is_short_after_many_came_and_went() {
    let yard = yard();
    let times = if cfg!(miri) { 1 } else { 30 };
    for nth in 0..times {
        // Other addresses each time: the machine uses each once.
        let bytes = (nth % 7 + 1) * GRANULE;
        let all: Vec<_> = (0..LIMITS[0])
            .map(|_| yard.heap.mappings.map(&yard.heap.platform, bytes, 16).expect("memory"))
            .collect();
        assert!(yard.heap.mappings.are_many());
        for address in &all {
            assert_eq!(yard.heap.mappings.bytes_of(*address), Some(bytes));
            assert_eq!(yard.heap.mappings.bytes_of(address + GRANULE / 2), None);
        }
        for address in &all {
            assert_eq!(yard.heap.mappings.unmap(&yard.heap.platform, *address), Some(bytes));
            assert_eq!(yard.heap.mappings.unmap(&yard.heap.platform, *address), None);
        }
        let looks = yard.heap.mappings.longest_search();
        assert!(looks <= SHORT, "a search looks at {looks} slots after {} times", nth + 1);
    }
    assert_eq!(yard.heap.mappings.live(), (0, 0));
}

#[test]
fn sparse_blocks_stay_mappings_beyond_the_first_table() {
    let yard = yard();
    let nr = if cfg!(miri) { LIMITS[0] + 10 } else { 7000 };
    let bytes = LARGEST_WARM_RUN + GRANULE;
    let before = yard.heap.region.top();
    let all: Vec<_> = (0..nr).map(|_| yard.alloc(bytes, 16).expect("memory")).collect();
    assert_eq!(yard.heap.region.top(), before);
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), nr);
    assert_eq!(yard.heap.mappings.live(), (nr, nr * bytes));
    assert!(yard.heap.mappings.longest_search() <= 2 * SHORT);
    for address in &all {
        assert_eq!(yard.place_of(*address), AddressKind::Large(bytes));
    }
    // This one looks at all of them.
    for address in all.iter().step_by(500) {
        assert_eq!(yard.place_of(address + GRANULE), AddressKind::Inside);
    }
    // A mapping that grows stays in its table.
    let last = yard.resize(all[nr - 1], 2 * bytes).expect("memory");
    assert_eq!(yard.usable(last), Some(2 * bytes));
    for address in all[..nr - 1].iter().chain([&last]) {
        assert_eq!(yard.free(*address), Ok(()));
        assert_eq!(yard.heap.mappings.bytes_of(*address), None);
    }
    assert_eq!(yard.heap.mappings.live(), (0, 0));
    assert!(!yard.heap.mappings.are_many());
}
