//! The system calls in which a thread can be stopped and then continue as if nothing had happened.
//!
//! A thread that a tracer interrupts leaves its system call. The kernel restarts most calls itself
//! (signal(7), on restarted system calls). Some calls end with EINTR, as after SIGSTOP and SIGCONT:
//! the process that stopped the thread restarts them. Calls that may have done part of their work
//! are not in this table. A thread can go on to one of those between the look at it and the stop;
//! then it sees what a SIGSTOP and a SIGCONT would have shown it.
//!
//! Neighbours: [`super::candidates`] looks up the calls of waiting threads; [`super::thread`] stops
//! one of the threads.

use nix::libc::user_regs_struct;

/// How exactly a call continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GoesOn {
    /// To the moment: it has no time limit, or the kernel keeps what is left of it.
    Exactly,
    /// Its time limit, which is short of nothing, begins anew.
    Anew,
}

/// A call as `/proc/PID/task/TID/syscall` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) number: u64,
    pub(super) arguments: [u64; 6],
    /// The stack pointer.
    pub(super) stack: u64,
    /// What follows the instruction that made the call.
    pub(super) next: u64,
}

impl Call {
    /// `None` for a thread that runs, or waits outside of calls.
    pub(super) fn parse(text: &str) -> Option<Call> {
        let mut words = text.split_whitespace();
        let number = words.next()?.parse().ok()?;
        let mut hexadecimal = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            *argument = hexadecimal()?;
        }
        Some(Call { number, arguments, stack: hexadecimal()?, next: hexadecimal()? })
    }

    /// The call that a thread has left, by the registers that the kernel kept of it.
    pub(super) fn interrupted(registers: &user_regs_struct) -> Call {
        let r = registers;
        Call {
            number: r.orig_rax,
            arguments: [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9],
            stack: r.rsp,
            next: r.rip,
        }
    }

    /// True if the call did nothing yet where it ended with EINTR.
    pub(super) fn may_begin_again(&self) -> bool {
        self.goes_on().is_some() || matches!(self.number, IO_GETEVENTS | IO_URING_ENTER)
    }

    /// How it continues; `None` for a call in which a thread is not stopped.
    pub(super) fn goes_on(&self) -> Option<GoesOn> {
        use GoesOn::{Anew, Exactly};
        let a = &self.arguments;
        let until = |has_limit| if has_limit { Anew } else { Exactly };
        // Masks of signals that hold for the call alone are restored in ways that differ between
        // releases.
        let without_mask = |mask: u64, goes_on| (mask == 0).then_some(goes_on);
        match self.number {
            READ | READV | ACCEPT | ACCEPT4 | WAIT4 | WAITID | PAUSE | NANOSLEEP
            | CLOCK_NANOSLEEP | POLL | SELECT | MSGRCV | SEMOP | RESTART_SYSCALL => Some(Exactly),
            RECVFROM => (a[3] & MSG_WAITALL == 0).then_some(Exactly),
            RECVMSG => (a[2] & MSG_WAITALL == 0).then_some(Exactly),
            FUTEX => {
                matches!(a[1] & FUTEX_COMMAND, FUTEX_WAIT | FUTEX_WAIT_BITSET).then_some(Exactly)
            }
            PPOLL => without_mask(a[3], Exactly),
            PSELECT6 => without_mask(a[5], Exactly),
            // A time limit below 0 is none: an `int`.
            EPOLL_WAIT => Some(until(a[3] as i32 >= 0)),
            EPOLL_PWAIT => without_mask(a[4], until(a[3] as i32 >= 0)),
            EPOLL_PWAIT2 => without_mask(a[4], until(a[3] != 0)),
            RT_SIGTIMEDWAIT => Some(until(a[2] != 0)),
            SEMTIMEDOP => Some(until(a[3] != 0)),
            _ => None,
        }
    }
}

// Numbers of x86-64.
pub(super) const READ: u64 = 0;
const POLL: u64 = 7;
const READV: u64 = 19;
const SELECT: u64 = 23;
const PAUSE: u64 = 34;
const NANOSLEEP: u64 = 35;
const ACCEPT: u64 = 43;
const RECVFROM: u64 = 45;
const RECVMSG: u64 = 47;
const WAIT4: u64 = 61;
const SEMOP: u64 = 65;
const MSGRCV: u64 = 70;
const RT_SIGTIMEDWAIT: u64 = 128;
const FUTEX: u64 = 202;
const IO_GETEVENTS: u64 = 208;
const RESTART_SYSCALL: u64 = 219;
const SEMTIMEDOP: u64 = 220;
const CLOCK_NANOSLEEP: u64 = 230;
pub(super) const EPOLL_WAIT: u64 = 232;
const WAITID: u64 = 247;
const PSELECT6: u64 = 270;
const PPOLL: u64 = 271;
pub(super) const EPOLL_PWAIT: u64 = 281;
const ACCEPT4: u64 = 288;
const IO_URING_ENTER: u64 = 426;
const EPOLL_PWAIT2: u64 = 441;

