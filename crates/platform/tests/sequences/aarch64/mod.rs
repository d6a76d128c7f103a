//! What the check needs to know of aarch64: where instructions begin, breakpoints, the program
//! counter.

use super::Descriptor;
use std::arch::asm;
use std::ptr;

pub mod planted;

/// Bytes of a breakpoint's instruction that are executed before its signal comes.
pub const BREAKPOINT: usize = 0;

const BRK: u32 = 0xd420_0000;
const RET: u32 = 0xd65f_03c0;

/// Where `adrp` and the `add` behind it lead, if these two words are such a pair (Arm Architecture
/// Reference Manual, C6.2: ADRP; ADD, immediate).
fn pair(at: usize, first: u32, second: u32) -> Option<usize> {
    if first & 0x9f00_0000 != 0x9000_0000 || second & 0xffc0_0000 != 0x9100_0000 {
        return None;
    }
    let pages = (first >> 5 & 0x7_ffff) << 2 | first >> 29 & 3;
    // 21 bits, signed.
    let pages = (pages << 11).cast_signed() as isize >> 11;
    let page = (at & !0xfff).wrapping_add_signed(pages << 12);
    Some(page + (second >> 10 & 0xfff) as usize)
}

/// The instructions of a function up to its first return, and the descriptor that it announces.
pub fn decode(code: usize, bytes: &[u8]) -> (Vec<usize>, Option<*const Descriptor>) {
    let words = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
    let words: Vec<_> = words.collect();
    let end = words.iter().position(|word| *word == RET).expect("a return");
    let instructions: Vec<_> = (0..=end).map(|nth| code + nth * 4).collect();
    let descriptor = instructions.iter().zip(words.windows(2)).find_map(|(at, words)| {
        pair(*at, words[0], words[1]).map(|address| address as *const Descriptor)
    });
    (instructions, descriptor)
}

/// Writes an instruction, and makes sure that it is what is executed from now on (the manual's
/// B2.7.4.2: coherency of instruction and data caches).
unsafe fn write(address: usize, instruction: u32) {
    // SAFETY: the caller's promise: writable text.
    unsafe {
        ptr::write_volatile(address as *mut u32, instruction);
        asm!(
            "dc cvau, {0}",
            "dsb ish",
            "ic ivau, {0}",
            "dsb ish",
            "isb",
            in(reg) address,
            options(nostack),
        );
    }
}

/// Plants a breakpoint; returns what it replaced.
///
/// # Safety
/// The text there is writable.
pub unsafe fn plant(address: usize) -> u32 {
    // SAFETY: the caller's promise.
    unsafe {
        let replaced = ptr::read_volatile(address as *const u32);
        write(address, BRK);
        replaced
    }
}

/// Puts back what was there.
///
/// # Safety
/// As [`plant`].
pub unsafe fn take_out(address: usize, replaced: u32) {
    // SAFETY: the caller's promise.
    unsafe { write(address, replaced) };
}

/// Where the interrupted thread continues.
pub fn program_counter(context: &mut libc::ucontext_t) -> &mut usize {
    let register = &raw mut context.uc_mcontext.pc;
    // SAFETY: a word of the same size, and borrowed as long.
    unsafe { &mut *register.cast::<usize>() }
}
