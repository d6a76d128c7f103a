//! Caches with debugging: the cases of the kernel's own test of SLUB, on the modelled machine, and
//! what must hold besides.
//!
//! Case by case, the kernel's (slub_kunit) and ours:
//!
//! ```text
//! test_clobber_zone           a_clobbered_zone_is_found_at_the_free_and_by_a_look
//! test_next_pointer           a_clobbered_state_is_found (free objects have a state, no pointer)
//! test_first_word             a_write_after_the_free_is_found_by_a_look_and_by_the_allocation
//! test_clobber_50th_byte      the same
//! test_clobber_redzone_free   a_clobbered_zone_of_a_free_object_is_found
//! test_kmalloc_redzone_access a_zone_begins_where_the_request_ends
//! test_kfree_rcu              a_cache_goes_after_the_object_that_waited_for_readers
//! test_kfree_rcu_wq_destroy   a_cache_goes_in_another_thread_than_its_object
//! test_leak_destroy           a_cache_with_a_live_object_stays_and_reports_it
//! test_krealloc_redzone_zeroing  `resized` of crates/kmem/tests/debug.c
//! ```

mod pages;

use slabyard::cache::{CacheId, CacheSettings};
use slabyard::created::{NotCreated, NotDestroyed};
use slabyard::debugging;
use slabyard::engine::{Any, Engine};
use slabyard::observe::count;
use slabyard::pages::finding::{By, Finding, FindingKind, Hooks, Track};
use slabyard::platform::{ObjectMemory, Park};
use slabyard::slab::ObjectFn;
use slabyard::slab::debug::{Maker, object};
use slabyard::yard::{AddressKind, Settings, Yard};
use slabyard_abi::debug::DebugFlags;
use slabyard_abi::engines::EngineName;
use slabyard_testkit::machine::{Config, Machine};
use slabyard_testkit::write_word;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};

type Yards = Yard<Machine, Any>;

thread_local! {
    static FOUND: RefCell<Vec<Finding>> = const { RefCell::new(Vec::new()) };
    static FAILS: Cell<bool> = const { Cell::new(false) };
}

const HOOKS: Hooks = Hooks {
    report: |finding| FOUND.with_borrow_mut(|all| all.push(*finding)),
    track: |track| (track.thread, track.frames[0]) = (7, 0x1234),
    trace: |_, _, _| {},
    fails: || FAILS.get(),
};

fn all() -> DebugFlags {
    DebugFlags::DEFAULT
}

fn yard_with(rules: fn(&[u8]) -> DebugFlags) -> Yards {
    yard_on(Config::default(), rules)
}

fn yard_on(config: Config, rules: fn(&[u8]) -> DebugFlags) -> Yards {
    FOUND.take();
    let yard: Yards = Yard::new(Machine::new(config));
    yard.on_findings(HOOKS);
    yard.choose_debug(rules);
    yard.choose(EngineName::Slub);
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 100 }));
    yard
}

fn cache_of(yard: &Yards, object: u32, debug: DebugFlags) -> CacheId {
    let settings = CacheSettings { debug, ..CacheSettings::of(object) };
    yard.create_cache("TestSlub", &settings).expect("memory")
}

fn alloc(yard: &Yards, id: CacheId) -> usize {
    yard.alloc_from(id).expect("memory")
}

/// A program writes a byte.
fn write(yard: &Yards, at: usize, value: u8) {
    // SAFETY: the modelled machine has no memory that this could damage.
    unsafe { yard.platform().fill(at, 1, value) };
}

/// What was found since the last call.
fn found() -> Vec<FindingKind> {
    FOUND.take().iter().map(|finding| finding.what).collect()
}

fn validate(yard: &Yards) -> u64 {
    yard.validate().expect("outside of a slow path")
}

#[track_caller]
fn is_sound(yard: &Yards) {
    assert_eq!((validate(yard), found()), (0, vec![]));
    yard.verify().expect("outside of a slow path").expect("a sound yard");
}

