//! Slabs and large blocks as a whole: the bytes behind, between and after their objects.

use super::*;
use slabyard::pages::runs;

#[test]
fn large_blocks_have_a_zone_and_a_seal() {
    for bytes in [40_000, 100_001, 5 << 20] {
        let yard = yard_with(|_| all());
        let (p, q) =
            (yard.alloc(bytes, 16).expect("memory"), yard.alloc(bytes, 4096).expect("memory"));
        assert_eq!((yard.usable(p), yard.place_of(p)), (Some(bytes), AddressKind::Large(bytes)));
        is_sound(&yard);
        if bytes % 4096 != 4096 - 16 {
            write(&yard, p + bytes, 0x12);
            assert_eq!((validate(&yard), found()), (1, vec![FindingKind::RightRedZone]), "{bytes}");
        }
        is_sound(&yard);
        write(&yard, q + bytes, 0x12);
        assert_eq!(yard.free(q), Ok(()));
        let finding = FOUND.take()[0];
        let track = finding.allocated.expect("it was tracked");
        assert_eq!(
            (finding.what, track.thread, track.bytes),
            (FindingKind::RightRedZone, 7, bytes as u64)
        );
        assert_eq!(yard.free(q), Err(AddressKind::Free));
        assert_eq!(yard.resize(p, bytes + 1), None, "it moves");
        assert_eq!(yard.free(p), Ok(()));
        for _ in 0..100 {
            let other = yard.alloc(bytes, 16).expect("memory");
            assert!(other != p && other != q);
            assert_eq!(yard.free(other), Ok(()));
        }
        is_sound(&yard);
    }
}

/// The address behind the last object of a slab and its parts, and the last object.
fn tail_of(yard: &Yards, id: CacheId, object: usize) -> (usize, usize) {
    let cache = yard.find_cache(id).expect("it is there");
    let geometry = cache.shape().geometry;
    let slab = object & !(geometry.slab_bytes() - 1);
    let layout = *cache.engine.debug().expect("it has debugging").layout();
    let last = geometry.address_of(slab, geometry.objects - 1);
    (last + (layout.stride - layout.left) as usize, last)
}

#[test]
fn a_write_behind_the_last_object_of_a_slab_is_found() {
    let of = |offset: fn(usize, usize) -> usize| {
        let yard = yard_with(|_| DebugFlags::NONE);
        let id = cache_of(&yard, 600, DebugFlags::POISON);
        let objects: Vec<_> = (0..100).map(|_| alloc(&yard, id)).collect();
        is_sound(&yard);
        let (tail, last) = tail_of(&yard, id, objects[0]);
        let slab_end = tail.next_multiple_of(4096);
        assert!(tail < slab_end, "there are bytes left");
        write(&yard, offset(tail, slab_end), 0x12);
        (yard, id, last, objects)
    };
    // By a look: the first byte, and the last.
    for offset in [|tail, _| tail, |_, end| end - 1] {
        let (yard, ..) = of(offset);
        assert_eq!((validate(&yard), found()), (1, vec![FindingKind::Tail]));
        is_sound(&yard);
    }
    // By the free of the last object.
    let (yard, id, last, mut objects) = of(|tail, _| tail);
    objects.retain(|object| *object != last);
    objects.into_iter().for_each(|object| assert_eq!(yard.free_to(id, object), Ok(())));
    assert_eq!(found(), []);
    assert_eq!(yard.free_to(id, last), Ok(()));
    assert_eq!(found(), [FindingKind::Tail]);
    is_sound(&yard);
}

/// What is far behind an object may be a page that nobody had.
#[test]
fn a_write_to_a_page_of_nobody_is_found() {
    let yard = yard_with(|_| DebugFlags::NONE);
    let id = cache_of(&yard, 64, DebugFlags::RED_ZONE);
    let p = alloc(&yard, id);
    is_sound(&yard);
    let mut block = None;
    runs::each_free_block(&yard.heap, |granule, _| block = Some(yard.heap.region.address(granule)));
    let block = block.expect("free pages");
    assert_ne!(block & !4095, p & !4095);
    write(&yard, block + 8 + 77, 0x12);
    assert_eq!((validate(&yard), found()), (1, vec![FindingKind::Unused]));
    is_sound(&yard);
    // What was used is dirty, and nobody knows what it should be.
    let run = yard.alloc(4 << 20, 16).expect("memory");
    assert_eq!(yard.free(run), Ok(()));
    is_sound(&yard);
}

/// Empty slabs stay, so that later writes to their objects are found: by a look, and as they end.
#[test]
fn a_write_to_an_object_of_an_empty_slab_is_found() {
    for by_look in [true, false] {
        let yard = yard_with(|_| DebugFlags::NONE);
        let id = cache_of(&yard, 4000, DebugFlags::POISON);
        let objects: Vec<_> = (0..200).map(|_| alloc(&yard, id)).collect();
        objects.iter().for_each(|object| assert_eq!(yard.free_to(id, *object), Ok(())));
        is_sound(&yard);
        // The first of them left quarantine long ago.
        write(&yard, objects[0] + 50, 0x12);
        if by_look {
            assert_eq!((validate(&yard), found()), (1, vec![FindingKind::Poison]));
        }
        assert!(yard.shrink_cache(id));
        assert_eq!(found(), if by_look { vec![] } else { vec![FindingKind::Poison] });
        is_sound(&yard);
    }
}

/// The pages of a slab that ended are zeros at once: who writes there is found by a look, and when
/// they are taken again.
#[test]
fn a_write_to_the_pages_of_a_slab_that_ended_is_found() {
    for by_look in [true, false] {
        let yard = yard_with(|_| DebugFlags::NONE);
        let id = cache_of(&yard, 4000, DebugFlags::POISON);
        let p = alloc(&yard, id);
        write(&yard, p + 8, 0x12);
        assert_eq!(yard.free_to(id, p), Ok(()));
        assert!(yard.shrink_cache(id));
        is_sound(&yard);
        write(&yard, p + 50, 0x12);
        if by_look {
            assert_eq!((validate(&yard), found()), (1, vec![FindingKind::Unused]));
        } else {
            while alloc(&yard, id) & !4095 != p & !4095 {
                assert_eq!(found(), []);
            }
            assert_eq!(found(), [FindingKind::Unused]);
        }
        is_sound(&yard);
    }
}

/// A block of no bytes begins with a page that faults; behind it are zone and seal.
#[test]
fn no_bytes_are_a_block() {
    let yard = yard_with(|_| DebugFlags::CHECK);
    let (p, q) = (yard.alloc(0, 16).expect("memory"), yard.alloc(0, 16).expect("memory"));
    assert!(p != q && yard.heap.class_at(p).is_none() && p.is_multiple_of(4096));
    assert_eq!(yard.usable(p), Some(0));
    is_sound(&yard);
    write(&yard, p + 5000, 0x12);
    assert_eq!((validate(&yard), found()), (1, vec![FindingKind::RightRedZone]));
    is_sound(&yard);
    assert_eq!((yard.free(p), yard.free(q)), (Ok(()), Ok(())));
    is_sound(&yard);
    let yard = yard_with(|_| DebugFlags::RED_ZONE);
    let p = yard.alloc(0, 16).expect("memory");
    assert!(yard.heap.class_at(p).is_some(), "without F it is an object");
    assert_eq!(yard.free(p), Ok(()));
}
