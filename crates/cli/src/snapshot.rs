//! `slabyard snapshot`: saves the current state of a source to a file, and draws it as `slabyard list`
//! does.

use crate::failure::Failure;
use crate::html::HtmlArgs;
use crate::{list, look, stdout};
use anyhow::Context;
use clap::ValueHint;
use slabyard_observe::file;
use slabyard_observe::source::{ReadScope, SourceName};
use slabyard_observe::view::pick::{CacheFilter, Empty};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  slabyard snapshot kernel -o before.json.zst
  slabyard snapshot $(pgrep -n python3) -o now.json --slabs
  slabyard snapshot kernel -o now.json --html now.html     with the page of `slabyard list`
  slabyard snapshot core.4711 -o - | jq '.caches | length'

Every command takes the file as its SOURCE, on any machine.";

/// `slabyard snapshot`.
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", look::CODES))]
pub struct SnapshotArgs {
    /// Where to look: `kernel`, a process, or a file
    #[arg(value_name = "SOURCE", value_hint = ValueHint::FilePath)]
    source: SourceName,
    /// The file; packed if it ends in .zst; `-` is standard output
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: PathBuf,
    /// Keep each slab that is not full, one by one (of a process or a core)
    #[arg(long)]
    slabs: bool,
    #[command(flatten)]
    html: HtmlArgs,
}

/// Samples the source and writes the file, whole or not at all.
pub fn run(args: &SnapshotArgs) -> Result<ExitCode, Failure> {
    args.html.look_before(look::file_of(&args.source))?;
    args.html.is_beside("-o", &args.output)?;
    let snapshot = look::sample(&args.source, ReadScope { all: true, slabs: args.slabs })?;
    args.html.write(|| {
        let all = CacheFilter { empty: Empty::Shown, key: None, ..CacheFilter::by_bytes() };
        list::page::of(&snapshot, &all.caches(&snapshot).caches, &args.source)
    })?;
    if args.output == Path::new("-") {
        let mut page = serde_json::to_vec(&snapshot).context("the snapshot")?;
        page.push(b'\n');
        return stdout::print(&page);
    }
    file::save(&snapshot, &args.output).map_err(anyhow::Error::from)?;
    Ok(ExitCode::SUCCESS)
}
