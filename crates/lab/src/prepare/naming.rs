//! Finds the cache of each event.
//!
//! `kmem_cache_alloc` and `kmem_cache_free` name the cache by its first creator's name; after
//! merging, that name may be an alias. A `kmalloc` event reports the size class and the flags that
//! choose among the kmalloc families; a few call sites have families of their own. A `kfree` event
//! reports neither size nor flags: [`super::frames`] finds its cache by address.

use std::collections::{BTreeMap, HashMap};

use super::input::{CacheFacts, CacheNumber, Input, NO_CACHE};
use super::oddities::Oddities;
use crate::event::{Event, EventKind};

/// Flags that choose a family, the first that is set wins (`kmalloc_type()` in
/// `include/linux/slab.h`, 5.14 and later).
const GFP_DMA: u32 = 0x1;
const GFP_RECLAIMABLE: u32 = 0x10;
const GFP_ACCOUNT: u32 = 0x40_0000;

/// Families of kmalloc caches: the name before the size.
const NORMAL: &str = "kmalloc-";
const FAMILIES: [(u32, &str); 3] =
    [(GFP_DMA, "dma-kmalloc-"), (GFP_RECLAIMABLE, "kmalloc-rcl-"), (GFP_ACCOUNT, "kmalloc-cg-")];

/// Call sites that take from caches of their own (`kmem_buckets_create()`, 6.11 and
/// later). `memdup_user()` is traced as its caller.
const BUCKETS: [(&str, &[&str]); 2] = [
    ("memdup_user-", &["memdup_user", "memdup_user_nul", "strndup_user", "vmemdup_user"]),
    ("msg_msg-", &["alloc_msg", "load_msg"]),
];

/// True for a call site that has caches of its own.
#[must_use]
pub fn is_site_of_bucket(site: &str) -> bool {
    BUCKETS.iter().any(|(_, sites)| sites.contains(&site))
}

/// True for a cache of such call sites.
#[must_use]
pub fn is_of_bucket(cache: &str) -> bool {
    BUCKETS.iter().any(|(prefix, _)| cache.starts_with(prefix))
}

/// The cache of a `kmalloc` by its size and flags, where the kernel has all families: `kmalloc-cg-1k`.
/// Call sites that have caches of their own are not looked at.
#[must_use]
pub fn kmalloc_cache(event: &Event) -> String {
    let family = FAMILIES.iter().find(|(flag, _)| event.gfp & flag != 0);
    let prefix = family.map_or(NORMAL, |(_, prefix)| prefix);
    match class_of(event.allocated) {
        Some(class) => format!("{prefix}{}", class_name(class)),
        None => format!("{prefix}{}", event.allocated),
    }
}

/// Names events, one at a time.
pub(super) struct EventNamer {
    /// By name of the trace.
    by_name: Vec<CacheNumber>,
    chooser: Chooser,
}

impl EventNamer {
    pub(super) fn new(input: &Input) -> EventNamer {
        let caches = Caches::new(input.caches, input.aliases);
        let by_name = input.names.iter().map(|(_, name)| caches.named(name)).collect();
        EventNamer { by_name, chooser: Chooser::new(&caches, input) }
    }

    /// The cache of an event of its own account, so [`NO_CACHE`] for every `Kfree` and for pages.
    pub(super) fn name(&self, event: &Event, oddities: &mut Oddities) -> CacheNumber {
        let cache = match event.kind {
            // A name that was lost with a damaged chunk is none.
            EventKind::CacheAlloc | EventKind::CacheFree => {
                self.by_name.get(event.name as usize).copied().unwrap_or(NO_CACHE)
            }
            EventKind::Kmalloc => self.chooser.choose(event),
            _ => return NO_CACHE,
        };
        oddities.unknown_cache += u64::from(cache == NO_CACHE);
        cache
    }
}

pub(super) struct Caches<'a>(HashMap<&'a str, CacheNumber>);

