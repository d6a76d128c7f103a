//! The C functions that report what one cache holds, what all caches hold, and the latter as the
//! text of `slabyard list --json`.
//!
//! Neighbours: `slabyard_process::sample` reads a cache while other threads use it; [`crate::json`]
//! formats the text. Nothing here takes a lock or allocates.

use crate::caches::{checked, refuse};
use crate::handles::Handle;
use crate::json;
use crate::state::YARD;
use core::ffi::{c_char, c_int, c_void};
use core::mem::offset_of;
use core::ops::ControlFlow;
use slabyard::cache::classes::CLASSES;
use slabyard::sync::Ordering;
use slabyard_process::sample::{Sample, Span, sample};
use slabyard_process::state::ready;

const EINVAL: c_int = 22;
const ENOENT: c_int = 2;

/// `struct slabyard_range`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Range {
    low: usize,
    high: usize,
}

/// `struct slabyard_cache_stats`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Stats {
    bytes: usize,
    name: [u8; 32],
    object_size_bytes: usize,
    slab_size_bytes: usize,
    bytes_of_slab: usize,
    objs_per_slab: usize,
    sheaf_capacity_objects: usize,
    min_partial_slabs: usize,
    slabs: Range,
    partial_slabs: Range,
    total_objects: Range,
    live_objects: Range,
    parked_cpu_objects: Range,
    parked_node_objects: Range,
    in_transit_objects: Range,
    free_partial_objects: Range,
    committed_bytes: Range,
}

impl Stats {
    fn of(sample: &Sample) -> Stats {
        let range = |span: Span| Range { low: span.low as usize, high: span.high as usize };
        Stats {
            bytes: size_of::<Stats>(),
            name: sample.name,
            object_size_bytes: sample.object_size as usize,
            slab_size_bytes: sample.slab_size as usize,
            bytes_of_slab: sample.bytes_of_slab as usize,
            objs_per_slab: sample.objs_per_slab as usize,
            sheaf_capacity_objects: sample.sheaf_capacity as usize,
            min_partial_slabs: sample.min_partial as usize,
            slabs: range(sample.slabs),
            partial_slabs: range(sample.partial),
            total_objects: range(sample.total_objects),
            live_objects: range(sample.live),
            parked_cpu_objects: range(sample.parked_cpu),
            parked_node_objects: range(sample.parked_node),
            in_transit_objects: range(sample.in_transit),
            free_partial_objects: range(sample.free_partial),
            committed_bytes: range(sample.slabs.times(sample.bytes_of_slab)),
        }
    }
}

/// Counts one cache.
///
/// # Safety
/// As the header says of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slabyard_cache_stats_get(
    cache: *const Handle,
    stats: *mut Stats,
) -> c_int {
    const NAME: &str = "slabyard_cache_stats_get";
    let Some(handle) = checked(NAME, cache) else { return -1 };
    // SAFETY: the caller's promise: the first member is there in every version.
    let bytes = if stats.is_null() { 0 } else { unsafe { (*stats).bytes } };
    // A size beyond any version's is what was on the stack.
    if !(offset_of!(Stats, object_size_bytes)..=4096).contains(&bytes) {
        refuse!(
            EINVAL,
            "{NAME}(\"{}\"): begin the structure with SLABYARD_CACHE_STATS",
            handle.name()
        );
        return -1;
    }
    let sample = sample(&YARD, handle.number());
    let Some(sample) = &sample else {
        slabyard_process::errno::set_errno(ENOENT);
        return -1;
    };
    // As it was asked for, whatever a tool made of it.
    let object_size_bytes = handle.object.load(Ordering::Relaxed) as usize;
    let all = Stats { bytes, object_size_bytes, ..Stats::of(sample) };
    let known = bytes.min(size_of::<Stats>());
    // SAFETY: the caller has so many bytes; members that this version does not know read as zeros.
    unsafe {
        let to = stats.cast::<u8>();
        to.copy_from_nonoverlapping((&raw const all).cast(), known);
        to.add(known).write_bytes(0, bytes - known);
    }
    0
}

/// Calls a function with the counts of each cache.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_stats_for_each(
    each: extern "C" fn(*const Stats, *mut c_void) -> c_int,
    with: *mut c_void,
) -> c_int {
    if !ready() {
        return 0;
    }
    let stopped = YARD.caches().numbers().try_for_each(|number| {
        let Some(sample) = sample(&YARD, number) else { return ControlFlow::Continue(()) };
        // A size that nobody has asked for.
        if number < CLASSES && sample.slabs.high == 0 {
            return ControlFlow::Continue(());
        }
        let stats = Stats::of(&sample);
        match each(&raw const stats, with) {
            0 => ControlFlow::Continue(()),
            other => ControlFlow::Break(other),
        }
    });
    stopped.break_value().unwrap_or(0)
}

/// Gives a function the text of all counts, in pieces.
#[unsafe(no_mangle)]
pub extern "C" fn slabyard_stats_json(
    write: extern "C" fn(*const c_char, usize, *mut c_void) -> c_int,
    with: *mut c_void,
) -> c_int {
    json::write(&mut |piece| write(piece.as_ptr().cast(), piece.len(), with))
}
