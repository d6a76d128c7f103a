//! Threads of aarch64: their registers, as they are in a call, at work and after it.
//!
//! A thread that stops in a call shows other registers than on x86-64: where the kernel will make the
//! call again, they are those with which the thread made it, at its instruction. So what the call's
//! result was is not known, and not whether the kernel makes another one (`restart_syscall`), which it
//! decides when the thread goes on. We let it go on, to the begin of that call, where its number is in a
//! register, and stop it again. A call that ended with EINTR has lost its first argument: it is the one
//! that `/proc` told, if the thread has slept once since, where we stopped it, and the other arguments
//! are those. Else it has ended with EINTR, as by SIGSTOP and SIGCONT (signal(7)).
//!
//! At a call's begin and end, a tracer sees which of both it is in place of `x7`, and writes nothing
//! there (`arch/arm64/kernel/ptrace.c`); what the kernel begins again has the first argument that `x0` had
//! as the thread made the call. So the work has both from the frame before its last call.

mod frame;

pub(crate) use frame::frame_below;

use crate::process::outside::calls::{Call, EINTR, RESTART_SYSCALL, SyscallRestart};
use crate::process::outside::candidates::{self, Candidate};
use crate::process::outside::stopped::State;
use crate::process::outside::thread::{STOPS_WITHIN, Thread};
use nix::libc::{self, user_regs_struct};
use nix::sys::wait::WaitStatus;
use std::time::Instant;

/// The instruction that makes a call: `svc #0`.
pub(crate) const SYSCALL: [u8; 4] = [0x01, 0x00, 0x00, 0xd4];

/// The set of registers beside the general ones (NT_PRFPREG): those beyond, of SVE, a call loses.
pub(crate) const FLOATING: usize = 2;
// Other sets.
const NT_ARM_TLS: usize = 0x401;
const NT_ARM_SYSTEM_CALL: usize = 0x404;
const NT_ARM_ZA: usize = 0x40c;
const NT_ARM_GCS: usize = 0x410;

const RT_SIGRETURN: u64 = libc::SYS_rt_sigreturn.cast_unsigned();
const NO_CALL: u64 = u64::MAX;
/// What is in `x7` as a call begins.
const BEGINS: u64 = 0;
/// Registers by their use: the number of a call, where the work leaves its result, the frame, and the
/// address of the caller.
const NUMBER: usize = 8;
const RESULT: usize = 19;
const FRAME: usize = 29;
const LINK: usize = 30;
/// A sleep that began between a look and a stop is made again once before the kernel says how.
const MOST_ROUNDS: usize = 3;

/// The registers behind the candidate's call, with its first argument in the place of a result, and how it
/// is made again; `None` if the thread is not in it.
pub(crate) fn interrupted(
    thread: &Thread,
    candidate: &Candidate,
) -> Option<(user_regs_struct, SyscallRestart)> {
    let call = &candidate.call;
    let at = call.next.wrapping_sub(SYSCALL.len() as u64);
    let mut registers = thread.registers()?;
    let restart = |number, is_ended| SyscallRestart {
        number,
        is_lasting: number != RESTART_SYSCALL,
        is_ended,
    };
    if registers.pc == call.next {
        let is_ours = registers.regs[NUMBER] == call.number
            && registers.regs[0] == EINTR.cast_unsigned()
            && registers.regs[1..6] == call.arguments[1..]
            && candidates::sleeps_of(candidate.thread) == Some(candidate.sleeps + 1);
        registers.regs[0] = call.arguments[0];
        return is_ours.then_some((registers, restart(call.number, true)));
    }
    if registers.pc != at || ![call.number, RESTART_SYSCALL].contains(&registers.regs[NUMBER]) {
        return None;
    }
    for _ in 0..MOST_ROUNDS {
        let begins = thread.run_to_call(Instant::now() + STOPS_WITHIN);
        if !matches!(begins, Some(WaitStatus::PtraceSyscall(_))) {
            return None;
        }
        let number = thread.registers()?.regs[NUMBER];
        if !thread.stop_again() {
            return None;
        }
        let now = thread.registers()?;
        if now.pc != at {
            if now.pc == call.next && now.regs[0] == EINTR.cast_unsigned() {
                registers.pc = at;
                thread.set_registers(&registers);
            }
            return None;
        }
        registers = now;
        let made = Call { arguments: *now.regs.first_chunk().expect("six of them"), ..*call };
        if number == RESTART_SYSCALL || !made.has_time_kept() && made.goes_on().is_some() {
            registers.pc = call.next;
            return Some((registers, restart(number, false)));
        }
    }
    None
}

