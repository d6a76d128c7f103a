//! Reads a Linux kernel's caches from `/proc/slabinfo` and `/sys/kernel/slab` and its machine's
//! properties from procfs and sysfs, and makes the changes that it permits.
//!
//! Neighbours: this module fills a [`Snapshot`]; [`crate::hidden`] bounds the numbers that a kernel
//! does not report. The default columns need slabinfo and four files per cache (see [`attribute`]);
//! all columns together need every file that the kernel shows. What the kernel lacks or denies is
//! listed once in `Snapshot::missing`, not in each cache. Files are read below `/` or a directory
//! with copies of `proc` and `sys`; for copies, the page size is inferred from the caches'
//! geometry.

mod attribute;
mod change;
mod dump;
mod error;
pub mod files;
mod grace;
pub(crate) mod machine;
pub(crate) mod names;
pub(crate) mod slabinfo;
mod survey;
mod symbols;
pub mod tracefs;
mod traces;
mod tree;

pub(crate) use attribute::printable;
pub use change::{Change, set, shrink};
pub(crate) use dump::Dumps;
pub use error::Error;
pub use grace::wait_for_readers;
pub use symbols::Symbols;
pub(crate) use traces::traces;

use crate::hidden;
use crate::snapshot::{Missing, Snapshot, Source, SourceKind};
use crate::want::ReadScope;
use error::why;
use std::fs;
use std::path::Path;
use std::time::Instant;
use survey::Survey;
pub(crate) use tree::BELOW as SLAB_TREE;
use tree::{Listing, Tree};

/// Samples a kernel.
///
/// # Errors
/// Neither slabinfo nor sysfs can be read.
pub fn sample(root: &Path, want: ReadScope) -> Result<Snapshot, Error> {
    let live = root == Path::new("/");
    if live {
        // Once for all caches. What waits for readers beyond that counts as live.
        let _ = wait_for_readers();
    }
    let tree = root.join(tree::BELOW);
    let page_bytes = live.then(|| rustix::param::page_size() as u64);
    sample_from(root, &tree, want, page_bytes)
}

/// Samples copies of a kernel's files: those of `/proc` and `/sys` below a root, and of
/// `/sys/kernel/slab` in a directory.
///
/// # Errors
/// As [`sample`].
pub(crate) fn sample_copy(root: &Path, tree: &Path, want: ReadScope) -> Result<Snapshot, Error> {
    sample_from(root, tree, want, None)
}

fn sample_from(
    root: &Path,
    tree: &Path,
    want: ReadScope,
    page_bytes: Option<u64>,
) -> Result<Snapshot, Error> {
    let began = Instant::now();
    let mut snapshot = Snapshot::new(Source::of(SourceKind::Kernel));
    let release = machine::fill(root, &mut snapshot);
    let slabinfo = fs::read(root.join("proc/slabinfo"));
    let tree = Tree::at(tree.into()).and_then(|tree| Ok((tree.list()?, tree)));
    if let (Err(slabinfo), Err(sysfs)) = (&slabinfo, &tree) {
        return Err(Error::Nothing { slabinfo: why(slabinfo), sysfs: why(sysfs) });
    }
    let mut miss = |what: &str, why: String| {
        snapshot.missing.push(Missing { what: what.into(), why });
    };
    let text = slabinfo.unwrap_or_else(|e| {
        miss("/proc/slabinfo", why(&e));
        Vec::new()
    });
    let text = String::from_utf8_lossy(&text);
    let (rows, strange) = slabinfo::parse(&text);
    if let Some(first) = strange.first() {
        let first = attribute::printable(first);
        miss("/proc/slabinfo", format!("{} lines are not as expected: {first}", strange.len()));
    }
    if want.slabs {
        miss("slabs one by one", "a kernel tells sums of its partial slabs alone".into());
    }
    let (listing, tree) = match tree {
        Ok((listing, tree)) => (listing, Some(tree)),
        Err(e) => {
            miss("/sys/kernel/slab", why(&e));
            (Listing::default(), None)
        }
    };
    let mut found = names::together(&rows, &listing);
    if let Some(tree) = tree {
        let survey = Survey::new(&tree, &listing, want, release);
        snapshot.missing.extend(survey.fill(&mut found));
    }
    snapshot.caches = found.into_iter().map(|f| f.cache).collect();
    snapshot.machine.page_bytes = page_bytes.or_else(|| machine::page_bytes(&snapshot.caches));
    hidden::sum(&mut snapshot);
    snapshot.took_ns = u64::try_from(began.elapsed().as_nanos()).ok();
    Ok(snapshot)
}
