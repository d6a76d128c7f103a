//! The image: serves the loads from the memory behind itself.

use core::cell::UnsafeCell;
use core::fmt::{self, Write};
use slabyard_firmware::start::{self, Serial};
use slabyard_firmware::{MEMORY_BYTES, Machine, Tables, report};

unsafe extern "C" {
    /// Where the image ends: the memory for yards.
    static __memory: [u8; MEMORY_BYTES];
}

/// A part of the image's memory that one thread uses.
struct SingleThreaded<T>(UnsafeCell<T>);

// SAFETY: there is one thread, and no interrupt handler.
unsafe impl<T> Sync for SingleThreaded<T> {}

static TABLES: SingleThreaded<Tables> = SingleThreaded(UnsafeCell::new(Tables::new()));

struct Image;

impl Write for Image {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        Serial.write_str(text)
    }
}

impl Machine for Image {
    fn memory(&mut self) -> *mut u8 {
        (&raw const __memory).cast_mut().cast()
    }

    fn tables(&mut self) -> &'static mut Tables {
        // SAFETY: the loads ask for it once at a time, and drop what they got.
        unsafe { &mut *TABLES.0.get() }
    }

    fn instructions(&self) -> Option<u64> {
        start::instructions()
    }
}

#[unsafe(no_mangle)]
fn image() -> bool {
    report(&mut Image).is_ok()
}
