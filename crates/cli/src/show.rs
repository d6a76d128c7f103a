//! `slabyard show`: one cache, with everything that is known of it.

use crate::failure::Failure;
use crate::list::pattern;
use crate::{look, stdout};
use anyhow::Context;
use clap::ValueHint;
use slabyard_observe::source::{Named, Want};
use slabyard_observe::view::pick::Pick;
use slabyard_observe::view::show;
use slabyard_observe::{Cache, Snapshot};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  slabyard show kernel dentry
  slabyard show kernel 'kmalloc-*'              one after the other
  slabyard show $(pgrep -n python3) malloc-64   with each slab on its partial lists
  slabyard show core.4711 malloc-64 --json";

/// `slabyard show`.
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", look::CODES))]
pub struct ShowArgs {
    /// Where to look: `kernel`, a process, or a file
    #[arg(value_name = "SOURCE", value_hint = ValueHint::FilePath)]
    source: Named,
    /// The cache, by any of its names; or a pattern, for each that it takes
    #[arg(value_name = "CACHE")]
    cache: String,
    /// For programs
    #[arg(long)]
    json: bool,
}

/// Prints the cache.
pub fn run(args: &ShowArgs) -> Result<ExitCode, Failure> {
    // A kernel would say that it cannot.
    let slabs = args.source != Named::Kernel;
    let snapshot = look::sample(&args.source, Want { all: true, slabs })?;
    let style = look::style(&std::io::stdout());
    let mut page = Vec::new();
    for (nth, cache) in args.caches(&snapshot)?.into_iter().enumerate() {
        if args.json {
            show::write_json(&mut page, &snapshot, cache)
        } else {
            let apart: &[u8] = if nth == 0 { b"" } else { b"\n" };
            page.extend_from_slice(apart);
            show::write(&mut page, &snapshot, cache, style)
        }
        .context("the cache")?;
    }
    stdout::print(&page)
}

impl ShowArgs {
    /// The cache with this very name, else those that it takes as a pattern.
    fn caches<'a>(&self, snapshot: &'a Snapshot) -> Result<Vec<&'a Cache>, Failure> {
        let is_pattern = self.cache.contains(['*', '?', '[']);
        if !is_pattern || snapshot.cache(&self.cache).is_some() {
            return Ok(vec![look::cache(snapshot, &self.source, &self.cache)?]);
        }
        let patterns = vec![pattern(&self.cache).map_err(Failure::Usage)?];
        let pick = Pick { patterns, ..Pick::default() };
        let picked = pick.caches(snapshot).caches;
        look::has_match(!picked.is_empty(), &self.source, &pick.patterns)?;
        Ok(picked)
    }
}
