//! The symbols that a malloc library exports: a wrapper with the C name around each function of
//! this directory. The wrappers are compiled into the libraries, because a crate that exports
//! `malloc` cannot have tests.
//!
//! Neighbours: [`super::entry`] contains the fast path's text.

/// Exports the functions of C and C++ for a [`Malloc`](crate::malloc::Malloc), whose stacks take each
/// object, or those of their tag alone.
///
/// A module of its own calls it, for the names that it needs.
#[macro_export]
macro_rules! malloc_functions {
    ($library:ident, takes: $takes:ident $(,)?) => {
        use ::core::ffi::{c_char, c_int, c_long, c_void};
        use ::slabyard::slab::debug::Maker;
        use $crate::malloc::{Malloc, c, cxx, ending, info, number_of, slow};
        use $crate::malloc::info::Mallinfo;

        const MALLOC: u8 = number_of::<$library>(Maker::Malloc);
        const NEW: u8 = number_of::<$library>(Maker::New);
        const NEW_ARRAY: u8 = number_of::<$library>(Maker::NewArray);

        $crate::exports_of_fast_paths! { $library, $takes }

        $crate::exported! {
            calloc(n: usize, each: usize) -> *mut c_void = c::calloc::<$library>;
            realloc(pointer: *mut c_void, bytes: usize) -> *mut c_void = c::realloc::<$library>;
            free_aligned_sized(pointer: *mut c_void, align: usize, bytes: usize)
                -> () = c::free_aligned_sized::<$library>;
            posix_memalign(out: *mut *mut c_void, align: usize, bytes: usize)
                -> c_int = |out, align, bytes| {
                    // SAFETY: C's callers promise it.
                    unsafe { c::posix_memalign::<$library>(out, align, bytes) }
                };
            aligned_alloc(align: usize, bytes: usize) -> *mut c_void = c::aligned_alloc::<$library>;
            memalign(align: usize, bytes: usize) -> *mut c_void = c::memalign::<$library>;
            valloc(bytes: usize) -> *mut c_void = c::valloc::<$library>;
            pvalloc(bytes: usize) -> *mut c_void = c::pvalloc::<$library>;
            malloc_usable_size(pointer: *mut c_void) -> usize = c::malloc_usable_size::<$library>;
            malloc_trim(pad: usize) -> c_int = c::malloc_trim::<$library>;

            // Names that glibc exports beside these. A program that calls `__libc_malloc`, most often
            // from a `malloc` of its own, may give the memory to any `free`.
            __libc_calloc(n: usize, each: usize) -> *mut c_void = calloc;
            __libc_realloc(pointer: *mut c_void, bytes: usize) -> *mut c_void = realloc;
            __libc_memalign(align: usize, bytes: usize) -> *mut c_void = memalign;
            __libc_valloc(bytes: usize) -> *mut c_void = valloc;
            __libc_pvalloc(bytes: usize) -> *mut c_void = pvalloc;

            mallinfo2() -> Mallinfo<usize> = info::mallinfo2::<$library>;
            mallinfo() -> Mallinfo<c_int> = info::mallinfo::<$library>;
            malloc_info(options: c_int, file: *mut c_void) -> c_int = info::malloc_info::<$library>;
            malloc_stats() -> () = info::malloc_stats::<$library>;
            mallopt(parameter: c_int, value: c_int) -> c_int = info::mallopt;
            slabyard_verify() -> c_int = info::slabyard_verify::<$library>;
            slabyard_version() -> *const c_char = info::slabyard_version;

            _exit(status: c_int) -> ! = ending::end::<$library>;
            _Exit(status: c_int) -> ! = ending::end::<$library>;

            _ZnwmSt11align_val_tRKSt9nothrow_t(bytes: usize, align: usize, _nothrow: *const u8)
                -> *mut c_void = |bytes, align, _| cxx::aligned_nothrow::<$library, NEW>(bytes, align);
            _ZnamSt11align_val_tRKSt9nothrow_t(bytes: usize, align: usize, _nothrow: *const u8)
                -> *mut c_void = |bytes, align, _| cxx::aligned_nothrow::<$library, NEW_ARRAY>(bytes, align);
            _ZdlPvmSt11align_val_t(pointer: *mut c_void, bytes: usize, align: usize)
                -> () = cxx::delete_aligned_sized::<$library, NEW>;
            _ZdaPvmSt11align_val_t(pointer: *mut c_void, bytes: usize, align: usize)
                -> () = cxx::delete_aligned_sized::<$library, NEW_ARRAY>;
        }

        #[unsafe(no_mangle)]
        extern "C" fn reallocarray(pointer: *mut c_void, n: usize, each: usize) -> *mut c_void {
            match c::array_bytes(n, each) {
                Some(bytes) => realloc(pointer, bytes),
                None => ::core::ptr::null_mut(),
            }
        }

        // What throws must find no stack frame of Rust on its way.
        $crate::jumping! {
            _ZnwmSt11align_val_t(usize, usize) -> *mut c_void => cxx::aligned_or_throw::<$library, NEW>;
            _ZnamSt11align_val_t(usize, usize)
                -> *mut c_void => cxx::aligned_or_throw::<$library, NEW_ARRAY>;
        }
        // The same of what forks, and of what asks who called.
        #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
        $crate::jumping! {
            dlopen(*const c_char, c_int) -> *mut c_void => $crate::malloc::loader::dlopen;
            prctl() -> c_int => $crate::malloc::filter::prctl::<$library>;
            syscall() -> c_long => $crate::malloc::filter::syscall::<$library>;
            vfork() -> c_int => $crate::malloc::vfork::vfork::<$library>;
        }
        #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
        $crate::exported! {
            clone(
                function: usize,
                stack: usize,
                flags: c_int,
                argument: usize,
                parent_tid: usize,
                tls: usize,
                child_tid: usize
            ) -> c_int = $crate::malloc::vfork::clone::<$library>;
        }
    };
}

