//! Input that is rejected, and facts taken from a snapshot.

use super::*;

fn refused(change: impl FnOnce(&mut Case)) -> String {
    let mut case = Case::plain();
    change(&mut case);
    prepare(&case.input()).unwrap_err().to_string()
}

#[test]
fn impossible_facts_are_refused_by_name() {
    let text = refused(|case| case.caches[0].slab_size = 0);
    assert_eq!(text, "cache filp: its objects have no size; take the snapshot again");
    assert!(refused(|case| case.caches[0].objects = 0).contains("hold no object"));
    assert!(refused(|case| case.caches[0].objects = 5).contains("do not fit"));
    assert!(refused(|case| case.caches[0].order = 11).contains("order is above 10"));
    assert!(refused(|case| case.frames.page_shift = 11).contains("page shift of 11"));
    let many = refused(|case| case.caches = vec![cache("a", 64); 65536]);
    assert!(many.starts_with("65536 caches: at most 65535"), "{many}");
}

#[test]
fn an_impossible_order_of_pages_is_refused() {
    let mut case = Case::plain();
    case.alloc(0.0, 0, 1, 0);
    case.pages(1.0, 0, EventKind::PageAlloc, 1, 11);
    let error = prepare(&case.input()).unwrap_err();
    assert_eq!(error, Error::PageOrder { event: 1, order: 11 });
}

#[test]
fn an_empty_trace_is_nothing() {
    let prepared = Case::plain().prepare();
    assert_eq!((prepared.slabs.len(), prepared.span), (0, 0..=0));
}

#[test]
fn facts_come_from_a_snapshot() {
    let json = r#"{"kernel": "6.18.44", "page_size": 4096, "possible_cpus": "0-1",
        "online_cpus": "0-1", "nodes": "0", "slabinfo": "", "meminfo_raw": "",
        "aliases": {}, "slab": {"anon_vma": {"object_size": 104, "slab_size": 104,
        "align": 8, "objs_per_slab": 39, "order": 0, "destroy_by_rcu": 1,
        "slabs": "14 N0=14"}}}"#;
    let snapshots = KernelSnapshot::parse(json.as_bytes()).unwrap();
    let facts = CacheFacts::of(&snapshots[0]);
    let expected = CacheFacts { rcu: true, slabs: 14, ..cache("anon_vma", 104) };
    assert_eq!(facts, [expected]);
}
