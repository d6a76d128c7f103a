//! The start: the first call of any function makes the yard ready. The rest needs a C library that
//! is ready: malloc's is done by the constructor, and object caches' by the same first call, so that
//! a program that is linked with them and makes none has no yard. They read their options in
//! the constructor, because a program may change its environment later.

use crate::options::Options;
use crate::state::{
    COLD, FAILED, FAST, READY, STARTING, STATE, YARD, choose_limit, choose_mask, mode_number, ready,
};
use crate::text::say;
use crate::{choice, fork, helper, misuse, observe, policy, report};
use core::sync::atomic::{AtomicU32, Ordering};
use slabyard::platform::linux::Mode;
use slabyard::yard::Settings;
use slabyard_abi::options::Key;

static KEY: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" {
    fn pthread_key_create(key: *mut u32, destructor: Option<unsafe extern "C" fn(*mut u8)>) -> i32;
    fn pthread_setspecific(key: u32, value: *const u8) -> i32;
    #[cfg(not(object_caches))]
    fn sched_yield() -> i32;
}

/// Makes the yard ready if it is not; false if there is no memory for it.
#[inline]
pub(crate) fn ensure() -> bool {
    ready() || start()
}

#[cfg(not(object_caches))]
#[cold]
fn start() -> bool {
    if STATE.compare_exchange(COLD, STARTING, Ordering::Acquire, Ordering::Acquire).is_err() {
        while STATE.load(Ordering::Acquire) == STARTING {
            // SAFETY: no argument, no memory.
            unsafe { sched_yield() };
        }
        return ready();
    }
    start_with(&Options::read())
}

/// The options as the constructor read them.
#[cfg(object_caches)]
static READ: slabyard::sync::Once<Options> = slabyard::sync::Once::new();

#[cfg(object_caches)]
#[cold]
fn start() -> bool {
    use slabyard::process::fork::{lock_starts, unlock_starts};
    // No yard is half started in the child of a fork.
    lock_starts();
    if STATE.load(Ordering::Relaxed) == COLD {
        STATE.store(STARTING, Ordering::Relaxed);
        READ.set(Options::read());
        if start_with(READ.get()) {
            complete();
        }
    }
    unlock_starts();
    ready()
}

fn start_with(options: &Options) -> bool {
    let done = begin(options);
    STATE.store(if done { READY } else { FAILED }, Ordering::Release);
    if done {
        FAST.open();
    } else {
        say!("no memory for the allocator's own tables");
    }
    done
}

fn begin(options: &Options) -> bool {
    let requested = match options.get(Key::Mode) {
        1 => Some(Mode::Library),
        2 => Some(Mode::Own),
        3 => Some(Mode::Slots),
        _ => None,
    };
    let platform = YARD.platform();
    #[cfg(all(target_arch = "x86_64", not(object_caches)))]
    platform.promise_to_give_way();
    if !platform.init(requested) {
        return false;
    }
    if let Some(mode) = requested
        && mode != platform.mode()
    {
        say!("SLABYARD_MODE is not possible here: mode {} is used", mode_number(platform.mode()));
    }
    if platform.mode() == Mode::Slots {
        let mut key = 0;
        // SAFETY: the destructor has the signature that the C library requires.
        if unsafe { pthread_key_create(&raw mut key, Some(thread_ends)) } == 0 {
            KEY.store(key, Ordering::Relaxed);
            platform.on_slot(remember_slot);
        }
    }
    let settings = Settings {
        reserve_bytes: options.get(Key::Reserve) as usize,
        decay_ms: options.get(Key::DecayMs) as u32,
    };
    YARD.on_misuse(misuse::found_at_flush);
    YARD.on_ticking(|begins| {
        if begins {
            helper::wake();
        }
    });
    YARD.on_every_call(choose_limit);
    YARD.heap.region.on_reach(choose_mask);
    policy::set(options.get(Key::OnError));
    YARD.check_frees(options.get(Key::CheckFrees) as u32);
    report::set_verify(options.get(Key::VerifyAtExit) == 1);
    if options.get(Key::Observable) == 1 {
        observe::allow();
    }
    let helped = options.get(Key::Helper) == 1;
    helper::set_enabled(helped);
    YARD.give_surplus(!helped);
    #[cfg(any_engine)]
    crate::pressure::set_drain(options);
    choice::choose(options);
    if !YARD.init(settings) {
        return false;
    }
    #[cfg(object_caches)]
    crate::choice::name_classes();
    YARD.publish(mode_number(platform.mode()));
    helper::show();
    #[cfg(target_arch = "x86_64")]
    crate::outside::show();
    #[cfg(any_engine)]
    crate::pressure::show();
    true
}

/// Called when a thread got a private slot: sets the key whose destructor gives it back.
fn remember_slot() {
    // SAFETY: our own key.
    unsafe { pthread_setspecific(KEY.load(Ordering::Relaxed), core::ptr::without_provenance(1)) };
}

/// Destructor of the key. Other keys' destructors may free and allocate after
/// us, so the slot is given back in the third of the four iterations that POSIX promises.
unsafe extern "C" fn thread_ends(iteration: *mut u8) {
    let iteration = iteration as usize;
    if iteration < 3 {
        // SAFETY: our own key.
        unsafe { pthread_setspecific(KEY.load(Ordering::Relaxed), (iteration + 1) as *const u8) };
        return;
    }
    YARD.drain_thread();
    YARD.platform().give_slot_back();
}

#[cfg(not(object_caches))]
extern "C" fn constructor() {
    if ensure() {
        fork::register();
        complete();
    }
}

#[cfg(object_caches)]
extern "C" fn constructor() {
    READ.set(Options::read());
    // Before the program's handlers, so that ours are the last before a fork.
    fork::register();
    if READ.get().get(Key::Helper) == 1 {
        // The main thread makes it.
        ensure();
    }
}

/// What needs a C library that is ready.
fn complete() {
    // With one thread this is cheap; later it would take milliseconds.
    YARD.platform().prepare_fence();
    report::remember();
    helper::begin();
    #[cfg(any(any_engine, object_caches))]
    crate::debug::begin();
    #[cfg(any_engine)]
    if crate::debug::is_wanted() {
        crate::ending::at_quick_exit(misuse_at_quick_exit);
        crate::ending::look_at_this_process();
    }
    #[cfg(any_engine)]
    crate::pressure::begin();
}

#[cfg(any_engine)]
extern "C" fn misuse_at_quick_exit() {
    misuse::at_exit();
}

extern "C" fn destructor() {
    if ready() {
        misuse::at_exit();
        report::at_exit();
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = destructor;
