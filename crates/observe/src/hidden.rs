//! How many free objects a kernel counts as active: its `objects` (slabinfo's active objects)
//! exclude only free objects in slabs on node partial lists. Free objects in CPU slabs, on CPU
//! partial lists, in sheaves and in barns are counted as active.
//!
//! A kernel reports how many slabs CPUs hold and a sheaf's capacity, which give an upper bound:
//!
//! ```text
//! CPU slabs and CPU partial lists   cpu_slabs × objs_per_slab     (each may be free)
//! sheaves    online CPUs × (main, spare, rcu_free) × sheaf_capacity
//! barns      nodes × 10 full sheaves × sheaf_capacity
//! ```
//!
//! The bound never exceeds the number of active objects. Since Linux 7.0 there are no CPU slabs;
//! before 6.18 there are no sheaves. Objects in full sheaves that wait for RCU readers
//! (`kfree_rcu`) are back in these places after a grace period, so a sample of the running kernel
//! waits for that; those that are freed meanwhile, or are in prefilled sheaves that a caller
//! holds, count as live, because no file reports their number. A kernel checks a barn's size
//! without taking its lock, so a barn may briefly hold a few more sheaves.
//!
//! Neighbours: [`crate::kernel`] samples the inputs; `derive` turns the bound into ranges.

use crate::release::Release;
use crate::snapshot::{Cache, Snapshot, SourceKind};
use crate::value::{Value, plural};

/// The highest number of full sheaves in a kernel's barn.
const BARN_SHEAVES: u64 = 10;
/// Sheaves of a CPU: main, spare and the one that collects `kfree_rcu`.
const CPU_SHEAVES: u64 = 3;

/// Most free objects that may be counted as active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenFree {
    /// In CPU slabs, on CPU partial lists and in sheaves.
    pub cpu: u64,
    /// In barns.
    pub node: u64,
    /// Both together: at most what is active.
    pub most: u64,
    /// What hides them, in words for people.
    pub reason: String,
}

/// Most free objects of a cache that may be counted as active; `None` where the
/// source does not tell enough.
#[must_use]
pub fn objects(snapshot: &Snapshot, cache: &Cache) -> Option<HiddenFree> {
    let active = active(cache)?;
    let slabs = cpu_slabs(snapshot, cache)?;
    let in_slabs = match slabs {
        0 => 0,
        _ => slabs.checked_mul(cache.exact("objs_per_slab")?)?,
    };
    let capacity = sheaf_capacity(snapshot, cache)?;
    let (cpus, nodes) = match capacity {
        0 => (0, 0),
        _ => machine(snapshot)?,
    };
    let in_sheaves = cpus.checked_mul(CPU_SHEAVES)?.checked_mul(capacity)?;
    let in_barns = nodes.checked_mul(BARN_SHEAVES)?.checked_mul(capacity)?;
    let cpu = in_slabs.checked_add(in_sheaves)?;
    let sum = cpu.checked_add(in_barns)?;

    let mut reasons = Vec::new();
    if in_slabs > 0 {
        reasons.push(format!(
            "{} that CPUs hold hide at most {in_slabs} objects",
            plural(slabs, "slab")
        ));
    }
    if in_sheaves > 0 {
        let of = format!("{CPU_SHEAVES} sheaves of {capacity} on each of {}", plural(cpus, "CPU"));
        reasons.push(format!("{of} at most {in_sheaves}"));
        let of = format!("the {} at most {BARN_SHEAVES} such sheaves each", plural(nodes, "barn"));
        reasons.push(format!("{of}, {in_barns}"));
    }
    if reasons.is_empty() {
        reasons.push("no CPU holds a slab and the cache has no sheaves: nothing is hidden".into());
    }
    if sum > active {
        reasons.push(format!("no more than the {active} active"));
    }
    Some(HiddenFree {
        cpu: cpu.min(active),
        node: in_barns.min(active),
        most: sum.min(active),
        reason: reasons.join("; "),
    })
}

