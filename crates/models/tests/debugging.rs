//! Objects with debugging, whose state word says whose they are; freed mappings in quarantine.
#![cfg(loom)]

use slabyard::engine::Debug;
use slabyard::slab::debug::object::{
    claim, hand_out, is_still, note_maker, read_state, release, wrong_of,
};
use slabyard::slab::debug::{Known, Layout, LayoutRequest, Maker, State};
use slabyard::yard::{Settings, Yard};
use slabyard_abi::debug::DebugFlags;
use slabyard_models::{
    Data, Modelled, keep, model, spawn, watch, watch_range, watch_touched, yield_now,
};
use slabyard_platform::sync::{AtomicU64, AtomicUsize, Ordering};

const FREE: Known = Known::new(State::Free, 0);
const LIVE: Known = Known::new(State::Live, 8);

/// An object of 8 bytes between two zones.
#[derive(Clone, Copy)]
struct Object {
    p: &'static Modelled,
    layout: &'static Layout,
    address: usize,
}

/// A free one, whose zones and state are watched.
fn object() -> Object {
    let request = LayoutRequest { object: 8, align: 8, first: 0, body: 0 };
    let layout: &Layout = keep(Layout::new(DebugFlags::RED_ZONE, &request));
    let words: &[AtomicU64; 5] = keep([const { AtomicU64::new(0) }; 5]);
    assert_eq!(layout.stride, 40);
    let p: &Modelled = keep(Modelled::new());
    p.have(words);
    let it = Object { p, layout, address: words.as_ptr().addr() + layout.left as usize };
    release(p, layout, it.address);
    [0, 2, 4].into_iter().for_each(|nth| watch(&words[nth]));
    it
}

impl Object {
    fn claim(self, from: Known) -> bool {
        claim(self.p, self.layout, self.address, from)
    }

    fn hand_out(self) {
        hand_out(self.p, self.layout, self.address, 8);
    }

    fn read_state(self) -> Option<Known> {
        read_state(self.p, self.layout, self.address)
    }

    fn is_wrong(self, known: Known) -> bool {
        wrong_of(self.p, self.layout, self.address, known).is_some()
    }
}

/// Who sees that an object is live sees its zones.
#[test]
fn a_live_object_has_its_zones() {
    model(2, || {
        let it = object();
        assert!(it.claim(FREE));
        let other = spawn(move || it.hand_out());
        if it.read_state() == Some(LIVE) {
            assert!(!it.is_wrong(LIVE));
        }
        other.join().unwrap();
    });
}

/// As above, of an object whose maker is noted.
#[test]
fn an_object_with_a_maker_has_its_zones() {
    model(2, || {
        let it = object();
        assert!(it.claim(FREE));
        let other = spawn(move || {
            it.hand_out();
            note_maker(it.p, it.layout, it.address, Maker::New);
        });
        let made = Known { maker: Maker::New, ..LIVE };
        if it.read_state() == Some(made) {
            assert!(!it.is_wrong(made));
        }
        other.join().unwrap();
    });
}

/// Who claims an object comes after who had it before.
#[test]
fn an_object_is_its_claimers() {
    model(2, || {
        let it = object();
        let data: &Data = keep(Data::new());
        assert!(it.claim(FREE));
        let other = spawn(move || {
            data.write(1);
            release(it.p, it.layout, it.address);
        });
        if it.claim(FREE) {
            data.write(2);
        }
        other.join().unwrap();
    });
}

/// A check of an object that is claimed meanwhile finds nothing.
#[test]
fn a_check_of_an_object_that_changes_finds_nothing() {
    model(2, || {
        let it = object();
        let other = spawn(move || {
            assert!(it.claim(FREE));
            it.hand_out();
        });
        if it.read_state() == Some(FREE) && it.is_wrong(FREE) {
            assert!(!is_still(it.p, it.layout, it.address, FREE));
        }
        other.join().unwrap();
    });
}

const BYTES: usize = 1 << 20;
/// Freed mappings that stay.
const QUARANTINE: usize = 64;

/// A yard in which large blocks have debugging.
fn guarded() -> &'static Yard<Modelled, Debug> {
    let yard: &Yard<Modelled, Debug> = keep(Yard::new(Modelled::new()));
    let rules: fn(&[u8]) -> DebugFlags = |name| match name {
        b"malloc-large" => DebugFlags::CHECK,
        _ => DebugFlags::of(0),
    };
    assert!(yard.choose_debug(rules));
    assert!(yard.init(Settings { reserve_bytes: 64 << 20, decay_ms: 250 }));
    yard
}

fn block(yard: &Yard<Modelled, Debug>) -> usize {
    yard.alloc(BYTES, 16).expect("memory")
}

/// Watches the element of the quarantine that the next freed block gets.
fn watch_quarantine(yard: &Yard<Modelled, Debug>) {
    let address = block(yard);
    let words = watch_touched(&["yard/guarded.rs"], || assert!(yard.free(address).is_ok()));
    // SAFETY: a word of the yard's, which the model keeps.
    let value = |at: usize| unsafe { AtomicUsize::from_ptr(at as *mut usize) };
    let last = words.into_iter().find(|at| value(*at).load(Ordering::Relaxed) == address);
    watch_range(last.expect("its element") + size_of::<usize>(), 1, size_of::<usize>());
}

/// Freed pages are unmapped after they were taken away from the program.
#[test]
fn a_quarantine_ends_after_its_blocks_are_freed() {
    model(2, || {
        let yard = guarded();
        let address = block(yard);
        watch_quarantine(yard);
        yard.platform().await_end(address);
        let other = spawn(move || assert!(yard.free(address).is_ok()));
        yard.platform().refuse_memory();
        // It ends the quarantine, and takes a run.
        let _ = yard.alloc(BYTES, 16);
        other.join().unwrap();
    });
}

/// As above, of a block that another one displaces.
#[test]
fn a_block_leaves_the_quarantine_after_it_is_freed() {
    model(2, || {
        let yard = guarded();
        let address = block(yard);
        let others: &Vec<usize> = keep((0..QUARANTINE).map(|_| block(yard)).collect());
        watch_quarantine(yard);
        yard.platform().await_end(address);
        let other = spawn(move || assert!(yard.free(address).is_ok()));
        yield_now();
        others.iter().for_each(|other| assert!(yard.free(*other).is_ok()));
        other.join().unwrap();
    });
}
