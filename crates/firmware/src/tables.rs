//! The tables of the boot-like load: too large for a small stack, so the machine supplies memory
//! for them.

use core::ptr::NonNull;
use slabyard_small::SLOTS;
use slabyard_small::boot::Boot;

/// What is in each slot, and the load itself.
pub struct Tables {
    pub(crate) slots: [Slot; SLOTS],
    pub(crate) load: Option<Boot>,
}

#[derive(Clone, Copy)]
pub(crate) enum Slot {
    Empty,
    Block(NonNull<u8>),
    Object(u8, NonNull<u8>),
}

impl Tables {
    /// Nothing.
    #[must_use]
    pub const fn new() -> Self {
        Tables { slots: [Slot::Empty; SLOTS], load: None }
    }
}

impl Default for Tables {
    fn default() -> Self {
        Self::new()
    }
}
