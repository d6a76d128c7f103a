//! How an image starts and ends: the first instructions of its machine, the serial line, the exit.
//! A program defines `image`, which returns whether everything passed.
//!
//! `virt` is qemu's machine for riscv, `pc` its PC; for other machines an image can be built to
//! measure its size, but has no serial line.

#[cfg(not(any(target_arch = "riscv32", target_arch = "riscv64", target_arch = "x86_64")))]
mod other;
#[cfg(target_arch = "x86_64")]
mod pc;
#[cfg(any(target_arch = "riscv32", target_arch = "riscv64"))]
mod virt;

#[cfg(not(any(target_arch = "riscv32", target_arch = "riscv64", target_arch = "x86_64")))]
use other as machine;
#[cfg(target_arch = "x86_64")]
use pc as machine;
#[cfg(any(target_arch = "riscv32", target_arch = "riscv64"))]
use virt as machine;

pub use machine::{Serial, instructions};

use core::fmt::Write;

/// Says what failed, without the code that makes texts of numbers, and ends the machine.
fn fails(texts: &[&str]) -> ! {
    for text in ["FAILED: "].iter().chain(texts).chain(&["\n"]) {
        let _ = Serial.write_str(text);
    }
    machine::fail()
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    fails(&["a panic in ", info.location().map_or("", |at| at.file())])
}
