//! What the check needs to know of x86-64: where instructions begin, breakpoints, the program
//! counter.

use super::Descriptor;
use iced_x86::{Code, Decoder, DecoderOptions};
use std::ptr;

pub mod planted;

/// Bytes of a breakpoint's instruction that are executed before its signal comes.
pub const BREAKPOINT: usize = 1;

/// The instructions of a function up to its first return, and the descriptor that it announces.
pub fn decode(code: usize, bytes: &[u8]) -> (Vec<usize>, Option<*const Descriptor>) {
    let (mut instructions, mut descriptor) = (Vec::new(), None);
    for instruction in Decoder::with_ip(64, bytes, code as u64, DecoderOptions::NONE) {
        assert!(!instruction.is_invalid(), "{code:#x} is not decoded");
        instructions.push(usize::try_from(instruction.ip()).expect("64 bits"));
        if instruction.code() == Code::Lea_r64_m {
            descriptor = Some(instruction.ip_rel_memory_address() as *const Descriptor);
        }
        if instruction.code() == Code::Retnq {
            break;
        }
    }
    (instructions, descriptor)
}

/// Plants a breakpoint; returns what it replaced.
///
/// # Safety
/// The text there is writable.
pub unsafe fn plant(address: usize) -> u32 {
    // SAFETY: the caller's promise.
    unsafe {
        let byte = ptr::read_volatile(address as *const u8);
        ptr::write_volatile(address as *mut u8, 0xcc);
        byte.into()
    }
}

/// Puts back what was there.
///
/// # Safety
/// As [`plant`].
pub unsafe fn take_out(address: usize, replaced: u32) {
    // SAFETY: the caller's promise.
    unsafe { ptr::write_volatile(address as *mut u8, replaced as u8) };
}

/// Where the interrupted thread continues.
pub fn program_counter(context: &mut libc::ucontext_t) -> &mut usize {
    let register = &raw mut context.uc_mcontext.gregs[libc::REG_RIP as usize];
    // SAFETY: a word of the same size, and borrowed as long.
    unsafe { &mut *register.cast::<usize>() }
}