#[test]
fn a_clobbered_zone_is_found_at_the_free_and_by_a_look() {
    for (offset, what) in [
        (64, FindingKind::RightRedZone),
        (71, FindingKind::RightRedZone),
        (-1, FindingKind::LeftRedZone),
    ] {
        let yard = yard_with(|_| DebugFlags::NONE);
        let id = cache_of(&yard, 64, DebugFlags::RED_ZONE);
        let (p, q) = (alloc(&yard, id), alloc(&yard, id));
        is_sound(&yard);
        write(&yard, p.wrapping_add_signed(offset), 0x12);
        assert_eq!((validate(&yard), found()), (1, vec![what]));
        // It was restored.
        is_sound(&yard);
        write(&yard, q.wrapping_add_signed(offset), 0x12);
        assert_eq!(yard.free_to(id, q), Ok(()));
        let all = FOUND.take();
        let [finding] = all[..] else { panic!("{all:?}") };
        let bytes = finding.bytes.expect("bytes");
        assert_eq!((finding.what, finding.by, finding.object), (what, By::Call, q));
        assert_eq!(
            (bytes.first, bytes.found, bytes.expected),
            (q.wrapping_add_signed(offset), 0x12, 0xcc)
        );
        is_sound(&yard);
    }
}

#[test]
fn a_track_that_was_written_over_names_nobody() {
    for words in [2, 4, 6, 30] {
        let yard = yard_with(|_| DebugFlags::NONE);
        let id = cache_of(&yard, 64, DebugFlags::CHECK.with(DebugFlags::TRACK));
        let p = alloc(&yard, id);
        let debug = yard.find_cache(id).expect("there").engine.debug().expect("it has debugging");
        // The state lies behind the link, and the tracks behind it.
        let state = debug.link_of(p) + 8;
        for nth in 0..words {
            // SAFETY: as in `write`.
            unsafe { write_word(yard.platform(), state + nth * 8, 0x4141_4141_4141_4141) };
        }
        assert_eq!(yard.free_to(id, p), Ok(()));
        let all = FOUND.take();
        let [finding] = all[..] else { panic!("{all:?}") };
        assert_eq!(finding.what, FindingKind::State);
        assert_eq!(finding.allocated, Some(Track::SPOILED), "{words}");
        // The one of the free lies behind it.
        assert_eq!(finding.freed, (words > 17).then_some(Track::SPOILED), "{words}");
    }
}

#[test]
fn a_clobbered_state_is_found() {
    let yard = yard_with(|_| DebugFlags::NONE);
    let id = cache_of(&yard, 64, DebugFlags::CHECK);
    let (p, q) = (alloc(&yard, id), alloc(&yard, id));
    let debug = yard.find_cache(id).expect("it is there").engine.debug().expect("it has debugging");
    // The state lies behind the link.
    let state = |object| debug.link_of(object) + 8;
    // SAFETY: as in `write`.
    unsafe { write_word(yard.platform(), state(p), usize::MAX) };
    assert_eq!(yard.free_to(id, p), Ok(()));
    assert_eq!(found(), [FindingKind::State]);
    // Of a free object, too.
    assert_eq!(yard.free_to(id, q), Ok(()));
    // SAFETY: as in `write`.
    unsafe { write_word(yard.platform(), state(q), 0) };
    assert_eq!((validate(&yard), found()), (1, vec![FindingKind::State]));
    is_sound(&yard);
}

