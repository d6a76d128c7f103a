//! The exit of a thread with a private slot: the thread's rows are drained, in each yard, and its
//! slot becomes free for another thread.
//!
//! Neighbour: [`super`] has the list of the process's yards. The malloc library does the same for
//! its one yard.

use super::started::each_started;
use crate::platform::linux::Linux;
use crate::sync::{AtomicU32, Ordering};

unsafe extern "C" {
    fn pthread_key_create(key: *mut u32, destructor: Option<unsafe extern "C" fn(*mut u8)>) -> i32;
    fn pthread_setspecific(key: u32, value: *const u8) -> i32;
}

const NONE: u32 = u32::MAX;
static KEY: AtomicU32 = AtomicU32::new(NONE);

/// Watches the ends of threads that get a slot by this platform. Called under the lock of starts.
/// Without a key, slots of threads that ended stay in use: later threads may have none, and take
/// slow paths.
pub(super) fn watch(platform: &Linux) {
    if KEY.load(Ordering::Relaxed) == NONE {
        let mut key = NONE;
        // SAFETY: the destructor has the signature that the C library requires.
        if unsafe { pthread_key_create(&raw mut key, Some(thread_ends)) } != 0 {
            return;
        }
        KEY.store(key, Ordering::Relaxed);
    }
    platform.on_slot(remember_slot);
}

/// Called when a thread got a private slot: sets the key whose destructor gives it back.
fn remember_slot() {
    set(1);
}

fn set(iteration: usize) {
    let value = core::ptr::without_provenance(iteration);
    // SAFETY: our own key.
    unsafe { pthread_setspecific(KEY.load(Ordering::Relaxed), value) };
}

/// Destructor of the key. Other keys' destructors may free and allocate after us, so the slot is
/// given back in the third of the four iterations that POSIX promises.
unsafe extern "C" fn thread_ends(iteration: *mut u8) {
    let iteration = iteration as usize;
    if iteration < 3 {
        return set(iteration + 1);
    }
    each_started(|yard| yard.drain_thread());
    // The thread's slot is the same in each: the first gives it back.
    each_started(|yard| yard.platform().give_slot_back());
}
