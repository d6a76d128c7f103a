//! Computes numbers from those that a source reported; [`crate::fields`] lists the computed ones.
//!
//! A number that the source itself reports is used unchanged; otherwise it is derived, or `None` if
//! an input is unknown.

use crate::snapshot::{Cache, Snapshot, SourceKind};
use crate::value::Value;

/// Objects handed out: as reported, or for a kernel within what it hides.
pub(crate) fn live(snapshot: &Snapshot, cache: &Cache) -> Option<Value> {
    told(cache, "live").or_else(|| {
        let active = crate::hidden::active(cache)?;
        let hidden = crate::hidden::objects(snapshot, cache)?.most;
        kernel(snapshot).then(|| Value::between(active.saturating_sub(hidden), active))
    })
}

/// Free objects held for CPUs.
pub(crate) fn parked_cpu(snapshot: &Snapshot, cache: &Cache) -> Option<Value> {
    told(cache, "parked_cpu").or_else(|| {
        let hidden = crate::hidden::objects(snapshot, cache)?;
        kernel(snapshot).then(|| Value::between(0, hidden.cpu))
    })
}

/// Free objects in barns.
pub(crate) fn parked_node(snapshot: &Snapshot, cache: &Cache) -> Option<Value> {
    told(cache, "parked_node").or_else(|| {
        let hidden = crate::hidden::objects(snapshot, cache)?;
        kernel(snapshot).then(|| Value::between(0, hidden.node))
    })
}

/// Free objects held for CPUs and in barns.
pub(crate) fn parked(snapshot: &Snapshot, cache: &Cache) -> Option<Value> {
    told(cache, "parked").or_else(|| {
        if kernel(snapshot) {
            // Not the sum: both together hide at most what is active.
            return crate::hidden::objects(snapshot, cache).map(|h| Value::between(0, h.most));
        }
        parked_cpu(snapshot, cache)?.plus(&parked_node(snapshot, cache)?)
    })
}

/// Free objects in slabs of node partial lists.
pub(crate) fn free_partial(_: &Snapshot, cache: &Cache) -> Option<Value> {
    told(cache, "free_partial").or_else(|| {
        let (all, used) = (cache.exact("total_objects")?, crate::hidden::active(cache)?);
        Some(Value::Exact(all.checked_sub(used)?))
    })
}

/// Slabs without a free object: those that nobody lists. In a kernel some of them
/// are held by CPUs and have free objects all the same.
pub(crate) fn full(snapshot: &Snapshot, cache: &Cache) -> Option<Value> {
    told(cache, "full").or_else(|| {
        let held = match kernel(snapshot) {
            true => crate::hidden::cpu_slabs(snapshot, cache)?,
            false => cache.exact("cpu_slabs").unwrap_or(0),
        };
        let listed = cache.exact("partial")?.saturating_add(held);
        Some(Value::Exact(cache.exact("slabs")?.saturating_sub(listed)))
    })
}

/// Bytes of the slabs.
pub(crate) fn bytes(snapshot: &Snapshot, cache: &Cache) -> Option<Value> {
    told(cache, "bytes").or_else(|| {
        let slab =
            snapshot.machine.page_bytes?.checked_shl(cache.exact("order")?.try_into().ok()?)?;
        cache.value("slabs")?.times(slab)
    })
}

/// Bytes of live objects.
pub(crate) fn live_bytes(snapshot: &Snapshot, cache: &Cache) -> Option<Value> {
    told(cache, "live_bytes").or_else(|| {
        let ((low, high), (least, most)) =
            (live(snapshot, cache)?.bounds()?, cache.value("slab_size")?.bounds()?);
        Some(Value::between(low.checked_mul(least)?, high.checked_mul(most)?))
    })
}

/// Share of the slabs' bytes that live objects take.
pub(crate) fn used(snapshot: &Snapshot, cache: &Cache) -> Option<Value> {
    let all = bytes(snapshot, cache)?.high().filter(|b| *b > 0)?;
    let (low, high) = live_bytes(snapshot, cache)?.bounds()?;
    let share = |n: u64| u64::try_from(u128::from(n) * 10_000 / u128::from(all)).ok();
    Some(Value::between(share(low)?, share(high)?))
}

/// Slabs linked or unlinked at one acquisition of a list lock, in hundredths.
pub(crate) fn slabs_per_list_lock(_: &Snapshot, cache: &Cache) -> Option<Value> {
    ratio(cache, "list_lock_slabs", "list_lock", 100)
}

/// Share of the exchanges of slabs' words that failed.
pub(crate) fn cmpxchg_failed(_: &Snapshot, cache: &Cache) -> Option<Value> {
    ratio(cache, "cmpxchg_double_fail", "cmpxchg_slab", 10_000)
}

/// Nanoseconds that one wait for a list lock took.
pub(crate) fn list_lock_mean_wait_ns(_: &Snapshot, cache: &Cache) -> Option<Value> {
    ratio(cache, "list_lock_wait_ns", "list_lock_waited", 1)
}

/// One counter for each of another, in parts of one; `None` of none.
fn ratio(cache: &Cache, of: &str, by: &str, parts: u128) -> Option<Value> {
    let (of, by) = (cache.exact(of)?, cache.exact(by).filter(|n| *n > 0)?);
    u64::try_from(u128::from(of) * parts / u128::from(by)).ok().map(Value::Exact)
}

fn told(cache: &Cache, name: &str) -> Option<Value> {
    cache.value(name).cloned()
}

fn kernel(snapshot: &Snapshot) -> bool {
    snapshot.source.kind == SourceKind::Kernel
}
