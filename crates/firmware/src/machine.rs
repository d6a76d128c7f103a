//! What a load needs from its machine. The modules `linux` and `image` of the program implement it.

use crate::tables::Tables;
use core::fmt::Write;

/// Pages of memory that yards get: the number at which SLOB leaves 630 of them free after the boot,
/// as it did on the modelled board of 8 MiB. (The kernel managed 1560 there; others were files' and
/// programs'.)
pub const PAGES: usize = 918;
/// So few that not every engine can give each process its image, and so few that hardly one can.
pub const TIGHT_PAGES: [usize; 2] = [580, 560];
/// Bytes of memory that a machine needs for yards.
pub const MEMORY_BYTES: usize = PAGES * 4096;

/// A machine that runs loads.
pub trait Machine: Write {
    /// Its memory for yards, [`MEMORY_BYTES`], starting at a page boundary. One yard at a time uses
    /// it.
    fn memory(&mut self) -> *mut u8;
    /// Tables of the loads, which are large.
    fn tables(&mut self) -> &'static mut Tables;
    /// Instructions executed so far; `None` where nobody counts them.
    fn instructions(&self) -> Option<u64>;
}
