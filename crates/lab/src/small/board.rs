//! The board of the thread of 2022 about SLOB's end: its memory, and boots that leave as many free
//! pages as were free on it.
//!
//! Source: "Deprecating and removing SLOB" (`linux-riscv`, 8 to 15 November 2022). [`super::machine`]
//! serves the boots.

use super::contender::Contender;
use super::load::Load;
use super::machine::{Outcome, SmallMachine, run};
use super::slabs::NoSlab;

/// 8192 KiB, of which 6240 were the kernel's to give.
pub const BOARD: SmallMachine = SmallMachine { page_size: 4096, pages: 2048, reserved: 488 };
/// The order of a process's image there.
pub const IMAGE: usize = 7;

/// A generated boot on the board, of which the kernel reserves so many pages, and so many single
/// pages are kept all over the rest.
///
/// # Errors
/// A cache of the load has objects that no slab holds.
pub fn boot(
    contender: Contender,
    reserved: u32,
    scattered: u32,
    seed: u64,
) -> Result<Outcome, NoSlab> {
    let small = SmallMachine { reserved, ..BOARD };
    let mut load = Load::generated(seed);
    if scattered > 0 {
        load.begin_scattered(small.pages - reserved, scattered, seed);
    }
    run(small, contender, &load)
}

/// A boot on a memory of which the allocator leaves about this many pages.
///
/// # Errors
/// As of [`boot`].
pub fn boot_that_leaves(
    contender: Contender,
    left: u32,
    scattered: u32,
    seed: u64,
) -> Result<Outcome, NoSlab> {
    let whole = free(&boot(contender, BOARD.reserved, scattered, seed)?);
    boot(contender, BOARD.reserved + whole.saturating_sub(left), scattered, seed)
}

/// Free pages after the boot.
#[must_use]
pub fn free(outcome: &Outcome) -> u32 {
    outcome.at("booted").map_or(0, |look| look.free_pages)
}
