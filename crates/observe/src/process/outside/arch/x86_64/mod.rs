//! Threads of x86-64: their registers, as they are in a call, at work and after it.

mod frame;

pub(crate) use frame::frame_below;

use crate::process::outside::calls::{Call, EINTR, RESTART_SYSCALL, SyscallRestart};
use crate::process::outside::candidates::Candidate;
use crate::process::outside::stopped::State;
use crate::process::outside::thread::Thread;
use nix::libc::{self, user_regs_struct};

/// The instruction that makes a call of 64 bits.
pub(crate) const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// The set of registers beside the general ones (NT_X86_XSTATE).
pub(crate) const FLOATING: usize = 0x202;
/// A user's shadow stack.
const NT_X86_SHSTK: usize = 0x204;
const RT_SIGRETURN: u64 = libc::SYS_rt_sigreturn.cast_unsigned();
/// What a call's result is while it begins.
const ENOSYS: i64 = -38;
const NO_CALL: u64 = u64::MAX;
/// Code of 64 bits.
const USER_CS: u64 = 0x33;
/// Bits of the flags: a trap at each instruction, and direction.
const TRAP: u64 = 1 << 8;
const DIRECTION: u64 = 1 << 10;

// What a call that was interrupted returns to the tracer: the first three are begun again, the fourth
// by `restart_syscall`, which knows what is left of its time.
const ERESTARTSYS: i64 = -512;
const ERESTARTNOINTR: i64 = -513;
const ERESTARTNOHAND: i64 = -514;
const ERESTART_RESTARTBLOCK: i64 = -516;

/// How a call is made again, from its number and its result; `None` if it has ended by itself.
fn restart_of(number: u64, result: i64) -> Option<SyscallRestart> {
    match result {
        ERESTARTSYS | ERESTARTNOINTR | ERESTARTNOHAND | EINTR => {
            Some(SyscallRestart { number, is_lasting: true, is_ended: result == EINTR })
        }
        ERESTART_RESTARTBLOCK => {
            Some(SyscallRestart { number: RESTART_SYSCALL, is_lasting: false, is_ended: false })
        }
        _ => None,
    }
}

/// The call that a thread has left, by the registers that the kernel kept of it.
fn call_of(registers: &user_regs_struct) -> Call {
    let r = registers;
    Call {
        number: r.orig_rax,
        arguments: [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9],
        stack: r.rsp,
        next: r.rip,
    }
}

/// The registers behind the candidate's call, and how it is made again; `None` if the thread is not in it.
/// If it has gone on to another call meanwhile, that call begins again.
pub(crate) fn interrupted(
    thread: &Thread,
    candidate: &Candidate,
) -> Option<(user_regs_struct, SyscallRestart)> {
    let registers = thread.registers()?;
    if registers.cs != USER_CS {
        return None;
    }
    let interrupted = restart_of(registers.orig_rax, registers.rax.cast_signed())?;
    let call = call_of(&registers);
    if call.number == candidate.call.number && call.goes_on().is_some() {
        return Some((registers, interrupted));
    }
    if interrupted.is_ended && call.may_begin_again() {
        thread.set_registers(&at_call(&registers, interrupted));
    }
    None
}

/// True if the thread has a stack of return addresses, on which rt_sigreturn would want a token.
pub(crate) fn has_more(thread: &Thread) -> bool {
    thread.register_set(NT_X86_SHSTK).is_some_and(|set| set.iter().any(|b| *b != 0))
}

/// The registers with which the thread makes its call by itself, or, where only the kernel could
/// have continued it, has it end as an interrupted one.
pub(crate) fn at_call(
    registers: &user_regs_struct,
    interrupted: SyscallRestart,
) -> user_regs_struct {
    let mut registers = *registers;
    if interrupted.is_lasting {
        registers.rip -= SYSCALL.len() as u64;
        registers.rax = interrupted.number;
    } else {
        registers.rax = EINTR.cast_unsigned();
    }
    registers.orig_rax = NO_CALL;
    registers
}

/// The registers with which it begins to work.
pub(crate) fn at_work(registers: &user_regs_struct, entry: u64, frame_at: u64) -> user_regs_struct {
    let mut registers = *registers;
    (registers.rip, registers.rsp) = (entry, frame_at);
    registers.eflags &= !(TRAP | DIRECTION);
    (registers.orig_rax, registers.rax, registers.rbp) = (NO_CALL, 0, 0);
    registers
}

/// The result of the work, if the thread is about to make the call that ends it.
pub(crate) fn result(now: &user_regs_struct) -> Option<u64> {
    (now.orig_rax == RT_SIGRETURN && now.rax.cast_signed() == ENOSYS).then_some(now.rbx)
}

/// As its call begins that would restore it from the frame: it begins the one in which it was.
pub(crate) fn go_on(thread: &Thread, state: &State, interrupted: SyscallRestart) {
    thread.set_register_set(FLOATING, &state.floating);
    thread.set_mask(state.mask);
    let registers = if interrupted.is_ended {
        // As we let the thread go, the system looks once for signals, which would end it again.
        at_call(&state.registers, interrupted)
    } else {
        let (orig_rax, rax) = (interrupted.number, ENOSYS.cast_unsigned());
        user_regs_struct { orig_rax, rax, ..state.registers }
    };
    thread.set_registers(&registers);
}

/// Where a thread has memory of its own, as each thread has that the C library made, and what it holds:
/// the word at its start is its own address, by the processor's ABI.
pub(crate) fn own_memory(_: &Thread, registers: &user_regs_struct) -> Option<(u64, Option<u64>)> {
    Some((registers.fs_base, Some(registers.fs_base)))
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;
    use crate::process::outside::calls::{EPOLL_PWAIT, READ, older::EPOLL_WAIT};
    use crate::process::outside::candidates;
    use crate::process::outside::thread::STOPS_WITHIN;
    use nix::unistd::Pid;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    const WAITS: &str = "SLABYARD_TEST_WAITS";

    #[test]
    fn a_call_that_has_ended_is_not_made_again() {
        assert_eq!(restart_of(READ, 17), None);
        assert_eq!(restart_of(READ, -11), None);
        let sleep = restart_of(7, ERESTART_RESTARTBLOCK).expect("interrupted");
        assert_eq!((sleep.number, sleep.is_lasting), (RESTART_SYSCALL, false));
        let wait = restart_of(EPOLL_WAIT, EINTR).expect("interrupted");
        assert_eq!((wait.number, wait.is_lasting, wait.is_ended), (EPOLL_WAIT, true, true));
    }

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
            .arg("process::outside::arch::x86_64::tests::waits_for_input")
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
        let its_wait = || {
            let end = Instant::now() + STOPS_WITHIN;
            loop {
                let call = candidates::call_of(process, waiting);
                let waits = |call: &Call| matches!(call.number, EPOLL_WAIT | EPOLL_PWAIT);
                if let Some(call) = call.filter(waits) {
                    return call;
                }
                assert!(Instant::now() < end, "it is in another call: {call:?}");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        for _ in 0..20 {
            // When somebody looked, it was in a read.
            let candidate = Candidate::of(waiting, Call { number: READ, ..its_wait() });
            let thread = Thread::stop(waiting).expect("a right to").expect("a sleeper");
            assert!(interrupted(&thread, &candidate).is_none());
        }
        child.stdin.take().expect("a pipe").write_all(b"x").expect("it reads");
        assert_eq!(said("ready "), "1");
        assert!(child.wait().expect("an end").success());
    }
}
