//! The kinds of memory that an address may be in.
//!
//! Neighbour: [`crate::place`] determines the kind, by the page map and the descriptors.

/// The kind of memory that an address is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// In a slab of the cache of this number, which has this many bytes an object.
    Object {
        /// Number of the cache: a class of malloc's, or a created one.
        class: usize,
        /// Those that its user may write to.
        bytes: usize,
        /// True if the address is the start of an object.
        begin: bool,
    },
    /// The start of a live run or mapping of this many bytes.
    Large(usize),
    /// Inside of a live run or mapping, not its start.
    Inside,
    /// In memory of the yard that is free.
    Free,
    /// Not of this yard.
    Foreign,
}

impl AddressKind {
    /// Bytes that the live allocation there may use; `None` if there is none.
    #[inline]
    pub fn usable(self) -> Option<usize> {
        match self {
            AddressKind::Object { bytes, begin: true, .. } | AddressKind::Large(bytes) => {
                Some(bytes)
            }
            _ => None,
        }
    }
}
