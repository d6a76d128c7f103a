//! qemu's machine `virt` for riscv, in machine mode: without firmware or an OS.
//!
//! The first instruction is at the start of memory. All CPUs except the first sleep. The serial
//! line is a 16550 at 0x1000_0000; a word written to 0x10_0000 ends the machine.

use core::arch::{asm, global_asm};
use core::fmt;

global_asm!(
    ".section .text.start",
    ".globl _start",
    "_start:",
    "csrr t0, mhartid",
    "bnez t0, 2f",
    "la sp, __stack_top",
    "la t0, 4f",
    "csrw mtvec, t0",
    "la t0, __bss_begin",
    "la t1, __bss_end",
    "1: bgeu t0, t1, 3f",
    "sw zero, 0(t0)",
    "addi t0, t0, 4",
    "j 1b",
    "3: call {main}",
    "2: wfi",
    "j 2b",
    // A vector is aligned to 4 bytes.
    ".balign 4",
    "4: j {trap}",
    trap = sym trap,
    main = sym main,
);

const SERIAL: *mut u8 = 0x1000_0000 as *mut u8;
const TEST_DEVICE: *mut u32 = 0x10_0000 as *mut u32;
const PASS: u32 = 0x5555;
const FAIL: u32 = 0x1_3333;

unsafe extern "Rust" {
    /// The program. Called once.
    safe fn image() -> bool;
}

/// The serial line.
pub struct Serial;

impl fmt::Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // SAFETY: the machine's serial line, whose buffer qemu empties at once.
            unsafe { SERIAL.write_volatile(byte) };
        }
        Ok(())
    }
}

/// Instructions executed so far: exact under `-icount shift=0`.
#[must_use]
pub fn instructions() -> Option<u64> {
    let count: usize;
    // SAFETY: it reads a counter.
    unsafe { asm!("csrr {}, minstret", out(reg) count) };
    Some(count as u64)
}

/// Ends the machine: it failed.
pub(super) fn fail() -> ! {
    end(FAIL)
}

fn end(word: u32) -> ! {
    // SAFETY: the machine's test device.
    unsafe { TEST_DEVICE.write_volatile(word) };
    loop {
        core::hint::spin_loop();
    }
}

extern "C" fn main() -> ! {
    end(if image() { PASS } else { FAIL })
}

extern "C" fn trap() -> ! {
    let _ = fmt::Write::write_str(&mut Serial, "FAILED: a trap\n");
    fail()
}
