//! The running kernel, as root: the sampled numbers are compared with the kernel's own files, which
//! the test reads itself.

use slabyard_observe::fields::{self, field};
use slabyard_observe::kernel::{self, Error};
use slabyard_observe::{ReadScope, Snapshot, Value, hidden};
use std::collections::BTreeMap;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

const ROOT: &str = "/";
const ALL: ReadScope = ReadScope { all: true, slabs: false };
const GEOMETRY: [&str; 4] = ["slab_size", "objs_per_slab", "order", "object_size"];

/// True as root on a kernel with SLUB; else says why not.
fn slub() -> bool {
    let readable = fs::read("/sys/kernel/slab/kmalloc-64/order").is_ok();
    let listed = fs::read("/proc/slabinfo").is_ok();
    if !readable || !listed {
        println!("skipped: needs root, /proc/slabinfo and /sys/kernel/slab");
    }
    readable && listed
}

/// Name and columns: active, all, size, objects and pages of a slab; and slabs.
fn slabinfo() -> BTreeMap<String, [u64; 6]> {
    let text = fs::read_to_string("/proc/slabinfo").unwrap();
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words[at].parse().unwrap();
        let numbers = [number(1), number(2), number(3), number(4), number(5), number(14)];
        (words[0].to_owned(), numbers)
    };
    text.lines().skip(2).map(line).collect()
}

#[test]
fn geometry_is_that_of_slabinfo_and_sysfs() {
    if !slub() {
        return;
    }
    for want in [ReadScope::default(), ALL] {
        let snapshot = kernel::sample(Path::new(ROOT), want).unwrap();
        let lines = slabinfo();
        let mut compared = 0;
        for cache in &snapshot.caches {
            let id = cache.id.as_deref().unwrap_or(&cache.name);
            for name in GEOMETRY {
                let path = format!("/sys/kernel/slab/{id}/{name}");
                // A cache may have ended since.
                let Ok(text) = fs::read_to_string(path) else { continue };
                assert_eq!(cache.exact(name), text.trim().parse().ok(), "{}: {name}", cache.name);
                compared += 1;
            }
            let Some([_, _, size, objs, pages, _]) = lines.get(&cache.name) else { continue };
            let ours = ["slab_size", "objs_per_slab"].map(|name| cache.exact(name));
            assert_eq!(ours, [Some(*size), Some(*objs)], "{}", cache.name);
            assert_eq!(cache.exact("order").map(|o| 1 << o), Some(*pages), "{}", cache.name);
        }
        assert!(compared > 4 * 50, "{compared} numbers were compared");
        let listed = |name: &String| snapshot.caches.iter().any(|c| c.name == *name);
        assert!(lines.keys().filter(|name| !listed(name)).count() <= 1);
        assert!(snapshot.machine.page_bytes.is_some_and(u64::is_power_of_two));
        assert_eq!(snapshot.machine.page_bytes, page_bytes_by_geometry(&snapshot));
    }
}

/// The page at which the slabs of the largest orders hold what they hold.
fn page_bytes_by_geometry(snapshot: &Snapshot) -> Option<u64> {
    let fits = |page: &u64| {
        snapshot.caches.iter().all(|c| {
            let [size, objs, order] =
                ["slab_size", "objs_per_slab", "order"].map(|name| c.exact(name).unwrap());
            (page << order) / size == objs
        })
    };
    [4096, 16384, 65536].into_iter().find(fits)
}

/// Caches with a number outside of what slabinfo said before and after.
fn outside(
    before: &BTreeMap<String, [u64; 6]>,
    snapshot: &Snapshot,
    after: &BTreeMap<String, [u64; 6]>,
) -> Vec<String> {
    let mut found = Vec::new();
    for cache in &snapshot.caches {
        let (Some(before), Some(after)) = (before.get(&cache.name), after.get(&cache.name)) else {
            continue;
        };
        for (name, column) in [("objects", 0), ("total_objects", 1), ("slabs", 5)] {
            let ends = (before[column].min(after[column]), before[column].max(after[column]));
            if cache.exact(name).is_none_or(|n| n < ends.0 || n > ends.1) {
                found.push(cache.name.clone());
            }
        }
    }
    found.dedup();
    found
}

