//! `slabyard diff`: what is different between two looks at a source, or two sources.
//!
//! Invariant: the exit code is 1 exactly where a difference is shown, as that of
//! `diff` is.

use crate::failure::Failure;
use crate::list::pattern;
use crate::{look, stdout};
use anyhow::Context;
use clap::ValueHint;
use slabyard_observe::delta::Delta;
use slabyard_observe::fields::TOTALS;
use slabyard_observe::source::{Named, Want};
use slabyard_observe::view::diff::{self, Columns};
use slabyard_observe::view::pick::{Key, Pattern, Pick, UnknownField};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  slabyard snapshot kernel -o before.json.zst; make; slabyard diff before.json.zst kernel
  slabyard diff before.json after.json --field live --field bytes
  slabyard diff before.json $(pgrep -n python3) --cache 'malloc-*'

A number that only one of the two tells is no difference. With --cache totals are left
out.";

const CODES: &str = "\
The exit code is 0 if nothing is different, 1 if something is, 2 for wrong usage, and 3
if one of the two cannot be read, with the reason.";

/// `slabyard diff`.
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{CODES}"))]
pub struct DiffArgs {
    /// The old one: a snapshot's file, or any other SOURCE
    #[arg(value_name = "A", value_hint = ValueHint::FilePath)]
    old: Named,
    /// The new one
    #[arg(value_name = "B", value_hint = ValueHint::FilePath)]
    new: Named,
    /// Only this field or total; may be repeated
    #[arg(long = "field", value_name = "FIELD", value_parser = field)]
    fields: Vec<&'static str>,
    /// Only caches with such a name; may be repeated
    #[arg(long = "cache", value_name = "PATTERN", value_parser = pattern)]
    patterns: Vec<Pattern>,
    /// Each field that is different
    #[arg(long, short)]
    all: bool,
    /// For programs
    #[arg(long)]
    json: bool,
}

/// Prints the differences.
pub fn run(args: &DiffArgs) -> Result<ExitCode, Failure> {
    let want = Want { all: true, slabs: false };
    let mut old = look::sample(&args.old, want)?;
    let mut new = look::sample(&args.new, want)?;
    if !args.patterns.is_empty() {
        let pick = Pick { patterns: args.patterns.clone(), ..Pick::default() };
        for snapshot in [&mut old, &mut new] {
            snapshot.caches.retain(|cache| pick.takes(cache));
            snapshot.totals.clear();
        }
        let any = !(old.caches.is_empty() && new.caches.is_empty());
        look::has_match(any, &args.new, &args.patterns)?;
    }
    let mut delta = Delta::between(&old, &new);
    if !args.fields.is_empty() {
        delta.keep(&args.fields);
    }
    let mut page = Vec::new();
    if args.json {
        diff::write_json(&mut page, &old, &new, &delta)
    } else {
        let columns = if args.all { Columns::All } else { Columns::Plain };
        diff::write(&mut page, &delta, columns, look::style(&std::io::stdout()))
    }
    .context("the differences")?;
    stdout::print(&page)?;
    Ok(ExitCode::from(u8::from(!delta.is_empty())))
}

fn field(name: &str) -> Result<&'static str, String> {
    if let Some(total) = TOTALS.iter().find(|t| t.name == name) {
        return Ok(total.name);
    }
    match name.parse() {
        Ok(Key::Field(field)) => Ok(field.name),
        Ok(Key::Name) => Err("a name is no number".into()),
        Err(unknown @ UnknownField { .. }) => Err(unknown.to_string()),
    }
}
