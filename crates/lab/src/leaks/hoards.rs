//! Caches that keep memory in which no object lives: objects that are free in partial slabs, or
//! parked for CPUs and in barns, by the snapshots of a recording.
//!
//! A recorder that shrank all caches at the end knows what that gave back; without it, free objects
//! on partial lists are counted, and parked ones are not known.

use super::caches::snapshot;
use crate::snapshot::{Cache, KernelSnapshot};
use crate::trace::{Attached, END, SHRUNK, START};
use std::cmp::Reverse;

/// Bytes below which a cache is not named.
const LEAST: u64 = 64 << 10;

/// What a cache keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hoard {
    /// The cache's name, or one of its names.
    pub cache: String,
    /// Bytes of its slabs at the end.
    pub bytes: u64,
    /// Bytes by which its slabs grew in the recording.
    pub grew_bytes: i64,
    /// Bytes of objects that are free in slabs on partial lists.
    pub free_bytes: u64,
    /// Bytes that a shrink of the cache gave back; None if the recorder did not shrink it.
    pub shrink_gave: Option<u64>,
}

/// Those of the snapshots before and after a recording, largest first; None if it has none.
pub(super) fn of(attached: &[Attached]) -> Option<Vec<Hoard>> {
    let (start, end) = (snapshot(attached, START), snapshot(attached, END)?);
    let shrunk = snapshot(attached, SHRUNK);
    let page = u64::from(end.page_size);
    let bytes = |cache: &Cache| Some((cache.slabs? * page) << cache.order);
    let known = |snapshot: &Option<KernelSnapshot>, id: &str| bytes(snapshot.as_ref()?.cache(id)?);
    let mut hoards: Vec<Hoard> = end
        .caches
        .iter()
        .filter_map(|cache| {
            let now = bytes(cache)?;
            let free = cache.total_objects?.saturating_sub(cache.objects?);
            Some(Hoard {
                cache: name(&end, &cache.id),
                bytes: now,
                grew_bytes: now as i64 - known(&start, &cache.id).unwrap_or(0) as i64,
                free_bytes: free * u64::from(cache.slab_size),
                shrink_gave: known(&shrunk, &cache.id).map(|left| now.saturating_sub(left)),
            })
        })
        .filter(|hoard| hoard.keeps() >= LEAST)
        .collect();
    hoards.sort_by_key(|hoard| (Reverse(hoard.keeps()), hoard.cache.clone()));
    Some(hoards)
}

impl Hoard {
    /// The larger of the two.
    #[must_use]
    pub fn keeps(&self) -> u64 {
        self.free_bytes.max(self.shrink_gave.unwrap_or(0))
    }
}

/// A merged cache has an id of sizes and flags; its first name says more.
fn name(snapshot: &KernelSnapshot, id: &str) -> String {
    let alias = snapshot.aliases.iter().find(|(_, of)| *of == id).map(|(alias, _)| alias);
    match alias {
        Some(alias) if id.starts_with(':') => alias.clone(),
        _ => id.to_owned(),
    }
}
