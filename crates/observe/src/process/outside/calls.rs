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

use nix::libc;

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

    /// True if the kernel keeps what is left of the call's time when it interrupts it, and so makes it
    /// again as `restart_syscall`.
    #[allow(dead_code, reason = "the registers of some processors say it")]
    pub(super) fn has_time_kept(&self) -> bool {
        match self.number {
            NANOSLEEP | RESTART_SYSCALL => true,
            CLOCK_NANOSLEEP => self.arguments[1] & TIMER_ABSTIME == 0,
            FUTEX => self.arguments[3] != 0,
            _ => false,
        }
    }

    /// True if the call did nothing yet where it ended with EINTR.
    #[allow(dead_code, reason = "on some processors a call's first argument is lost")]
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

pub(super) const READ: u64 = libc::SYS_read.cast_unsigned();
const READV: u64 = libc::SYS_readv.cast_unsigned();
const NANOSLEEP: u64 = libc::SYS_nanosleep.cast_unsigned();
const ACCEPT: u64 = libc::SYS_accept.cast_unsigned();
const RECVFROM: u64 = libc::SYS_recvfrom.cast_unsigned();
const RECVMSG: u64 = libc::SYS_recvmsg.cast_unsigned();
const WAIT4: u64 = libc::SYS_wait4.cast_unsigned();
const SEMOP: u64 = libc::SYS_semop.cast_unsigned();
const MSGRCV: u64 = libc::SYS_msgrcv.cast_unsigned();
const RT_SIGTIMEDWAIT: u64 = libc::SYS_rt_sigtimedwait.cast_unsigned();
const FUTEX: u64 = libc::SYS_futex.cast_unsigned();
const IO_GETEVENTS: u64 = libc::SYS_io_getevents.cast_unsigned();
pub(super) const RESTART_SYSCALL: u64 = libc::SYS_restart_syscall.cast_unsigned();
const SEMTIMEDOP: u64 = libc::SYS_semtimedop.cast_unsigned();
const CLOCK_NANOSLEEP: u64 = libc::SYS_clock_nanosleep.cast_unsigned();
const WAITID: u64 = libc::SYS_waitid.cast_unsigned();
const PSELECT6: u64 = libc::SYS_pselect6.cast_unsigned();
const PPOLL: u64 = libc::SYS_ppoll.cast_unsigned();
pub(super) const EPOLL_PWAIT: u64 = libc::SYS_epoll_pwait.cast_unsigned();
const ACCEPT4: u64 = libc::SYS_accept4.cast_unsigned();
const IO_URING_ENTER: u64 = libc::SYS_io_uring_enter.cast_unsigned();
const EPOLL_PWAIT2: u64 = libc::SYS_epoll_pwait2.cast_unsigned();

/// Calls that later architectures have not: there these are numbers that no call has.
#[cfg(target_arch = "x86_64")]
pub(super) mod older {
    use nix::libc;
    pub(crate) const EPOLL_WAIT: u64 = libc::SYS_epoll_wait.cast_unsigned();
    pub(super) const PAUSE: u64 = libc::SYS_pause.cast_unsigned();
    pub(super) const POLL: u64 = libc::SYS_poll.cast_unsigned();
    pub(super) const SELECT: u64 = libc::SYS_select.cast_unsigned();
}
#[cfg(not(target_arch = "x86_64"))]
mod older {
    pub(super) const EPOLL_WAIT: u64 = u64::MAX;
    pub(super) const PAUSE: u64 = u64::MAX - 1;
    pub(super) const POLL: u64 = u64::MAX - 2;
    pub(super) const SELECT: u64 = u64::MAX - 3;
}
use older::{EPOLL_WAIT, PAUSE, POLL, SELECT};

const MSG_WAITALL: u64 = 0x100;
/// Without the flags for private words and the clock.
const FUTEX_COMMAND: u64 = 0x7f;
const FUTEX_WAIT: u64 = 0;
const FUTEX_WAIT_BITSET: u64 = 9;
const TIMER_ABSTIME: u64 = 1;

/// The result of a call that a signal, or our stop, ended.
pub(super) const EINTR: i64 = -4;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_tells_of_a_thread_is_read() {
        let text = format!("{FUTEX} 0x7f0 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd10 0x7f1234\n");
        let call = Call::parse(&text).expect("a call");
        assert_eq!(
            (call.number, call.arguments[1], call.arguments[5]),
            (FUTEX, 0x189, 0xffff_ffff)
        );
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
        let calls = [libc::SYS_write, libc::SYS_sendto, libc::SYS_connect, libc::SYS_splice, 9999];
        for number in calls.map(i64::cast_unsigned) {
            assert_eq!(of(number, none), None, "{number}");
            let call = Call { number, arguments: none, stack: 0, next: 0 };
            assert!(!call.may_begin_again(), "{number}");
        }
        for number in [EPOLL_WAIT, IO_GETEVENTS, IO_URING_ENTER] {
            let call = Call { number, arguments: none, stack: 0, next: 0 };
            assert!(call.may_begin_again(), "{number}");
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
    fn the_kernel_keeps_the_time_of_what_sleeps_relatively() {
        let of = |number, arguments| Call { number, arguments, stack: 0, next: 0 }.has_time_kept();
        assert!(of(NANOSLEEP, [1, 1, 0, 0, 0, 0]) && of(CLOCK_NANOSLEEP, [0, 0, 1, 1, 0, 0]));
        assert!(!of(CLOCK_NANOSLEEP, [0, TIMER_ABSTIME, 1, 1, 0, 0]));
        assert!(of(FUTEX, [1, 0x80, 0, 1, 0, 0]) && !of(FUTEX, [1, 0x80, 0, 0, 0, 0]));
        assert!(!of(READ, [0; 6]));
    }
}
