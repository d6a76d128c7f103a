//! One thread of another process, stopped in a system call: it serves the request and then
//! continues.
//!
//! If the tracer dies after any of the following steps, by whatever signal, the process continues
//! by itself, because the kernel releases a thread whose tracer has exited.
//!
//! 1. The thread is stopped: nothing has been changed, and the kernel restarts its call.
//! 2. The frame is written into memory that nothing else reads.
//! 3. The registers are written: the thread serves the request, and the frame restores it. A call
//!    that the kernel would restart with its remaining timeout then ends with EINTR.
//! 4. The signal mask is written: the frame holds the old one.
//! 5. The thread has reached rt_sigreturn, where it stops before the kernel executes the call.
//!    Instead, the thread makes its original call: the signal mask and all but the last registers
//!    are restored first, so that the frame can still restore the rest at each moment.
//!
//! Neighbours: [`super::calls`] says how each call continues; [`super::frame`] writes the frame.
#![allow(unsafe_code)]

use super::calls::{Call, SyscallRestart};
use super::frame::State;
use nix::errno::Errno;
use nix::libc::{self, user_regs_struct};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::time::{Duration, Instant};

/// A thread that sleeps stops at once, if it gets a CPU.
const STOPS_WITHIN: Duration = Duration::from_secs(10);
/// Looks without a pause between them.
const LOOKS: u32 = 200;
const PAUSE: Duration = Duration::from_micros(100);

// glibc and musl declare ptrace's request with different types.
const PTRACE_GETSIGMASK: u16 = 0x420a;
const PTRACE_SETSIGMASK: u16 = 0x420b;
const NT_X86_XSTATE: usize = 0x202;
/// A user's shadow stack: rt_sigreturn would want a token on it.
const NT_X86_SHSTK: usize = 0x204;
/// Bytes of one set of registers at most.
const MOST_BYTES: usize = 16 << 10;

const RT_SIGRETURN: u64 = 15;
/// What a call's result is while it begins.
const ENOSYS: i64 = -38;
const NO_CALL: u64 = u64::MAX;
const ALL_SIGNALS: u64 = u64::MAX;
/// Code of 64 bits.
const USER_CS: u64 = 0x33;
/// Bits of the flags: a trap at each instruction, and direction.
const TRAP: u64 = 1 << 8;
const DIRECTION: u64 = 1 << 10;

/// A thread that we trace while this lives, and that is stopped.
pub(super) struct Thread(Pid);

/// How a thread's work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadOutcome {
    /// With this result; and it waits in its call again.
    Done(u64),
    /// Not in time: it was released, finishes the work by itself, and then continues.
    Left,
    /// The process has ended.
    Gone,
}

impl Thread {
    /// Stops a thread. `Err` if the kernel does not let us; `None` if the thread was about to do
    /// something.
    pub(super) fn stop(thread: Pid) -> Result<Option<Thread>, Errno> {
        ptrace::seize(thread, Options::PTRACE_O_TRACESYSGOOD)?;
        ptrace::interrupt(thread)?;
        match wait(thread, Instant::now() + STOPS_WITHIN) {
            Some(WaitStatus::PtraceEvent(_, Signal::SIGTRAP, _)) => Ok(Some(Thread(thread))),
            Some(WaitStatus::Stopped(_, signal)) => {
                let _ = ptrace::detach(thread, signal);
                Ok(None)
            }
            // One that did not stop is let go when we end.
            _ => {
                let _ = ptrace::detach(thread, None);
                Ok(None)
            }
        }
    }

    /// How it was, if it is in a call of this number that continues. If it has gone on to another call
    /// meanwhile, that call begins again.
    pub(super) fn state(&self, number: u64) -> Option<(State, SyscallRestart)> {
        let registers = ptrace::getregs(self.0).ok()?;
        if registers.cs != USER_CS {
            return None;
        }
        let interrupted = SyscallRestart::of(registers.orig_rax, registers.rax.cast_signed())?;
        let call = Call::interrupted(&registers);
        let state = || {
            if call.number != number || call.goes_on().is_none() {
                return None;
            }
            if self.register_set(NT_X86_SHSTK).is_some_and(|set| set.iter().any(|b| *b != 0)) {
                return None;
            }
            Some(State {
                registers,
                mask: self.mask()?,
                floating: self.register_set(NT_X86_XSTATE)?,
            })
        };
        let Some(state) = state() else {
            if call.may_begin_again() {
                self.begin_again(&registers, interrupted);
            }
            return None;
        };
        Some((state, interrupted))
    }

