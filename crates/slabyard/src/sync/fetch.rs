//! Cache lines that are asked for before they are needed, so that their misses come together.
//! Hints: they read and write nothing that the program sees, and fault at no address.

/// Says that the line at an address will be read soon.
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

/// Says that the line at an address will be written soon.
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
