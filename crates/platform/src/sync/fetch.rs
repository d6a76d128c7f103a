//! Prefetches cache lines before they are needed, so that their misses overlap. Prefetches are
//! hints: they change nothing that the program sees, and never fault.

/// Prefetches the line at an address to read it.
#[inline(always)]
pub fn fetch_to_read(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint.
    unsafe {
        core::arch::asm!("prefetcht0 [{}]", in(reg) address,
            options(nostack, preserves_flags, readonly));
    }
    let _ = address;
}

/// Prefetches the line at an address to write it.
#[inline(always)]
pub fn fetch_to_write(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) address,
            options(nostack, preserves_flags, readonly));
    }
    let _ = address;
}

/// Prefetches so many lines from an address on, at most 8, to write them. Without a loop where the
/// number is a constant.
#[inline(always)]
pub fn fetch_lines_to_write(address: usize, lines: usize) {
    let fetch = |line| {
        if line < lines {
            fetch_to_write(address + 64 * line);
        }
    };
    fetch(0);
    fetch(1);
    fetch(2);
    fetch(3);
    fetch(4);
    fetch(5);
    fetch(6);
    fetch(7);
}
