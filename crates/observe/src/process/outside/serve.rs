//! Has a stopped thread serve a request: tries the candidates, and gives up if another process may
//! be doing the same.
//!
//! Neighbours: [`super::candidates`] lists the threads; [`super::thread`] stops one, and
//! [`super::work`] has it serve.

use super::arch;
use super::candidates::{self, Candidate};
use super::offer::Offer;
use super::outcome::StopOutcome;
use super::stopped::State;
use super::thread::Thread;
use super::work::{ThreadOutcome, work};
use crate::process::memory::{self, Fault, MemoryPart, Writable};
use crate::process::rouse::thread_of;
use nix::errno::Errno;
use nix::libc::user_regs_struct;
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::unistd::Pid;
use slabyard_abi::region::outside as shown;
use std::time::{Duration, Instant};

/// A thread that was stopped serves for so long; then it serves on by itself.
const SERVES_WITHIN: Duration = Duration::from_secs(10);
/// Threads that are stopped, at most, until one serves.
const MOST_TRIES: usize = 4;
/// Least room for the work, below the frame.
const ROOM: u64 = 12 << 10;

/// Has a thread serve what the mailbox has.
pub(crate) fn serve(
    process: Pid,
    memory: &dyn Writable,
    offer: Offer,
) -> Result<StopOutcome, Fault> {
    if has_it_still(process, offer) {
        return Ok(StopOutcome::Taken);
    }
    let _held = HeldSignals::new();
    let mut outcome = StopOutcome::NoThread;
    for candidate in candidates::of(process).into_iter().take(MOST_TRIES) {
        match serve_by(&candidate, memory, offer)? {
            StopOutcome::NoThread => {}
            StopOutcome::Looked => return Ok(StopOutcome::Looked),
            other => outcome = other,
        }
        if matches!(outcome, StopOutcome::Left | StopOutcome::Foreign) {
            break;
        }
    }
    Ok(outcome)
}

/// Signals wait until a thread continues: a command that is stopped, by Ctrl-Z, would keep it.
struct HeldSignals(Option<SigSet>);

impl HeldSignals {
    fn new() -> HeldSignals {
        HeldSignals(SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK).ok())
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        self.0.map(|before| before.thread_set_mask());
    }
}

/// True if a thread that another command stopped may have the memory.
fn has_it_still(process: Pid, offer: Offer) -> bool {
    let Ok(number @ 1..) = u32::try_from(offer.thread) else { return false };
    let Some(thread) = thread_of(process, number) else { return false };
    let is_elsewhere = |stack| !(offer.stack[0]..=offer.stack[1]).contains(&stack);
    candidates::call_of(process, thread).is_none_or(|call| !is_elsewhere(call.stack))
}

fn serve_by(
    candidate: &Candidate,
    memory: &dyn Writable,
    offer: Offer,
) -> Result<StopOutcome, Fault> {
    if !is_made_as_usual(candidate, memory)? {
        return Ok(StopOutcome::NoThread);
    }
    let thread = match Thread::stop(candidate.thread) {
        Ok(Some(thread)) => thread,
        Ok(None) => return Ok(StopOutcome::NoThread),
        Err(Errno::ESRCH) => return Ok(StopOutcome::NoThread),
        Err(_) => return Ok(StopOutcome::Denied),
    };
    let Some((registers, interrupted)) = arch::interrupted(&thread, candidate) else {
        return Ok(StopOutcome::NoThread);
    };
    // A call that has ended by our stop alone is begun again.
    let without_work = |outcome| {
        if interrupted.is_ended {
            thread.set_registers(&arch::at_call(&registers, interrupted));
        }
        Ok(outcome)
    };
    if arch::has_more(&thread) || !has_own_memory(&thread, &registers, memory)? {
        return without_work(StopOutcome::NoThread);
    }
    let (Some(mask), Some(floating)) = (thread.mask(), thread.register_set(arch::FLOATING)) else {
        return without_work(StopOutcome::NoThread);
    };
    let state = State { registers, mask, floating };
    let lasting = State {
        registers: arch::at_call(&state.registers, interrupted),
        mask: state.mask,
        floating: state.floating.clone(),
    };
    let frame = arch::frame_below(offer.stack[1], &lasting)
        .filter(|frame| offer.stack[0].checked_add(ROOM).is_some_and(|least| least <= frame.at));
    let has_thread = |number: u64| memory.write(&[offer.thread_at()], &number.to_le_bytes());
    let written = frame.filter(|frame| {
        has_thread(candidate.number.into()).is_ok()
            && memory.write(&[frame.at], &frame.bytes).is_ok()
    });
    let Some(frame) = written else { return without_work(StopOutcome::None) };
    let end = Instant::now() + SERVES_WITHIN;
    let worked = work(&thread, (&state, interrupted), (offer.entry, frame.at), end);
    Ok(match worked {
        ThreadOutcome::Left => StopOutcome::Left,
        ThreadOutcome::Gone => return Err(Fault::Gone),
        ThreadOutcome::Done(outcome) => {
            has_thread(0)?;
            match outcome {
                shown::FOREIGN => StopOutcome::Foreign,
                shown::LOOKED => StopOutcome::Looked,
                // Another thread may be able to.
                _ => StopOutcome::NoThread,
            }
        }
    })
}

/// True if the call was made by the instruction that makes calls.
fn is_made_as_usual(candidate: &Candidate, memory: &dyn Writable) -> Result<bool, Fault> {
    let before = (arch::SYSCALL.len() as u64).wrapping_neg();
    let found = bytes_at(memory, candidate.call.next.wrapping_add(before), arch::SYSCALL.len())?;
    Ok(found.is_some_and(|found| found == arch::SYSCALL))
}

/// True if a thread has memory of its own, as each thread has that the C library made.
fn has_own_memory(
    thread: &Thread,
    registers: &user_regs_struct,
    memory: &dyn Writable,
) -> Result<bool, Fault> {
    let Some((at, holds)) = arch::own_memory(thread, registers) else { return Ok(false) };
    let found = bytes_at(memory, at, size_of::<u64>())?;
    Ok(found.is_some_and(|found| holds.is_none_or(|holds| found == holds.to_le_bytes())))
}

/// The bytes that memory has there, if there is any.
fn bytes_at(memory: &dyn Writable, address: u64, bytes: usize) -> Result<Option<Vec<u8>>, Fault> {
    match memory::read(memory, &[MemoryPart { address, bytes }]) {
        Ok(found) => Ok(Some(found)),
        Err(Fault::Absent(_)) => Ok(None),
        Err(why) => Err(why),
    }
}
