//! The start: the first call of any function makes the yard ready. The rest of the start needs a C
//! library that is ready, and so is done by the constructor at the earliest. Where the yard
//! [starts](Start) at the first call, a program that makes none has no yard, and does not wait for one.
//! Options are read in the constructor, because a program may change its environment later.
//!
//! Neighbours: this module starts the crate's others, then what each [`Library`] adds.

use crate::library::{Library, Start};
use crate::options::Options;
use crate::state::{
    COLD, STARTING, STATE, choose_limit, choose_mask, end_start, mode_number, ready,
};
use crate::{exit, fork, helper, misuse, observe, policy, profile, say};
use slabyard::calls::trim;
use slabyard::mail::header;
use slabyard::platform::Threads as _;
use slabyard::platform::linux::Mode;
use slabyard::process::fork::{lock_starts, unlock_starts};
use slabyard::reclaim::surplus;
use slabyard::sync::{AtomicBool, Once, Ordering};
use slabyard::verify::close;
use slabyard::yard::Settings;
use slabyard_kernels::settings::Key;
use slabyard_kernels::settings::choices::{CpuMode, OnMisuse};

/// The options as the constructor read them, or an earlier call, where the yard may start later.
static READ: Once<Options> = Once::new();
/// The constructor has run, where the yard may start later. The lock of starts protects it.
static LOADED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn sched_yield() -> i32;
}

/// Makes the yard ready if it is not; false if there is no memory for it.
#[inline]
pub fn ensure<L: Library>() -> bool {
    ready() || start::<L>()
}

#[cold]
fn start<L: Library>() -> bool {
    match L::START {
        Start::InConstructor => start_first::<L>(),
        Start::AtFirstCall => start_locked::<L>(),
    }
}

fn start_first<L: Library>() -> bool {
    // Relaxed: `ready` orders.
    if STATE.compare_exchange(COLD, STARTING, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        while STATE.load(Ordering::Relaxed) == STARTING {
            // SAFETY: no argument, no memory.
            unsafe { sched_yield() };
        }
        return ready();
    }
    start_with::<L>(&Options::read(&L::FURTHER))
}

fn start_locked<L: Library>() -> bool {
    // A handler that interrupted the start would find the lock taken, and a yard half started.
    L::yard().platform().without_handlers(start_alone::<L>).unwrap_or_else(start_alone::<L>)
}

fn start_alone<L: Library>() -> bool {
    // No yard is half started in the child of a fork.
    lock_starts();
    if STATE.load(Ordering::Relaxed) == COLD {
        STATE.store(STARTING, Ordering::Relaxed);
        let done = start_with::<L>(options::<L>());
        if done && LOADED.load(Ordering::Relaxed) {
            complete::<L>();
        }
    }
    unlock_starts();
    ready()
}

/// The options, read once. The lock of starts is held.
fn options<L: Library>() -> &'static Options {
    if READ.try_get().is_none() {
        READ.set(Options::read(&L::FURTHER));
    }
    READ.get()
}

fn start_with<L: Library>(options: &Options) -> bool {
    let done = begin::<L>(options);
    end_start::<L>(done);
    if !done {
        say!("no memory for the allocator's own tables");
    }
    done
}

/// Apart from its callers, whose stack frames are below the message about an option that does not
/// parse.
#[inline(never)]
fn begin<L: Library>(options: &Options) -> bool {
    let requested = match CpuMode::of_number(options.get(Key::Mode)) {
        Some(CpuMode::Rseq) => Some(Mode::Library),
        Some(CpuMode::OwnRseq) => Some(Mode::Own),
        Some(CpuMode::Slots) => Some(Mode::Slots),
        Some(CpuMode::Auto) | None => None,
    };
    let yard = L::yard();
    let platform = yard.platform();
    if L::SEES_SYSTEM_CALLS {
        platform.promise_to_give_way();
    }
    if !platform.init(requested) {
        return false;
    }
    if let Some(mode) = requested
        && mode != platform.mode()
    {
        say!("SLABYARD_MODE is not possible here: mode {} is used", mode_number(platform.mode()));
    }
    if platform.mode() == Mode::Slots {
        platform.at_slot_end(|| {
            trim::drain_thread(L::yard());
            L::yard().platform().give_slot_back();
        });
    }
    let settings = Settings {
        reserve_bytes: options.get(Key::Reserve) as usize,
        decay_ms: options.get(Key::DecayMs) as u32,
    };
    yard.on_misuse(misuse::found_at_flush::<L>);
    yard.on_ticking(|begins| {
        if begins {
            helper::wake::<L>();
        }
    });
    yard.on_every_call(choose_limit::<L>);
    yard.heap.region.on_reach(choose_mask::<L>);
    policy::set(OnMisuse::of_number(options.get(Key::OnError)));
    close::check_frees(yard, options.get(Key::CheckFrees) as u32);
    exit::set_verify(options.get(Key::VerifyAtExit) == 1);
    if options.get(Key::Observable) == 1 {
        observe::allow();
    }
    let helped = options.get(Key::Helper) == 1;
    helper::set_enabled(helped);
    surplus::give_surplus(yard, !helped);
    L::choose(options);
    if !yard.init(settings) {
        return false;
    }
    L::begun();
    header::publish(yard, mode_number(platform.mode()));
    helper::show::<L>();
    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    crate::outside::show::<L>();
    if L::IS_MALLOC {
        profile::show::<L>(options.get(Key::Profile));
    }
    L::published();
    true
}

/// What a library runs as it is loaded.
pub extern "C" fn constructor<L: Library>() {
    match L::START {
        Start::InConstructor => {
            if ensure::<L>() {
                fork::register::<L>();
                complete::<L>();
            }
        }
        Start::AtFirstCall => {
            // Before the program's handlers, so that ours are the last before a fork.
            fork::register::<L>();
            lock_starts();
            let options = options::<L>();
            LOADED.store(true, Ordering::Relaxed);
            if ready() {
                complete::<L>();
            }
            unlock_starts();
            // The main thread makes the helper; who asks for a report or an observable process gets
            // one of a program that makes no call, too.
            if options.get(Key::Helper) == 1 || L::IS_MALLOC && options.are_given() {
                ensure::<L>();
            }
        }
    }
}

/// What needs a C library that is ready.
fn complete<L: Library>() {
    // With one thread this is cheap; later it would take milliseconds.
    L::yard().platform().prepare_fence();
    // Without options there is nothing to do, and this may be within an allocation, which must not
    // make a thread.
    if READ.try_get().is_none_or(Options::are_given) {
        L::before_threads();
        helper::begin::<L>();
    }
    L::complete();
}
