//! Puts names to what the programs counted: processes, cgroups, call sites, directories, file
//! systems.

use crate::bpf::{Look, Raw, RawOrigin, Survivor};
use crate::cgroups::{Cgroup, Cgroups};
use crate::mounts::Mounts;
use crate::processes::{Process, Processes};
use crate::report::{
    Activity, CacheRate, Cost, Directory, FileSystem, Lacking, Losses, Means, Owner, Site, Watch,
};
use crate::sizes::Sizes;
use slabyard_observe::kernel::Symbols;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

/// What names are made of.
pub(crate) struct Names {
    pub symbols: Symbols,
    pub processes: Processes,
    pub cgroups: Cgroups,
    pub mounts: Mounts,
}

/// Survivors of one cache, site, process and cgroup.
#[derive(Default)]
struct Group<'a> {
    origins: Vec<&'a RawOrigin>,
    objects: u64,
    bytes: u64,
    oldest_ns: u64,
    /// Bytes by index of the origin, which has the stack.
    by_origin: HashMap<usize, u64>,
}

/// Puts names to what the programs counted in so many nanoseconds.
pub(crate) fn named(raw: &Raw, names: &Names, sizes: &Sizes, took_ns: u64, budget: f64) -> Watch {
    // What is younger may yet be freed.
    let young = took_ns / 10;
    let old: Vec<&Survivor> = raw.survivors.iter().filter(|it| it.age_ns >= young).collect();
    let without = |what: &str, why: &Option<String>, adds: &str| {
        why.clone().map(|why| Lacking { what: what.into(), why, adds: adds.into() })
    };
    let clock = without(
        "the kernel's clock of BPF programs",
        &raw.unmeasured,
        "what the watch costs, and counts of more than one object in 256",
    );
    let looks = without(
        "a BPF program that is run for one object",
        &raw.unlooked,
        "directories and file systems",
    );
    Watch {
        took_ns,
        means: Means::Bpf,
        missing: [clock, looks, sizes.missing()].into_iter().flatten().collect(),
        cost: cost(raw, took_ns, budget),
        one_in: raw.one_in,
        lost: losses(raw),
        caches: caches(raw, |cache| sizes.grew(cache)),
        owners: owners(raw, &old, names, sizes),
        sites: sites(raw, names),
        directories: directories(raw, &old, names),
        file_systems: file_systems(raw, &old, names),
        growth: Vec::new(),
    }
}

/// Puts names to what was counted since the look before, of a session that has gone on for
/// `since_start_ns`.
pub(crate) fn activity(
    raw: &Raw,
    names: &Names,
    (took_ns, counted): (u64, f64),
    since_start_ns: u64,
    budget: f64,
) -> Activity {
    Activity {
        took_ns,
        counted,
        caches: caches(raw, |_| None),
        sites: sites(raw, names),
        cost: cost(raw, since_start_ns, budget),
        one_in: raw.one_in,
        lost: losses(raw),
    }
}

fn cost(raw: &Raw, took_ns: u64, budget: f64) -> Option<Cost> {
    let ran = raw.run_ns + raw.reader_ns;
    raw.unmeasured.is_none().then(|| Cost {
        events: raw.events,
        ns_per_event: raw.run_ns as f64 / raw.events.max(1) as f64,
        cpu_share: ran as f64 / took_ns.max(1) as f64,
        budget,
    })
}

fn losses(raw: &Raw) -> Losses {
    Losses {
        missed: raw.missed,
        objects: raw.live_full,
        owners: raw.origins_full,
        stacks: raw.stacks_lost,
    }
}

/// Those that allocated or freed, with most allocations first.
fn sites(raw: &Raw, names: &Names) -> Vec<Site> {
    let mut sums: HashMap<_, (&RawOrigin, [u64; 3])> = HashMap::new();
    for origin in &raw.origins {
        let (_, sum) = sums.entry(key(origin)).or_insert((origin, [0; 3]));
        let more = [origin.allocations, origin.frees, origin.bytes];
        sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    }
    let mut sites: Vec<Site> = sums
        .into_values()
        .filter(|(_, [allocations, frees, _])| allocations + frees > 0)
        .map(|(origin, [allocations, frees, bytes])| Site {
            cache: raw.caches[origin.cache].name.clone(),
            site: names.symbols.name(origin.site),
            process: names.processes.of(origin.tgid, &origin.comm),
            cgroup: cgroup(raw, names, origin.cgroup),
            allocations,
            frees,
            bytes,
        })
        .collect();
    sites.sort_by(|a, b| {
        let by_name =
            || (&a.cache, &a.site, a.process.pid).cmp(&(&b.cache, &b.site, b.process.pid));
        (b.allocations, b.frees).cmp(&(a.allocations, a.frees)).then_with(by_name)
    });
    sites
}

