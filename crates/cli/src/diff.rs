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
use slabyard_observe::snapshot::Kind;
use slabyard_observe::source::{Named, Want};
use slabyard_observe::view::diff::{self, Columns};
use slabyard_observe::view::pick::{Key, Pattern, Pick, UnknownField};
use slabyard_observe::{Cache, Snapshot};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  slabyard snapshot kernel -o before.json.zst; make; slabyard diff before.json.zst kernel
  slabyard diff before.json after.json --field live --field bytes
  slabyard diff before.json $(pgrep -n python3) --cache 'malloc-*'

A number that only one of the two tells is no difference. With --cache totals are left
out. Replays on unlike machines (pages, CPUs, nodes, objects in a slab) do not compare.";

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
    if args.old == Named::Stdin && args.new == Named::Stdin {
        return Err(Failure::Usage("standard input is one of the two, not both".into()));
    }
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
    comparable(args, &old, &new)?;
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

/// A replay on other slabs, or on more CPUs, does not begin with what the traced kernel
/// held: the difference would be of the beginning, not of the rules.
fn comparable(args: &DiffArgs, old: &Snapshot, new: &Snapshot) -> Result<(), Failure> {
    let kinds = [old.source.kind, new.source.kind];
    if !kinds.contains(&Kind::Lab) || kinds.iter().any(|kind| kind.is_yard()) {
        return Ok(());
    }
    let (a, b) = (&old.machine, &new.machine);
    let differ = |a: Option<u64>, b: Option<u64>| Some((a?, b?)).filter(|(a, b)| a != b);
    let cpus = [a, b].map(|machine| machine.online_cpus.map(u64::from));
    let nodes = [a, b].map(|machine| machine.nodes.map(u64::from));
    let of_machine = [
        ("pages of", "bytes", differ(a.page_bytes, b.page_bytes)),
        ("a machine of", "CPUs", differ(cpus[0], cpus[1])),
        ("a machine of", "nodes", differ(nodes[0], nodes[1])),
    ];
    let of_machine = of_machine.into_iter().find_map(|(what, unit, differ)| {
        let (a, b) = differ?;
        Some(format!("{what} {a} {unit} in one, of {b} in the other"))
    });
    let unlike = of_machine.or_else(|| {
        old.caches.iter().find_map(|cache| {
            let other = new.cache(&cache.name)?;
            let number = |of: &Cache| of.exact("objs_per_slab");
            let (a, b) = differ(number(cache), number(other))?;
            Some(format!("slabs of {} with {a} objects in one, {b} in the other", cache.name))
        })
    });
    match unlike {
        None => Ok(()),
        Some(unlike) => Err(Failure::Usage(format!(
            "{} and {} do not compare: {unlike}. A replay on other slabs or CPUs than the traced \
             ones begins with other objects, so that a difference would not be of the rules; give \
             both replays the same machine, or pick caches with the same slabs by --cache",
            args.old, args.new
        ))),
    }
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
