//! The threads beside the workers: signal handlers that allocate, a thread that trims and
//! checks the yard, and the watch that reports progress.

use crate::Stressed;
use crate::token::{self, HUNG, TokenObject};
use crate::worker::{Load, Random};
use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Owners from here on are handlers.
const HANDLER: u64 = 512;
/// Without a call for so long the run has hung.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two signals.
const PAUSE: Duration = Duration::from_micros(300);

static HANDLED: AtomicPtr<Stressed> = AtomicPtr::new(std::ptr::null_mut());
static SEQUENCE: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// What the handler keeps until the next signal; no destructor, no lazy
    /// beginning: it is there whenever a signal comes.
    static STASH: Cell<Option<TokenObject>> = const { Cell::new(None) };
    static LEFT: Cell<bool> = const { Cell::new(false) };
}

fn yard() -> Option<&'static Stressed> {
    // SAFETY: only `install` stores here, a yard that stays.
    unsafe { HANDLED.load(Ordering::Acquire).as_ref() }
}

/// Sets the handler.
pub fn install(yard: &'static Stressed) {
    HANDLED.store(std::ptr::from_ref(yard).cast_mut(), Ordering::Release);
    // SAFETY: a zeroed action is a valid one, and the handler has the right type.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
    }
}

/// Allocates one object, frees the one of the last signal.
extern "C" fn handler(_signal: i32) {
    // SAFETY: the place of this thread's error number; handlers leave it alone.
    let errno = unsafe { *libc::__errno_location() };
    if let Some(yard) = yard()
        && !LEFT.get()
    {
        let sequence = SEQUENCE.fetch_add(1, Ordering::Relaxed);
        let mut random = Random(sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let bytes = random.bytes();
        let new = TokenObject::alloc(yard, bytes, 16, HANDLER + sequence % 256, sequence);
        if new.is_none() {
            token::wrong("no memory in a handler", 0, 0, 0);
        }
        if let Some(old) = STASH.replace(new) {
            old.free(yard);
        }
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// This thread ends: handlers keep nothing from now on.
pub fn leave(yard: &Stressed) {
    LEFT.set(true);
    if let Some(held) = STASH.take() {
        held.free(yard);
    }
}

/// Sends signals to workers.
pub fn interrupt(load: &Load) {
    let mut random = Random(0x1234_5677);
    // SAFETY: plain system calls. A number of a thread that has ended is refused,
    // or is another thread of this process, whose handler is the same.
    let process = unsafe { libc::getpid() };
    while !load.over.load(Ordering::Relaxed) {
        let thread =
            load.threads[random.below(load.threads.len() as u64) as usize].load(Ordering::Relaxed);
        if thread != 0 {
            // SAFETY: as above.
            unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1) };
        }
        std::thread::sleep(PAUSE);
    }
    leave(load.yard);
}

/// Trims and checks the yard in turn.
pub fn trim(load: &Load) {
    let mut round = 0u64;
    while !load.over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(40));
        round += 1;
        if round.is_multiple_of(4) {
            let verified = load.yard.verify();
            if !matches!(verified, Some(Ok(_))) {
                token::wrong_yard("under load", &verified);
            }
        } else if round % 4 == 2 {
            load.yard.trim();
        }
    }
}

/// Reports progress on a terminal; ends a run that hangs. Allocates nothing of
/// the yard.
pub fn watch(load: &Load) {
    let terminal = std::io::stderr().is_terminal();
    let mode = load.yard.platform().mode();
    let started = Instant::now();
    let mut last = (0, Instant::now());
    while !load.over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(20));
        let done = load.done.load(Ordering::Relaxed);
        if done != last.0 {
            last = (done, Instant::now());
        } else if last.1.elapsed() > PATIENCE {
            eprintln!("no progress after {done} calls");
            token::end(HUNG);
        }
        if terminal && started.elapsed().as_millis() % 1000 < 20 {
            let millions = |n| n / 1_000_000;
            eprint!("\r{mode:?}: {} of {} million calls ", millions(done), millions(load.ops));
            let _ = std::io::stderr().flush();
        }
    }
    if terminal {
        eprint!("\r\x1b[K");
    }
}

/// One thread closes and opens the gate without end, another sends it signals,
/// whose handlers take slow paths.
pub fn interrupt_gate(yard: &'static Stressed) {
    const ROUNDS: u64 = 20_000;
    install(yard);
    // SAFETY: plain system calls.
    let (process, closer) = unsafe { (libc::getpid(), libc::gettid()) };
    std::thread::spawn(move || {
        let mut last = (0, Instant::now());
        loop {
            // SAFETY: as above; this thread is the process's first or stays.
            unsafe { libc::syscall(libc::SYS_tgkill, process, closer, libc::SIGUSR1) };
            let handled = SEQUENCE.load(Ordering::Relaxed);
            if handled != last.0 {
                last = (handled, Instant::now());
            } else if last.1.elapsed() > PATIENCE {
                eprintln!("no progress after {handled} signals");
                token::end(HUNG);
            }
        }
    });
    while SEQUENCE.load(Ordering::Relaxed) < ROUNDS {
        yard.quiesce(|_| ());
    }
    leave(yard);
}
