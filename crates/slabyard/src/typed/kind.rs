//! The two kinds of typed caches: of values that come and go, and of objects that are kept.

use super::block::Record;
use super::home::Home;

/// Each object is made of a value when it is allocated, and dropped when it is freed.
#[derive(Clone, Copy, Debug)]
pub struct Fresh;

/// Objects are made once, by the cache's constructor, and keep their state from one user to the
/// next.
#[derive(Clone, Copy, Debug)]
pub struct Kept;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Fresh {}
    impl Sealed for super::Kept {}
}

/// [`Fresh`] or [`Kept`].
pub trait Kind: sealed::Sealed + Sized {
    /// Ends the use of an object whose memory will be given to the cache next.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    unsafe fn end_use<T, Y: Home>(object: *mut T, record: &Record<Y>);
}

impl Kind for Fresh {
    #[inline(always)]
    #[allow(private_interfaces)]
    unsafe fn end_use<T, Y: Home>(object: *mut T, _record: &Record<Y>) {
        // SAFETY: the caller's promise: a live object that nobody uses any more.
        unsafe { object.drop_in_place() };
    }
}
