//! The `malloc` of a profile: counts the request's bytes off the thread's gap, then pops as the
//! fast path does.
//!
//! The fast path jumps here where its size is not below the limit, which is 0 while a profile is
//! on. A thread that has drawn no gap has 0 bytes left, and so goes to the slow path.
//! Without a profile this costs a slow `malloc` two instructions.
//! A `sub` of one instruction is whole for a signal handler of its thread.

use super::Malloc;
use super::slow::malloc_slow;
use super::throw::{new_nothrow_slow, new_or_throw};
use crate::control::COUNTED;
use crate::profile::left::LEFT_AT;
use core::arch::naked_asm;
use core::ffi::c_void;

macro_rules! counting {
    ($($(#[$doc:meta])* $name:ident $([const $maker:ident: u8])? => $slow:ident;)*) => {$(
        $(#[$doc])*
        #[unsafe(naked)]
        pub extern "C" fn $name<L: Malloc $(, const $maker: u8)?>(_bytes: usize) -> *mut c_void {
            naked_asm!(
                "cmp rdi, qword ptr [rip + {counted}]",
                "jae 29f",
                "mov r8, qword ptr [rip + slabyard_gap@GOTTPOFF]",
                "sub dword ptr fs:[r8 + {left}], edi",
                "jle 29f",
                "lea rsi, [rip + {fast}]",
                "lea eax, [rdi + 15]",
                "shr eax, 4",
                "mov rdx, qword ptr [rsi + {cs}]",
                slabyard::rseq_announce!(),
                "mov cx, word ptr [rsi + rax * 2 + {table}]",
                "mov rsi, qword ptr [rsi + {rows}]",
                slabyard::rseq_pop!("eax"),
                "ret",
                "29: jmp {slow}",
                counted = sym COUNTED,
                left = const LEFT_AT,
                fast = sym crate::state::FAST,
                slow = sym $slow::<L $(, $maker)?>,
                table = const crate::state::at::TABLE,
                cs = const crate::state::at::CS_OFFSET,
                rows = const crate::state::at::ROWS,
            )
        }
    )*};
}

counting! {
    /// In front of [`malloc_slow`].
    malloc => malloc_slow;
    /// In front of [`new_nothrow_slow`].
    new_nothrow [const MAKER: u8] => new_nothrow_slow;
    /// In front of [`new_or_throw`].
    new_throwing [const MAKER: u8] => new_or_throw;
}
