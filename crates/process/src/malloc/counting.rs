//! The `malloc` of a profile: counts the request's bytes off the thread's gap, then pops as the
//! fast path does.
//!
//! The fast path jumps here where its size is not below the limit, which is 0 while a profile is
//! on. A thread that has drawn no gap has 0 bytes left, and so goes to the slow path.
//! Without a profile this costs a slow `malloc` two instructions.
//! On x86-64 the subtraction is one instruction, and so whole for a signal handler of its thread; on
//! aarch64 it is three, and what a handler counts between them is lost: a handler that allocates
//! against signal-safety(7) finds a gap that is longer by its requests.
//!
//! Neighbours: the text is the architecture's ([`super::entry`]); [`crate::control`] opens it.

use super::Malloc;
use super::slow::malloc_slow;
use super::throw::{new_nothrow_slow, new_or_throw};
use core::ffi::c_void;

macro_rules! counting {
    ($($(#[$doc:meta])* $name:ident $([const $maker:ident: u8])? => $slow:ident;)*) => {$(
        $(#[$doc])*
        #[unsafe(naked)]
        pub extern "C" fn $name<L: Malloc $(, const $maker: u8)?>(_bytes: usize) -> *mut c_void {
            crate::count_and_pop!($slow::<L $(, $maker)?>)
        }
    )*};
}

counting! {
    /// In front of [`malloc_slow`].
    malloc => malloc_slow;
    /// In front of [`new_nothrow_slow`].
    new_nothrow [const MAKER: u8] => new_nothrow_slow;
    /// In front of [`new_or_throw`].
    new_throwing [const MAKER: u8] => new_or_throw;
}
