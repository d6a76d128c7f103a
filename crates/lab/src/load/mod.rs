//! Loads: a trace that nobody recorded, made from a text that describes it.
//!
//! The text is TOML (`docs/formats.md`): a machine, its caches, and groups of tasks with their
//! rates, the lifetimes of their objects, and the CPUs on which these are freed. [`mod@format`]
//! reads and checks it, [`caches`] makes the snapshot of a kernel that has these caches and no slab yet,
//! [`events`] lets the tasks run and writes down what they do. The result is a [`Trace`] like one
//! from a recorder, except that no kernel has placed its objects: [`events`] only gives each an
//! address in a slab of the cache's geometry. Invariant: the same text gives the same trace.

mod caches;
mod events;
mod format;

use crate::trace::{Attached, Error, Header, LOAD, START, Trace};
use std::path::Path;

/// True for a file that is read as a load: one that is named `.toml`.
#[must_use]
pub fn is_load(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml")
}

/// Reads a load, and makes its trace.
///
/// # Errors
/// The text is no load, with line and key.
pub fn open(path: &Path) -> Result<Trace, Error> {
    let text = std::fs::read_to_string(path)?;
    read(&text, path.parent().unwrap_or(Path::new(""))).map_err(Error::Load)
}

/// Makes the trace of a load; other files that it names are looked for in a directory.
///
/// # Errors
/// What is wrong with it, in words.
pub fn read(text: &str, directory: &Path) -> Result<Trace, String> {
    let load = format::parse(text)?;
    let snapshot = caches::snapshot(&load, text, directory)?;
    let (events, names) = events::events(&load, text, &snapshot)?;
    let attached = [(START, snapshot.to_json()), (LOAD, text.into())];
    Ok(Trace {
        events,
        names,
        header: Header {
            release: load.machine.release.clone(),
            page_size: Some(snapshot.page_size),
            cpus: Some(load.machine.cpus),
            page_offset: Some(0),
            source: "load".into(),
        },
        attached: attached
            .map(|(name, bytes)| Attached { name: name.into(), time: 0, bytes })
            .into(),
        ..Trace::default()
    })
}

#[cfg(test)]
mod tests;
