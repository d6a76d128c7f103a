//! System calls, made directly: they leave the C library's `errno` unchanged, as `free` must.

macro_rules! numbers {
    ($($name:ident: $x86:expr, $generic:expr;)*) => {$(
        #[cfg(target_arch = "x86_64")]
        pub const $name: usize = $x86;
        #[cfg(not(target_arch = "x86_64"))]
        pub const $name: usize = $generic;
    )*};
}

// Number on x86-64, number in the generic table (aarch64, riscv64).
numbers! {
    READ: 0, 63;
    CLOSE: 3, 57;
    MMAP: 9, 222;
    MPROTECT: 10, 226;
    MUNMAP: 11, 215;
    MREMAP: 25, 216;
    MINCORE: 27, 232;
    MADVISE: 28, 233;
    RT_SIGPROCMASK: 14, 135;
    GETPID: 39, 172;
    KILL: 62, 129;
    FUTEX: 202, 98;
    SCHED_GETAFFINITY: 204, 123;
    GETTID: 186, 178;
    MBIND: 237, 235;
    OPENAT: 257, 56;
    PROCESS_VM_READV: 310, 270;
    MEMBARRIER: 324, 283;
    RSEQ: 334, 293;
    PROCESS_MADVISE: 440, 440;
}

/// Makes a system call; a failure is the negative error number.
///
/// # Safety
/// The arguments are valid for the call.
#[inline]
pub unsafe fn call(n: usize, a: [usize; 6]) -> isize {
    let result: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise; the kernel clobbers rcx and r11.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") n as isize => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the caller's promise.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") n, inlateout("x0") a[0] as isize => result,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5],
            options(nostack),
        );
    }
    #[cfg(target_arch = "riscv64")]
    // SAFETY: the caller's promise.
    unsafe {
        core::arch::asm!(
            "ecall",
            in("a7") n, inlateout("a0") a[0] as isize => result,
            in("a1") a[1], in("a2") a[2], in("a3") a[3], in("a4") a[4], in("a5") a[5],
            options(nostack),
        );
    }
    result
}

/// Reads the start of a file, as far as the buffer goes.
pub fn read_file<'a>(path: &core::ffi::CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut n = 0;
    read_parts(path, buffer, |part| {
        n = part.len();
        false
    })?;
    Some(&buffer[..n])
}

/// Calls `f` with one part of a file after the other, none longer than the buffer, while it says
/// true.
pub fn read_parts(
    path: &core::ffi::CStr,
    buffer: &mut [u8],
    mut f: impl FnMut(&[u8]) -> bool,
) -> Option<()> {
    const AT_FDCWD: usize = -100isize as usize;
    const O_CLOEXEC: usize = 0o2_000_000;
    // SAFETY: the path ends with 0, the buffer is ours.
    unsafe {
        let fd = call(OPENAT, [AT_FDCWD, path.as_ptr() as usize, O_CLOEXEC, 0, 0, 0]);
        if fd < 0 {
            return None;
        }
        let n = loop {
            let n = call(READ, [fd as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]);
            if n <= 0 || !f(&buffer[..n.cast_unsigned()]) {
                break n;
            }
        };
        call(CLOSE, [fd as usize, 0, 0, 0, 0, 0]);
        (n >= 0).then_some(())
    }
}