/// Says that the kernel's caches were shrunk just before the snapshot was taken:
/// sheaves and barns were flushed, so where CPUs hold no slab nothing is hidden, and
/// live objects are exact.
///
/// What a cache that is in use put into sheaves since then is not seen.
pub fn after_shrink(snapshot: &mut Snapshot) {
    let flushed = |cache: &Cache| active(cache).filter(|_| cpu_slabs(snapshot, cache) == Some(0));
    let flushed: Vec<_> = snapshot.caches.iter().map(flushed).collect();
    for (cache, flushed) in snapshot.caches.iter_mut().zip(flushed) {
        if let Some(active) = flushed {
            cache.set("live", active);
            for place in ["parked", "parked_cpu", "parked_node"] {
                cache.set(place, 0);
            }
        }
    }
    sum(snapshot);
}

/// Records, for a kernel, how many bytes of active objects may be parked, and in how many caches.
pub fn sum(snapshot: &mut Snapshot) {
    if snapshot.source.kind != SourceKind::Kernel {
        return;
    }
    let of = |cache: &Cache| -> Option<u64> {
        let most = match cache.value("parked") {
            Some(told) => told.high()?,
            None => objects(snapshot, cache)?.most,
        };
        most.checked_mul(cache.exact("slab_size")?)
    };
    let bytes: Vec<u64> = snapshot.caches.iter().filter_map(of).collect();
    if bytes.is_empty() {
        return;
    }
    let caches = bytes.iter().filter(|b| **b > 0).count() as u64;
    let sum = bytes.iter().fold(0u64, |sum, b| sum.saturating_add(*b));
    snapshot.totals.insert("maybe_parked".into(), Value::Exact(sum));
    snapshot.totals.insert("maybe_parked_caches".into(), Value::Exact(caches));
}

/// Objects that are not free on node partial lists: as they were counted, else as
/// slabinfo estimates them.
pub(crate) fn active(cache: &Cache) -> Option<u64> {
    cache.exact("objects_counted").or_else(|| cache.exact("objects"))
}

/// Slabs that CPUs hold.
pub(crate) fn cpu_slabs(snapshot: &Snapshot, cache: &Cache) -> Option<u64> {
    if release(snapshot).is_some_and(|r| !r.has_cpu_slabs()) {
        return Some(0);
    }
    cache.exact("cpu_slabs")
}

/// Objects in a sheaf; 0 without sheaves.
fn sheaf_capacity(snapshot: &Snapshot, cache: &Cache) -> Option<u64> {
    let told = cache.exact("sheaf_capacity");
    told.or_else(|| release(snapshot).filter(|r| !r.has_sheaves()).map(|_| 0))
}

/// CPUs whose sheaves may hold objects, and nodes: a CPU that stops gives its own
/// back.
fn machine(snapshot: &Snapshot) -> Option<(u64, u64)> {
    let machine = snapshot.machine;
    let cpus = machine.online_cpus.or(machine.possible_cpus)?;
    Some((cpus.into(), machine.nodes?.into()))
}

