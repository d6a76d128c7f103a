//! A kernel's slab memory by use.

use super::bounded::{MOST, of_bytes, product};
use super::{Total, Verdict, part};
use crate::look::Look;
use slabyard_observe::fields::{self, field};
use slabyard_observe::{Cache, Snapshot, Value};

/// A kernel's slab memory, in bytes.
#[derive(Clone, Debug, Default)]
pub struct KernelMemory {
    /// What the kernel counts as slab memory; else the sum over its caches.
    pub slab: u64,
    /// Of this, what may not be reclaimed, where the kernel says.
    pub unreclaimable: Option<u64>,
    /// The machine's memory, where it is known.
    pub memory: Option<u64>,
    /// Live objects, at least.
    pub live: u64,
    /// Objects that count as active and may be free for CPUs or nodes.
    pub parked: u64,
    /// Free objects in slabs of nodes' partial lists.
    pub free: u64,
    /// What is in slabs beside objects.
    pub padding: u64,
    /// The caches with slabs, the largest first.
    pub caches: Vec<KernelCache>,
}

/// A kernel's cache, in bytes.
#[derive(Clone, Debug, Default)]
pub struct KernelCache {
    /// Its first name.
    pub name: String,
    /// Its other names: it is all of them.
    pub aliases: Vec<String>,
    /// Of its slabs.
    pub bytes: u64,
    /// Objects that count as active.
    pub active: u64,
    /// Of these, objects that may be free, at most.
    pub parked: u64,
    /// Of free objects in slabs of nodes' partial lists.
    pub free: u64,
    /// Slabs, and of these those on nodes' partial lists.
    pub slabs: (u64, u64),
    /// Bytes from one object to the next.
    pub stride: u64,
    /// Objects in a slab.
    pub objs_per_slab: u64,
    /// Its memory is reclaimed when memory is short; `None` where that is not known.
    pub reclaimable: Option<bool>,
}

impl KernelMemory {
    /// Of a look at a kernel, or at a file of one.
    #[must_use]
    pub fn of(look: &Look) -> KernelMemory {
        let Some(snapshot) = &look.snapshot else { return KernelMemory::default() };
        let mut caches: Vec<KernelCache> =
            snapshot.caches.iter().filter_map(|cache| KernelCache::of(snapshot, cache)).collect();
        caches.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        let sum = |of: fn(&KernelCache) -> u64| caches.iter().map(of).sum::<u64>();
        let bytes = sum(|cache| cache.bytes);
        let total = |name| snapshot.total(name).and_then(Value::exact).map(|it| it.min(MOST));
        let parked = sum(|cache| cache.parked * cache.stride);
        let objects = sum(|cache| cache.active * cache.stride);
        let free = sum(|cache| cache.free);
        KernelMemory {
            slab: total("slab")
                .or_else(|| Some(total("slab_reclaimable")? + total("slab_unreclaimable")?))
                .unwrap_or(bytes),
            unreclaimable: total("slab_unreclaimable"),
            memory: total("mem_total"),
            live: objects.saturating_sub(parked),
            parked,
            free,
            padding: bytes.saturating_sub(objects + free),
            caches,
        }
    }

    /// The parts, with a remainder for what is in no cache.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let listed = self.live + self.parked + self.free + self.padding;
        let elsewhere = self.slab.saturating_sub(listed);
        let parts = vec![
            part("live", self.live, "objects in use, at least"),
            part(
                "parked",
                self.parked,
                "counted as active, and perhaps free in CPU slabs, sheaves and barns",
            ),
            part("free_in_slabs", self.free, "free in slabs of nodes' partial lists"),
            part("padding", self.padding, "beside the objects of slabs"),
            part(
                "unlisted",
                elsewhere,
                "counted as slab memory, and in no cache: blocks of more than two pages from kmalloc, mostly",
            ),
        ];
        Verdict::new(Total::Slab, self.slab, parts, Vec::new())
    }

    /// The cache of a name.
    #[must_use]
    pub fn cache(&self, name: &str) -> Option<&KernelCache> {
        self.caches.iter().find(|it| it.names().any(|its| its == name))
    }
}

impl KernelCache {
    fn of(snapshot: &Snapshot, cache: &Cache) -> Option<KernelCache> {
        let number = |name: &str| -> Option<u64> {
            let value = fields::value(field(name)?, snapshot, cache)?;
            value.high().map(|high| high.min(MOST))
        };
        // An OOM report tells bytes alone: then each byte is an object.
        let stride = number("slab_size").or_else(|| number("object_size")).unwrap_or(1);
        let bytes =
            number("bytes").or_else(|| Some(product([number("total_objects")?, stride])))?;
        if bytes == 0 {
            return None;
        }
        let active = number("objects_counted")
            .or_else(|| number("objects"))
            .or_else(|| number("live_bytes"))
            .map(|active| of_bytes(active, stride))?;
        let flag = |name| cache.exact(name).map(|flag| flag != 0);
        Some(KernelCache {
            name: cache.name.clone(),
            aliases: cache.aliases.clone(),
            bytes,
            active,
            parked: number("parked").unwrap_or(0).min(active),
            free: product([number("free_partial").unwrap_or(0), stride]),
            slabs: (number("slabs").unwrap_or(0), number("partial").unwrap_or(0)),
            stride,
            objs_per_slab: number("objs_per_slab").unwrap_or(1),
            reclaimable: flag("reclaim_account"),
        })
    }

    /// Its first name, then its other names.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.name).chain(&self.aliases)
    }
}
