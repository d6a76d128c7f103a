//! The fast path of `malloc`, `free` and the C++ operators.
//!
//! On x86-64 the exported functions are themselves the restartable sequences (rseq), whose assembly
//! text is in `slabyard::platform::rseq`. An uninterrupted `malloc` takes 18 instructions, a `free`
//! 23: 2 of these catch a double free of the most recently freed object, and 2 count down to the
//! next periodic slow path. Neither has a locked instruction, and each has one committing store.
//! `malloc` fits in one cache line of 64 bytes, `free` in two: one more line costs more time than
//! five instructions do. `ci/golden` pins both.
//!
//! Removing the announcement of the sequence, the region test or the double-free test had no
//! measurable effect. Moving a `ret` out of the next cache line did: 0.96 of mimalloc's time
//! instead of 0.985 (59eeeb3). The sequence tests only the low half of the popped address for 0,
//! which saves the last byte of the line. So an object at a multiple of 4 GiB takes the slow path.
//!
//! The assembly text is in macros here; [`crate::malloc_functions`] expands them in each library.
//! Each library has its own push, because some engines' stacks accept only the objects of one slab.
//!
//! Detecting misaligned, foreign and null pointers costs `free` nothing extra: one test checks
//! whether the distance from the region's base has a bit that no object's distance has.

#[cfg(not(target_arch = "x86_64"))]
pub use plain::{alloc_or, free_or, own_malloc};
#[cfg(target_arch = "x86_64")]
pub use sequence::own_malloc;

#[cfg(target_arch = "x86_64")]
mod sequence {
    use crate::malloc::Malloc;
    use crate::malloc::counting;
    use core::ffi::c_void;

    // The alignment at a function's end is its section's, and so its begin's.

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

    /// The body of `name(pointer, ...)`: the slot from the page map, then push. Further
    /// arguments (alignment, nothrow) are not needed. Scratch registers of the push are `eax` and `r8`.
    #[doc(hidden)]
    #[macro_export]
    macro_rules! push_by_address {
        ($slow:path, $($push:tt)*) => {
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
                $($push)*,
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
        ($slow:path, $($push:tt)*) => {
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
                $($push)*,
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
}

#[cfg(not(target_arch = "x86_64"))]
mod plain {
    use crate::debug;
    use crate::malloc::Malloc;
    use crate::malloc::slow::malloc_slow;
    use crate::state::ready;
    use core::ffi::c_void;

    /// Allocates by the fast path, else by the function given.
    #[inline(always)]
    pub fn alloc_or<L: Malloc>(
        bytes: usize,
        slow: extern "C" fn(usize) -> *mut c_void,
    ) -> *mut c_void {
        if L::DEBUGS && debug::is_on() {
            return slow(bytes);
        }
        if ready()
            && let Some(address) = L::yard().alloc_fast(bytes, 16)
        {
            return address as *mut c_void;
        }
        slow(bytes)
    }

    /// Frees by the fast path, else by the function given.
    #[inline(always)]
    pub fn free_or<L: Malloc>(pointer: *mut c_void, slow: extern "C" fn(*mut c_void)) {
        if pointer.is_null() || !ready() {
            return;
        }
        if L::DEBUGS && debug::is_on() {
            return slow(pointer);
        }
        if L::yard().free_fast(pointer as usize).is_err() {
            slow(pointer);
        }
    }

    /// `malloc` under a name of our own, for the library's other functions.
    pub extern "C" fn own_malloc<L: Malloc>(bytes: usize) -> *mut c_void {
        alloc_or::<L>(bytes, malloc_slow::<L>)
    }
}
