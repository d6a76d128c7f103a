//! Core files, and by them the region of a hostile process: readers of live processes and of cores
//! decode the same words.
//!
//! A core has megabytes, of which a fuzzer would hit the words that matter once in a million tries.
//! So the bytes are patches of a sound core, each a place, of 4 bytes, the count of the bytes that
//! follow, of 1, and these. An odd place is counted from the yard's header on; an odd length asks for
//! all that is in the core. The sound core,
//! `crashed.zst`, is of a program that made 400 objects of 16 to 2800 bytes on the preload library, freed
//! each third and aborted, with its anonymous memory alone (`coredump_filter` 1).
//!
//! Neighbour: [`crate::source`] shows what was read.

use crate::{file, source};
use slabyard_abi::region::MAGIC;
use slabyard_observe::corefile::{self, Error};
use slabyard_observe::snapshot::{Cache, Snapshot};
use slabyard_observe::want::ReadScope;
use std::path::Path;
use std::sync::OnceLock;

const SOUND: &[u8] = include_bytes!("../crashed.zst");

/// Bytes of the header and of what it names first.
const NEAR: usize = 64 << 10;

/// A sound core with patches. An even count of bytes asks for what most views want, an odd one for all
/// that is in the core: both would take twice as long.
pub fn patched(bytes: &[u8]) {
    static CORE: OnceLock<Vec<u8>> = OnceLock::new();
    static HEADER: OnceLock<usize> = OnceLock::new();
    static CACHES: [OnceLock<Vec<Cache>>; 2] = [const { OnceLock::new() }; 2];
    let sound = CORE.get_or_init(|| zstd::decode_all(SOUND).expect("the kept core unpacks"));
    let header = *HEADER.get_or_init(|| {
        let found = sound.windows(MAGIC.len()).position(|bytes| *bytes == MAGIC);
        found.expect("the kept core has a yard")
    });
    let mut core = sound.clone();
    let mut rest = bytes;
    while let Some((head, after)) = rest.split_at_checked(5) {
        let place = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let near = header + place / 2 % NEAR;
        let at = if place % 2 == 1 { near } else { place } % core.len();
        let n = usize::from(head[4]).min(after.len()).min(core.len() - at);
        core[at..at + n].copy_from_slice(&after[..n]);
        rest = &after[n..];
    }
    let all = bytes.len() % 2 == 1;
    let sound_caches = CACHES[usize::from(all)].get_or_init(|| {
        let snapshot =
            sample(file::holding(sound, "").path(), all).expect("the kept core is sound");
        source::shown(&snapshot);
        snapshot.caches
    });
    let file = file::holding(&core, "");
    if let Ok(mut snapshot) = sample(file.path(), all) {
        for cache in snapshot.caches.iter().take(1) {
            let _ = corefile::traces(file.path(), &cache.name);
        }
        // To show all takes ten times as long as to read them, and those of the sound core were shown.
        snapshot.caches.retain(|cache| !sound_caches.contains(cache));
        source::shown(&snapshot);
    }
}

fn sample(core: &Path, all: bool) -> Result<Snapshot, Error> {
    corefile::sample(core, ReadScope { all, slabs: all })
}