impl<'a> Caches<'a> {
    pub(super) fn new(
        caches: &'a [CacheFacts],
        aliases: &'a BTreeMap<String, String>,
    ) -> Caches<'a> {
        let ids = caches.iter().enumerate();
        let mut names: HashMap<_, _> =
            ids.map(|(number, facts)| (facts.id.as_str(), number as CacheNumber)).collect();
        for (name, id) in aliases {
            if let Some(&number) = names.get(id.as_str()) {
                names.entry(name).or_insert(number);
            }
        }
        Caches(names)
    }

    pub(super) fn named(&self, name: &str) -> CacheNumber {
        self.0.get(name).copied().unwrap_or(NO_CACHE)
    }
}

/// Size classes: 8 to 1 MiB, and the two between.
const CLASSES: usize = 20;

/// Chooses among the kmalloc caches that the kernel has.
struct Chooser {
    /// Normal first, then as [`FAMILIES`], then as [`BUCKETS`].
    families: [[CacheNumber; CLASSES]; 1 + FAMILIES.len() + BUCKETS.len()],
    /// Per name of the trace: the family of the site's own, or 0.
    site_family: Vec<u8>,
}

impl Chooser {
    fn new(caches: &Caches, input: &Input) -> Chooser {
        let mut families = [[NO_CACHE; CLASSES]; 1 + FAMILIES.len() + BUCKETS.len()];
        let prefixes = std::iter::once(NORMAL)
            .chain(FAMILIES.iter().map(|(_, prefix)| *prefix))
            .chain(BUCKETS.iter().map(|(prefix, _)| *prefix));
        for (family, prefix) in families.iter_mut().zip(prefixes) {
            for (class, cache) in family.iter_mut().enumerate() {
                *cache = caches.named(&format!("{prefix}{}", class_name(class)));
            }
        }
        let own = |(_, site)| {
            let bucket = BUCKETS.iter().position(|(_, sites)| sites.contains(&site));
            bucket.map_or(0, |bucket| (1 + FAMILIES.len() + bucket) as u8)
        };
        Chooser { families, site_family: input.names.iter().map(own).collect() }
    }

    /// A family that the kernel lacks leaves the choice to the next: without a DMA
    /// zone `GFP_DMA` says nothing.
    fn choose(&self, event: &Event) -> CacheNumber {
        let Some(class) = class_of(event.allocated) else { return NO_CACHE };
        let own = self.site_family.get(event.name as usize).map_or(0, |own| *own as usize);
        let by_flags = (0..FAMILIES.len()).filter(|f| event.gfp & FAMILIES[*f].0 != 0);
        std::iter::once(own)
            .filter(|own| *own != 0)
            .chain(by_flags.map(|family| 1 + family))
            .chain(std::iter::once(0))
            .map(|family| self.families[family][class])
            .find(|cache| *cache != NO_CACHE)
            .unwrap_or(NO_CACHE)
    }
}

/// Places of 96 and 192 are the last two; the rest are powers of two from 8.
fn class_of(bytes: u32) -> Option<usize> {
    match bytes {
        96 => Some(CLASSES - 2),
        192 => Some(CLASSES - 1),
        _ if bytes.is_power_of_two() && bytes >= 8 => {
            let class = bytes.trailing_zeros() as usize - 3;
            (class < CLASSES - 2).then_some(class)
        }
        _ => None,
    }
}

fn class_name(class: usize) -> String {
    match class {
        18 => "96".into(),
        19 => "192".into(),
        _ => match 8u32 << class {
            bytes if bytes < 1024 => bytes.to_string(),
            bytes if bytes < 1024 * 1024 => format!("{}k", bytes / 1024),
            bytes => format!("{}M", bytes / 1024 / 1024),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_found_by_its_size() {
        for class in 0..CLASSES {
            let name = class_name(class);
            let bytes = match name.strip_suffix('k') {
                Some(kib) => kib.parse::<u32>().unwrap() * 1024,
                None => match name.strip_suffix('M') {
                    Some(mib) => mib.parse::<u32>().unwrap() * 1024 * 1024,
                    None => name.parse().unwrap(),
                },
            };
            assert_eq!(class_of(bytes), Some(class), "{name}");
        }
        assert_eq!(class_name(7), "1k");
        assert_eq!(class_of(4), None);
        assert_eq!(class_of(65), None);
        assert_eq!(class_of(2 << 20), None);
    }
}