#[test]
fn a_write_after_the_free_is_found_by_a_look_and_by_the_allocation() {
    for offset in [0, 50, 63] {
        let yard = yard_with(|_| DebugFlags::NONE);
        let id = cache_of(&yard, 64, DebugFlags::POISON.with(DebugFlags::TRACK));
        let p = alloc(&yard, id);
        assert_eq!(yard.free_to(id, p), Ok(()));
        is_sound(&yard);
        write(&yard, p + offset, 0x12);
        assert_eq!(validate(&yard), 1);
        let finding = FOUND.take()[0];
        assert_eq!((finding.what, finding.object), (FindingKind::Poison, p));
        for track in [finding.allocated, finding.freed] {
            let track = track.expect("it was tracked");
            assert_eq!((track.thread, track.frames[0], track.bytes), (7, 0x1234, 64));
        }
        is_sound(&yard);
        // The other slabs go on.
        let q = alloc(&yard, id);
        assert_eq!(yard.free_to(id, q), Ok(()));
        write(&yard, q + offset, 0x12);
        let objects: Vec<_> = (0..1500).map(|_| alloc(&yard, id)).collect();
        objects.iter().for_each(|object| assert_eq!(yard.free_to(id, *object), Ok(())));
        let again: Vec<_> = (0..1500).map(|_| alloc(&yard, id)).collect();
        assert_eq!(found(), [FindingKind::Poison], "at {offset}");
        assert!(!again.contains(&q), "its slab was set aside");
        assert!(count::set_aside(&yard.heap) > 0);
        is_sound(&yard);
    }
}

#[test]
fn a_clobbered_zone_of_a_free_object_is_found() {
    let yard = yard_with(|_| DebugFlags::NONE);
    let id = cache_of(&yard, 64, DebugFlags::RED_ZONE);
    let p = alloc(&yard, id);
    assert_eq!(yard.free_to(id, p), Ok(()));
    write(&yard, p + 64, 0xab);
    assert_eq!((validate(&yard), found()), (1, vec![FindingKind::RightRedZone]));
}

#[test]
fn a_zone_begins_where_the_request_ends() {
    let yard = yard_with(|_| DebugFlags::RED_ZONE);
    let p = yard.alloc(18, 16).expect("memory");
    assert_eq!(yard.usable(p), Some(18));
    is_sound(&yard);
    write(&yard, p + 18, 0xab);
    assert_eq!((validate(&yard), found()), (1, vec![FindingKind::RightRedZone]));
    write(&yard, p + 31, 0xab);
    assert_eq!((validate(&yard), found()), (1, vec![FindingKind::RightRedZone]));
    assert_eq!(yard.resize(p, 16), None, "it moves");
}

#[test]
fn a_cache_with_a_live_object_stays_and_reports_it() {
    let yard = yard_with(|_| DebugFlags::NONE);
    let id = cache_of(&yard, 64, all());
    let (p, q) = (alloc(&yard, id), alloc(&yard, id));
    assert_eq!(yard.free_to(id, p), Ok(()));
    // SAFETY: no other thread.
    assert_eq!(unsafe { yard.destroy_cache(id) }, Err(NotDestroyed::Live(1)));
    let finding = FOUND.take()[0];
    assert_eq!((finding.what, finding.object), (FindingKind::Remaining, q));
    assert!(finding.allocated.is_some_and(|track| track.thread == 7));
    assert_eq!(yard.free_to(id, q), Ok(()));
    // SAFETY: no other thread.
    assert_eq!(unsafe { yard.destroy_cache(id) }, Ok(()));
    is_sound(&yard);
}

/// The cache is destroyed right after its only object was given up for readers: that waits for the
/// object's free, and nothing remains to report.
#[test]
fn a_cache_goes_after_the_object_that_waited_for_readers() {
    let yard = yard_with(|_| DebugFlags::NONE);
    for flags in [all(), DebugFlags::CHECK.with(DebugFlags::POISON)] {
        let id = cache_of(&yard, 64, flags);
        let object = alloc(&yard, id);
        assert!(yard.free_to_rcu(id, object).is_ok());
        is_sound(&yard);
        // SAFETY: no other thread.
        assert_eq!(unsafe { yard.destroy_cache(id) }, Ok(()));
        is_sound(&yard);
    }
}

/// The same, destroyed by another thread than the one that freed.
#[test]
fn a_cache_goes_in_another_thread_than_its_object() {
    let yard = yard_with(|_| DebugFlags::NONE);
    let id = cache_of(&yard, 64, all());
    let freed = AtomicBool::new(false);
    let (yard_, freed) = (&yard, &freed);
    yard.platform().run(vec![
        Box::new(move |_| {
            let object = alloc(yard_, id);
            assert!(yard_.free_to_rcu(id, object).is_ok());
            freed.store(true, Ordering::Relaxed);
        }),
        Box::new(move |machine| {
            while !freed.load(Ordering::Relaxed) {
                machine.step();
            }
            // SAFETY: nobody names the cache any more.
            assert_eq!(unsafe { yard_.destroy_cache(id) }, Ok(()));
        }),
    ]);
    assert!(yard.find_cache(id).is_none());
    is_sound(&yard);
}

