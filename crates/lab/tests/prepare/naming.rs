//! Tests that find the cache of each event.

use super::*;

#[test]
fn an_alias_names_its_cache() {
    let mut case = Case::new(&[cache(":A-0000128", 128)]);
    case.aliases.insert("eventpoll_epi".into(), ":A-0000128".into());
    case.aliases.insert("gone".into(), ":0000999".into());
    case.add(0.0, 0, EventKind::CacheAlloc, "eventpoll_epi", at(1, 0));
    case.add(1.0, 0, EventKind::CacheAlloc, "gone", at(2, 0));
    let prepared = case.prepare();
    assert_eq!(cache_names(&case, &prepared), [":A-0000128"]);
    assert_eq!(prepared.oddities.unknown_cache, 1);
}

const DMA: u32 = 0x1;
const RECLAIMABLE: u32 = 0x10;
const ACCOUNT: u32 = 0x40_0000;

#[test]
fn flags_choose_the_family_dma_first_then_reclaimable_then_account() {
    let ids = ["kmalloc-64", "kmalloc-cg-64", "kmalloc-rcl-64", "dma-kmalloc-64"];
    let mut case = Case::new(&ids.map(|id| cache(id, 64)));
    case.kmalloc("a", at(1, 0), 64, 0xcc0);
    case.kmalloc("a", at(2, 0), 64, ACCOUNT | 0xcc0);
    case.kmalloc("a", at(3, 0), 64, ACCOUNT | RECLAIMABLE);
    case.kmalloc("a", at(4, 0), 64, ACCOUNT | RECLAIMABLE | DMA);
    assert_eq!(cache_names(&case, &case.prepare()), ids);
}

#[test]
fn a_family_that_the_kernel_lacks_leaves_the_choice_to_the_next() {
    let mut case = Case::new(&[cache("kmalloc-64", 64), cache("kmalloc-cg-64", 64)]);
    case.kmalloc("a", at(1, 0), 64, ACCOUNT | RECLAIMABLE | DMA);
    case.kmalloc("a", at(2, 0), 64, RECLAIMABLE);
    assert_eq!(cache_names(&case, &case.prepare()), ["kmalloc-cg-64", "kmalloc-64"]);
}

#[test]
fn the_size_class_is_in_the_name() {
    let ids = ["kmalloc-8", "kmalloc-96", "kmalloc-192", "kmalloc-512", "kmalloc-1k"];
    let sizes = [8, 96, 192, 512, 1024];
    let caches: Vec<_> = ids.iter().zip(sizes).map(|(id, size)| cache(id, size)).collect();
    let mut case = Case::new(&caches);
    for (frame, size) in (1..).zip(sizes) {
        case.kmalloc("a", at(frame, 0), size, 0);
    }
    // A large allocation has no cache.
    case.kmalloc("a", at(9, 0), 16384, 0);
    let prepared = case.prepare();
    assert_eq!(cache_names(&case, &prepared), ids);
    assert_eq!(prepared.oddities.unknown_cache, 1);
}

#[test]
fn copies_from_users_and_messages_have_caches_of_their_own_where_the_kernel_has_them() {
    let ids = ["memdup_user-32", "msg_msg-32", "kmalloc-32"];
    let mut case = Case::new(&ids.map(|id| cache(id, 32)));
    case.kmalloc("strndup_user", at(1, 0), 32, 0);
    case.kmalloc("load_msg", at(2, 0), 32, 0);
    case.kmalloc("single_open", at(3, 0), 32, 0);
    assert_eq!(cache_names(&case, &case.prepare()), ids);

    case.caches.drain(..2);
    assert_eq!(cache_names(&case, &case.prepare()), ["kmalloc-32"; 3]);
}

#[test]
fn kfree_finds_its_cache_by_the_address() {
    let mut case = Case::new(&[cache("kmalloc-32", 32), cache("kmalloc-64", 64)]);
    case.kmalloc("a", at(1, 0), 32, 0);
    case.kmalloc("a", at(2, 0), 64, 0);
    case.add(9.0, 0, EventKind::Kfree, "b", at(2, 0));
    let prepared = case.prepare();
    assert_eq!(cache_names(&case, &prepared), ["kmalloc-32", "kmalloc-64", "kmalloc-64"]);
    assert_eq!(prepared.steps.held()[1].object, prepared.steps.held()[2].object);
}
