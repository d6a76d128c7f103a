//! Advice against huge pages is bounded by the mappings that it costs.

use slabyard::pages::advice::{Given, LARGE, MOST_BORDERS, NONE, SMALL};
use slabyard_testkit::machine::{Config, Machine};

#[test]
fn borders_are_counted_and_bounded() {
    let machine = Machine::new(Config::default());
    let mut given = Given::new();
    let nr = 4 * MOST_BORDERS;
    assert!(given.ensure(&machine, nr, nr));
    let mut set = |nth, what| {
        let done = given.set(nth, what);
        (done, given.nr_borders())
    };
    assert_eq!(set(10, SMALL), (true, 2));
    assert_eq!(set(12, SMALL), (true, 4));
    assert_eq!(set(11, SMALL), (true, 2), "one mapping of three extents");
    assert_eq!(set(11, LARGE), (true, 4));
    for nth in [10, 11, 12] {
        set(nth, NONE);
    }
    assert_eq!(set(0, SMALL), (true, 2), "the extent before the first is not the heap's");
    let last = (2..nr).step_by(2).find(|nth| !set(*nth, SMALL).0);
    assert_eq!(last, Some(MOST_BORDERS));
    assert_eq!(set(MOST_BORDERS - 1, SMALL), (true, MOST_BORDERS), "no more than there are");
}
