//! Errors of typed caches: failed creations, allocations and destructions.

use super::handle::ObjectCache;
use super::home::Home;
use super::kind::ObjectKind;
use crate::cache::CacheSettings;
use crate::cache::table::MOST_CREATED;
use crate::created::NotCreated;
use crate::engine::Shape;
use crate::slab::Geometry;
use core::error::Error;
use core::fmt;

/// Why no cache was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CreateError {
    /// These are no objects for slabs.
    Object {
        /// `size_of` of the type.
        bytes: usize,
        /// Its alignment.
        align: usize,
    },
    /// A full sheaf has room for fewer objects than that.
    SheafCapacity(u32),
    /// There are as many caches as a yard may have ([`MOST_CREATED`]).
    TooMany,
    /// The kernel refuses memory.
    Memory,
    /// The yard could not be started.
    NotStarted,
    /// The caller is a signal handler or a destructor that interrupted the yard, or a fork takes
    /// too long.
    Interrupted,
}

impl CreateError {
    pub(super) fn of(why: NotCreated, settings: &CacheSettings) -> Self {
        match why {
            NotCreated::SheafCapacity => {
                CreateError::SheafCapacity(settings.sheaf_capacity.unwrap_or(0))
            }
            NotCreated::TooMany => CreateError::TooMany,
            NotCreated::Memory => CreateError::Memory,
            NotCreated::Interrupted => CreateError::Interrupted,
            NotCreated::Settings | NotCreated::Engine => CreateError::Object {
                bytes: settings.object as usize,
                align: settings.align as usize,
            },
        }
    }
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (most, most_align) = (Geometry::LARGEST, Geometry::LARGEST_ALIGN);
        match self {
            CreateError::Object { bytes, align } => write!(
                f,
                "objects of {bytes} bytes aligned to {align} do not fit: a cache has objects of up \
                 to {most} bytes, aligned to a power of two of up to {most_align}, and slabs of \
                 an order that holds one; box larger ones"
            ),
            CreateError::SheafCapacity(objects) => write!(
                f,
                "a full sheaf cannot have {objects} objects: set {} at most, or leave \
                 sheaf_capacity out",
                Shape::STACK_OBJECTS
            ),
            CreateError::TooMany => write!(
                f,
                "a yard has {MOST_CREATED} caches at most, and this one has as many: drop those \
                 that are not used, share one among types of a size, or make another yard"
            ),
            CreateError::Memory => write!(f, "the system refuses memory for the cache"),
            CreateError::NotStarted => {
                write!(f, "the system refuses the address space for the yard's tables")
            }
            CreateError::Interrupted => write!(
                f,
                "the yard is in the middle of a call of this thread, or a fork takes too long: \
                 make caches outside of signal handlers and destructors"
            ),
        }
    }
}

impl Error for CreateError {}

/// The kernel refuses memory for an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AllocError<T = ()> {
    /// What would have become one.
    pub value: T,
}

impl<T> fmt::Debug for AllocError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AllocError")
    }
}

impl<T> fmt::Display for AllocError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the system refuses memory for an object")
    }
}

impl<T> Error for AllocError<T> {}

/// A cache that was not destroyed.
pub struct InUse<T, K: ObjectKind, Y: Home> {
    /// Unchanged: to be used on, or destroyed later.
    pub cache: ObjectCache<T, K, Y>,
    /// So many objects are live, or in the hands of a call that is under way. `None` if the caller
    /// is a signal handler or a destructor that interrupted the yard, or a fork takes too long.
    pub live: Option<u64>,
}

impl<T, K: ObjectKind, Y: Home> fmt::Debug for InUse<T, K, Y> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InUse").field("live", &self.live).finish_non_exhaustive()
    }
}

impl<T, K: ObjectKind, Y: Home> fmt::Display for InUse<T, K, Y> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.live {
            Some(live) => write!(f, "{live} objects of the cache are live: drop their boxes first"),
            None => f.write_str("the yard is in the middle of a call of this thread: try again"),
        }
    }
}

impl<T, K: ObjectKind, Y: Home> Error for InUse<T, K, Y> {}