/// Functions by C's names around functions of Rust.
#[doc(hidden)]
#[macro_export]
macro_rules! exported {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty = $function:expr;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: $type),*) -> $result {
            $function($($argument),*)
        }
    )*};
}

/// Functions by C's names that jump to others, without a stack frame of their own.
#[doc(hidden)]
#[macro_export]
macro_rules! jumping {
    ($($name:ident($($type:ty),*) -> $result:ty => $to:path;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name($(_: $type),*) -> $result {
            #[cfg(target_arch = "x86_64")]
            ::core::arch::naked_asm!("jmp {to}", to = sym $to);
            #[cfg(target_arch = "aarch64")]
            ::core::arch::naked_asm!("b {to}", to = sym $to);
            #[cfg(target_arch = "riscv64")]
            ::core::arch::naked_asm!("tail {to}", to = sym $to);
        }
    )*};
}

/// The functions that have a fast path: the sequences themselves.
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
#[doc(hidden)]
#[macro_export]
macro_rules! exports_of_fast_paths {
    ($library:ident, $takes:ident) => {
        use $crate::malloc::entry::behind;

        $crate::exports_of_fast_paths! { alloc:
            malloc => behind::malloc::<$library>;
            __libc_malloc => behind::malloc::<$library>;
            _ZnwmRKSt9nothrow_t => behind::new_nothrow::<$library, NEW>;
            _ZnamRKSt9nothrow_t => behind::new_nothrow::<$library, NEW_ARRAY>;
            _Znwm => behind::new_throwing::<$library, NEW>;
            _Znam => behind::new_throwing::<$library, NEW_ARRAY>;
        }
        $crate::exports_of_fast_paths! { free: $takes
            free => slow::free_slow::<$library, MALLOC>;
            cfree => slow::free_slow::<$library, MALLOC>;
            __libc_free => slow::free_slow::<$library, MALLOC>;
            _ZdlPv => slow::free_slow::<$library, NEW>;
            _ZdaPv => slow::free_slow::<$library, NEW_ARRAY>;
            _ZdlPvRKSt9nothrow_t => slow::free_slow::<$library, NEW>;
            _ZdaPvRKSt9nothrow_t => slow::free_slow::<$library, NEW_ARRAY>;
            _ZdlPvSt11align_val_t => slow::free_slow::<$library, NEW>;
            _ZdaPvSt11align_val_t => slow::free_slow::<$library, NEW_ARRAY>;
            _ZdlPvSt11align_val_tRKSt9nothrow_t => slow::free_slow::<$library, NEW>;
            _ZdaPvSt11align_val_tRKSt9nothrow_t => slow::free_slow::<$library, NEW_ARRAY>;
        }
        $crate::exports_of_fast_paths! { free_sized: $takes
            free_sized => slow::free_sized_slow::<$library, MALLOC>;
            _ZdlPvm => slow::free_sized_slow::<$library, NEW>;
            _ZdaPvm => slow::free_sized_slow::<$library, NEW_ARRAY>;
        }
    };
    (alloc: $($name:ident => $slow:path;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name(_bytes: usize) -> *mut c_void {
            $crate::pop_by_size!($slow)
        }
    )*};
    (free: $takes:ident $($name:ident => $slow:path;)*) => {$(
        $crate::exports_of_fast_paths! { push: push_by_address ($name(_pointer: *mut c_void)) $slow, $takes }
    )*};
    (free_sized: $takes:ident $($name:ident => $slow:path;)*) => {$(
        $crate::exports_of_fast_paths! {
            push: push_by_address_and_size ($name(_pointer: *mut c_void, _bytes: usize)) $slow, $takes
        }
    )*};
    (push: $body:ident ($name:ident($($argument:ident: $type:ty),*)) $slow:path, $takes:ident) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        extern "C" fn $name($($argument: $type),*) {
            $crate::$body!($slow, $takes)
        }
    };
}

