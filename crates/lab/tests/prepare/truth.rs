//! The kernel's slabs over time, and the caches left out.

use super::*;

#[test]
fn only_caches_that_wait_for_readers_return_their_slabs_late() {
    let mut case = Case::plain();
    case.caches.push(CacheFacts { rcu: true, ..cache("anon_vma", 64) });
    let delays: Vec<_> = case.prepare().caches.iter().map(|c| c.return_delay_ns).collect();
    assert_eq!(delays, [0, RCU_DELAY_NS]);
}

/// An initial slab that goes, two that come and one of them goes; a slab of
/// another cache that comes and stays.
fn case(other: &str) -> Case {
    let mut case = Case::new(&[cache("filp", 1024), cache(other, 1024)]);
    case.free(0.0, 0, 1, 0);
    case.pages(10.0, 0, Kind::PageFree, 1, 0);
    case.pages(20.0, 0, Kind::PageAlloc, 2, 0);
    case.alloc(21.0, 0, 2, 0);
    case.pages(30.0, 0, Kind::PageAlloc, 3, 0);
    case.alloc(31.0, 0, 3, 0);
    case.pages(35.0, 0, Kind::PageAlloc, 9, 0);
    case.add(36.0, 0, Kind::CacheAlloc, other, at(9, 0));
    case.free(39.0, 0, 3, 0);
    case.pages(40.0, 0, Kind::PageFree, 3, 0);
    case.free(50.0, 0, 2, 0);
    case
}

#[test]
fn slabs_are_counted_from_the_start_by_pages_got_and_given_back() {
    let case = case("dentry");
    let truth = Truth::of(&case.prepare(), 5);
    let filp = &truth.caches[0];
    assert_eq!((filp.allocated, filp.freed), (2, 2));
    assert_eq!((filp.peak, filp.lowest, filp.end, filp.range()), (1, -1, 0, 2));
    assert_eq!(filp.points, [-1, 0, 1, 0, 0]);
    assert_eq!(truth.caches[1].points, [0, 0, 0, 1, 1]);
    assert_eq!((truth.total.allocated, truth.total.freed, truth.total.peak), (3, 2, 2));
    assert_eq!(truth.total.points, [-1, 0, 1, 1, 1]);
}

#[test]
fn the_total_leaves_out_what_the_list_says() {
    let case = case("maple_node");
    let prepared = case.prepare();
    let truth = Truth::of(&prepared, 5);
    assert!(prepared.caches[1].left_out.is_some());
    assert_eq!((truth.total.allocated, truth.total.peak, truth.total.end), (2, 1, 0));
    assert_eq!(truth.caches[1].allocated, 1);
}

#[test]
fn merged_caches_are_left_out_whole_or_not_at_all() {
    let caches = [cache(":A-0000128", 128), cache(":0000256", 256), cache("maple", 64)];
    let alias = |name: &str, id: &str| (name.to_string(), id.to_string());
    let aliases = [alias("eventpoll_epi", ":A-0000128"), alias("maple_node", ":0000256")].into();
    let reasons = left_out::reasons(&caches, &aliases);
    assert_eq!(reasons.map_some(), [true, false, false]);
}

#[test]
fn the_share_left_out_is_taken_when_slabs_are_most() {
    let mut case = case("maple_node");
    case.caches[0].slabs = 18;
    // 18 and none at the start; 19 and 1 at the peak, at 35 µs.
    assert_eq!(left_out::share_at_peak(&case.input(), &case.prepare()), 1.0 / 20.0);
    // Without a snapshot's numbers: the slab seen at the start; 2 and 1.
    case.caches[0].slabs = 0;
    assert_eq!(left_out::share_at_peak(&case.input(), &case.prepare()), 1.0 / 3.0);
    case.events.clear();
    assert_eq!(left_out::share_at_peak(&case.input(), &case.prepare()), 0.0);
}

#[test]
fn the_grid_ends_with_the_trace() {
    assert_eq!(grid(&(10..=20), 5).collect::<Vec<_>>(), [12, 14, 16, 18, 20]);
    assert_eq!(grid(&(3..=u64::MAX), 1).last(), Some(u64::MAX));
}

trait MapSome {
    fn map_some(&self) -> Vec<bool>;
}

impl MapSome for Vec<Option<&str>> {
    fn map_some(&self) -> Vec<bool> {
        self.iter().map(Option::is_some).collect()
    }
}
