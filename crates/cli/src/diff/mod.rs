//! `slabyard diff`: prints the differences between two samples of a source, or between two sources.
//!
//! Invariant: the exit code is 1 exactly if a difference is shown, as for diff(1).

mod page;

use crate::failure::Failure;
use crate::html::{self, HtmlArgs};
use crate::{look, stdout};
use anyhow::Context;
use clap::ValueHint;
use slabyard_observe::delta::Delta;
use slabyard_observe::fields::TOTALS;
use slabyard_observe::snapshot::SourceKind;
use slabyard_observe::source::{ReadScope, SourceName};
use slabyard_observe::view::diff::{self, Columns};
use slabyard_observe::view::pick::{CacheFilter, Key, Pattern, UnknownField};
use slabyard_observe::{Cache, Snapshot};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  slabyard snapshot kernel -o before.json.zst; make; slabyard diff before.json.zst kernel
  slabyard diff before.json after.json --field live --field bytes
  slabyard diff 4-cpus.json 16-cpus.json --field slabs --field live
  slabyard diff before.json $(pgrep -n python3) --cache 'malloc-*' --html change.html

A number that only one of the two tells is no difference. With --cache totals are left
out. Of replays of one trace on unlike machines (pages, CPUs, nodes, objects in a slab)
notes say in what they are, and whether as many objects are live; a replay on a machine that
is unlike that of a kernel, or of another trace's replay, is no comparison.";

const CODES: &str = "\
The exit code is 0 if nothing is different, 1 if something is, 2 for wrong usage, and 3
if one of the two cannot be read, with the reason.";

/// `slabyard diff`.
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{CODES}"))]
pub struct DiffArgs {
    /// The old one: a snapshot's file, or any other SOURCE
    #[arg(value_name = "A", value_hint = ValueHint::FilePath)]
    old: SourceName,
    /// The new one
    #[arg(value_name = "B", value_hint = ValueHint::FilePath)]
    new: SourceName,
    /// Only this field or total; may be repeated
    #[arg(long = "field", value_name = "FIELD", value_parser = field)]
    fields: Vec<&'static str>,
    /// Only caches with such a name; may be repeated
    #[arg(long = "cache", value_name = "PATTERN", value_parser = look::pattern)]
    patterns: Vec<Pattern>,
    /// Each field that is different
    #[arg(long, short)]
    all: bool,
    /// For programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    html: HtmlArgs,
}

/// Prints what differs between two looks; exit code 1 if anything does.
pub fn run(args: &DiffArgs) -> Result<ExitCode, Failure> {
    if args.old == SourceName::Stdin && args.new == SourceName::Stdin {
        return Err(Failure::Usage("standard input is one of the two, not both".into()));
    }
    args.html.look_before([&args.old, &args.new].into_iter().filter_map(look::file_of))?;
    let want = ReadScope { all: true, slabs: false };
    let mut old = look::sample(&args.old, want)?;
    let mut new = look::sample(&args.new, want)?;
    if !args.patterns.is_empty() {
        let pick = CacheFilter { patterns: args.patterns.clone(), ..CacheFilter::default() };
        for snapshot in [&mut old, &mut new] {
            snapshot.caches.retain(|cache| pick.takes(cache));
            snapshot.totals.clear();
        }
        let any = !(old.caches.is_empty() && new.caches.is_empty());
        look::has_match(any, &args.new, &args.patterns)?;
    }
    let unlike = unlike(args, &old, &new)?;
    let mut delta = Delta::between(&old, &new);
    delta.notes.extend(unlike);
    if !args.fields.is_empty() {
        delta.keep(&args.fields);
    }
    args.html.write(|| page::of(&old, &new, &delta, &args.names(), &args.fields))?;
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

impl DiffArgs {
    /// Both, for a heading.
    fn names(&self) -> [String; 2] {
        [&self.old, &self.new].map(html::short)
    }
}

/// In what the machines of two looks differ if one is a replay, for notes: its slabs are of its
/// machine as much as of its rules. Refuses those that have not even the load in common.
fn unlike(args: &DiffArgs, old: &Snapshot, new: &Snapshot) -> Result<Vec<String>, Failure> {
    let kinds = [old.source.kind, new.source.kind];
    if !kinds.contains(&SourceKind::Lab) || kinds.iter().any(|kind| kind.is_yard()) {
        return Ok(Vec::new());
    }
    let mut unlike = of_machines(old, new);
    unlike.extend(of_slabs(old, new));
    if unlike.is_empty() {
        return Ok(Vec::new());
    }
    let all = unlike.join(", ");
    let is_one_load = kinds == [SourceKind::Lab; 2] && old.source.program == new.source.program;
    if !is_one_load {
        return Err(Failure::Usage(format!(
            "{} and {} do not compare: they are not replays of one trace, and their machines are \
             unlike: {all}. A difference would be of the load, of the machine and of the rules; give \
             both the same machine, or pick caches with the same slabs by --cache",
            args.old, args.new
        )));
    }
    Ok(vec![format!("unlike machines: {all}"), of_live(old, new)])
}

fn differ(a: Option<u64>, b: Option<u64>) -> Option<(u64, u64)> {
    Some((a?, b?)).filter(|(a, b)| a != b)
}

fn of_machines(old: &Snapshot, new: &Snapshot) -> Vec<String> {
    let (a, b) = (&old.machine, &new.machine);
    let cpus = [a, b].map(|machine| machine.online_cpus.map(u64::from));
    let nodes = [a, b].map(|machine| machine.nodes.map(u64::from));
    [
        ("pages of", "bytes", differ(a.page_bytes, b.page_bytes)),
        ("a machine of", "CPUs", differ(cpus[0], cpus[1])),
        ("a machine of", "nodes", differ(nodes[0], nodes[1])),
    ]
    .into_iter()
    .filter_map(|(what, unit, differ)| {
        let (a, b) = differ?;
        Some(format!("{what} {a} {unit} in one, of {b} in the other"))
    })
    .collect()
}

/// Caches whose slabs have other objects: the first one, and how many more.
fn of_slabs(old: &Snapshot, new: &Snapshot) -> Option<String> {
    let objects = |of: &Cache| of.exact("objs_per_slab");
    let mut others = old.caches.iter().filter_map(|cache| {
        let (a, b) = differ(objects(cache), objects(new.cache(&cache.name)?))?;
        Some(format!("slabs of {} with {a} objects in one, {b} in the other", cache.name))
    });
    let first = others.next()?;
    Some(match others.count() {
        0 => first,
        more => format!("{first} (and those of {more} more caches)"),
    })
}

/// Slabs of one load compare where as many objects are live.
fn of_live(old: &Snapshot, new: &Snapshot) -> String {
    let (mut known, mut others) = (0, 0);
    for cache in &old.caches {
        let other = new.cache(&cache.name).and_then(|cache| cache.exact("live"));
        if let Some((a, b)) = cache.exact("live").zip(other) {
            known += 1;
            others += u32::from(a != b);
        }
    }
    match (known, others) {
        (0, _) => "it is not known which objects are live".into(),
        (_, 0) => "as many objects are live in both, so that what differs is how they lie".into(),
        (_, n) => format!(
            "not as many objects are live in {n} of {known} caches: other moments or other tasks, \
             of which the slabs are"
        ),
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
