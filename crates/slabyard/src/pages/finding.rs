//! A debugging finding, and the hooks that a yard calls for caches with debugging: they walk
//! stacks, name threads and print, which the allocator cannot.
//!
//! Neighbours: [`crate::slab::debug`] finds errors; the library around a yard supplies hooks.
//! Invariant: no lock of the yard is held in a hook's call; its allocations are served like those
//! of a signal handler that interrupts a slow path.

/// Frames of a stack that are kept.
pub const FRAMES: usize = slabyard_abi::region::debugging::FRAMES;

/// Who allocated or freed an object, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Track {
    /// Return addresses, the innermost first; 0 behind the last.
    pub frames: [usize; FRAMES],
    /// The kernel's number of it.
    pub thread: u32,
    /// The row it ran on: its CPU, unless rows belong to threads.
    pub row: u32,
    /// When, by the platform's clock; never 0, but of [`Track::SPOILED`].
    pub time_ns: u64,
    /// Bytes that were requested.
    pub bytes: u64,
}

impl Track {
    /// The program wrote over it: nothing is known.
    pub const SPOILED: Track =
        Track { frames: [0; FRAMES], thread: 0, row: 0, time_ns: 0, bytes: 0 };
}

/// What is wrong, in the kernel's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// Bytes in front of the object.
    LeftRedZone,
    /// Bytes behind what was requested.
    RightRedZone,
    /// Bytes of a free object.
    Poison,
    /// Bytes between the object and the next.
    Padding,
    /// Bytes behind the last object of the slab.
    Tail,
    /// Bytes of a page that nobody had.
    Unused,
    /// The word that says whether the object is live.
    State,
    /// A free of a free object.
    Free,
    /// A free of what is no object.
    Pointer,
    /// Live objects of a cache that is destroyed.
    Remaining,
}

impl FindingKind {
    /// The message.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            FindingKind::LeftRedZone => "Left Redzone overwritten",
            FindingKind::RightRedZone => "Right Redzone overwritten",
            FindingKind::Poison => "Poison overwritten",
            FindingKind::Padding => "Object padding overwritten",
            FindingKind::Tail => "Padding overwritten",
            FindingKind::Unused => "Free page overwritten",
            FindingKind::State => "Freepointer corrupt",
            FindingKind::Free => "Object already free",
            FindingKind::Pointer => "Invalid object pointer",
            FindingKind::Remaining => "Objects remaining on slabyard_cache_destroy()",
        }
    }
}

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// Address of the first wrong byte.
    pub first: usize,
    /// Address of the last wrong byte.
    pub last: usize,
    /// What the first is.
    pub found: u8,
    /// What it should be.
    pub expected: u8,
}

/// Who found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// An allocation or a free.
    Call,
    /// A look through all objects, which goes on.
    Look,
}

/// What a report is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong.
    pub what: FindingKind,
    /// Who found it.
    pub by: By,
    /// Slot of the cache.
    pub slot: u16,
    /// Address of the slab.
    pub slab: usize,
    /// The length of the slab, or of the block.
    pub slab_bytes: usize,
    /// Objects of the slab, and those that are not free.
    pub objects: [u32; 2],
    /// Address of the object: the nearest one, if the pointer is none's.
    pub object: usize,
    /// What its user may write to.
    pub object_bytes: u32,
    /// Bytes that were requested.
    pub requested: u32,
    /// The pointer that was freed.
    pub pointer: usize,
    /// The bytes that are wrong.
    pub bytes: Option<Bytes>,
    /// The last allocation, where tracked.
    pub allocated: Option<Track>,
    /// The last free, where tracked.
    pub freed: Option<Track>,
}

impl Finding {
    /// The slot in findings about memory of no cache.
    pub const NO_SLOT: u16 = 0;
}

/// A call that is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// An allocation of this many bytes.
    Alloc(usize),
    /// By `free` or a function like it.
    Free,
}

/// The functions.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// Reports a finding. It may end the process.
    pub report: fn(&Finding),
    /// Fills in stack and thread.
    pub track: fn(&mut Track),
    /// Prints a call about an object of the cache of a slot.
    pub trace: fn(Call, u16, usize),
    /// True if the next allocation of a cache whose allocations fail by rule is to fail.
    pub fails: fn() -> bool,
}