#[test]
fn a_second_free_is_found_in_quarantine_and_in_the_slab() {
    for others in [0, 5, 3000] {
        let yard = yard_with(|_| DebugFlags::NONE);
        let id = cache_of(&yard, 64, DebugFlags::CHECK);
        let (p, _kept) = (alloc(&yard, id), alloc(&yard, id));
        assert_eq!(yard.free_to(id, p), Ok(()));
        let many: Vec<_> = (0..others).map(|_| alloc(&yard, id)).collect();
        many.iter().for_each(|object| assert_eq!(yard.free_to(id, *object), Ok(())));
        assert!(!many.contains(&p), "it waits");
        assert_eq!(yard.free_to(id, p), Ok(()));
        assert_eq!(found(), [FindingKind::Free], "after {others}");
        is_sound(&yard);
    }
}

#[test]
fn a_pointer_that_is_none_is_found_and_changes_nothing() {
    let yard = yard_with(|_| all());
    let p = yard.alloc(64, 16).expect("memory");
    for offset in [1, 8, 16, 63, 100] {
        assert_eq!(yard.free(p + offset), Ok(()));
        let finding = FOUND.take()[0];
        assert_eq!((finding.what, finding.pointer), (FindingKind::Pointer, p + offset));
    }
    assert_eq!(yard.free(0x1000), Err(AddressKind::Foreign));
    is_sound(&yard);
    assert_eq!(yard.free(p), Ok(()));
    assert_eq!(found(), []);
}

#[test]
fn what_a_constructor_made_is_neither_poisoned_nor_zoned() {
    thread_local! {
        static MADE: Cell<u32> = const { Cell::new(0) };
    }
    let yard = yard_with(|_| DebugFlags::NONE);
    let construct: fn(usize, usize) = |_, _| MADE.set(MADE.get() + 1);
    let constructor = Some(ObjectFn { function: construct, word: 0 });
    let settings = CacheSettings { constructor, debug: all(), ..CacheSettings::of(48) };
    let id = yard.create_cache("made", &settings).expect("memory");
    let p = alloc(&yard, id);
    assert!(MADE.get() > 0);
    write(&yard, p + 20, 0x77);
    assert_eq!(yard.free_to(id, p), Ok(()));
    is_sound(&yard);
    // SAFETY: the machine's memory.
    let kept = unsafe { yard.platform().first_other(p + 20, 1, 0) };
    assert_eq!(kept, Some((p + 20, 0x77)));
}

#[test]
fn a_cache_has_what_rules_and_its_maker_say() {
    let yard = yard_with(|name| match name {
        b"malloc-64" => DebugFlags::RED_ZONE,
        b"TestSlub" => DebugFlags::TRACK,
        _ => DebugFlags::NONE,
    });
    let has = |number| yard.cache(number).engine.debug().map(|debug| debug.flags());
    assert_eq!((has(2), has(3)), (None, Some(DebugFlags::RED_ZONE)));
    assert_eq!(yard.engine(), EngineName::Slub);
    let id = cache_of(&yard, 64, DebugFlags::POISON);
    assert_eq!(has(id.number()), Some(DebugFlags::POISON.with(DebugFlags::TRACK)));
    let plain = yard.create_cache("plain", &CacheSettings::of(64)).expect("memory");
    assert_eq!(has(plain.number()), None);
}

