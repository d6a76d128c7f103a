//! The work of a thread that another process stopped in a waiting system call: the thread serves
//! the mailbox, on a separate stack, and then waits again (`abi::region::outside`).
//!
//! The other process chooses a thread that waits in a system call, saves its registers, and resumes
//! it at [`begin`]; `slabyard_observe::process` does this. The thread's own stack is not touched:
//! it may be small, or its red zone may be in use. The work ends with rt_sigreturn(2) on a signal
//! frame that the other process wrote, so the thread's state is restored even if the other process
//! is gone.
//!
//! Tried and rejected: ending with a trap, because a trap kills the thread if the tracer is gone;
//! letting `epoll_wait` end with EINTR, although no signal came; and detaching while such a call
//! starts.
//!
//! Neighbours: [`slabyard::calls::help::answer_outside`] serves the request; [`crate::helper`] is
//! the other thread that can serve. Invariant: nothing here takes a lock of the C library, and
//! `errno` is unchanged.

use crate::errno::keeping_errno;
use crate::library::Library;
use core::arch::naked_asm;
use core::cell::UnsafeCell;
use slabyard::calls::help;
use slabyard::mail::header;
use slabyard::sync::{AtomicU64, Ordering};
use slabyard_abi::region::{Word, outside as shown};

/// Bytes of the memory: the frame has all registers, of which AMX alone has 8 KiB, and a request
/// takes at most 4 KiB.
const STACK_BYTES: usize = 32 << 10;

#[repr(C, align(64))]
struct Stack(UnsafeCell<[u8; STACK_BYTES]>);

// SAFETY: the library itself never reads or writes it; one thread at a time has it as its stack.
unsafe impl Sync for Stack {}

static STACK: Stack = Stack(UnsafeCell::new([0; STACK_BYTES]));
static SHOWN: [AtomicU64; shown::WORDS] = [const { AtomicU64::new(0) }; shown::WORDS];

/// Shows them to other processes. The yard is published.
pub(crate) fn show<L: Library>() {
    let words = [begin::<L> as *const () as usize, STACK.0.get() as usize, STACK_BYTES];
    for (to, word) in SHOWN.iter().zip(words) {
        to.store(word as u64, Ordering::Relaxed);
    }
    header::publish_word(L::yard(), Word::Outside, SHOWN.as_ptr() as u64);
}

/// In the child of a fork, where no thread has the memory.
pub(crate) fn after_fork() {
    // The page is written to only where a thread was at it.
    if SHOWN[shown::THREAD].load(Ordering::Relaxed) != 0 {
        SHOWN[shown::THREAD].store(0, Ordering::Relaxed);
    }
}

extern "C" fn serve<L: Library>() -> u64 {
    keeping_errno(|| help::answer_outside(L::yard()))
}

/// The stack pointer is at the frame's context, a multiple of 16.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn begin<L: Library>() -> ! {
    naked_asm!(
        "call {serve}",
        "mov rbx, rax",
        "mov eax, {rt_sigreturn}",
        "syscall",
        "ud2",
        serve = sym serve::<L>,
        rt_sigreturn = const 15,
    )
}

/// The stack pointer is at the frame, a multiple of 16. Where the other process makes the last call
/// another one, that one's restart has the first argument that is here in `x0`, and `x7` as it is here;
/// if that process goes away before it has written the registers, the call is made once more.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
extern "C" fn begin<L: Library>() -> ! {
    naked_asm!(
        "bl {serve}",
        "mov x19, x0",
        "2: ldr x0, [sp, #{registers}]",
        "ldr x7, [sp, #{registers} + 7 * 8]",
        "mov x8, #{rt_sigreturn}",
        "svc #0",
        "b 2b",
        serve = sym serve::<L>,
        registers = const shown::ARM64_REGISTERS,
        rt_sigreturn = const 139,
    )
}
