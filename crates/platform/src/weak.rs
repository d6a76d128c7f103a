//! Functions that only some C libraries have, referenced as weak symbols, because one build of our
//! library must load with each C library.

/// The address of the first of these functions that the process has; 0 if it has none.
#[macro_export]
macro_rules! weak_address {
    ($first:literal, $second:literal) => {{
        let (first, second): (usize, usize);
        // SAFETY: both symbols are weak: their addresses are 0 where there is none.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            core::arch::asm!(
                concat!(".weak ", $first),
                concat!(".weak ", $second),
                concat!("mov {0}, qword ptr [rip + ", $first, "@GOTPCREL]"),
                concat!("mov {1}, qword ptr [rip + ", $second, "@GOTPCREL]"),
                out(reg) first,
                out(reg) second,
                options(nostack, preserves_flags),
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            core::arch::asm!(
                concat!(".weak ", $first),
                concat!(".weak ", $second),
                concat!("adrp {0}, :got:", $first),
                concat!("ldr {0}, [{0}, :got_lo12:", $first, "]"),
                concat!("adrp {1}, :got:", $second),
                concat!("ldr {1}, [{1}, :got_lo12:", $second, "]"),
                out(reg) first,
                out(reg) second,
                options(nostack, preserves_flags),
            );
        }
        if first == 0 { second } else { first }
    }};
}
