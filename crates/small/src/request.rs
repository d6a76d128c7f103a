//! What a load asks for, and when to look. Neighbours: [`crate::caches`] has what objects are of.

use crate::caches::What;

/// Slots that a load uses: the most objects that are live at once.
pub const SLOTS: usize = 8192;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// An object is allocated.
    Alloc {
        /// Where it is kept.
        slot: u16,
        /// What it is of.
        what: What,
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
        /// The order.
        order: u8,
    },
    /// The pages of a slot are given back, if it got some.
    FreePages {
        /// Where they were kept.
        slot: u16,
    },
    /// The load has come to a moment: time to look at the machine.
    Reach(Moment),
}

/// Moments of a load, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// The kernel is up, and the first process asks for its image next.
    Booted,
    /// A shell has run its commands; files and pipes are open.
    Held,
    /// They are closed, and what the kernel keeps of them is in its caches of names and files.
    Released,
    /// It has let go of what nobody uses (dropping caches).
    Dropped,
}

impl Moment {
    /// All of them, in order.
    pub const ALL: [Moment; 4] = [Moment::Booted, Moment::Held, Moment::Released, Moment::Dropped];

    /// As reports name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Moment::Booted => "booted",
            Moment::Held => "held",
            Moment::Released => "released",
            Moment::Dropped => "dropped",
        }
    }
}