fn key(origin: &RawOrigin) -> (usize, u64, u32, u64) {
    (origin.cache, origin.site, origin.tgid, origin.cgroup)
}

fn cgroup(raw: &Raw, names: &Names, id: u64) -> Option<Cgroup> {
    names.cgroups.of(id, raw.cgroups.get(&id).map(String::as_str))
}

fn caches(raw: &Raw, grew: impl Fn(&str) -> Option<(i64, i64)>) -> Vec<CacheRate> {
    let mut bytes: HashMap<usize, u64> = HashMap::new();
    for origin in &raw.origins {
        *bytes.entry(origin.cache).or_default() += origin.bytes;
    }
    let mut rates: Vec<CacheRate> = (raw.caches.iter().enumerate())
        .map(|(nth, cache)| {
            let grew = grew(&cache.name);
            CacheRate {
                cache: cache.name.clone(),
                allocations: Some(cache.allocations),
                frees: Some(cache.frees),
                bytes: Some(bytes.get(&nth).copied().unwrap_or(0)),
                grew_objects: grew.map(|grew| grew.0),
                grew_bytes: grew.map(|grew| grew.1),
            }
        })
        .collect();
    rates.sort_by(|a, b| {
        Reverse(a.allocations).cmp(&Reverse(b.allocations)).then_with(|| a.cache.cmp(&b.cache))
    });
    rates
}

fn owners(raw: &Raw, old: &[&Survivor], names: &Names, sizes: &Sizes) -> Vec<Owner> {
    let mut groups: HashMap<(usize, u64, u32, u64), Group> = HashMap::new();
    for origin in &raw.origins {
        groups.entry(key(origin)).or_default().origins.push(origin);
    }
    let mut of_cache: HashMap<usize, u64> = HashMap::new();
    for survivor in old {
        let origin = &raw.origins[survivor.origin];
        let bytes = u64::from(survivor.bytes) * survivor.stands_for;
        *of_cache.entry(origin.cache).or_default() += bytes;
        let Some(group) = groups.get_mut(&key(origin)) else { continue };
        group.objects += survivor.stands_for;
        group.bytes += bytes;
        group.oldest_ns = group.oldest_ns.max(survivor.age_ns);
        *group.by_origin.entry(survivor.origin).or_default() += bytes;
    }
    let mut owners: Vec<Owner> = groups
        .into_iter()
        .filter(|(_, group)| group.objects > 0)
        .map(|((cache, site, tgid, cgroup), group)| {
            let name = &raw.caches[cache].name;
            let grew = sizes.grew(name).map(|grew| grew.1.max(0) as f64);
            let all = of_cache.get(&cache).copied().unwrap_or(0).max(1) as f64;
            let largest = group.by_origin.iter().max_by_key(|(nth, bytes)| (**bytes, **nth));
            let stack = largest.map_or(&[][..], |(nth, _)| &raw.origins[*nth].stack);
            let site = names.symbols.name(site);
            let stack: Vec<String> = stack.iter().map(|it| names.symbols.name(*it)).collect();
            // In front of the site are the allocator and what counts.
            let from = stack.iter().position(|name| *name == site).unwrap_or(0);
            let comm = group.origins.first().map_or("", |origin| &*origin.comm);
            Owner {
                cache: name.clone(),
                site,
                stack: stack[from..].to_vec(),
                process: names.processes.of(tgid, comm),
                cgroup: self::cgroup(raw, names, cgroup),
                allocations: group.origins.iter().map(|origin| origin.allocations).sum(),
                frees: group.origins.iter().map(|origin| origin.frees).sum(),
                objects: group.objects,
                bytes: group.bytes,
                oldest_ns: group.oldest_ns,
                confirmed: grew.map_or(1.0, |grew| (grew / all).min(1.0)),
            }
        })
        .collect();
    owners.sort_by(|a, b| {
        let by_bytes = b.confirmed_bytes().total_cmp(&a.confirmed_bytes());
        let by_name =
            || (&a.cache, &a.site, a.process.pid).cmp(&(&b.cache, &b.site, b.process.pid));
        by_bytes.then(b.bytes.cmp(&a.bytes)).then_with(by_name)
    });
    owners
}

