use super::*;
use std::thread_local;

struct Spin;
thread_local! { static HELD: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0))); }
impl Park for Spin {
    fn wait(&self, _: &AtomicU32, _: u32) {
        std::thread::yield_now();
    }
    fn wait_at_most(&self, _: &AtomicU32, _: u32, _: u64) {
        unreachable!("a single thread never waits");
    }
    fn wake(&self, _: &AtomicU32) {}
    fn held(&self) -> &AtomicU32 {
        HELD.with(|h| *h)
    }
}

#[test]
fn counts_under_contention() {
    let lock = Lock::new(Rank::List, 0u64);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..10_000 {
                    *lock.lock(&Spin) += 1;
                }
            });
        }
    });
    assert_eq!(*lock.lock(&Spin), 40_000);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "lock order")]
fn wrong_order_is_caught() {
    let (outer, inner) = (Lock::new(Rank::Barn, ()), Lock::new(Rank::Pages, ()));
    let _inner = inner.lock(&Spin);
    let _outer = outer.lock(&Spin);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "lock order")]
fn a_lock_under_a_leaf_is_caught() {
    let (leaf, above) = (Lock::new(Rank::Barn, ()), Lock::new(Rank::Pages, ()));
    let _leaf = leaf.lock(&Spin);
    let _above = above.lock(&Spin);
}

#[test]
#[cfg(debug_assertions)]
fn calls_are_made_under_no_leaf() {
    for (rank, may) in [
        (Rank::Drain, true),
        (Rank::Grace, true),
        (Rank::Waiting, true),
        (Rank::Barn, false),
        (Rank::List, false),
        (Rank::Pool, true),
        (Rank::Grow, true),
        (Rank::Advice, true),
        (Rank::Pages, false),
    ] {
        let lock = Lock::new(rank, ());
        let _guard = lock.lock(&Spin);
        let called = std::panic::catch_unwind(|| may_call(&Spin)).is_ok();
        assert_eq!(called, may, "{rank:?}");
    }
    may_call(&Spin);
}