const MSG_WAITALL: u64 = 0x100;
/// Without the flags for private words and the clock.
const FUTEX_COMMAND: u64 = 0x7f;
const FUTEX_WAIT: u64 = 0;
const FUTEX_WAIT_BITSET: u64 = 9;

// What a call that was interrupted returns to the tracer: the first three are begun again, the fourth
// by `restart_syscall`, which knows what is left of its time.
const ERESTARTSYS: i64 = -512;
const ERESTARTNOINTR: i64 = -513;
const ERESTARTNOHAND: i64 = -514;
const ERESTART_RESTARTBLOCK: i64 = -516;
const EINTR: i64 = -4;

/// How an interrupted call is made to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SyscallRestart {
    /// The call that is to be made.
    pub(super) number: u64,
    /// True if it can be made by the same instruction with the same registers at any later time, too.
    pub(super) is_lasting: bool,
    /// True if the kernel would not have restarted it.
    pub(super) is_ended: bool,
}

impl SyscallRestart {
    /// From the call's number and its result; `None` if it has ended by itself.
    pub(super) fn of(number: u64, result: i64) -> Option<SyscallRestart> {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_tells_of_a_thread_is_read() {
        let text = "202 0x7f0 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd10 0x7f1234\n";
        let call = Call::parse(text).expect("a call");
        assert_eq!((call.number, call.arguments[1], call.arguments[5]), (202, 0x189, 0xffff_ffff));
        assert_eq!((call.stack, call.next), (0x7ffd10, 0x7f1234));
        assert_eq!(call.goes_on(), Some(GoesOn::Exactly));
        for text in ["running\n", "-1 0x7ffd10 0x7f1234\n", "", "202 0x7f0\n"] {
            assert_eq!(Call::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_call_that_may_have_done_a_part_is_let_be() {
        let of = |number, arguments| Call { number, arguments, stack: 0, next: 0 }.goes_on();
        let none = [0; 6];
        // write, sendto, connect, splice, and calls that are unknown.
        for number in [1, 44, 42, 275, 9999] {
            assert_eq!(of(number, none), None, "{number}");
            let call = Call { number, arguments: none, stack: 0, next: 0 };
            assert!(!call.may_begin_again(), "{number}");
        }
        assert_eq!(of(RECVFROM, [0, 0, 0, MSG_WAITALL, 0, 0]), None);
        assert_eq!(of(RECVMSG, [0, 0, MSG_WAITALL, 0, 0, 0]), None);
        // A futex that wakes, and one that takes a lock.
        assert_eq!(of(FUTEX, [0, 0x81, 0, 0, 0, 0]), None);
        assert_eq!(of(FUTEX, [0, 0x86, 0, 0, 0, 0]), None);
        assert_eq!(of(PPOLL, [0, 0, 0, 8, 8, 0]), None, "a mask of its own");
        assert_eq!(of(EPOLL_WAIT, [3, 0, 8, 0xffff_ffff, 0, 0]), Some(GoesOn::Exactly));
        assert_eq!(of(EPOLL_WAIT, [3, 0, 8, 1000, 0, 0]), Some(GoesOn::Anew));
    }

    #[test]
    fn a_call_that_has_ended_is_not_made_again() {
        assert_eq!(SyscallRestart::of(READ, 17), None);
        assert_eq!(SyscallRestart::of(READ, -11), None);
        let sleep = SyscallRestart::of(NANOSLEEP, ERESTART_RESTARTBLOCK).expect("interrupted");
        assert_eq!((sleep.number, sleep.is_lasting), (RESTART_SYSCALL, false));
        let wait = SyscallRestart::of(EPOLL_WAIT, EINTR).expect("interrupted");
        assert_eq!((wait.number, wait.is_lasting, wait.is_ended), (EPOLL_WAIT, true, true));
        for number in [EPOLL_WAIT, IO_GETEVENTS, IO_URING_ENTER] {
            let call = Call { number, arguments: [0; 6], stack: 0, next: 0 };
            assert!(call.may_begin_again(), "{number}");
        }
    }
}
