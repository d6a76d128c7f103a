//! A burst: many objects are allocated, and 99 % of them are freed, chosen at random. The remaining
//! memory is compared with two sets of slabs: those that hold a survivor, which a non-moving
//! allocator must keep, and those expected if survivors are placed at random.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use serde::Serialize;
use slabyard::{ObjectCache, ProcessYard};

/// The object: 250 bytes make a slab of few objects, so that some slabs have no survivor.
type Object = [u8; 256];

/// What a burst left.
#[derive(Serialize)]
pub struct Burst {
    pub objects: usize,
    pub survivors: usize,
    pub rss_peak: usize,
    pub rss_after: usize,
    /// Slabs with a survivor, and their bytes.
    pub pinned_slabs: usize,
    pub pinned_bytes: usize,
    pub metadata: usize,
    /// Slabs with a survivor, if each object survives by itself with the same chance.
    pub by_chance: f64,
    pub slabs_before: usize,
    /// What `shrink` left.
    pub slabs_after: usize,
}

impl Burst {
    /// Resident bytes to those that cannot go.
    pub fn ratio(&self) -> f64 {
        self.rss_after as f64 / (self.pinned_bytes + self.metadata) as f64
    }
}

/// Resident bytes of this process that are not of files.
fn resident() -> Result<usize> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).context("RssAnon")?;
    let kib: usize = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib << 10)
}

/// Runs one, in the yard.
pub fn run(yard: &'static ProcessYard, objects: usize) -> Result<Burst> {
    let cache = ObjectCache::<Object>::new("burst", yard)?;
    let whole = yard.start()?;
    let geometry = whole.find_cache(cache.id()).context("a cache")?.shape().geometry;
    // The boxes themselves are no part of what is measured: their memory is there before.
    let mut held = Vec::with_capacity(objects);
    // Touched, so that it is resident before, too.
    held.resize_with(objects, || None);
    held.clear();
    let before = resident()?;
    held.extend((0..objects).map(|n| Some(cache.alloc([n as u8; 256]))));
    let slabs_before = cache.bytes() / geometry.slab_bytes();
    let rss_peak = resident()? - before;
    let mut random = Rng::with_seed(7);
    random.shuffle(&mut held);
    let survivors = objects / 100;
    held[survivors..].iter_mut().for_each(|object| drop(object.take()));
    cache.shrink();
    whole.trim();
    let slab = |object: &Option<_>| {
        let object: &slabyard::CacheBox<Object> = object.as_ref()?;
        Some(std::ptr::from_ref(&**object).addr() / geometry.slab_bytes())
    };
    let pinned: BTreeSet<_> = held[..survivors].iter().filter_map(slab).collect();
    let rss_after = resident()?.saturating_sub(before);
    // The set's own memory is this program's.
    let metadata = whole
        .quiesce(|quiesced| slabyard::yard::Yard::count(quiesced, |_, _| {}).metadata as usize)
        .context("outside of a slow path")?;
    ensure!(cache.live() == Some(survivors as u64), "objects got lost");
    let slabs_after = cache.bytes() / geometry.slab_bytes();
    let free = 1.0 - survivors as f64 / objects as f64;
    let by_chance = slabs_before as f64 * (1.0 - free.powi(geometry.objects as i32));
    Ok(Burst {
        objects,
        survivors,
        rss_peak,
        rss_after,
        pinned_slabs: pinned.len(),
        pinned_bytes: pinned.len() * geometry.slab_bytes(),
        metadata,
        by_chance,
        slabs_before,
        slabs_after,
    })
}
