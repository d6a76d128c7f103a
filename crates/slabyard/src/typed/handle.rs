//! The handle of a typed cache.
//!
//! Neighbours: [`super::cache`] has its calls; it points to a [`super::record`].

use super::home::Home;
use super::kind::{Fresh, ObjectKind};
use super::record::Record;
use crate::process::ProcessYard;
use core::marker::PhantomData;
use core::ptr::NonNull;

/// A cache of objects of one type, with a name by which `slabyard list` and `top` show it.
///
/// [`Fresh`] objects are made of a value each, and dropped when their box is; [`Kept`] ones are
/// made by the cache's constructor ([`Builder::constructor`](super::Builder::constructor)) and keep
/// their state.
///
/// The handle may be shared and sent between threads, whatever its objects are. If it is dropped
/// while there are boxes, these stay valid, and the cache goes with the last of them.
///
/// [`Kept`]: super::Kept
///
/// ```
/// use slabyard::{ObjectCache, ProcessYard};
///
/// static YARD: ProcessYard = ProcessYard::new();
///
/// struct Node {
///     key: u64,
///     next: Option<slabyard::CacheBox<Node>>,
/// }
///
/// let nodes = ObjectCache::<Node>::new("nodes", &YARD)?;
/// let mut list = None;
/// for key in 0..100 {
///     list = Some(nodes.alloc(Node { key, next: list }));
/// }
/// assert_eq!(list.as_ref().map(|node| node.key), Some(99));
/// assert_eq!(nodes.live(), Some(100));
/// while let Some(mut node) = list {
///     list = node.next.take();
/// }
/// assert_eq!(nodes.live(), Some(0));
/// # Ok::<(), slabyard::typed::CreateError>(())
/// ```
pub struct ObjectCache<T, K: ObjectKind = Fresh, Y: Home = ProcessYard> {
    pub(super) record: NonNull<Record<Y>>,
    pub(super) makes: PhantomData<fn(T) -> T>,
    pub(super) kind: PhantomData<K>,
}

// SAFETY: it has no object. Fresh objects are made of values that the calling thread has; the
// builder of a cache of kept ones asks that they be `Send`.
unsafe impl<T, K: ObjectKind, Y: Home> Send for ObjectCache<T, K, Y> {}
// SAFETY: as above; all calls on the yard are for all threads.
unsafe impl<T, K: ObjectKind, Y: Home> Sync for ObjectCache<T, K, Y> {}

impl<T, K: ObjectKind, Y: Home> ObjectCache<T, K, Y> {
    #[inline(always)]
    pub(super) fn record(&self) -> &Record<Y> {
        // SAFETY: the block lives as long as the handle.
        unsafe { self.record.as_ref() }
    }
}
