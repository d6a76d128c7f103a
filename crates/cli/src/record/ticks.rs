//! The processor's counter, by which a recorded process tells the time.
#![allow(unsafe_code)]

/// The counter now. The library in the process reads the same one.
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has it.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: reads the counter that Linux lets programs read.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        ticks
    }
    #[cfg(target_arch = "riscv64")]
    {
        let ticks: u64;
        // SAFETY: reads the counter that Linux lets programs read.
        unsafe { core::arch::asm!("rdtime {}", out(reg) ticks, options(nomem, nostack)) };
        ticks
    }
}
