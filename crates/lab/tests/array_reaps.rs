//! A CPU's SLAB arrays, in the model: what a timer frees from them, and how they follow changes of
//! their limits.

use slabyard::engine::array_cache::Limits;
use slabyard_model::cache::{Accounting, Freezing, KernelCache, Rules};

const WHOLE: Limits = Limits { limit: 120, batchcount: 60, sharedfactor: 0 };
const OF_ONE: Limits = Limits { limit: 1, batchcount: 1, sharedfactor: 0 };

fn cache(limits: Limits) -> KernelCache {
    let of_kind = Rules::of_kind(Freezing::Delayed, Accounting::Slabs, false);
    KernelCache::new(of_kind.of_arrays(100, limits), &[0])
}

/// The first refill is of 16 objects, later ones of a batch; a reap after which it is of 16 again
/// found objects in the array.
#[test]
fn an_empty_array_stays_touched_at_a_reap() {
    for left in [0, 1] {
        let mut cache = cache(WHOLE);
        (0..16 - left).for_each(|_| _ = cache.alloc(0, None));
        assert_eq!(cache.in_sheaves_of(0), left, "a refill of 16");
        cache.reap_cpu(0);
        (0..left).for_each(|_| _ = cache.alloc(0, None));
        // What was left was touched by that.
        if left > 0 {
            cache.reap_cpu(0);
        }
        cache.alloc(0, None);
        assert_eq!(cache.in_sheaves_of(0), 59, "a batch, but one");
    }
    let mut cache = cache(WHOLE);
    let object = cache.alloc(0, None);
    cache.reap_cpu(0);
    assert_eq!(cache.in_sheaves_of(0), 15, "touched");
    cache.reap_cpu(0);
    assert_eq!(cache.in_sheaves_of(0), 7, "the half, being fewer than a fifth of the limit");
    (0..3).for_each(|_| cache.reap_cpu(0));
    assert_eq!(cache.in_sheaves_of(0), 0);
    cache.alloc(0, None);
    assert_eq!(cache.in_sheaves_of(0), 15, "not touched: 16");
    cache.free(0, object);
    cache.audit(None).unwrap();
}

#[test]
fn arrays_are_flushed_when_their_limits_change() {
    let mut cache = cache(OF_ONE);
    let mut live: Vec<u32> = (0..10).map(|_| cache.alloc(0, None)).collect();
    (0..5).for_each(|_| cache.free(0, live.pop().expect("ten")));
    assert_eq!(cache.in_sheaves_of(0), 1, "no more than one");
    cache.tune_arrays(WHOLE);
    assert_eq!((cache.in_sheaves_of(0), cache.nr_slabs()), (0, 1));
    live.push(cache.alloc(0, None));
    assert_eq!(cache.in_sheaves_of(0), 15, "a refill of 16");
    live.into_iter().for_each(|object| cache.free(0, object));
    assert_eq!(cache.in_sheaves_of(0), 21, "below the new limit");
    cache.audit(None).unwrap();
}
