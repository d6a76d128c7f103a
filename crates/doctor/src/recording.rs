//! What a recording of a kernel's or a process's allocations tells: which call sites and processes
//! left objects behind, and the snapshots that the recorder took.
//!
//! Neighbours: `slabyard_lab::leaks` finds what stayed and says whether that is a leak;
//! [`crate::look`] makes looks of the snapshots before and after. Invariant: memory is bounded as
//! that of `leaks`, however long the recording is.

use crate::owners::{Owner, Owners};
use slabyard_lab::leaks::{self, Leaks, Limits, Site, Verdict};
use slabyard_lab::trace::{END, Error, MAGIC, MALLOC, START, Stream};
use slabyard_observe::snapshot::Missing;
use slabyard_observe::{Snapshot, file};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Owners of a cache that are told.
const NAMED: usize = 5;

/// A recording that was read to its end.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// What was recorded, in the recording's words.
    pub title: String,
    /// It is of a kernel, else of a process.
    pub of_kernel: bool,
    /// What stayed.
    pub leaks: Leaks,
    /// First names of caches by each of their names.
    pub names: BTreeMap<String, String>,
}

/// True for a file that begins as a recording does.
#[must_use]
pub fn looks_like(path: &Path) -> bool {
    let mut first = Vec::new();
    let read = File::open(path)
        .and_then(|file| Read::take(file, MAGIC.len() as u64).read_to_end(&mut first));
    read.is_ok() && first == MAGIC
}

impl Recording {
    /// Reads a recording, with the snapshots that it has of its beginning and its end, and what it
    /// lacks.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(path: &Path) -> Result<(Recording, Vec<Snapshot>, Vec<Missing>), Error> {
        let mut stream = Stream::open(path)?;
        let leaks = leaks::find(&mut stream, Limits::default())?;
        let mut missing = Vec::new();
        let mut miss = |what: &str, why: String| {
            missing.push(Missing { what: what.into(), why });
        };
        let mut snapshots = Vec::new();
        let attached = stream.attached();
        for name in [START, END] {
            let Some(found) = attached.iter().find(|it| it.name == name) else { continue };
            match file::read(&found.bytes, path) {
                Ok(snapshot) => snapshots.push(snapshot),
                Err(why) => {
                    miss(&format!("the snapshot of the recording's {name}"), why.to_string())
                }
            }
        }
        for damage in stream.damaged() {
            miss("part of the recording", damage.to_string());
        }
        if leaks.lost > 0 {
            let why =
                format!("{} were lost: an object whose free was is counted as live", leaks.lost);
            miss("events of the recording", why);
        }
        if leaks.without_sites {
            miss("call sites", "the recording has none".into());
        }
        let of_kernel = !attached.iter().any(|it| it.name == MALLOC);
        if !attached.iter().any(|it| it.name == END) {
            let why = match of_kernel {
                true => "the recording has no snapshot of its end",
                false => {
                    "a program's recording has its objects alone; `slabyard replay` lays them out in slabs"
                }
            };
            miss("slabs and what is free in them", why.into());
        }
        let recording = Recording {
            title: stream.header().source.clone(),
            of_kernel,
            names: snapshots.last().map(names).unwrap_or_default(),
            leaks,
        };
        Ok((recording, snapshots, missing))
    }

    /// Bytes of the objects that it saw allocated, and not freed.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.leaks.sites.iter().map(|site| site.survivors.bytes).sum()
    }

    /// Bytes that a kernel's caches gave back when the recorder shrank them at the end; `None` if it did
    /// not.
    #[must_use]
    pub fn shrink_gave(&self) -> Option<u64> {
        self.leaks
            .hoards
            .as_ref()?
            .iter()
            .filter_map(|hoard| hoard.shrink_gave)
            .reduce(|a, b| a + b)
    }

    fn is_of(&self, site: &Site, cache: &str) -> bool {
        let first = |name: &str| self.names.get(name).cloned().unwrap_or_else(|| name.to_owned());
        first(&site.cache) == first(cache)
    }
}

/// A merged cache has several names.
fn names(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let of = |cache: &slabyard_observe::Cache| {
        let name = cache.name.clone();
        cache.aliases.clone().into_iter().map(move |alias| (alias, name.clone()))
    };
    snapshot.caches.iter().flat_map(of).collect()
}

/// The processes that allocated what stayed of a site, those with most bytes first.
pub(crate) fn owners(site: &Site) -> Vec<Owner> {
    let owner = |(pid, held): &(u32, leaks::Survivors)| Owner {
        who: format!("process {pid}"),
        site: site.site.clone(),
        objects: held.objects,
        bytes: held.bytes,
    };
    site.processes.iter().take(NAMED).map(owner).collect()
}

impl Owners for Recording {
    fn of_cache(&self, cache: &str) -> Vec<Owner> {
        let stays = |site: &&Site| !matches!(site.verdict, Verdict::Replaced | Verdict::Young);
        let sites = self.leaks.sites.iter().filter(stays).filter(|site| self.is_of(site, cache));
        let mut found: Vec<Owner> = sites.flat_map(owners).collect();
        found.sort_by_key(|owner| std::cmp::Reverse(owner.bytes));
        found.truncate(NAMED);
        found
    }
}