/// The functions that begin with a plain call of the platform's pop or push.
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
#[doc(hidden)]
#[macro_export]
macro_rules! exports_of_fast_paths {
    ($library:ident, $takes:ident) => {
        use $crate::malloc::entry::{alloc_or, free_or};
        use $crate::malloc::throw;

        $crate::exported! {
            malloc(bytes: usize) -> *mut c_void
                = |bytes| alloc_or::<$library>(bytes, slow::malloc_slow::<$library>);
            __libc_malloc(bytes: usize) -> *mut c_void = malloc;
            _ZnwmRKSt9nothrow_t(bytes: usize) -> *mut c_void
                = |bytes| alloc_or::<$library>(bytes, throw::new_nothrow_slow::<$library, NEW>);
            _ZnamRKSt9nothrow_t(bytes: usize) -> *mut c_void
                = |bytes| alloc_or::<$library>(bytes, throw::new_nothrow_slow::<$library, NEW_ARRAY>);

            free(pointer: *mut c_void) -> ()
                = |pointer| free_or::<$library>(pointer, slow::free_slow::<$library, MALLOC>);
            cfree(pointer: *mut c_void) -> () = free;
            __libc_free(pointer: *mut c_void) -> () = free;
            _ZdlPv(pointer: *mut c_void) -> ()
                = |pointer| free_or::<$library>(pointer, slow::free_slow::<$library, NEW>);
            _ZdlPvRKSt9nothrow_t(pointer: *mut c_void) -> () = _ZdlPv;
            _ZdlPvSt11align_val_t(pointer: *mut c_void) -> () = _ZdlPv;
            _ZdlPvSt11align_val_tRKSt9nothrow_t(pointer: *mut c_void) -> () = _ZdlPv;
            _ZdaPv(pointer: *mut c_void) -> ()
                = |pointer| free_or::<$library>(pointer, slow::free_slow::<$library, NEW_ARRAY>);
            _ZdaPvRKSt9nothrow_t(pointer: *mut c_void) -> () = _ZdaPv;
            _ZdaPvSt11align_val_t(pointer: *mut c_void) -> () = _ZdaPv;
            _ZdaPvSt11align_val_tRKSt9nothrow_t(pointer: *mut c_void) -> () = _ZdaPv;

            free_sized(pointer: *mut c_void, bytes: usize) -> ()
                = slow::free_sized_slow::<$library, MALLOC>;
            _ZdlPvm(pointer: *mut c_void, bytes: usize) -> () = slow::free_sized_slow::<$library, NEW>;
            _ZdaPvm(pointer: *mut c_void, bytes: usize) -> ()
                = slow::free_sized_slow::<$library, NEW_ARRAY>;
        }
        $crate::jumping! {
            _Znwm(usize) -> *mut c_void => throw::new_or_throw::<$library, NEW>;
            _Znam(usize) -> *mut c_void => throw::new_or_throw::<$library, NEW_ARRAY>;
        }
    };
}
