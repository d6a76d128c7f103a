//! The requests of a load, and the moments at which the machine's state is read. [`crate::caches`]
//! defines the objects' caches.

use crate::caches::ObjectType;

/// Slots that a load uses: the most objects that are live at once.
pub const SLOTS: usize = 8192;

/// A call of the kernel's allocators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// An object is allocated.
    Alloc {
        /// Where it is kept.
        slot: u16,
        /// Size class or cache of the object.
        what: ObjectType,
    },
    /// The object of a slot is freed.
    Free {
        /// Where it was kept.
        slot: u16,
    },
    /// 2^`order` pages in one piece.
    Pages {
        /// Where they are kept.
        slot: u16,
        /// As `alloc_pages` takes it, 0 to 10.
        order: u8,
    },
    /// The pages of a slot are freed, if it got some.
    FreePages {
        /// Where they were kept.
        slot: u16,
    },
    /// The load has reached a moment at which the machine's state is read.
    Reach(Checkpoint),
}

/// Moments of a load, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Checkpoint {
    /// The kernel is up, and the first process requests its image next.
    Booted,
    /// A shell has run its commands; files and pipes are open.
    Held,
    /// They are closed, and what the kernel keeps of them is in its caches of names and files.
    Released,
    /// It has let go of what nobody uses (dropping caches).
    Dropped,
}

impl Checkpoint {
    /// All of them, in order.
    pub const ALL: [Checkpoint; 4] =
        [Checkpoint::Booted, Checkpoint::Held, Checkpoint::Released, Checkpoint::Dropped];

    /// As reports name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Checkpoint::Booted => "booted",
            Checkpoint::Held => "held",
            Checkpoint::Released => "released",
            Checkpoint::Dropped => "dropped",
        }
    }
}
