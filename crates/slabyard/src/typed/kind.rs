//! The two kinds of typed caches: one drops freed values, the other keeps them for reuse.
//!
//! ```text
//! object of a kept cache:  | value | made |
//! ```
//!
//! The engine's constructor, which runs when a slab is allocated, only records that the object has
//! no value yet; the user's constructor runs when an object is first allocated, outside of the
//! yard. So the user's constructor may allocate, and panic. The values in a discarded slab are
//! dropped inside of the yard: destructors' frees are deferred, and a panic aborts the process.

use super::home::Home;
use super::record::{Lies, Record};
use crate::created::abandoned::defers;
use crate::slab::ObjectFn;
use core::mem::MaybeUninit;

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
pub trait ObjectKind: sealed::Sealed + Sized {
    /// Ends the use of an object whose memory will be given to the cache next.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    unsafe fn end_use<T, Y: Home>(object: *mut T, record: &Record<Y>);

    /// Before a slow free: ends the object if its memory may not come back as it is.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    unsafe fn before_slow_free<T, Y: Home>(address: usize, record: &Record<Y>);
}

impl ObjectKind for Fresh {
    #[inline(always)]
    #[allow(private_interfaces)]
    unsafe fn end_use<T, Y: Home>(object: *mut T, _record: &Record<Y>) {
        // SAFETY: the caller's promise: a live object that nobody uses any more.
        unsafe { object.drop_in_place() };
    }

    #[inline(always)]
    #[allow(private_interfaces)]
    unsafe fn before_slow_free<T, Y: Home>(_address: usize, _record: &Record<Y>) {}
}

/// An object of a kept cache, of which `T` is the start.
#[repr(C)]
pub(super) struct KeptObject<T> {
    pub(super) value: MaybeUninit<T>,
    /// True while there is a value.
    pub(super) made: bool,
}

impl<T> KeptObject<T> {
    /// Says that a new slab's object has no value.
    pub(super) const CONSTRUCTOR: ObjectFn = ObjectFn {
        function: |address, _| {
            // SAFETY: an object of a slab that begins: nobody else uses it.
            unsafe { (&raw mut (*Self::at(address)).made).write(false) };
        },
        word: 0,
    };

    /// Drops the value of an object whose slab has ended.
    pub(super) const DESTRUCTOR: Option<ObjectFn> = if core::mem::needs_drop::<T>() {
        Some(ObjectFn {
            function: |address, _| {
                let abort = AbortOnPanic;
                // SAFETY: the object is free, and its slab nobody else's.
                unsafe { Self::unmake(Self::at(address)) };
                core::mem::forget(abort);
            },
            word: 0,
        })
    } else {
        None
    };

    fn at(address: usize) -> *mut Self {
        core::ptr::with_exposed_provenance_mut(address)
    }

    /// Drops the value, if there is one.
    ///
    /// # Safety
    /// Nobody else uses the object, whose constructor ran.
    unsafe fn unmake(object: *mut Self) {
        // SAFETY: the caller's promise; a value that is made is there. It is not any more, even if
        // its drop panics.
        unsafe {
            if core::mem::replace(&mut (*object).made, false) {
                (*object).value.assume_init_drop();
            }
        }
    }
}

/// A panic while it lives aborts the process: a second panic does.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        panic!("a kept object panicked in its drop, in the middle of a call of the yard");
    }
}

/// Drops the value of an object whose `reset` panicked.
struct Unmake<T>(*mut KeptObject<T>);

impl<T> Drop for Unmake<T> {
    fn drop(&mut self) {
        // SAFETY: its box is gone, and its memory not yet given back.
        unsafe { KeptObject::unmake(self.0) };
    }
}

impl ObjectKind for Kept {
    #[inline(always)]
    #[allow(private_interfaces)]
    unsafe fn end_use<T, Y: Home>(object: *mut T, record: &Record<Y>) {
        if let Some(reset) = record.reset {
            // SAFETY: the builder took it as a `fn(&mut T)`.
            let reset = unsafe { core::mem::transmute::<fn(), fn(&mut T)>(reset) };
            let unmake = Unmake(object.cast::<KeptObject<T>>());
            // SAFETY: the caller's promise: a live object that nobody uses any more.
            reset(unsafe { &mut *object });
            core::mem::forget(unmake);
        }
    }

    #[inline(always)]
    #[allow(private_interfaces)]
    unsafe fn before_slow_free<T, Y: Home>(address: usize, record: &Record<Y>) {
        // A mapping goes; and what is freed in the middle of another call is linked through its
        // first word.
        if record.lies == Lies::Outside || defers(record.yard) {
            // SAFETY: the object was given up, and is not freed yet.
            unsafe { KeptObject::unmake(KeptObject::<T>::at(address)) };
        }
    }
}