fn release(snapshot: &Snapshot) -> Option<Release> {
    snapshot.source.release.as_deref().and_then(Release::parse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Source;

    /// One cache of a kernel with 2 CPUs and a node.
    fn snapshot(release: Option<&str>, told: &[(&str, u64)]) -> Snapshot {
        let mut cache = Cache::new("x");
        told.iter().for_each(|(name, value)| cache.set(*name, *value));
        let source = Source { release: release.map(Into::into), ..Source::of(SourceKind::Kernel) };
        let mut snapshot = Snapshot::new(source);
        snapshot.machine.possible_cpus = Some(64);
        snapshot.machine.online_cpus = Some(2);
        snapshot.machine.nodes = Some(1);
        snapshot.caches.push(cache);
        snapshot
    }

    fn of(release: &str, told: &[(&str, u64)]) -> Option<HiddenFree> {
        let snapshot = snapshot(Some(release), told);
        objects(&snapshot, &snapshot.caches[0])
    }

    #[test]
    fn slabs_of_cpus_and_sheaves_hide_objects_and_the_reason_says_so() {
        let told = [("objects", 5000), ("cpu_slabs", 13), ("objs_per_slab", 21)];
        let hidden = of("6.17.0", &told).unwrap();
        assert_eq!((hidden.cpu, hidden.node, hidden.most), (273, 0, 273));
        assert_eq!(hidden.reason, "13 slabs that CPUs hold hide at most 273 objects");

        let hidden = of("6.18.0", &[&told[..], &[("sheaf_capacity", 32)]].concat()).unwrap();
        assert_eq!((hidden.cpu, hidden.node, hidden.most), (273 + 192, 320, 785));
        assert_eq!(
            hidden.reason,
            "13 slabs that CPUs hold hide at most 273 objects; \
             3 sheaves of 32 on each of 2 CPUs at most 192; \
             the 1 barn at most 10 such sheaves each, 320"
        );
    }

    #[test]
    fn no_more_is_hidden_than_is_active() {
        let hidden = of("6.1.0", &[("objects", 7), ("cpu_slabs", 1), ("objs_per_slab", 21)]);
        let hidden = hidden.unwrap();
        assert_eq!((hidden.cpu, hidden.most), (7, 7));
        assert!(hidden.reason.ends_with("no more than the 7 active"), "{}", hidden.reason);
    }

    #[test]
    fn without_slabs_and_sheaves_nothing_is_hidden() {
        let hidden = of("6.18.0", &[("objects", 7), ("cpu_slabs", 0), ("sheaf_capacity", 0)]);
        let hidden = hidden.unwrap();
        assert_eq!(hidden.most, 0);
        assert!(hidden.reason.contains("nothing is hidden"));
    }

    #[test]
    fn what_is_not_told_is_not_taken_for_nothing() {
        let slabs = [("objects", 7), ("cpu_slabs", 0)];
        assert_eq!(of("6.18.0", &slabs), None, "a kernel with sheaves");
        assert_eq!(of("nonsense", &slabs), None, "no release");
        assert_eq!(of("6.1.0", &[("objects", 7)]), None, "no CPU slabs told");
        assert_eq!(of("6.1.0", &[("cpu_slabs", 0)]), None, "no objects told");
        assert!(of("6.1.0", &slabs).is_some());
        // The stub of 7.0 says 0, and is not what counts there.
        assert_eq!(of("7.0.0", &slabs), None);
        let most = of("7.0.0", &[&slabs[..], &[("sheaf_capacity", 4)]].concat()).unwrap().most;
        assert_eq!(most, 7);
        let huge = [("objects", 7), ("cpu_slabs", u64::MAX), ("objs_per_slab", 2)];
        assert_eq!(of("6.1.0", &huge), None, "beyond 64 bits");
    }

    #[test]
    fn a_shrink_makes_exact_what_no_cpu_has_taken_again() {
        for (slabs, live) in [(0, Some(7)), (1, None)] {
            let told =
                [("objects", 7), ("cpu_slabs", slabs), ("objs_per_slab", 4), ("slab_size", 8)];
            let mut snapshot = snapshot(Some("6.18.1"), &told);
            snapshot.caches[0].set("sheaf_capacity", 32);
            sum(&mut snapshot);
            assert_eq!(snapshot.total("maybe_parked"), Some(&Value::Exact(56)));
            after_shrink(&mut snapshot);
            assert_eq!(snapshot.caches[0].exact("live"), live);
            let left = if slabs == 0 { 0 } else { 56 };
            assert_eq!(snapshot.total("maybe_parked"), Some(&Value::Exact(left)));
            let caches = u64::from(slabs != 0);
            assert_eq!(snapshot.total("maybe_parked_caches"), Some(&Value::Exact(caches)));
        }
    }
}