    /// Lets it go without work: a call that has ended by our stop alone is begun again.
    pub(super) fn begin_again(&self, registers: &user_regs_struct, interrupted: SyscallRestart) {
        if interrupted.is_ended {
            let _ = ptrace::setregs(self.0, at_call(registers, interrupted));
        }
    }

    /// Makes the thread work at the entry, with its stack pointer at the frame that was written to
    /// its memory, and then continue in its call.
    pub(super) fn work(
        self,
        (state, interrupted): (&State, SyscallRestart),
        (entry, frame_at): (u64, u64),
        end: Instant,
    ) -> ThreadOutcome {
        let mut registers = state.registers;
        (registers.rip, registers.rsp) = (entry, frame_at);
        registers.eflags &= !(TRAP | DIRECTION);
        (registers.orig_rax, registers.rax, registers.rbp) = (NO_CALL, 0, 0);
        if ptrace::setregs(self.0, registers).is_err() {
            return ThreadOutcome::Gone;
        }
        self.set_mask(ALL_SIGNALS);
        let mut signal = None;
        loop {
            if ptrace::syscall(self.0, signal).is_err() {
                return ThreadOutcome::Gone;
            }
            signal = match wait(self.0, end) {
                None => return self.leave(),
                Some(WaitStatus::PtraceSyscall(_)) => {
                    let Ok(now) = ptrace::getregs(self.0) else { return ThreadOutcome::Gone };
                    if now.orig_rax == RT_SIGRETURN && now.rax.cast_signed() == ENOSYS {
                        self.go_on(state, interrupted);
                        return ThreadOutcome::Done(now.rbx);
                    }
                    None
                }
                // A fault of ours, or SIGSTOP: no other one comes.
                Some(WaitStatus::Stopped(_, signal)) => Some(signal),
                Some(WaitStatus::PtraceEvent(..)) => None,
                Some(_) => return ThreadOutcome::Gone,
            };
        }
    }

    /// As its call begins that would restore it from the frame: it begins the one in which it was.
    fn go_on(self, state: &State, interrupted: SyscallRestart) {
        self.set_register_set(NT_X86_XSTATE, &state.floating);
        self.set_mask(state.mask);
        let registers = if interrupted.is_ended {
            // As we let the thread go, the system looks once for signals, which would end it again.
            at_call(&state.registers, interrupted)
        } else {
            let (orig_rax, rax) = (interrupted.number, ENOSYS.cast_unsigned());
            user_regs_struct { orig_rax, rax, ..state.registers }
        };
        let _ = ptrace::setregs(self.0, registers);
    }

    /// Lets it go in the middle of its work.
    fn leave(self) -> ThreadOutcome {
        let _ = ptrace::interrupt(self.0);
        let _ = wait(self.0, Instant::now() + STOPS_WITHIN);
        ThreadOutcome::Left
    }

    fn mask(&self) -> Option<u64> {
        let mut mask = 0u64;
        let (bytes, to) = (size_of::<u64>(), &raw mut mask);
        // SAFETY: the call writes so many bytes there, and knows by the number which call it is.
        (unsafe { libc::ptrace(PTRACE_GETSIGMASK.into(), self.0.as_raw(), bytes, to) } == 0)
            .then_some(mask)
    }

    fn set_mask(&self, mask: u64) {
        let (bytes, from) = (size_of::<u64>(), &raw const mask);
        // SAFETY: the call reads so many bytes from there.
        unsafe { libc::ptrace(PTRACE_SETSIGMASK.into(), self.0.as_raw(), bytes, from) };
    }

