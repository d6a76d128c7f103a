//! The fast paths on x86-64.

use crate::malloc::Malloc;
use crate::malloc::counting;
use core::ffi::c_void;

// The alignment at a function's end is its section's, and so its begin's.

/// The text of a push by what the library's stacks take, after the texts below.
#[doc(hidden)]
#[macro_export]
macro_rules! push_text {
    (each) => {
        ::slabyard::rseq_push!("rsi")
    };
    (each sized) => {
        ::slabyard::rseq_push!("r8")
    };
    (tagged) => {
        ::slabyard::rseq_push_if!("rsi", "eax", "rax", "r8")
    };
    (tagged sized) => {
        ::slabyard::rseq_push_if!("r8", "eax", "rax", "r10")
    };
}

/// The body of `name(size)`: the class's slot from the table, then pop.
#[doc(hidden)]
#[macro_export]
macro_rules! pop_by_size {
    ($slow:path) => {
        ::core::arch::naked_asm!(
            "lea rsi, [rip + {fast}]",
            "cmp rdi, qword ptr [rsi + {limit}]",
            "jae 29f",
            "lea eax, [rdi + 15]",
            "shr eax, 4",
            "mov rdx, qword ptr [rsi + {cs}]",
            ::slabyard::rseq_announce!(),
            "mov cx, word ptr [rsi + rax * 2 + {table}]",
            "mov rsi, qword ptr [rsi + {rows}]",
            ::slabyard::rseq_pop!("eax"),
            "ret",
            "29: jmp {slow}",
            ".p2align 6",
            fast = sym $crate::state::FAST,
            slow = sym $slow,
            limit = const $crate::state::at::LIMIT,
            table = const $crate::state::at::TABLE,
            cs = const $crate::state::at::CS_OFFSET,
            rows = const $crate::state::at::ROWS,
        )
    };
}

/// The body of [`counting`]'s `name(size)`: counts the size off the thread's gap, then is as `malloc`.
#[doc(hidden)]
#[macro_export]
macro_rules! count_and_pop {
    ($slow:path) => {
        ::core::arch::naked_asm!(
            "cmp rdi, qword ptr [rip + {counted}]",
            "jae 29f",
            "mov r8, qword ptr [rip + slabyard_gap@GOTTPOFF]",
            "sub dword ptr fs:[r8 + {left}], edi",
            "jle 29f",
            "lea rsi, [rip + {fast}]",
            "lea eax, [rdi + 15]",
            "shr eax, 4",
            "mov rdx, qword ptr [rsi + {cs}]",
            ::slabyard::rseq_announce!(),
            "mov cx, word ptr [rsi + rax * 2 + {table}]",
            "mov rsi, qword ptr [rsi + {rows}]",
            ::slabyard::rseq_pop!("eax"),
            "ret",
            "29: jmp {slow}",
            counted = sym $crate::control::COUNTED,
            left = const $crate::profile::left::LEFT_AT,
            fast = sym $crate::state::FAST,
            slow = sym $slow,
            table = const $crate::state::at::TABLE,
            cs = const $crate::state::at::CS_OFFSET,
            rows = const $crate::state::at::ROWS,
        )
    };
}

/// The body of `name(pointer, ...)`: the slot from the page map, then push. Further
/// arguments (alignment, nothrow) are not needed. Scratch registers of the push are `eax` and `r8`.
#[doc(hidden)]
#[macro_export]
macro_rules! push_by_address {
    ($slow:path, $takes:ident) => {
        ::core::arch::naked_asm!(
            "mov rax, rdi",
            "sub rax, qword ptr [rip + {fast} + {base}]",
            "test qword ptr [rip + {fast} + {mask}], rax",
            "jne 29f",
            "shr rax, 12",
            "mov r8, qword ptr [rip + {fast} + {map}]",
            "mov rsi, qword ptr [rip + {fast} + {rows}]",
            "mov rdx, qword ptr [rip + {fast} + {cs}]",
            ::slabyard::rseq_announce!(),
            "dec dword ptr [rsi + rcx + {frees}]",
            "js 29f",
            "mov cx, word ptr [r8 + rax * 2]",
            $crate::push_text!($takes),
            "ret",
            "29: jmp {slow}",
            ".p2align 6",
            fast = sym $crate::state::FAST,
            slow = sym $slow,
            base = const $crate::state::at::BASE,
            mask = const $crate::state::at::MASK,
            map = const $crate::state::at::MAP,
            frees = const ::slabyard::platform::stack::COUNTDOWN_AT,
            cs = const $crate::state::at::CS_OFFSET,
            rows = const $crate::state::at::ROWS,
        )
    };
}

/// The body of `name(pointer, size)`: as that of `free`, and the size must be of the same class.
/// It is compared with the largest class, not with the limit, which a profile sets to 0.
/// Scratch registers of the push are `eax` and `r10`.
#[doc(hidden)]
#[macro_export]
macro_rules! push_by_address_and_size {
    ($slow:path, $takes:ident) => {
        ::core::arch::naked_asm!(
            "lea r8, [rip + {fast}]",
            "mov rax, rdi",
            "sub rax, qword ptr [r8 + {base}]",
            "test qword ptr [r8 + {mask}], rax",
            "jne 29f",
            "cmp rsi, {beyond}",
            "jae 29f",
            "shr rax, 12",
            "mov rdx, qword ptr [r8 + {map}]",
            "movzx r10d, word ptr [rdx + rax * 2]",
            "lea eax, [rsi + 15]",
            "shr eax, 4",
            "cmp r10w, word ptr [r8 + rax * 2 + {table}]",
            "jne 29f",
            "mov rdx, qword ptr [r8 + {cs}]",
            "mov r8, qword ptr [r8 + {rows}]",
            ::slabyard::rseq_announce!(),
            "dec dword ptr [r8 + rcx + {frees}]",
            "js 29f",
            "mov cx, r10w",
            $crate::push_text!($takes sized),
            "ret",
            "29: jmp {slow}",
            ".p2align 6",
            fast = sym $crate::state::FAST,
            table = const $crate::state::at::TABLE,
            slow = sym $slow,
            base = const $crate::state::at::BASE,
            mask = const $crate::state::at::MASK,
            beyond = const ::slabyard::cache::classes::LARGEST + 1,
            map = const $crate::state::at::MAP,
            frees = const ::slabyard::platform::stack::COUNTDOWN_AT,
            cs = const $crate::state::at::CS_OFFSET,
            rows = const $crate::state::at::ROWS,
        )
    };
}

/// `malloc` under a name of our own, for the library's other functions: our `calloc` must
/// not call a `malloc` that another library defines.
#[unsafe(naked)]
pub extern "C" fn own_malloc<L: Malloc>(_bytes: usize) -> *mut c_void {
    crate::pop_by_size!(counting::malloc::<L>)
}
