//! Handles of caches, names of merged caches, shrinkers of C programs.
//!
//! Their files are compiled here beside stand-ins for the neighbours that they name, because the library's
//! crate exports C functions and nothing else.
#![cfg(loom)]

// The functions of `slabyard-process` that these files call are stand-ins below.
extern crate self as slabyard_process;

use slabyard::cache::{CacheId, CacheSettings};
use slabyard::yard::{Settings, Yard};
use slabyard_models::{Data, Modelled, keep, model, prepare, spawn, watch_touched};

#[path = "../../kmem/src/aliases.rs"]
#[allow(dead_code)]
mod aliases;
#[path = "../../kmem/src/handles.rs"]
#[allow(dead_code)]
mod handles;
#[path = "../../kmem/src/mutex.rs"]
#[allow(dead_code)]
mod mutex;
#[path = "../../kmem/src/shrinkers.rs"]
#[allow(dead_code)]
mod shrinkers;

mod caches {
    macro_rules! refuse {
        ($errno:expr, $($arguments:tt)*) => {{
            let _ = ($errno, format_args!($($arguments)*));
        }};
    }
    pub(crate) use refuse;
}

mod errno {
    pub fn set_errno(_: i32) {}
}

mod state {
    use slabyard::engine::Any;
    use slabyard::platform::linux::Linux;
    use slabyard::yard::Yard;

    pub static YARD: Yard<Linux, Any> = Yard::new(Linux::new());

    pub struct ObjectCaches;

    pub fn ensure() -> bool {
        true
    }

    pub fn ready() -> bool {
        true
    }

    /// As for a yard whose calls may take the fast path.
    #[allow(clippy::extra_unused_type_parameters)]
    pub fn choose_limit<L>() {
        crate::handles::choose_slots(false);
    }
}

fn cache() -> CacheId {
    let yard: &Yard<Modelled> = keep(Yard::new(Modelled::new()));
    assert!(yard.init(Settings { reserve_bytes: 64 << 20, decay_ms: 250 }));
    yard.create_cache("model", &CacheSettings::of(64)).expect("a cache")
}

/// One that no cache has, whose word is watched.
fn empty_handle() -> &'static handles::Handle {
    let handle = handles::place(0);
    watch_touched(&["kmem/src/handles.rs"], || assert!(!handle.is_there()));
    handle
}

/// Who finds that a cache is there finds what it is, also if it was not destroyed after all.
#[test]
fn a_cache_that_is_there_is_whole() {
    model(2, || {
        let cache: &Data = keep(Data::new());
        let handle = empty_handle();
        let other = spawn(move || {
            cache.write(1);
            handle.fill(0, &[0; handles::NAME_BYTES], 64, 0);
            let word = handle.clear();
            handle.put_back(word);
        });
        if handle.is_there() {
            cache.read();
        }
        other.join().unwrap();
    });
}

/// A slot that is open says that the yard has begun.
#[test]
fn a_slot_that_is_open_is_a_yards() {
    model(2, || {
        let yard: &Data = keep(Data::new());
        let handle = empty_handle();
        let other = spawn(move || {
            yard.write(1);
            handle.fill(0, &[0; handles::NAME_BYTES], 64, 0);
        });
        if handle.open_slot().is_some() {
            yard.read();
        }
        other.join().unwrap();
    });
}

/// Who finds a record of a cache finds the name.
#[test]
fn a_further_name_is_whole() {
    model(2, || {
        const NAMES: [[u8; handles::NAME_BYTES]; 2] =
            [[b'a'; handles::NAME_BYTES], [b'b'; handles::NAME_BYTES]];
        let id = cache();
        let held = handles::lock();
        // The first record: the words that a second call looks at.
        aliases::end(id, &held);
        aliases::add(id, &NAMES[0], &held);
        watch_touched(&["kmem/src/aliases.rs"], || aliases::add(id, &NAMES[0], &held));
        prepare(|| aliases::end(id, &held));
        let other = spawn(move || aliases::add(id, &NAMES[1], &held));
        let is_whole = aliases::each(id, &mut |name| {
            assert_eq!(*name, NAMES[1]);
            Ok(())
        });
        assert!(is_whole.is_ok());
        other.join().unwrap();
    });
}

/// Who removes a shrinker comes after who registered it.
#[test]
fn a_shrinker_is_removed_whole() {
    use shrinkers::{slabyard_shrinker_register, slabyard_shrinker_unregister};
    use std::ffi::{c_ulong, c_void};
    extern "C" fn count(_: *mut c_void) -> c_ulong {
        0
    }
    extern "C" fn scan(_: *mut c_void, _: c_ulong) -> c_ulong {
        0
    }
    fn register() -> i32 {
        let (name, with) = (std::ptr::null(), std::ptr::null_mut());
        // SAFETY: functions and no name.
        unsafe { slabyard_shrinker_register(name, Some(count), Some(scan), with, 2, 0) }
    }
    model(2, || {
        let entry: &Data = keep(Data::new());
        watch_touched(&["kmem/src/shrinkers.rs"], || _ = slabyard_shrinker_unregister(0));
        let other = spawn(move || {
            entry.write(1);
            assert_eq!(register(), 0);
        });
        if slabyard_shrinker_unregister(0) == 0 {
            entry.read();
        }
        other.join().unwrap();
        // The table of shrinkers is no part of the model.
        slabyard_shrinker_unregister(0);
    });
}