#[test]
fn caches_that_would_grow_have_nothing_that_needs_room_if_so_told() {
    for (object, flags) in [
        (64, all().with(DebugFlags::LOW_ORDER)),
        (32_600, DebugFlags::CHECK.with(DebugFlags::LOW_ORDER)),
    ] {
        let yard = yard_with(|_| DebugFlags::NONE);
        let settings = CacheSettings {
            debug: all().with(DebugFlags::LOW_ORDER),
            orders: (0, 3),
            ..CacheSettings::of(object)
        };
        let id = yard.create_cache("low", &settings).expect("memory");
        let cache = yard.find_cache(id).expect("it is there");
        assert_eq!(cache.engine.debug().map(|debug| debug.flags()), Some(flags), "{object}");
        let p = alloc(&yard, id);
        assert_eq!(yard.free_to(id, p), Ok(()));
        is_sound(&yard);
    }
}

#[test]
fn allocations_fail_when_they_are_to() {
    let yard =
        yard_with(|name| if name == b"malloc-64" { DebugFlags::FAIL } else { DebugFlags::NONE });
    FAILS.set(true);
    assert_eq!((yard.alloc(64, 16), yard.alloc(32, 16).is_some()), (None, true));
    FAILS.set(false);
    assert!(yard.alloc(64, 16).is_some());
}

/// Whichever request for memory is refused: an error or null, and nothing is reported.
#[test]
fn refused_memory_changes_nothing() {
    for flags in
        [DebugFlags::CHECK, DebugFlags::RED_ZONE, DebugFlags::POISON, DebugFlags::TRACK, all()]
    {
        let mut refused = 0;
        for n in 0..40 {
            let yard = yard_with(|_| DebugFlags::NONE);
            let id = cache_of(&yard, 200, flags);
            let before = yard.platform().requests();
            yard.platform().refuse(Some(n));
            let mut live: Vec<_> = (0..300).filter_map(|_| yard.alloc_from(id)).collect();
            let mut bulk = [0; 70];
            let got_bulk = yard.alloc_bulk_from(id, &mut bulk);
            let prefilled = yard.prefill(id, 50);
            let more =
                yard.create_cache("more", &CacheSettings { debug: flags, ..CacheSettings::of(64) });
            refused += u32::from(yard.platform().requests() - before > n);
            assert!(more.is_ok() || more == Err(NotCreated::Memory));
            if got_bulk {
                live.extend(bulk);
            }
            is_sound(&yard);
            live.drain(..).for_each(|object| assert_eq!(yard.free_to(id, object), Ok(())));
            if let Some(prefilled) = prefilled {
                yard.return_prefilled(prefilled);
            }
            is_sound(&yard);
            // SAFETY: no other thread.
            assert_eq!(unsafe { yard.destroy_cache(id) }, Ok(()));
            is_sound(&yard);
        }
        assert!(refused > 0, "{flags:?}: nothing was refused");
    }
}

/// Who allocated is noted where there are checks, and survives what a look puts right.
#[test]
fn makers_are_noted_with_checks() {
    for flags in [all(), DebugFlags::RED_ZONE] {
        let yard = yard_with(match flags.has(DebugFlags::CHECK) {
            true => |_| all(),
            false => |_| DebugFlags::RED_ZONE,
        });
        for bytes in [60, 100_000] {
            let p = yard.alloc(bytes, 16).expect("memory");
            debugging::note_maker(&yard, p, Maker::NewArray);
            let noted = flags.has(DebugFlags::CHECK).then_some(Maker::NewArray);
            assert_eq!((debugging::maker_at(&yard, p), yard.usable(p)), (noted, Some(bytes)));
            write(&yard, p + bytes, 0x12);
            assert_eq!((validate(&yard), found()), (1, vec![FindingKind::RightRedZone]));
            assert_eq!(debugging::maker_at(&yard, p), noted);
            is_sound(&yard);
            assert_eq!(yard.free(p), Ok(()));
            assert_eq!(debugging::maker_at(&yard, p), None);
            is_sound(&yard);
        }
    }
}

