//! Shared by the commands that read slab memory: takes the sample, and formats a view for a
//! terminal or a file.
//!
//! Invariant: units, colours and a limited width are for terminals only.

use crate::failure::Failure;
use crate::stderr::say;
use anyhow::anyhow;
use slabyard_ask::files::DASH;
use slabyard_observe::snapshot::Missing;
use slabyard_observe::source::{self, ReadScope, SourceName};
use slabyard_observe::view::pick::Pattern;
use slabyard_observe::view::{Colour, Style, Units, cell};
use slabyard_observe::{Cache, Snapshot};
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::path::Path;
use terminal_size::{Width, terminal_size_of};

/// The style for an output.
pub fn style(output: &(impl IsTerminal + AsFd)) -> Style {
    if !output.is_terminal() {
        return Style::PLAIN;
    }
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|v| v == "dumb");
    Style {
        units: Units::Human,
        colour: if no_color || dumb { Colour::No } else { Colour::Yes },
        // A terminal that does not know its width says 0.
        width: terminal_size_of(output).map(|(Width(n), _)| n.into()).filter(|n| *n > 0),
    }
}

/// What every command that looks ends its help with.
pub const CODES: &str = "\
SOURCE is `kernel`, the id of a process that runs on Slabyard, or a file: a saved
snapshot, the core file of such a process, or a text: slabinfo, slabtop, meminfo, smaps,
a kernel's log, statistics of glibc's malloc, jemalloc or mimalloc, also within a mail.
A folder or tar archive is a sosreport, or copies of /proc and /sys. `-` is standard input.
A file named as a number, `kernel` or `-` is `./123`, `./kernel` or `./-`.

The exit code is 0 when it is done, 2 for wrong usage, and 3 if it cannot be done, with
the reason. What of a source could not be read is said on standard error, and the rest is
done: 0.";

/// Says at once what could not be read: a series or a file has no place for it, and under a list
/// nobody sees it. What a file does not tell was said when it was made.
fn tell_missing(named: &SourceName, snapshot: &Snapshot) {
    if !matches!(named, SourceName::Kernel | SourceName::Process(_)) {
        return;
    }
    if let Some(first) = first_of(&snapshot.missing) {
        say(&format!("{named}: not all of it could be read: {first}"));
    }
}

/// The first of what is missing and why, and how many more there are; `None` if nothing is.
pub fn first_of(missing: &[Missing]) -> Option<String> {
    let first = missing.first()?;
    let (what, why) = (cell::clean(&first.what), cell::clean(&first.why));
    Some(match missing.len() - 1 {
        0 => format!("{what}: {why}"),
        more => format!("{what}: {why}; and {more} more"),
    })
}

/// A sample; a source that cannot be read is exit code 3.
pub fn sample(named: &SourceName, want: ReadScope) -> Result<Snapshot, Failure> {
    let snapshot = source::sample(named, want).map_err(anyhow::Error::from)?;
    tell_missing(named, &snapshot);
    Ok(snapshot)
}

/// The cache with this name, id or alias.
pub fn cache<'a>(
    snapshot: &'a Snapshot,
    named: &SourceName,
    name: &str,
) -> Result<&'a Cache, Failure> {
    let found = snapshot.cache(name);
    let has = |cache: &&Cache| cache.names().any(|n| n.contains(name));
    let like: Vec<&str> =
        snapshot.caches.iter().filter(has).take(5).map(|c| c.name.as_str()).collect();
    let hint = if like.is_empty() || name.is_empty() {
        format!("`slabyard list {}` names them", typed(named))
    } else {
        format!("names with it: {}", like.join(", "))
    };
    Ok(found.ok_or_else(|| anyhow!("{named} has no cache `{name}`; {hint}"))?)
}

/// A pattern of names.
pub fn pattern(text: &str) -> Result<Pattern, String> {
    Pattern::new(text).map_err(|e| format!("no pattern of names: {e}"))
}

/// Fails where no cache is picked by patterns that are there.
pub fn has_match(picked: bool, named: &SourceName, patterns: &[Pattern]) -> Result<(), Failure> {
    if picked || patterns.is_empty() {
        return Ok(());
    }
    let patterns = patterns.iter().map(|p| format!("`{p}`")).collect::<Vec<_>>().join(" or ");
    let typed = typed(named);
    Err(anyhow!("{named} has no cache named {patterns}; `slabyard list {typed}` names them"))?
}

/// Why a file is not what is wanted: it can only be looked at. What names no file either
/// was typed wrongly.
pub fn only_a_file(path: &Path, why: &str) -> String {
    let shown = path.display();
    if path.exists() {
        format!("{shown} is a file: {why}")
    } else {
        format!("`{shown}` is neither `kernel` nor the id of a process, and there is no such file")
    }
}

/// The file that a source is, if it is one.
pub fn file_of(named: &SourceName) -> Option<&Path> {
    match named {
        SourceName::File(path) => Some(path),
        SourceName::Kernel | SourceName::Process(_) | SourceName::Stdin => None,
    }
}

/// A source as it is typed.
fn typed(named: &SourceName) -> String {
    match named {
        SourceName::Process(pid) => pid.to_string(),
        SourceName::Stdin => DASH.into(),
        other => other.to_string(),
    }
}