    fn register_set(&self, which: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0u8; MOST_BYTES];
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let to = &raw mut part;
        // SAFETY: the call writes at most as many bytes as the part says, and how many these were.
        let failed =
            unsafe { libc::ptrace(libc::PTRACE_GETREGSET, self.0.as_raw(), which, to) } != 0;
        // One that fills it may have been cut off.
        if failed || part.iov_len >= bytes.len() {
            return None;
        }
        bytes.truncate(part.iov_len);
        Some(bytes)
    }

    fn set_register_set(&self, which: usize, bytes: &[u8]) {
        let base = bytes.as_ptr().cast_mut().cast();
        let part = libc::iovec { iov_base: base, iov_len: bytes.len() };
        let from = &raw const part;
        // SAFETY: the call reads as many bytes as the part says, and writes none.
        unsafe { libc::ptrace(libc::PTRACE_SETREGSET, self.0.as_raw(), which, from) };
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let _ = ptrace::detach(self.0, None);
    }
}

/// The registers with which the thread makes its call by itself, or, where only the kernel could
/// have continued it, has it end as an interrupted one.
pub(super) fn at_call(
    registers: &user_regs_struct,
    interrupted: SyscallRestart,
) -> user_regs_struct {
    /// Bytes of the instruction.
    const SYSCALL: u64 = 2;
    let mut registers = *registers;
    if interrupted.is_lasting {
        registers.rip -= SYSCALL;
        registers.rax = interrupted.number;
    } else {
        registers.rax = (-i64::from(libc::EINTR)).cast_unsigned();
    }
    registers.orig_rax = NO_CALL;
    registers
}

/// What comes of a thread until a time; `None`: nothing.
fn wait(thread: Pid, end: Instant) -> Option<WaitStatus> {
    for look in 0.. {
        match waitpid(thread, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) if look < LOOKS => std::thread::yield_now(),
            Ok(WaitStatus::StillAlive) if Instant::now() < end => std::thread::sleep(PAUSE),
            Ok(WaitStatus::StillAlive) => return None,
            Ok(status) => return Some(status),
            Err(Errno::EINTR) => {}
            Err(_) => return Some(WaitStatus::Exited(thread, 0)),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::calls::{EPOLL_PWAIT, EPOLL_WAIT, READ};
    use super::super::candidates;
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    const WAITS: &str = "SLABYARD_TEST_WAITS";

    /// The process that the test below stops: it waits for its standard input in epoll_wait(2), and
    /// says how that ended. By itself it does nothing.
    #[test]
    fn waits_for_input() {
        if std::env::var_os(WAITS).is_none() {
            return;
        }
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: the calls read and write one event.
        let ready = unsafe {
            let epoll = libc::epoll_create1(0);
            libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, 0, &raw mut event);
            println!("\nthread {}", libc::gettid());
            libc::epoll_wait(epoll, &raw mut event, 1, -1)
        };
        println!("\nready {ready}");
    }

    #[test]
    fn a_thread_that_went_on_to_another_call_waits_on_in_that_one() {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "--nocapture"])
            .arg("process::outside::thread::tests::waits_for_input")
            .env(WAITS, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this test once more");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut said = |what: &str| {
            let line = lines.find_map(|line| {
                line.expect("a line").strip_prefix(what).map(|rest| rest.trim().to_owned())
            });
            line.unwrap_or_else(|| panic!("the process did not say {what:?}"))
        };
        let id: i32 = said("thread ").parse().expect("a number");
        let (process, waiting) = (Pid::from_raw(child.id().cast_signed()), Pid::from_raw(id));
        let call = || candidates::call_of(process, waiting);
        let end = Instant::now() + STOPS_WITHIN;
        while !call().is_some_and(|call| matches!(call.number, EPOLL_WAIT | EPOLL_PWAIT)) {
            assert!(Instant::now() < end, "it is in another call: {:?}", call());
            std::thread::sleep(PAUSE);
        }
        for _ in 0..20 {
            // When somebody looked, it was in a read.
            let thread = Thread::stop(waiting).expect("a right to").expect("a sleeper");
            assert!(thread.state(READ).is_none());
            drop(thread);
            std::thread::sleep(Duration::from_millis(1));
        }
        child.stdin.take().expect("a pipe").write_all(b"x").expect("it reads");
        assert_eq!(said("ready "), "1");
        assert!(child.wait().expect("an end").success());
    }
}
