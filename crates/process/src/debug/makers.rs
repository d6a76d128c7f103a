//! Detects mismatched frees: memory from `new` passed to C's `free`, memory from `malloc` passed to
//! `delete`, and arrays from `new[]` passed to a plain `delete`.
//!
//! With flag F, the object's state records whether `malloc`, `new` or `new[]` allocated it
//! (`slabyard::slab::debug::Maker`). Without F, nothing is recorded or compared. A program that
//! defines its own operators is not checked.
//!
//! Other allocators do not check this, and libraries that have run for years contain mismatches. So
//! each kind of mismatch is reported once, and the object is freed, unless the option says to
//! abort.

use super::{report, symbols};
use crate::dynamic;
use crate::library::Library;
use crate::policy;
use crate::say;
use crate::state::ready;
use crate::text::abort;
use core::ffi::{CStr, c_void};
use slabyard::debugging;
use slabyard::slab::debug::Maker;
use slabyard::sync::{AtomicU32, Ordering};
use slabyard_kernels::settings::choices::OnMisuse;

/// Makers: of each pair of two a wrong free is reported once.
const MAKERS: u32 = 3;
/// The pairs that were reported, a bit each: who allocated, and whose function freed.
static REPORTED: AtomicU32 = AtomicU32::new(0);

/// Notes who allocates; returns the pointer.
#[inline]
pub fn made<L: Library>(pointer: *mut c_void, maker: Maker) -> *mut c_void {
    if super::is_on() && !pointer.is_null() {
        debugging::note_maker(L::yard(), pointer as usize, maker);
    }
    pointer
}

/// Reports memory that another function allocated than the one that fits the call.
#[inline]
pub fn compare<L: Library>(function: &str, address: usize, fits: Maker) {
    if super::is_on()
        && ready()
        && let Some(made) = debugging::maker_at(L::yard(), address)
        && made != fits
        && all_are_ours()
    {
        refuse::<L>(function, address, made, fits);
    }
}

/// True if the program has no operators of its own: one with its own `new` above `malloc` may use
/// our `delete`, and the other way round.
#[cold]
fn all_are_ours() -> bool {
    const OPERATORS: [&CStr; 4] = [c"_Znwm", c"_Znam", c"_ZdlPv", c"_ZdaPv"];
    let ours = symbols::module_of(all_are_ours as *const () as usize);
    ours.is_some_and(|(begin, end)| {
        OPERATORS.iter().all(|name| (begin..end).contains(&(dynamic::first(name) as usize)))
    })
}

#[cold]
fn refuse<L: Library>(function: &str, address: usize, made: Maker, fits: Maker) {
    let pair = 1 << (made as u32 * MAKERS + fits as u32);
    let is_known = REPORTED.fetch_or(pair, Ordering::Relaxed) & pair != 0;
    let aborts = policy::get() == OnMisuse::Abort;
    if is_known && !aborts {
        return;
    }
    let by = match made {
        Maker::Malloc => "malloc",
        Maker::New => "operator new",
        Maker::NewArray => "operator new[]",
    };
    say!("{function}({address:#x}): wrong function for memory of {by}");
    report::call_stack::<L>();
    if aborts {
        abort();
    }
}