/// True if the thread has what no frame of ours restores: matrices of SME, which a call keeps, or a
/// guarded stack of return addresses, on which rt_sigreturn would want a token.
pub(crate) fn has_more(thread: &Thread) -> bool {
    /// Bytes of a set without any matrix: what says that there is none.
    const HEADER: usize = 16;
    let has_matrices = thread.register_set(NT_ARM_ZA).is_some_and(|set| set.len() > HEADER);
    let is_on = |set: Vec<u8>| set.iter().take(8).any(|byte| *byte != 0);
    has_matrices || thread.register_set(NT_ARM_GCS).is_some_and(is_on)
}

/// The registers with which the thread makes its call by itself, or, where only the kernel could
/// have continued it, has it end as an interrupted one.
pub(crate) fn at_call(
    registers: &user_regs_struct,
    interrupted: SyscallRestart,
) -> user_regs_struct {
    let mut registers = *registers;
    if interrupted.is_lasting {
        registers.pc -= SYSCALL.len() as u64;
        registers.regs[NUMBER] = interrupted.number;
    } else {
        registers.regs[0] = EINTR.cast_unsigned();
    }
    registers
}

/// The registers with which it begins to work.
pub(crate) fn at_work(registers: &user_regs_struct, entry: u64, frame_at: u64) -> user_regs_struct {
    let mut registers = *registers;
    (registers.pc, registers.sp) = (entry, frame_at);
    (registers.regs[FRAME], registers.regs[LINK]) = (0, 0);
    registers
}

/// The result of the work, if the thread is about to make the call that ends it.
pub(crate) fn result(now: &user_regs_struct) -> Option<u64> {
    (now.regs[NUMBER] == RT_SIGRETURN && now.regs[7] == BEGINS).then_some(now.regs[RESULT])
}

/// As its call begins that would restore it from the frame: it begins the one in which it was.
///
/// The kernel takes the call's number and the registers by two calls of ours, and after each one that
/// kills us the thread must go on. So the number is meanwhile that of a call without arguments: before the
/// registers are there, it ends, and the work makes its last call once more; after that it ends in place of
/// the thread's own, with EINTR or after what is left of a sleep.
pub(crate) fn go_on(thread: &Thread, state: &State, interrupted: SyscallRestart) {
    let set_call = |number: u64| {
        // As the kernel has it: 32 bits.
        thread.set_register_set(NT_ARM_SYSTEM_CALL, &number.to_le_bytes()[..4]);
    };
    thread.set_register_set(FLOATING, &state.floating);
    thread.set_mask(state.mask);
    if interrupted.is_ended {
        // As we let the thread go, the system looks once for signals, which would end it again: so it
        // makes the call by itself.
        set_call(NO_CALL);
        thread.set_registers(&at_call(&state.registers, interrupted));
    } else {
        set_call(RESTART_SYSCALL);
        thread.set_registers(&state.registers);
        set_call(interrupted.number);
    }
}

/// Where a thread has memory of its own, as each thread has that the C library made. What it holds is the
/// C library's affair.
pub(crate) fn own_memory(thread: &Thread, _: &user_regs_struct) -> Option<(u64, Option<u64>)> {
    let pointer = thread.register_set(NT_ARM_TLS)?;
    let pointer = u64::from_le_bytes(*pointer.first_chunk()?);
    (pointer != 0).then_some((pointer, None))
}
