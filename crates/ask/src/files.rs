//! Standard input in place of a file: defines its name, reads kernels' snapshots from either, and picks
//! one of them.
//!
//! Neighbour: `observe::source` itself accepts `-` as a SOURCE.

use crate::Error;
use anyhow::anyhow;
use slabyard_lab::snapshot::{self, KernelSnapshot};
use std::io::{self, Read};
use std::path::Path;

/// In place of a file's name: standard input, or output.
pub const DASH: &str = "-";

/// True for the name of standard input.
pub fn is_stdin(file: &Path) -> bool {
    file == Path::new(DASH)
}

/// A file as it is named to people.
pub fn shown(file: &Path) -> String {
    if is_stdin(file) { "standard input".into() } else { file.display().to_string() }
}

/// Kernels' snapshots of a file, or from standard input; why not, with the file's name.
pub fn snapshots(file: &Path) -> Result<Vec<KernelSnapshot>, Error> {
    let read = || {
        if !is_stdin(file) {
            return KernelSnapshot::open(file);
        }
        let mut bytes = Vec::new();
        let read = io::stdin().lock().read_to_end(&mut bytes);
        read.map_err(|error| snapshot::Error::Read { path: shown(file).into(), error })?;
        KernelSnapshot::parse(&bytes)
    };
    Ok(read().map_err(|error| match error {
        snapshot::Error::Read { .. } | snapshot::Error::Saved(_) => anyhow!(error),
        _ => anyhow!("{}: {error}", shown(file)),
    })?)
}

/// One of a file's snapshots: the dump of a name, or the only one. `how` says how else to pick one.
pub fn one_of(
    mut all: Vec<KernelSnapshot>,
    file: &str,
    dump: Option<&str>,
    how: &str,
) -> Result<KernelSnapshot, Error> {
    let names: Vec<&str> = all.iter().filter_map(|one| one.dump.as_deref()).collect();
    let told = names.join(", ");
    let missing = match dump {
        None if all.is_empty() => return Err(anyhow!("{file} holds no dump").into()),
        None => format!("{file} holds several dumps; pick one {how}: {told}"),
        Some(name) if names.is_empty() => {
            format!("{file} holds one snapshot and no dump `{name}`; leave it out")
        }
        Some(name) => format!("{file} holds no dump `{name}`; it holds: {told}"),
    };
    let at = match dump {
        None => (all.len() == 1).then_some(0),
        Some(_) => all.iter().position(|one| one.dump.as_deref() == dump),
    };
    at.map(|at| all.swap_remove(at)).ok_or(Error::Usage(missing))
}
