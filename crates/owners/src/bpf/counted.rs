//! What the programs counted, as it is read at the end of a session: with addresses and numbers for
//! names.

use super::records::{self, Cache, CgroupName, Counts, Looked, Object, Origin, text};
use super::session::{Session, map, program, words};
use aya::maps::{Array, HashMap as Map, StackTraceMap};
use aya::programs::{RawTracePointRunOptions, TestRun};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::error::Error;

/// Directory entries and inodes that are looked at in the end.
const MOST_LOOKS: usize = 20_000;

/// What an object says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// It is a directory entry whose name does not exist.
    pub negative: bool,
    /// Major and minor number of the file system.
    pub device: (u32, u32),
    /// The device, or what the file system calls itself.
    pub id: String,
    /// Its type.
    pub file_system: String,
    /// Names of the directories that the entry is in, the outermost first; with `...` in front if
    /// there are more.
    pub directory: Vec<String>,
}

/// An object that was allocated in the watch and lives.
#[derive(Clone, Debug)]
pub(crate) struct Survivor {
    /// Index of its origin.
    pub origin: usize,
    pub age_ns: u64,
    pub bytes: u32,
    /// So many objects, of which it was the one that was followed.
    pub stands_for: u64,
    pub look: Option<Look>,
}

/// Who allocated, where and in which cache.
#[derive(Clone, Debug)]
pub(crate) struct RawOrigin {
    /// Index of the cache.
    pub cache: usize,
    pub site: u64,
    pub cgroup: u64,
    pub tgid: u32,
    pub comm: String,
    pub stack: Vec<u64>,
    pub allocations: u64,
    pub bytes: u64,
    pub frees: u64,
}

/// A cache and its events.
#[derive(Clone, Debug)]
pub(crate) struct RawCache {
    /// As in an origin: its address, or bytes and flags of a kmalloc.
    pub number: u64,
    pub name: String,
    pub object_bytes: u32,
    pub allocations: u64,
    pub frees: u64,
}

/// What the programs counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Raw {
    pub caches: Vec<RawCache>,
    pub origins: Vec<RawOrigin>,
    pub survivors: Vec<Survivor>,
    pub cgroups: HashMap<u64, String>,
    /// One object in so many was followed last.
    pub one_in: u64,
    pub events: u64,
    pub run_ns: u64,
    /// Why `events` is an estimate and `run_ns` is not known.
    pub unmeasured: Option<String>,
    /// Why objects did not say anything of themselves.
    pub unlooked: Option<String>,
    pub reader_ns: u64,
    pub missed: u64,
    pub live_full: u64,
    pub origins_full: u64,
    pub stacks_lost: u64,
}

impl Session {
    /// Stops the programs, and returns what they counted.
    pub(crate) fn end(mut self) -> Result<Raw, String> {
        self.read().map_err(|error| words(error.as_ref()))
    }

    /// Stops the programs, and reads.
    fn read(&mut self) -> Result<Raw, Box<dyn Error>> {
        self.share();
        for (name, link) in std::mem::take(&mut self.links) {
            program(&mut self.bpf, name)?.detach(link)?;
        }
        let time = clock_gettime(ClockId::Monotonic);
        let now = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        let mut raw = Raw { one_in: 1 << self.bits, ..Raw::default() };
        let origins = self.tables(&mut raw)?;
        let live: Vec<(u64, Object)> = self.live()?.iter().flatten().collect();
        let (mut looks, mut unlooked) = (0, None);
        for (address, object) in live {
            let Some(origin) = origins.get(&object.origin) else { continue };
            let cache = &raw.caches[raw.origins[*origin].cache];
            let kind = self.kind(cache, address).filter(|_| looks < MOST_LOOKS);
            looks += usize::from(kind.is_some());
            raw.survivors.push(Survivor {
                origin: *origin,
                age_ns: now.saturating_sub(object.born_ns),
                bytes: object.bytes,
                stands_for: 1 << (object.bits & 31),
                look: kind.and_then(|(kind, address)| {
                    let looked = self.look(kind, address);
                    looked.inspect_err(|why| unlooked = Some(words(why.as_ref()))).ok()
                }),
            });
        }
        raw.unlooked = unlooked;
        self.add_spent(&mut raw);
        raw.unmeasured = self.unmeasured.take();
        Ok(raw)
    }

    /// What the session took, and what it could not count.
    pub(super) fn add_spent(&self, raw: &mut Raw) {
        let (spent, lost) = (self.spent(), self.losses());
        (raw.events, raw.run_ns, raw.reader_ns) = (spent.events, spent.run_ns, spent.reader_ns);
        raw.missed = spent.missed;
        (raw.live_full, raw.origins_full) = (lost.live_full, lost.origins_full);
        raw.stacks_lost = lost.stacks_lost;
    }

