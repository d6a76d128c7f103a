//! Macros for what shared libraries request from the linker, and for reading the processor's
//! timestamp counter.
//!
//! Macros keep the unsafe code in the crate that uses them: this crate contains none.

/// What a shared library without the standard library needs from the linker.
///
/// Nobody else asks for the C library there. And the core library's own code is compiled with
/// unwinding and refers to `rust_eh_personality`, unless it is optimised as one with ours. It is
/// never called: panics of a build that aborts unwind nothing. Weak and hidden, as other libraries
/// have one that is meant.
#[macro_export]
macro_rules! shared_library {
    () => {
        #[link(name = "c")]
        unsafe extern "C" {}

        #[cfg(panic = "abort")]
        ::core::arch::global_asm!(
            ".pushsection .text.rust_eh_personality, \"ax\"",
            ".weak rust_eh_personality",
            ".hidden rust_eh_personality",
            "rust_eh_personality: .quad 0",
            ".popsection",
        );
    };
}

/// The processor's counter now, a `u64`: it runs evenly, and alike on all CPUs, on every machine
/// whose Linux takes its time from it. A recorder and the library in the process that it records
/// read the same one.
///
/// ```
/// let before = slabyard_abi::ticks!();
/// assert!(slabyard_abi::ticks!() >= before);
/// ```
#[macro_export]
macro_rules! ticks {
    () => {{
        // SAFETY: every processor of these three has the counter, and Linux lets programs read it.
        let ticks: u64 = unsafe {
            #[cfg(target_arch = "x86_64")]
            {
                ::core::arch::x86_64::_rdtsc()
            }
            #[cfg(target_arch = "aarch64")]
            {
                let ticks: u64;
                ::core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack));
                ticks
            }
            #[cfg(target_arch = "riscv64")]
            {
                let ticks: u64;
                ::core::arch::asm!("rdtime {}", out(reg) ticks, options(nomem, nostack));
                ticks
            }
        };
        ticks
    }};
}
