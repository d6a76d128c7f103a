//! `malloc`, `free` and their C++ names: the fast path.
//!
//! On x86-64 the exported functions are the sequences themselves (text in
//! `slabyard::platform::rseq`). Instructions of an uninterrupted call: `malloc`
//! 18, `free` 23, of which 2 catch a double free of the object that was freed
//! last, and 2 count down to the next periodic slow path; no locked
//! instruction, one committing store. `malloc` is one line of 64
//! bytes, `free` two: a line more costs more time than five instructions do. `ci/golden`
//! pins both.
//!
//! Taking away instructions changed nothing that could be measured: not the announcement of the
//! sequence, not the test for the region, not that for a double free. A `ret` in the next line did,
//! 0.985 of mimalloc's time in place of 0.96 (59eeeb3). For the last byte an object is told from
//! none by the low half of its address, so one at a multiple of 4 GiB takes the slow path.
//!
//! A misaligned, foreign or null pointer costs `free` nothing extra: one test
//! asks whether the distance from the region's base has a bit that no object's has.

pub(crate) use fast::own_malloc;

/// Every function that frees, by `freeing!` and `freeing_sized!` of the place where it stands.
macro_rules! frees {
    () => {
        freeing! {
            free => free_slow,
            cfree => free_slow,
            __libc_free => free_slow,
            _ZdlPv => delete_slow,
            _ZdaPv => delete_array_slow,
            _ZdlPvRKSt9nothrow_t => delete_slow,
            _ZdaPvRKSt9nothrow_t => delete_array_slow,
            _ZdlPvSt11align_val_t => delete_slow,
            _ZdaPvSt11align_val_t => delete_array_slow,
            _ZdlPvSt11align_val_tRKSt9nothrow_t => delete_slow,
            _ZdaPvSt11align_val_tRKSt9nothrow_t => delete_array_slow,
        }
        freeing_sized! {
            free_sized => free_sized_slow,
            _ZdlPvm => delete_sized_slow,
            _ZdaPvm => delete_array_sized_slow,
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod fast {
    use crate::slow::{
        delete_array_sized_slow, delete_array_slow, delete_sized_slow, delete_slow,
        free_sized_slow, free_slow, malloc_slow,
    };
    use crate::state::{FAST, at};
    use crate::throw::{new_array_nothrow_slow, new_array_slow, new_nothrow_slow, new_slow};
    use core::arch::naked_asm;
    use core::ffi::c_void;
    use slabyard::platform::stack::COUNTDOWN_AT;
    use slabyard::{rseq_announce, rseq_pop};

    /// The push of `free`, whose scratch registers are `eax` and `r8`.
    #[cfg(not(any_engine))]
    macro_rules! push {
        () => {
            slabyard::rseq_push!("rsi")
        };
    }
    /// The push of a free with a size, whose scratch registers are `eax` and `r10`.
    #[cfg(not(any_engine))]
    macro_rules! push_sized {
        () => {
            slabyard::rseq_push!("r8")
        };
    }
    // Some engines' stacks take the objects of one slab.
    #[cfg(any_engine)]
    macro_rules! push {
        () => {
            slabyard::rseq_push_if!("rsi", "eax", "rax", "r8")
        };
    }
    #[cfg(any_engine)]
    macro_rules! push_sized {
        () => {
            slabyard::rseq_push_if!("r8", "eax", "rax", "r10")
        };
    }

    // The alignment at a function's end is its section's, and so its begin's.

    /// `name(size)`: the class's slot from the table, then pop.
    macro_rules! allocating {
        ($($(#[$exported:meta])? $name:ident => $slow:ident),* $(,)?) => {$(
            $(#[$exported])?
            #[unsafe(naked)]
            pub(crate) extern "C" fn $name(_bytes: usize) -> *mut c_void {
                naked_asm!(
                    "lea rsi, [rip + {fast}]",
                    "cmp rdi, qword ptr [rsi + {limit}]",
                    "jae 29f",
                    "lea eax, [rdi + 15]",
                    "shr eax, 4",
                    "mov rdx, qword ptr [rsi + {cs}]",
                    rseq_announce!(),
                    "mov cx, word ptr [rsi + rax * 2 + {table}]",
                    "mov rsi, qword ptr [rsi + {rows}]",
                    rseq_pop!("eax"),
                    "ret",
                    "29: jmp {slow}",
                    ".p2align 6",
                    fast = sym FAST,
                    slow = sym $slow,
                    limit = const at::LIMIT,
                    table = const at::TABLE,
                    cs = const at::CS_OFFSET,
                    rows = const at::ROWS,
                )
            }
        )*};
    }

    /// `name(pointer, ...)`: the slot from the page map, then push. Further
    /// arguments (alignment, nothrow) are not needed.
    macro_rules! freeing {
        ($($name:ident => $slow:ident),* $(,)?) => {$(
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            extern "C" fn $name(_pointer: *mut c_void) {
                naked_asm!(
                    "mov rax, rdi",
                    "sub rax, qword ptr [rip + {fast} + {base}]",
                    "test qword ptr [rip + {fast} + {mask}], rax",
                    "jne 29f",
                    "shr rax, 12",
                    "mov r8, qword ptr [rip + {fast} + {map}]",
                    "mov rsi, qword ptr [rip + {fast} + {rows}]",
                    "mov rdx, qword ptr [rip + {fast} + {cs}]",
                    rseq_announce!(),
                    "dec dword ptr [rsi + rcx + {frees}]",
                    "js 29f",
                    "mov cx, word ptr [r8 + rax * 2]",
                    push!(),
                    "ret",
                    "29: jmp {slow}",
                    ".p2align 6",
                    fast = sym FAST,
                    slow = sym $slow,
                    base = const at::BASE,
                    mask = const at::MASK,
                    map = const at::MAP,
                    frees = const COUNTDOWN_AT,
                    cs = const at::CS_OFFSET,
                    rows = const at::ROWS,
                )
            }
        )*};
    }

    /// `name(pointer, size)`: as `free`, and the size must be of the same class.
    macro_rules! freeing_sized {
        ($($name:ident => $slow:ident),* $(,)?) => {$(
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            extern "C" fn $name(_pointer: *mut c_void, _bytes: usize) {
                naked_asm!(
                    "lea r8, [rip + {fast}]",
                    "mov rax, rdi",
                    "sub rax, qword ptr [r8 + {base}]",
                    "test qword ptr [r8 + {mask}], rax",
                    "jne 29f",
                    "cmp rsi, qword ptr [r8 + {limit}]",
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
                    rseq_announce!(),
                    "dec dword ptr [r8 + rcx + {frees}]",
                    "js 29f",
                    "mov cx, r10w",
                    push_sized!(),
                    "ret",
                    "29: jmp {slow}",
                    ".p2align 6",
                    fast = sym FAST,
                    table = const at::TABLE,
                    slow = sym $slow,
                    base = const at::BASE,
                    mask = const at::MASK,
                    limit = const at::LIMIT,
                    map = const at::MAP,
                    frees = const COUNTDOWN_AT,
                    cs = const at::CS_OFFSET,
                    rows = const at::ROWS,
                )
            }
        )*};
    }

    allocating! {
        #[unsafe(no_mangle)] malloc => malloc_slow,
        #[unsafe(no_mangle)] __libc_malloc => malloc_slow,
        #[unsafe(no_mangle)] _Znwm => new_slow,
        #[unsafe(no_mangle)] _Znam => new_array_slow,
        #[unsafe(no_mangle)] _ZnwmRKSt9nothrow_t => new_nothrow_slow,
        #[unsafe(no_mangle)] _ZnamRKSt9nothrow_t => new_array_nothrow_slow,
        // `malloc` under a name of our own, for the library's other functions: our `calloc` must
        // not call a `malloc` that another library defines.
        own_malloc => malloc_slow,
    }
    frees!();
}

#[cfg(not(target_arch = "x86_64"))]
mod fast {
    use crate::slow::{
        delete_array_sized_slow, delete_array_slow, delete_sized_slow, delete_slow,
        free_sized_slow, free_slow, malloc_slow,
    };
    use crate::state::YARD;
    use crate::throw::{new_array_nothrow_slow, new_nothrow_slow};
    use core::ffi::c_void;

    macro_rules! allocating {
        ($($(#[$exported:meta])? $name:ident => $slow:ident),* $(,)?) => {$(
            $(#[$exported])?
            pub(crate) extern "C" fn $name(bytes: usize) -> *mut c_void {
                #[cfg(any_engine)]
                if crate::debug::is_on() {
                    return $slow(bytes);
                }
                if crate::state::ready()
                    && let Some(address) = YARD.alloc_fast(bytes, 16)
                {
                    return address as *mut c_void;
                }
                $slow(bytes)
            }
        )*};
    }
    macro_rules! freeing {
        ($($name:ident => $slow:ident),* $(,)?) => {$(
            #[unsafe(no_mangle)]
            extern "C" fn $name(pointer: *mut c_void) {
                if pointer.is_null() || !crate::state::ready() {
                    return;
                }
                #[cfg(any_engine)]
                if crate::debug::is_on() {
                    return $slow(pointer);
                }
                if YARD.free_fast(pointer as usize).is_err() {
                    $slow(pointer);
                }
            }
        )*};
    }
    macro_rules! freeing_sized {
        ($($name:ident => $slow:ident),* $(,)?) => {$(
            #[unsafe(no_mangle)]
            extern "C" fn $name(pointer: *mut c_void, bytes: usize) {
                $slow(pointer, bytes);
            }
        )*};
    }
    allocating! {
        #[unsafe(no_mangle)] malloc => malloc_slow,
        #[unsafe(no_mangle)] __libc_malloc => malloc_slow,
        #[unsafe(no_mangle)] _ZnwmRKSt9nothrow_t => new_nothrow_slow,
        #[unsafe(no_mangle)] _ZnamRKSt9nothrow_t => new_array_nothrow_slow,
        own_malloc => malloc_slow,
    }
    frees!();
}