    /// Reads the caches, the cgroups' names and the origins, of which it returns the index.
    pub(super) fn tables(&self, raw: &mut Raw) -> Result<HashMap<Origin, usize>, Box<dyn Error>> {
        let mut caches = HashMap::new();
        for entry in Map::<_, u64, Cache>::try_from(map(&self.bpf, "caches")?)?.iter() {
            let (number, cache) = entry?;
            caches.insert(number, raw.caches.len());
            raw.caches.push(named(number, &cache));
        }
        for entry in Map::<_, u64, CgroupName>::try_from(map(&self.bpf, "cgroups")?)?.iter() {
            let (id, name) = entry?;
            raw.cgroups.insert(id, text(&name.name));
        }
        let stacks = StackTraceMap::try_from(map(&self.bpf, "stacks")?)?;
        let mut origins = HashMap::new();
        for entry in Map::<_, Origin, Counts>::try_from(map(&self.bpf, "origins")?)?.iter() {
            let (origin, counts) = entry?;
            let Some(cache) = caches.get(&origin.cache) else { continue };
            let frames = |id: u32| stacks.get(&id, 0).ok();
            let stack = u32::try_from(origin.stack).ok().and_then(frames);
            origins.insert(origin, raw.origins.len());
            raw.origins.push(RawOrigin {
                cache: *cache,
                site: origin.site,
                cgroup: origin.cgroup,
                tgid: origin.tgid,
                comm: text(&counts.comm),
                stack: stack.map_or(Vec::new(), |it| it.frames().iter().map(|f| f.ip).collect()),
                allocations: counts.allocations,
                bytes: counts.bytes,
                frees: counts.frees,
            });
        }
        Ok(origins)
    }

    /// What `look` is to make of an object: 0 a directory entry, 1 an inode, and its address.
    fn kind(&self, cache: &RawCache, address: u64) -> Option<(u64, u64)> {
        match &*cache.name {
            "dentry" => Some((0, address)),
            name if name.contains("inode") => {
                let offset = self.inodes.get(&cache.object_bytes)?;
                Some((1, address + u64::from(*offset)))
            }
            _ => None,
        }
    }

    fn look(&mut self, kind: u64, address: u64) -> Result<Look, Box<dyn Error>> {
        let mut options = RawTracePointRunOptions::new();
        (options.args[0], options.args[1]) = (kind, address);
        program(&mut self.bpf, "look")?.test_run(options)?;
        let looked = Array::<_, Looked>::try_from(map(&self.bpf, "looks")?)?.get(&0, 0)?;
        let depth = (looked.depth as usize).min(records::DEEPEST);
        let names = looked.names[..depth].iter().skip(1).rev();
        let mut directory: Vec<String> = names.map(|name| text(name)).collect();
        if looked.is_root == 0 && kind == 0 {
            directory.insert(0, "...".into());
        }
        Ok(Look {
            negative: kind == 0 && looked.inode == 0,
            device: (looked.device >> 20, looked.device & 0xf_ffff),
            id: text(&looked.id),
            file_system: text(&looked.file_system),
            directory,
        })
    }
}

/// A cache by its own name, or that of the kmalloc cache of this size and family, where the kernel
/// has all families. A kernel that does not tell the cache of an object tells no caches of call sites
/// of their own apart.
fn named(number: u64, cache: &Cache) -> RawCache {
    let name = text(&cache.name);
    let (bytes, flags) = (number as u32, (number >> 32) as u32);
    let object_bytes = if name.is_empty() { bytes } else { cache.object_size };
    let name = if name.is_empty() { kmalloc_name(bytes, flags) } else { name };
    RawCache { number, name, object_bytes, allocations: cache.allocations, frees: cache.frees }
}

/// The kmalloc cache of so many bytes and these flags of its family.
pub(crate) fn kmalloc_name(bytes: u32, flags: u32) -> String {
    const FAMILIES: [(u32, &str); 3] =
        [(0x1, "dma-kmalloc-"), (0x10, "kmalloc-rcl-"), (0x40_0000, "kmalloc-cg-")];
    let family = FAMILIES.iter().find(|(flag, _)| flags & flag != 0);
    let family = family.map_or("kmalloc-", |(_, name)| name);
    match bytes {
        1024.. if bytes.is_multiple_of(1024) => format!("{family}{}k", bytes / 1024),
        _ => format!("{family}{bytes}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kmalloc_is_named_by_size_and_family() {
        assert_eq!(kmalloc_name(96, 0xcc0), "kmalloc-96");
        assert_eq!(kmalloc_name(2048, 0x40_0000), "kmalloc-cg-2k");
        assert_eq!(kmalloc_name(96, 0x10), "kmalloc-rcl-96");
    }
}
