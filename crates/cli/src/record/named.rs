//! Names the caches of a recording whose kernel did not name them in allocation events (before
//! 6.18).

use crate::failure::Failure;
use crate::stderr::say;
use crate::trace_file;
use slabyard_lab::edit::named;
use slabyard_lab::record::Wanted;
use slabyard_lab::trace::Stream;
use slabyard_observe::{Cache, Snapshot, Value};
use std::collections::HashMap;
use std::path::Path;

/// Writes the file anew with caches in the place of call sites; returns its events. What stands
/// in it stays until the new one is whole.
pub fn name_caches(
    file: &Path,
    snapshot: &Snapshot,
    wanted: Option<Wanted>,
) -> Result<u64, Failure> {
    let open = || Stream::open(file).map_err(trace_file::failed);
    let by_sizes = by_sizes(snapshot);
    let known = |requested, allocated| by_sizes.get(&(requested, allocated)).cloned().flatten();
    let caches = named::caches(open()?, known).map_err(trace_file::failed)?;
    let stream = open()?;
    let (header, attached) = (stream.header().clone(), stream.attached().to_vec());
    let done = trace_file::put(file, |out| {
        let (done, writer) =
            named::named(stream, &caches, wanted, out, &header).map_err(trace_file::failed)?;
        Ok((done, writer, attached))
    })?;
    say("this kernel's allocations do not name their cache: it was taken from the frees of the \
         same call site and size");
    for (n, what) in [
        (caches.others, "objects were freed to another cache than most of their call site"),
        (caches.by_sizes, "call sites whose objects nobody freed have the one cache of that size"),
        (caches.unknown, "call sites have no cache, and their objects are in no replay"),
    ] {
        if n > 0 {
            say(&format!("{n} {what}"));
        }
    }
    Ok(done.written)
}

/// By bytes that are asked for and those of an object: the cache, if it is the only one.
fn by_sizes(snapshot: &Snapshot) -> HashMap<(u32, u32), Option<String>> {
    let size = |cache: &Cache, name: &str| match cache.readings.get(name)?.value {
        Value::Exact(bytes) => u32::try_from(bytes).ok(),
        _ => None,
    };
    let mut found = HashMap::new();
    for cache in &snapshot.caches {
        let sizes = (size(cache, "object_size"), size(cache, "slab_size"));
        // Those of `kmalloc` have an event of their own.
        let (Some(object), Some(slab)) = sizes else { continue };
        if !cache.name.contains("kmalloc-") {
            let only = |name: &mut Option<String>| *name = None;
            found.entry((object, slab)).and_modify(only).or_insert(Some(cache.name.clone()));
        }
    }
    found
}
