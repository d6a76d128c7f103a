//! `slabyard show`: one cache, with everything that is known of it.

use crate::failure::Failure;
use crate::{look, stdout};
use anyhow::Context;
use clap::ValueHint;
use slabyard_observe::source::{Named, Want};
use slabyard_observe::view::show;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  slabyard show kernel dentry
  slabyard show $(pgrep -n python3) malloc-64   with each slab on its partial lists
  slabyard show core.4711 malloc-64 --json";

/// `slabyard show`.
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", look::CODES))]
pub struct ShowArgs {
    /// Where to look: `kernel`, a process, or a file
    #[arg(value_name = "SOURCE", value_hint = ValueHint::FilePath)]
    source: Named,
    /// The cache, by any of its names
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
    let cache = look::cache(&snapshot, &args.source, &args.cache)?;
    let mut page = Vec::new();
    if args.json {
        show::write_json(&mut page, &snapshot, cache)
    } else {
        show::write(&mut page, &snapshot, cache, look::style(&std::io::stdout()))
    }
    .context("the cache")?;
    stdout::print(&page)
}
