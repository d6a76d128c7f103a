//! One thread of another process, which we trace: it stops, its registers and its mask of signals are
//! read and written, and it is let go.
//!
//! Neighbours: the processor's folder knows which registers there are; [`super::work`] has the thread
//! serve. Invariant: a thread is traced while its [`Thread`] lives; if our process dies, the kernel
//! lets the thread go.
#![allow(unsafe_code)]

use nix::errno::Errno;
use nix::libc::{self, user_regs_struct};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// A thread that sleeps stops at once, if it gets a CPU.
pub(super) const STOPS_WITHIN: Duration = Duration::from_secs(10);
/// Looks without a pause between them.
const LOOKS: u32 = 200;
const PAUSE: Duration = Duration::from_micros(100);

// glibc and musl declare ptrace's request with different types.
const PTRACE_GETSIGMASK: u16 = 0x420a;
const PTRACE_SETSIGMASK: u16 = 0x420b;
const NT_PRSTATUS: usize = 1;
/// Bytes of one set of registers at most.
const MOST_BYTES: usize = 16 << 10;
/// All that can be blocked.
pub(super) const ALL_SIGNALS: u64 = u64::MAX;

/// A thread that we trace while this lives, and that is stopped.
pub(super) struct Thread {
    pid: Pid,
    /// A signal at which it stopped: it gets it as it is let go.
    signal: Cell<Option<Signal>>,
}

impl Thread {
    /// Stops a thread. `Err` if the kernel does not let us; `None` if the thread was about to do
    /// something.
    pub(super) fn stop(thread: Pid) -> Result<Option<Thread>, Errno> {
        ptrace::seize(thread, Options::PTRACE_O_TRACESYSGOOD)?;
        let thread = Thread { pid: thread, signal: Cell::new(None) };
        ptrace::interrupt(thread.pid)?;
        // One that did not stop is let go when we end.
        let stopped = thread.wait(Instant::now() + STOPS_WITHIN);
        Ok(matches!(stopped, Some(WaitStatus::PtraceEvent(_, Signal::SIGTRAP, _)))
            .then_some(thread))
    }

    /// Lets it run until it makes a call, or returns from one.
    pub(super) fn run_to_call(&self, end: Instant) -> Option<WaitStatus> {
        match ptrace::syscall(self.pid, self.signal.take()) {
            Ok(()) => self.wait(end),
            Err(_) => Some(WaitStatus::Exited(self.pid, 0)),
        }
    }

    /// Lets it go on, and stops it as soon as it may: true if it stopped so.
    #[allow(dead_code, reason = "some processors have all at the first stop")]
    pub(super) fn stop_again(&self) -> bool {
        let asked =
            ptrace::interrupt(self.pid).and_then(|()| ptrace::cont(self.pid, self.signal.take()));
        let stopped = asked.ok().and_then(|()| self.wait(Instant::now() + STOPS_WITHIN));
        matches!(stopped, Some(WaitStatus::PtraceEvent(_, Signal::SIGTRAP, _)))
    }

    /// Stops it wherever it is.
    pub(super) fn stop_at_work(&self) {
        let _ = ptrace::interrupt(self.pid);
        let _ = self.wait(Instant::now() + STOPS_WITHIN);
    }

    /// What comes of it until a time; `None`: nothing.
    fn wait(&self, end: Instant) -> Option<WaitStatus> {
        for look in 0.. {
            match waitpid(self.pid, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) if look < LOOKS => std::thread::yield_now(),
                Ok(WaitStatus::StillAlive) if Instant::now() < end => std::thread::sleep(PAUSE),
                Ok(WaitStatus::StillAlive) => return None,
                Ok(status) => {
                    if let WaitStatus::Stopped(_, signal) = status {
                        self.signal.set(Some(signal));
                    }
                    return Some(status);
                }
                Err(Errno::EINTR) => {}
                Err(_) => return Some(WaitStatus::Exited(self.pid, 0)),
            }
        }
        None
    }

    /// The registers; `None` if they are those of another kind of program.
    pub(super) fn registers(&self) -> Option<user_regs_struct> {
        let mut registers = MaybeUninit::<user_regs_struct>::uninit();
        let bytes =
            self.read_set(NT_PRSTATUS, registers.as_mut_ptr().cast(), size_of_val(&registers))?;
        // SAFETY: the kernel wrote all of it; they are numbers.
        (bytes == size_of_val(&registers)).then(|| unsafe { registers.assume_init() })
    }

    /// False if it has ended.
    pub(super) fn set_registers(&self, registers: &user_regs_struct) -> bool {
        self.write_set(NT_PRSTATUS, (&raw const *registers).cast(), size_of_val(registers))
    }

    /// The signals that it blocks.
    pub(super) fn mask(&self) -> Option<u64> {
        let mut mask = 0u64;
        let (bytes, to) = (size_of::<u64>(), &raw mut mask);
        // SAFETY: the call writes so many bytes there, and knows by the number which call it is.
        (unsafe { libc::ptrace(PTRACE_GETSIGMASK.into(), self.pid.as_raw(), bytes, to) } == 0)
            .then_some(mask)
    }

    pub(super) fn set_mask(&self, mask: u64) {
        let (bytes, from) = (size_of::<u64>(), &raw const mask);
        // SAFETY: the call reads so many bytes from there.
        unsafe { libc::ptrace(PTRACE_SETSIGMASK.into(), self.pid.as_raw(), bytes, from) };
    }

    /// A further set of registers, by its number in `elf.h`.
    pub(super) fn register_set(&self, which: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0u8; MOST_BYTES];
        let have = self.read_set(which, bytes.as_mut_ptr(), bytes.len())?;
        // One that fills it may have been cut off.
        (have < bytes.len()).then(|| {
            bytes.truncate(have);
            bytes
        })
    }

    pub(super) fn set_register_set(&self, which: usize, bytes: &[u8]) -> bool {
        self.write_set(which, bytes.as_ptr(), bytes.len())
    }

    /// How many bytes there were.
    fn read_set(&self, which: usize, to: *mut u8, bytes: usize) -> Option<usize> {
        let mut part = libc::iovec { iov_base: to.cast(), iov_len: bytes };
        let into = &raw mut part;
        // SAFETY: the call writes at most as many bytes as the part says, and how many these were; the
        // callers have the room.
        let failed =
            unsafe { libc::ptrace(libc::PTRACE_GETREGSET, self.pid.as_raw(), which, into) } != 0;
        (!failed).then_some(part.iov_len)
    }

    fn write_set(&self, which: usize, from: *const u8, bytes: usize) -> bool {
        let part = libc::iovec { iov_base: from.cast_mut().cast(), iov_len: bytes };
        let part = &raw const part;
        // SAFETY: the call reads as many bytes as the part says, which the callers have, and writes none.
        (unsafe { libc::ptrace(libc::PTRACE_SETREGSET, self.pid.as_raw(), which, part) }) == 0
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let _ = ptrace::detach(self.pid, self.signal.take());
    }
}
