//! qemu's PC, without an OS: entered in 32-bit mode through the PVH note, with 1 GiB of addresses
//! identity-mapped. The serial line is a 16550 at port 0x3f8; a write to port 0xf4 ends the machine
//! (`-device isa-debug-exit`).

use core::arch::{asm, global_asm};
use core::fmt;

global_asm!(
    // XEN_ELFNOTE_PHYS32_ENTRY: the entry's address.
    ".pushsection .note.Xen, \"a\", @note",
    ".balign 4",
    ".long 4, 4, 18",
    ".asciz \"Xen\"",
    ".long _start",
    ".popsection",
    ".pushsection .bss",
    ".balign 4096",
    "2: .skip 3 * 4096",
    ".popsection",
    ".pushsection .text.start, \"ax\"",
    ".code32",
    ".globl _start",
    "_start:",
    "cli",
    "movl $__stack_top, %esp",
    // Three levels of tables: one entry, one entry, 512 pages of 2 MiB.
    "movl $2b, %edi",
    "leal 0x1003(%edi), %eax",
    "movl %eax, (%edi)",
    "leal 0x2003(%edi), %eax",
    "movl %eax, 0x1000(%edi)",
    "movl $0x83, %eax",
    "xorl %ecx, %ecx",
    "3: movl %eax, 0x2000(%edi, %ecx, 8)",
    "addl $0x200000, %eax",
    "incl %ecx",
    "cmpl $512, %ecx",
    "jne 3b",
    "movl %edi, %cr3",
    // PAE; long mode; paging.
    "movl %cr4, %eax",
    "orl $0x20, %eax",
    "movl %eax, %cr4",
    "movl $0xc0000080, %ecx",
    "rdmsr",
    "orl $0x100, %eax",
    "wrmsr",
    "movl %cr0, %eax",
    "orl $0x80000001, %eax",
    "movl %eax, %cr0",
    "lgdtl 5f",
    "ljmpl $8, $4f",
    ".code64",
    "4: xorl %eax, %eax",
    "movl %eax, %ds",
    "movl %eax, %es",
    "movl %eax, %ss",
    "call {main}",
    "hlt",
    ".balign 8",
    "6: .quad 0, 0x00af9b000000ffff",
    "5: .short 15",
    ".long 6b",
    ".popsection",
    main = sym main,
    options(att_syntax),
);

const SERIAL: u16 = 0x3f8;
const END: u16 = 0xf4;

/// What is written to end the machine: qemu exits with twice as much and one.
const PASS: u8 = 0x10;
const FAIL: u8 = 0x11;

unsafe extern "Rust" {
    /// The program. Called once.
    safe fn image() -> bool;
}

/// The serial line.
pub struct Serial;

fn write(port: u16, byte: u8) {
    // SAFETY: ports of the serial line and of the device that ends the machine.
    unsafe { asm!("out dx, al", in("dx") port, in("al") byte, options(nomem, nostack)) };
}

impl fmt::Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| write(SERIAL, byte));
        Ok(())
    }
}

/// Nobody counts instructions here.
#[must_use]
pub fn instructions() -> Option<u64> {
    None
}

/// Ends the machine: it failed.
pub(super) fn fail() -> ! {
    end(FAIL)
}

fn end(byte: u8) -> ! {
    write(END, byte);
    loop {
        core::hint::spin_loop();
    }
}

extern "C" fn main() -> ! {
    end(if image() { PASS } else { FAIL })
}
