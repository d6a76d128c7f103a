//! Prefetches of cache lines before they are needed, so that their misses overlap. They are
//! hints: they change nothing that the program sees, and fault at no address.

/// Prefetches the line at an address to read it.
#[inline]
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
#[inline]
pub fn fetch_to_write(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) address,
            options(nostack, preserves_flags, readonly));
    }
    let _ = address;
}
