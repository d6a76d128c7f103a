//! The C functions for RCU: read sections, waiting for readers, and frees after a grace period.
//!
//! Neighbour: `slabyard::waiting` documents what a reader may rely on.

use crate::caches::checked;
use crate::handles::Handle;
use crate::names::Name;
use crate::state::{ObjectCaches, YARD, ensure};
use crate::tools;
use core::ffi::{c_int, c_void};
use slabyard::calls::readers;
use slabyard::calls::readers::NotWaited;
use slabyard::waiting::NotTaken;
use slabyard::yard::AddressKind;
use slabyard_process::errno::set_errno;
use slabyard_process::misuse;
use slabyard_process::policy;
use slabyard_process::say;
use slabyard_process::state::ready;

const EDEADLK: c_int = 35;
const EINTR: c_int = 4;

/// Opens a section of a reader.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_rcu_read_lock() {
    if ensure() {
        YARD.rcu_read_lock();
    }
}

/// Ends the section that this thread opened last.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_rcu_read_unlock() {
    if ready() {
        YARD.rcu_read_unlock();
    }
}

fn waited(function: &str, result: Result<(), NotWaited>) -> c_int {
    let errno = match result {
        Ok(()) => return 0,
        Err(NotWaited::InSection) => {
            say!("{function}: the caller is in a section itself, and would wait for ever");
            policy::end();
            EDEADLK
        }
        Err(NotWaited::Interrupted) => EINTR,
    };
    set_errno(errno);
    -1
}

/// Waits until all sections have ended that are open now.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_synchronize_rcu() -> c_int {
    if ready() { waited("slabyard_synchronize_rcu", YARD.synchronize_rcu()) } else { 0 }
}

/// Waits until all is freed that waits for readers.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_rcu_barrier() -> c_int {
    if ready() { waited("slabyard_rcu_barrier", YARD.rcu_barrier()) } else { 0 }
}

/// Frees an object of a cache after the sections that are open now.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_cache_free_rcu(cache: *const Handle, object: *mut c_void) -> c_int {
    const NAME: &str = "slabyard_cache_free_rcu";
    let Some(id) = checked(NAME, cache).and_then(Handle::id) else { return -1 };
    if object.is_null() {
        return 0;
    }
    tools::any_waits(object as usize);
    let taken = YARD.free_to_rcu(id, object as usize);
    if let Err(NotTaken::Place(AddressKind::Object { class, .. })) = taken
        && class != id.number()
    {
        let (own, other) = (Name(id.number()), Name(class));
        say!("{NAME}(\"{own}\", {object:p}): wrong cache, the object is of \"{other}\"");
        policy::end();
        return -1;
    }
    given(NAME, object as usize, taken)
}

/// Frees a block after the sections that are open now.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_kfree_rcu(block: *mut c_void) -> c_int {
    const NAME: &str = "slabyard_kfree_rcu";
    if crate::kmalloc::is_none(block) {
        return 0;
    }
    let address = block as usize;
    tools::any_waits(address);
    let taken =
        if ready() { YARD.free_rcu(address) } else { Err(NotTaken::Place(AddressKind::Foreign)) };
    given(NAME, address, taken)
}

/// What could not be taken waits here.
fn given(function: &str, address: usize, taken: Result<(), NotTaken>) -> c_int {
    match taken {
        Ok(()) => 0,
        Err(NotTaken::Place(place)) => {
            misuse::found_at_call::<ObjectCaches>(function, address, place);
            -1
        }
        Err(NotTaken::Full | NotTaken::Memory | NotTaken::Interrupted) => {
            let freed = readers::free_after_waiting(&YARD, address);
            waited(function, freed.map(|_| ()))
        }
    }
}