#[test]
fn counts_lie_between_slabinfo_before_and_after() {
    if !slub() {
        return;
    }
    for want in [ReadScope::default(), ALL] {
        // A cache may rise and fall between two looks: it would have to do so always. Beside other
        // work `kmalloc` caches do so all the time, so that many looks are needed.
        let mut always: Option<Vec<String>> = None;
        for _ in 0..64 {
            let before = slabinfo();
            let snapshot = kernel::sample(Path::new(ROOT), want).unwrap();
            let after = slabinfo();
            let found = outside(&before, &snapshot, &after);
            let left = always.take().map_or(found.clone(), |mut names| {
                names.retain(|name| found.contains(name));
                names
            });
            // A number that is planted is found, whatever moves.
            let mut planted = snapshot.clone();
            let cache = planted.caches.iter_mut().find(|c| before.contains_key(&c.name)).unwrap();
            cache.set("objects", u64::MAX);
            let name = cache.name.clone();
            assert!(outside(&before, &planted, &after).contains(&name));
            if left.is_empty() {
                always = Some(left);
                break;
            }
            always = Some(left);
        }
        assert_eq!(always, Some(Vec::new()), "{want:?}");
    }
}

#[test]
fn an_attribute_is_set_to_what_it_is() {
    if !slub() {
        return;
    }
    let (root, cache) = (Path::new(ROOT), "sock_inode_cache");
    let Ok(own) = fs::read_to_string(format!("/sys/kernel/slab/{cache}/min_partial")) else {
        println!("skipped: this kernel has no cache {cache}");
        return;
    };
    let change = kernel::set(root, cache, "min_partial", own.trim()).unwrap();
    assert_eq!((change.old.as_str(), change.new.as_str()), (own.trim(), own.trim()));
    let error = kernel::set(root, cache, "min_partial", "many").unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert!(error.to_string().contains("a number of slabs"), "{error}");
    let error = kernel::set(root, cache, "slab_size", "64").unwrap_err();
    assert!(error.to_string().contains("min_partial"), "{error}");
    // Refused, so unchanged.
    assert_eq!(fs::read_to_string(format!("/sys/kernel/slab/{cache}/min_partial")).unwrap(), own);
}

/// Live sockets by the cache, and those that the kernel counts for programs.
fn sockets() -> (Value, u64) {
    let snapshot = kernel::sample(Path::new(ROOT), ReadScope::default()).unwrap();
    let cache = snapshot.cache("sock_inode_cache").unwrap();
    (fields::value(field("live").unwrap(), &snapshot, cache).unwrap(), sockets_used())
}

fn sockets_used() -> u64 {
    let text = fs::read_to_string("/proc/net/sockstat").unwrap();
    text.lines().next().unwrap().strip_prefix("sockets: used ").unwrap().trim().parse().unwrap()
}

/// The same just after a shrink, where no CPU has taken a slab again.
fn sockets_exactly() -> Option<(u64, u64)> {
    (0..50).find_map(|_| {
        kernel::shrink(Path::new(ROOT), "sock_inode_cache").unwrap();
        let mut snapshot = kernel::sample(Path::new(ROOT), ReadScope::default()).unwrap();
        hidden::after_shrink(&mut snapshot);
        let live = snapshot.cache("sock_inode_cache").unwrap().exact("live")?;
        Some((live, sockets_used()))
    })
}

/// The same once no more sockets of before are live than `own`, those that the kernel does not
/// count: RCU frees a closed socket, up to ten seconds later. `own` becomes less where fewer are.
fn sockets_settled(own: &mut u64) -> Option<(u64, u64)> {
    let until = Instant::now() + Duration::from_secs(15);
    loop {
        let (live, used) = sockets_exactly()?;
        let now = live.saturating_sub(used);
        if now <= *own || Instant::now() > until {
            *own = now.min(*own);
            return Some((live, used));
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// The kernel's own sockets are live and not among those that it counts as used:
/// their number stays, so sockets that we open must show to the last one.
#[test]
fn sockets_of_the_kernel_lie_in_the_range_and_are_exact_after_a_shrink() {
    if !slub() || fs::read_to_string("/proc/net/sockstat").is_err() {
        return;
    }
    const OPENED: u64 = 300;
    let mut tries = Vec::new();
    let mut own = u64::MAX;
    for _ in 0..10 {
        let Some((live, used)) = sockets_settled(&mut own) else { continue };
        let sockets: Vec<UdpSocket> =
            (0..OPENED).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        let (range, used_then) = self::sockets();
        let exactly = sockets_exactly();
        drop(sockets);
        let Some((live_at_last, used_at_last)) = exactly else { continue };
        let (low, high) = range.bounds().unwrap();
        let then = (live + used_then).saturating_sub(used);
        let held = low <= then && then <= high && used_then <= high;
        let opened = used_at_last.saturating_sub(used);
        let grew = opened >= OPENED && live_at_last.checked_sub(live) == Some(opened);
        if held && grew {
            return;
        }
        // Others open and close sockets meanwhile.
        tries.push(format!("{live}/{used}, {range:?}/{used_then}, {live_at_last}/{used_at_last}"));
    }
    if tries.is_empty() {
        println!("skipped: CPUs hold slabs of this cache all the time here");
        return;
    }
    panic!("live sockets by the cache and by the kernel's count: {tries:?}");
}