/// A slab that was set aside is reported with the objects that are used.
#[test]
fn a_report_tells_how_many_objects_are_used() {
    let yard = yard_with(|_| DebugFlags::NONE);
    let id = cache_of(&yard, 64, all());
    let objects: Vec<_> = (0..4).map(|_| alloc(&yard, id)).collect();
    assert_eq!(yard.free_to(id, objects[0]), Ok(()));
    for (wrong, used) in [(1, 3), (2, 2)] {
        write(&yard, objects[wrong] + 64, 0x12);
        assert_eq!(yard.free_to(id, objects[wrong]), Ok(()));
        let all = FOUND.take();
        let [finding] = all[..] else { panic!("{all:?}") };
        assert_eq!((finding.what, finding.objects[1]), (FindingKind::RightRedZone, used));
    }
    is_sound(&yard);
}

/// Planted: a state that is right in itself and says something else than the slab's bitmap.
#[test]
fn verify_compares_states_with_bits() {
    for is_live in [true, false] {
        let yard = yard_with(|_| DebugFlags::NONE);
        let id = cache_of(&yard, 64, all());
        let (p, q) = (alloc(&yard, id), alloc(&yard, id));
        assert_eq!(yard.free_to(id, q), Ok(()));
        is_sound(&yard);
        let debug = yard.find_cache(id).expect("it is there").engine.debug().expect("debugging");
        if is_live {
            object::release(&yard.heap.platform, debug.layout(), p);
        } else {
            object::hand_out(&yard.heap.platform, debug.layout(), q, 64);
        }
        assert_eq!(validate(&yard), 0, "each object is right in itself");
        let fault = yard.verify().expect("outside of a slow path").expect_err("it was planted");
        assert_eq!(fault.what, "state of an object with debugging");
    }
}

/// A checker that sees nothing would pass some of the tests above: each part is looked at.
#[test]
fn each_flag_finds_its_own_and_nothing_else() {
    let corrupt: [(DebugFlags, isize, bool, FindingKind); 4] = [
        (DebugFlags::RED_ZONE, 64, false, FindingKind::RightRedZone),
        (DebugFlags::RED_ZONE, -1, true, FindingKind::LeftRedZone),
        (DebugFlags::POISON, 10, true, FindingKind::Poison),
        (DebugFlags::POISON, 63, true, FindingKind::Poison),
    ];
    for has in [DebugFlags::RED_ZONE, DebugFlags::POISON, DebugFlags::CHECK, DebugFlags::TRACK] {
        for (of, offset, is_free, what) in corrupt {
            let yard = yard_with(|_| DebugFlags::NONE);
            let id = cache_of(&yard, 64, has);
            let (p, q) = (alloc(&yard, id), alloc(&yard, id));
            if is_free {
                assert_eq!(yard.free_to(id, q), Ok(()));
            }
            let victim = q.max(p);
            let at = if is_free { q } else { victim }.wrapping_add_signed(offset);
            if of != has {
                continue;
            }
            write(&yard, at, 0x12);
            assert_eq!((validate(&yard), found()), (1, vec![what]), "{has:?} at {offset}");
        }
    }
}

#[test]
fn it_holds_on_each_page_size_and_without_stops() {
    for page_bytes in [4 << 10, 16 << 10, 64 << 10] {
        for can_stop in [true, false] {
            let config = Config { page_bytes, can_stop, ..Config::default() };
            let yard = yard_on(config, |_| DebugFlags::DEFAULT);
            let mut live: Vec<_> = (0..400usize)
                .map(|n| (yard.alloc(n * 97 % 40_000, 16).expect("memory"), n * 97 % 40_000))
                .collect();
            for (p, bytes) in &live {
                assert_eq!(yard.usable(*p), Some(*bytes));
            }
            is_sound(&yard);
            for (p, _) in live.drain(..200) {
                assert_eq!(yard.free(p), Ok(()));
            }
            is_sound(&yard);
            let (p, bytes) = live[7];
            write(&yard, p + bytes, 0x12);
            assert_eq!(validate(&yard), 1);
            live.drain(..).for_each(|(p, _)| assert_eq!(yard.free(p), Ok(())));
            assert_eq!(found(), [FindingKind::RightRedZone]);
            yard.trim();
            is_sound(&yard);
        }
    }
}
