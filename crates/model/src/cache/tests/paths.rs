//! Tests each path against the counts in the patch series that proposed delayed freezing.

use super::*;

fn eager() -> Rules {
    Rules { freezing: Freezing::Eager, ..RULES }
}

/// Each path's cost, eager and delayed: one row of the comparison in the series of
/// 2023 each.
#[test]
fn each_path_costs_what_the_series_says() {
    type Setup = fn(&mut KernelCache) -> u32;
    type Act = fn(&mut KernelCache, u32);
    let off = |rules: Rules| Rules { cpu_partial_lists: false, ..rules };
    type Row = (&'static str, fn(Rules) -> Rules, Setup, Act, [u64; 3], [u64; 3]);
    let rows: [Row; 13] = [
        (
            "alloc fast",
            |r| r,
            |c| c.install_cpu_slab(0, 2),
            |c, s| assert_eq!(c.alloc(0, None), s),
            [0, 0, 0],
            [0, 0, 0],
        ),
        (
            "free fast",
            |r| r,
            |c| c.install_cpu_slab(0, 2),
            |c, s| c.free(0, s),
            [0, 0, 0],
            [0, 0, 0],
        ),
        (
            "refill from the own slab",
            |r| r,
            |c| {
                let s = c.install_cpu_slab(0, 0);
                c.free(1, s);
                s
            },
            |c, s| assert_eq!(c.alloc(0, None), s),
            [1, 0, 0],
            [1, 0, 0],
        ),
        (
            "take a CPU partial slab",
            |r| r,
            |c| c.install_cpu_partial(0, 1),
            |c, s| assert_eq!(c.alloc(0, None), s),
            [1, 0, 0],
            [1, 0, 0],
        ),
        (
            "node partial, slab to use",
            |r| r,
            |c| c.install_node_partial(0, 1),
            |c, s| assert_eq!(c.alloc(0, None), s),
            [1, 1, 1],
            [1, 0, 1],
        ),
        (
            "node partial, one to use and two for the CPU",
            |r| r,
            |c| {
                let s = c.install_node_partial(0, 1);
                for _ in 0..4 {
                    c.install_node_partial(0, 1);
                }
                s
            },
            |c, s| assert_eq!(c.alloc(0, None), s),
            [3, 3, 1],
            [1, 0, 1],
        ),
        (
            "new slab",
            |r| r,
            |_| NONE,
            |c, _| {
                c.alloc(0, None);
            },
            [0, 0, 0],
            [0, 0, 0],
        ),
        (
            "free slow, frozen",
            |r| r,
            |c| c.install_cpu_slab(0, 0),
            |c, s| c.free(1, s),
            [1, 0, 0],
            [1, 0, 0],
        ),
        (
            "free slow, full to partial, with CPU partial",
            |r| r,
            |c| c.install_full(0),
            |c, s| c.free(0, s),
            [1, 0, 0],
            [1, 0, 0],
        ),
        (
            "free slow, full to partial, without",
            off,
            |c| c.install_full(0),
            |c, s| c.free(0, s),
            [1, 1, 1],
            [1, 1, 1],
        ),
        (
            "free slow, stays partial",
            |r| r,
            |c| c.install_node_partial(0, 1),
            |c, s| c.free(0, s),
            [1, 0, 0],
            [1, 0, 0],
        ),
        (
            "free slow, empty on the node list",
            |r| r,
            |c| {
                for _ in 0..2 {
                    c.install_node_partial(0, 1);
                }
                c.install_node_partial(0, 3)
            },
            |c, s| {
                c.free(0, s);
                assert_eq!(c.state(s), State::Gone);
            },
            [1, 1, 1],
            [1, 1, 1],
        ),
        (
            "free slow, empty on a CPU partial list",
            |r| r,
            |c| c.install_cpu_partial(0, 3),
            |c, s| {
                c.free(1, s);
                assert_eq!(c.state(s), State::CpuPartial);
            },
            [1, 0, 0],
            [1, 1, 1],
        ),
    ];
    for (name, change, setup, act, old, new) in rows {
        for (rules, expected) in [(eager(), old), (RULES, new)] {
            let mut cache = KernelCache::new(change(rules), &[0, 0]);
            let slab = setup(&mut cache);
            let found = cost(&mut cache, |c| act(c, slab));
            assert_eq!(found, expected, "{name}, {:?}", rules.freezing);
        }
    }
}

#[test]
fn a_drain_costs_an_exchange_a_slab_only_if_freezing_is_eager() {
    for (rules, expected) in [(eager(), [1 + 3, 3, 1]), (RULES, [1, 0, 1])] {
        let mut cache = KernelCache::new(rules, &[0]);
        for _ in 0..3 {
            cache.install_cpu_partial(0, 1);
        }
        let full = cache.install_full(0);
        assert_eq!(cost(&mut cache, |c| c.free(0, full)), expected);
        assert_eq!(cache.counters.get(C::CpuPartialDrain), 1);
        assert_eq!(cache.counters.drains()[2], 1, "a free that drained 3 slabs");
        assert_eq!(cache.node_partial(0).1, 3);
        assert_eq!(cache.cpus[0].partial.get().slabs, 1, "the new one alone");
    }
}

#[test]
fn a_cpu_slab_goes_home_by_one_exchange_outside_of_the_lock_if_delayed() {
    for (rules, expected) in [(eager(), [1, 1, 1]), (RULES, [1, 0, 1])] {
        let mut cache = KernelCache::new(rules, &[0]);
        cache.install_cpu_slab(0, 2);
        assert_eq!(cost(&mut cache, |c| c.deactivate(0)), expected);
    }
}
