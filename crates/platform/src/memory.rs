//! Memory from the kernel: reserves addresses, commits parts of them, gives pages back, and makes
//! separate mappings.
//!
//! Neighbours: [`crate::object_memory`] reads and writes the contents of such memory;
//! [`crate::table`] and a yard's page heap request it.
//! Invariant: every function may fail. Each documents the state that a failure leaves.

/// Bytes of the unit in which pages are counted, whatever the machine's page.
pub const GRANULE: usize = 4096;

/// The least multiple of a power of two that is not below.
pub(crate) const fn round_up(bytes: usize, power: usize) -> usize {
    (bytes + (power - 1)) & !(power - 1)
}

/// What a reservation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Memory for objects: inaccessible until it is committed.
    Arena,
    /// The allocator's own tables: inaccessible until they are committed.
    Table,
}

/// A stretch of whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Stretch {
    /// Its first address.
    pub address: usize,
    /// A multiple of the page size; 0 for no page.
    pub bytes: usize,
}

impl Stretch {
    /// No page.
    pub const NONE: Stretch = Stretch { address: 0, bytes: 0 };
}

/// What the kernel is asked to do with whole pages. It may refuse, and then does as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// A committed part will be written soon: have its pages ready, by one call.
    WrittenSoon,
    /// No huge pages under a part of a reservation.
    SmallPages,
    /// A committed part may have huge pages again, after [`Advice::SmallPages`].
    HugePages,
    /// Take the pages of a part of a reservation from this node, where that is possible.
    Node(usize),
    /// A part of a mapping is to fault when it is used, until the mapping ends. Its contents are
    /// lost, unless the kernel refuses: then it stays usable.
    NoAccess,
}

/// A machine's memory, by addresses.
///
/// Memory of objects is named by address only: the modelled machine has none behind its
/// addresses. Tables are real memory on every platform.
pub trait Memory {
    /// Memory nodes that it may have: 1 where nobody needs to look at nodes.
    const MOST_NODES: usize = 1;

    /// Memory nodes: a power of two, at most [`Memory::MOST_NODES`]. It does not change once the
    /// yard is made.
    fn nodes(&self) -> usize {
        1
    }

    /// The node of a row's CPU.
    fn node_of_row(&self, _row: usize) -> usize {
        0
    }

    /// Page size in bytes: a power of two, at least [`GRANULE`].
    fn page_bytes(&self) -> usize;

    /// Reserves addresses, aligned to `align` (a power of two). Nothing is charged, and nothing may
    /// count against a limit of address space. `None` where there are none.
    fn reserve(&self, bytes: usize, align: usize, what: Use) -> Option<usize>;

    /// Makes a part of a reservation usable, of which nothing is yet; it reads as zero. False if
    /// the kernel refuses, or something of others is there; nothing has changed then.
    fn commit(&self, address: usize, bytes: usize) -> bool;

    /// In the child of a fork, where a thread that is gone may have been about to make a part of a
    /// reservation usable that begins at an address, of this many bytes at most: it is not usable.
    fn forget_commit(&self, _address: usize, _most: usize) {}

    /// Asks something of the kernel about whole pages.
    fn advise(&self, _address: usize, _bytes: usize, _advice: Advice) {}

    /// Gives the contents of committed pages back to the kernel: they read as
    /// zero afterwards and stay usable. One call, where the kernel has it.
    ///
    /// A stretch that the kernel refuses (locked pages, a filter) becomes
    /// [`Stretch::NONE`]: each of its pages holds what it held, or zeros.
    fn give_back(&self, stretches: &mut [Stretch]);

    /// True if the kernel puts huge pages under memory that did not ask for them, at a page
    /// fault or a while later.
    fn has_huge_pages(&self) -> bool {
        false
    }

    /// Bytes of a committed part that are in memory; 0 where the kernel does not report it.
    fn resident(&self, _address: usize, _bytes: usize) -> usize {
        0
    }

    /// A mapping of its own, zeroed, aligned to `align`.
    fn map(&self, bytes: usize, align: usize) -> Option<usize>;

    /// Ends a mapping made by [`Memory::map`].
    fn unmap(&self, address: usize, bytes: usize);

    /// Grows or shrinks a mapping, moving it if need be, contents kept.
    fn remap(&self, address: usize, old_bytes: usize, new_bytes: usize) -> Option<usize>;

    /// Moves the contents of committed pages to a mapping of its own, of at least as many bytes;
    /// the pages read as zero afterwards and stay usable. `None` where the kernel cannot or
    /// does not; nothing has changed then.
    fn move_out(&self, _address: usize, _bytes: usize, _new_bytes: usize) -> Option<usize> {
        None
    }
}