/// Who has the largest sum over origins.
fn most(raw: &Raw, names: &Names, by_origin: &HashMap<usize, u64>) -> Process {
    let mut by_process: HashMap<u32, (u64, &str)> = HashMap::new();
    for (nth, objects) in by_origin {
        let origin = &raw.origins[*nth];
        by_process.entry(origin.tgid).or_insert((0, &origin.comm)).0 += objects;
    }
    let first = by_process.into_iter().max_by_key(|(pid, (objects, _))| (*objects, Reverse(*pid)));
    first
        .map_or_else(|| names.processes.of(0, ""), |(pid, (_, comm))| names.processes.of(pid, comm))
}

/// What is summed for a directory or a file system.
#[derive(Default)]
struct Sum {
    objects: u64,
    bytes: u64,
    negative: u64,
    /// Objects by the index of their origin.
    by_origin: HashMap<usize, u64>,
}

impl Sum {
    fn add(&mut self, survivor: &Survivor, look: &Look) {
        let objects = survivor.stands_for;
        self.objects += objects;
        self.bytes += u64::from(survivor.bytes) * objects;
        self.negative += if look.negative { objects } else { 0 };
        *self.by_origin.entry(survivor.origin).or_default() += objects;
    }
}

/// Which objects said something of themselves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LookedAt {
    Entries,
    Inodes,
}

/// Sums over the objects of a key, which is made of what they said of themselves and of the name of
/// their cache.
fn sums<'a, K: Eq + Hash>(
    raw: &'a Raw,
    old: &[&'a Survivor],
    of: LookedAt,
    key: impl Fn(&'a Look, &'a str) -> K,
) -> HashMap<K, Sum> {
    let mut found: HashMap<K, Sum> = HashMap::new();
    for survivor in old {
        let Some(look) = &survivor.look else { continue };
        let cache = &raw.caches[raw.origins[survivor.origin].cache].name;
        if (cache == "dentry") == (of == LookedAt::Entries) {
            found.entry(key(look, cache)).or_default().add(survivor, look);
        }
    }
    found
}

fn directories(raw: &Raw, old: &[&Survivor], names: &Names) -> Vec<Directory> {
    let found = sums(raw, old, LookedAt::Entries, |look, _| {
        let path = names.mounts.path(look.device, &look.file_system, &look.directory);
        (path, &*look.file_system)
    });
    let mut all: Vec<Directory> = found
        .into_iter()
        .map(|((path, file_system), sum)| Directory {
            path,
            file_system: file_system.to_owned(),
            entries: sum.objects,
            negative: sum.negative,
            bytes: sum.bytes,
            process: most(raw, names, &sum.by_origin),
        })
        .collect();
    all.sort_by(|a, b| (Reverse(a.entries), &a.path).cmp(&(Reverse(b.entries), &b.path)));
    all
}

fn file_systems(raw: &Raw, old: &[&Survivor], names: &Names) -> Vec<FileSystem> {
    let found = sums(raw, old, LookedAt::Inodes, |look, cache| {
        (look.device, &*look.id, &*look.file_system, cache)
    });
    let mut all: Vec<FileSystem> = found
        .into_iter()
        .map(|((device, id, file_system, cache), sum)| FileSystem {
            file_system: file_system.to_owned(),
            id: id.to_owned(),
            mount: names.mounts.point(device).map(str::to_owned),
            cache: cache.to_owned(),
            inodes: sum.objects,
            bytes: sum.bytes,
            process: most(raw, names, &sum.by_origin),
        })
        .collect();
    all.sort_by(|a, b| (Reverse(a.inodes), &a.id).cmp(&(Reverse(b.inodes), &b.id)));
    all
}
