//! `slabyard set`: changes a kernel's writable attributes, or a running process's tunables.
//!
//! Invariant: a key or value that can never be valid gives exit code 2; one that the source rejects
//! or does not support gives 3.

use crate::asking::{RequestWait, Wait};
use crate::failure::Failure;
use crate::{look, stdout};
use anyhow::anyhow;
use clap::ValueHint;
use slabyard_kernels::settings::{TUNABLES, bytes};
use slabyard_observe::process::RequestKind;
use slabyard_observe::source::{ROOT, ReadScope, SourceName};
use slabyard_observe::view::pick::CacheFilter;
use slabyard_observe::{kernel, view::cell::clean};
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

/// In place of a cache's name: the tunables of a whole yard.
const YARD: &str = "yard";

const EXAMPLES: &str = "\
Examples:
  slabyard set kernel dentry min_partial=20
  slabyard set kernel 'kmalloc-*' min_partial=20
  slabyard set $(pgrep -n python3) malloc-64 sheaf_capacity=30 min_partial=0
  slabyard set $(pgrep -n python3) yard decay_ms=100 node_limit=4M";

/// `slabyard set`.
#[derive(clap::Args)]
#[command(
    after_help = format!("{EXAMPLES}\n\n{}", look::CODES),
    after_long_help = long_help()
)]
pub struct SetArgs {
    /// What to change: `kernel` or a process
    #[arg(value_name = "SOURCE")]
    source: SourceName,
    /// The cache, by any of its names, or a pattern for several; `yard` for what is a process's as a
    /// whole
    #[arg(value_name = "CACHE", value_hint = ValueHint::Other)]
    cache: String,
    /// What to set, in this order
    #[arg(value_name = "KEY=VALUE", required = true, value_parser = pair)]
    settings: Vec<(String, String)>,
    #[command(flatten)]
    wait: Wait,
}

/// Sets one after the other and prints old and new; stops at the first that is refused.
pub fn run(args: &SetArgs) -> Result<ExitCode, Failure> {
    let pid = match &args.source {
        SourceName::Kernel => None,
        SourceName::Process(pid) => Some(*pid),
        SourceName::File(path) => {
            let why = "what it tells is past and cannot be set";
            Err(anyhow!(look::only_a_file(path, why)))?
        }
        SourceName::Stdin => Err(anyhow!("what is on standard input cannot be set"))?,
    };
    let numbers = match pid {
        None => Vec::new(),
        // All are read before the first is set.
        Some(_) => args.settings.iter().map(number).collect::<Result<Vec<_>, _>>()?,
    };
    let caches = caches(args)?;
    let asking = RequestWait::new(args.wait)?;
    for (nth, (key, value)) in args.settings.iter().enumerate() {
        for cache in &caches {
            let (old, new) = match pid {
                None => of_kernel(cache, key, value)?,
                Some(pid) => of_process(&asking, pid, cache, key, numbers[nth])?,
            };
            let mut line = String::new();
            let _ = writeln!(line, "{}: {key} {} -> {}", clean(cache), clean(&old), clean(&new));
            stdout::print(line.as_bytes())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The cache as it was typed, or those that it takes as a pattern, by the names of the source.
fn caches(args: &SetArgs) -> Result<Vec<String>, Failure> {
    if !args.cache.contains(['*', '?', '[']) {
        return Ok(vec![args.cache.clone()]);
    }
    let snapshot = look::sample(&args.source, ReadScope::default())?;
    let patterns = vec![look::pattern(&args.cache).map_err(Failure::Usage)?];
    let pick = CacheFilter { patterns, ..CacheFilter::default() };
    let picked: Vec<String> =
        pick.caches(&snapshot).caches.iter().map(|cache| cache.name.clone()).collect();
    look::has_match(!picked.is_empty(), &args.source, &pick.patterns)?;
    Ok(picked)
}

fn of_kernel(cache: &str, key: &str, value: &str) -> Result<(String, String), Failure> {
    match kernel::set(Path::new(ROOT), cache, key, value) {
        Ok(change) => Ok((change.old, change.new)),
        Err(error @ kernel::Error::NotSettable { .. }) => Err(Failure::Usage(error.to_string())),
        Err(error) => Err(anyhow::Error::from(error).into()),
    }
}

fn of_process(
    asking: &RequestWait,
    pid: u32,
    cache: &str,
    key: &str,
    value: u64,
) -> Result<(String, String), Failure> {
    let of_cache = (cache != YARD).then(|| cache.to_owned());
    let ask = RequestKind::Set { cache: of_cache, tunable: key.into(), value };
    let answer = asking.ask(pid, &ask)?;
    Ok((answer.old.to_string(), answer.new.to_string()))
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("expected KEY=VALUE".into()),
    }
}

/// A process's tunables are numbers, with K, M or G for powers of 1024.
fn number((key, text): &(String, String)) -> Result<u64, Failure> {
    let wrong = || Failure::Usage(format!("{key}={text}: expected a number, such as 60 or 4M"));
    bytes(text.as_bytes()).map_err(|_| wrong())
}

fn long_help() -> String {
    let mut text = format!("{EXAMPLES}\n\nKeys of a process's cache, and with * of its `yard`:\n");
    for row in TUNABLES {
        let mark = if row.of_yard { "*" } else { "" };
        let (least, most) = (row.least, row.most);
        let _ = writeln!(text, "  {}{mark}: {}, {least} to {most}", row.name, row.help());
    }
    let _ = write!(
        text,
        "\nKeys of a kernel's cache are the attributes in /sys/kernel/slab/CACHE that can be \
         written, such as min_partial; an unknown one is refused with those that there are. \
         A merged cache changes under all its names.\n\nA process sets a tunable at its next \
         slow path, or at once by its helper thread if it was started with `slabyard run --helper`. Where it \
         makes no call, a thread of it is stopped to serve, as `slabyard shrink --help` says, but with \
         --no-stop. What nobody serves before --timeout, or before Ctrl-C, is taken back: exit code 3.\n\n{}",
        look::CODES
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        let read = |text: &str| number(&("k".into(), text.into())).ok();
        assert_eq!(read("60"), Some(60));
        assert_eq!(read("4M"), Some(4 << 20));
        for text in ["", "-1", "+1", "M", "1.5", "x", "99999999999G", "ü"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn help_names_every_tunable() {
        let help = long_help();
        assert!(TUNABLES.iter().all(|row| help.contains(&format!("  {}", row.name))), "{help}");
    }
}
