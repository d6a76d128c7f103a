//! Functions that only some C libraries have, referenced as weak symbols, because one build of our
//! library must load with each C library.

/// The address of the first of these functions that the process has; 0 if it has none.
#[macro_export]
macro_rules! weak_address {
    ($name:literal) => {{
        let address: usize;
        // SAFETY: the symbol is weak: its address is 0 where there is none.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            core::arch::asm!(
                concat!(".weak ", $name),
                concat!("mov {0}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                out(reg) address,
                options(nostack, preserves_flags),
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            core::arch::asm!(
                concat!(".weak ", $name),
                concat!("adrp {0}, :got:", $name),
                concat!("ldr {0}, [{0}, :got_lo12:", $name, "]"),
                out(reg) address,
                options(nostack, preserves_flags),
            );
        }
        address
    }};
    ($first:literal, $second:literal) => {{
        let (first, second) = ($crate::weak_address!($first), $crate::weak_address!($second));
        if first == 0 { second } else { first }
    }};
}
