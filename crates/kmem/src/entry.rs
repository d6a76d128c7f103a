//! The fast path of `slabyard_cache_alloc` and `slabyard_cache_free`.
//!
//! On x86-64 and aarch64 these functions are themselves the restartable sequences (rseq), whose assembly text
//! is in `slabyard::platform::rseq`; `ci/golden` pins them. An allocation reads the slot of the
//! cache's stack from the handle, and pops. A free first checks, by one comparison with the page
//! map, that the object's slab belongs to this cache, so that no object gets into another cache's
//! sheaf. A free takes the slot from the handle, too, and only compares the map's entry with it. So
//! when a free directly follows its allocation, its only chain of dependent loads goes through the
//! stack's top.
//!
//! No cache of this library has CPU slabs, so pushes need no further check of the object's slab.

#[cfg(target_arch = "x86_64")]
mod fast {
    use crate::handles::Handle;
    use crate::slow::{alloc_slow, free_slow};
    use core::arch::naked_asm;
    use core::ffi::c_void;
    use slabyard::platform::stack::COUNTDOWN_AT;
    use slabyard::{rseq_announce, rseq_pop, rseq_push};
    use slabyard_process::state::{FAST, at};

    /// Allocates an object of a cache.
    #[unsafe(no_mangle)]
    #[unsafe(naked)]
    pub extern "C" fn slabyard_cache_alloc(_cache: *const Handle) -> *mut c_void {
        naked_asm!(
            "test rdi, rdi",
            "jz 29f",
            "mov rdx, qword ptr [rip + {fast} + {cs}]",
            "mov rsi, qword ptr [rip + {fast} + {rows}]",
            rseq_announce!(),
            "mov cx, word ptr [rdi]",
            rseq_pop!("eax"),
            "ret",
            "29: jmp {slow}",
            ".p2align 6",
            fast = sym FAST,
            slow = sym alloc_slow,
            cs = const at::CS_OFFSET,
            rows = const at::ROWS,
        )
    }

    /// Frees an object of a cache.
    #[unsafe(no_mangle)]
    #[unsafe(naked)]
    pub extern "C" fn slabyard_cache_free(_cache: *const Handle, _object: *mut c_void) {
        naked_asm!(
            "test rdi, rdi",
            "jz 29f",
            "mov rax, rsi",
            "sub rax, qword ptr [rip + {fast} + {base}]",
            "test qword ptr [rip + {fast} + {mask}], rax",
            "jne 29f",
            "shr rax, 12",
            "mov r8, qword ptr [rip + {fast} + {map}]",
            "movzx eax, word ptr [r8 + rax * 2]",
            "cmp ax, word ptr [rdi]",
            "jne 29f",
            "mov r8, qword ptr [rip + {fast} + {rows}]",
            "mov rdx, qword ptr [rip + {fast} + {cs}]",
            rseq_announce!(),
            "dec dword ptr [r8 + rcx + {frees}]",
            "js 29f",
            "mov cx, word ptr [rdi]",
            rseq_push!("r8", "rsi"),
            "ret",
            "29: jmp {slow}",
            ".p2align 6",
            fast = sym FAST,
            slow = sym free_slow,
            base = const at::BASE,
            mask = const at::MASK,
            map = const at::MAP,
            frees = const COUNTDOWN_AT,
            cs = const at::CS_OFFSET,
            rows = const at::ROWS,
        )
    }
}

#[cfg(target_arch = "aarch64")]
mod fast {
    use crate::handles::Handle;
    use crate::slow::{alloc_slow, free_slow};
    use core::arch::naked_asm;
    use core::ffi::c_void;
    use slabyard::platform::{rseq_count_down, stack::COUNTDOWN_AT};
    use slabyard::{rseq_announce, rseq_pop, rseq_push};
    use slabyard_process::offset_text;
    use slabyard_process::state::{FAST, at};

    /// Allocates an object of a cache. Who has a cache was there after the words were stored.
    #[unsafe(no_mangle)]
    #[unsafe(naked)]
    pub extern "C" fn slabyard_cache_alloc(_cache: *const Handle) -> *mut c_void {
        naked_asm!(
            "cbz x0, 29f",
            "adrp x15, {fast}",
            "add x15, x15, :lo12:{fast}",
            "ldp x10, x11, [x15, #{cs}]",
            rseq_announce!(),
            "ldrh w9, [x0]",
            rseq_pop!(),
            "mov x0, x14",
            "ret",
            "29: b {slow}",
            ".p2align 6",
            fast = sym FAST,
            slow = sym alloc_slow,
            cs = const at::CS_OFFSET,
        )
    }

    /// Frees an object of a cache.
    #[unsafe(no_mangle)]
    #[unsafe(naked)]
    pub extern "C" fn slabyard_cache_free(_cache: *const Handle, _object: *mut c_void) {
        naked_asm!(
            "cbz x0, 29f",
            offset_text!("x1"),
            "ldr x17, [x15, #{map} - {mask}]",
            "lsr x9, x9, #12",
            "ldrh w17, [x17, x9, lsl #1]",
            "ldrh w9, [x0]",
            "cmp w17, w9",
            "b.ne 29f",
            "ldp x10, x11, [x15, #{cs} - {mask}]",
            rseq_announce!(),
            rseq_count_down!(),
            "ldrh w9, [x0]",
            rseq_push!("x1"),
            "ret",
            "29: b {slow}",
            ".p2align 6",
            fast = sym FAST,
            slow = sym free_slow,
            base = const at::BASE,
            mask = const at::MASK,
            map = const at::MAP,
            countdown = const COUNTDOWN_AT,
            cs = const at::CS_OFFSET,
        )
    }
}

#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
mod fast {
    use crate::handles::Handle;
    use crate::slow::{alloc_slow, free_slow};
    use core::ffi::c_void;

    /// Allocates an object of a cache.
    #[unsafe(no_mangle)]
    pub extern "C" fn slabyard_cache_alloc(cache: *const Handle) -> *mut c_void {
        alloc_slow(cache)
    }

    /// Frees an object of a cache.
    #[unsafe(no_mangle)]
    pub extern "C" fn slabyard_cache_free(cache: *const Handle, object: *mut c_void) {
        free_slow(cache, object);
    }
}

pub(crate) use fast::{slabyard_cache_alloc, slabyard_cache_free};
