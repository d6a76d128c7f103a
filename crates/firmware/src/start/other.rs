//! A machine on which the image is never started: the image is only linked and its size measured.

use core::fmt;

unsafe extern "Rust" {
    /// The program. Called once.
    safe fn image() -> bool;
}

/// No serial line.
pub struct Serial;

impl fmt::Write for Serial {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        Ok(())
    }
}

/// Nobody counts instructions here.
#[must_use]
pub fn instructions() -> Option<u64> {
    None
}

/// Stays where it is.
pub(super) fn fail() -> ! {
    loop {
        core::hint::spin_loop();
    }
}

#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    image();
    fail()
}
