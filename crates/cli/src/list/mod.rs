//! `slabyard list`: prints the caches of a source, one line each.
//!
//! Neighbours: `observe::view` defines the output formats; this module chooses the caches and
//! fields, and thereby how much is read; [`page`] draws them for `--html`, and `over_time` prints
//! what a timeline has.

mod over_time;
pub mod page;

use crate::failure::Failure;
use crate::html::{self, HtmlArgs};
use crate::{look, stdout};
use anyhow::Context;
use clap::ValueHint;
use over_time::OverTime;
use slabyard_observe::fields::{FIELDS, Field};
use slabyard_observe::file;
use slabyard_observe::source::{ReadScope, SourceName};
use slabyard_observe::timeline::{self, Timeline};
use slabyard_observe::view::list::{self, Columns, ListContext, Options};
use slabyard_observe::view::pick::{CacheFilter, Empty, Key, Pattern};
use slabyard_observe::view::{csv, json, orders};
use std::fmt::Write;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  slabyard list                                 the running kernel (root sees all of it)
  slabyard list kernel 'kmalloc-*' --sort live
  slabyard list $(pgrep -n python3)             a process that runs on Slabyard
  slabyard list kernel --orders                 caches and slabs by order
  slabyard list kernel --json | jq '.caches[] | select(.order == 3).name'
  slabyard list slabtop.txt                     a text that somebody pasted
  slabyard list before.json.zst --columns live,parked_cpu,parked_node,bytes --csv
  slabyard list kernel --html now.html          with charts, for a browser
  slabyard list day.timeline --over-time        what `slabyard watch` wrote, with curves";

/// `slabyard list`.
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", look::CODES), after_long_help = long_help())]
pub struct ListArgs {
    /// Where to look: `kernel`, a process, or a file
    #[arg(value_name = "SOURCE", default_value = "kernel", value_hint = ValueHint::FilePath)]
    source: SourceName,
    /// Only caches with such a name, such as 'kmalloc-*'; merged caches by any name
    #[arg(value_name = "PATTERN", value_parser = look::pattern)]
    patterns: Vec<Pattern>,
    /// The field to sort by: numbers from the largest, names from a to z [default: bytes]
    #[arg(long, value_name = "FIELD")]
    sort: Option<Key>,
    /// The other way round
    #[arg(long, short)]
    reverse: bool,
    /// Each field that a cache has, and caches without slabs
    #[arg(long, short)]
    all: bool,
    /// These fields, apart by commas
    #[arg(
        long,
        short = 'o',
        value_name = "FIELDS",
        value_delimiter = ',',
        value_parser = field,
        conflicts_with = "all"
    )]
    columns: Vec<Column>,
    /// At most so many caches
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Caches, slabs and bytes by the order of the slabs
    #[arg(long, conflicts_with_all = ["columns", "all", "sort", "top", "reverse", "html"])]
    orders: bool,
    /// For programs: every field of every cache that is picked
    #[arg(long, conflicts_with_all = ["csv", "columns"])]
    json: bool,
    /// For spreadsheets: a line a cache, every cache that is picked
    #[arg(long)]
    csv: bool,
    /// Of a timeline (`slabyard watch`) each total and cache from its first look to its last
    #[arg(long, conflicts_with_all = ["columns", "csv", "orders", "all", "sort", "reverse", "no_header"])]
    over_time: bool,
    /// Lines of caches alone, for scripts
    #[arg(long, conflicts_with_all = ["json", "orders"])]
    no_header: bool,
    #[command(flatten)]
    html: HtmlArgs,
}

/// Prints the caches that are picked, in the form that is asked for.
pub fn run(args: &ListArgs) -> Result<ExitCode, Failure> {
    args.html.look_before(look::file_of(&args.source))?;
    if args.over_time {
        return over_time(args);
    }
    let snapshot = look::sample(&args.source, args.want())?;
    let options = args.options();
    let picked = options.pick.caches(&snapshot);
    look::has_match(!picked.caches.is_empty(), &args.source, &args.patterns)?;
    args.html.write(|| {
        let all = CacheFilter { key: args.sort, empty: Empty::Shown, ..options.pick.clone() };
        page::of(&snapshot, &all.caches(&snapshot).caches, &args.source)
    })?;
    let style = look::style(&std::io::stdout());
    let mut page = Vec::new();
    let written = if args.orders {
        let orders = orders::orders(&snapshot, &picked.caches);
        match (args.json, args.csv) {
            (true, _) => orders::write_json(&mut page, &snapshot, &orders),
            (_, true) => orders::write_csv(&mut page, &orders),
            _ => orders::write(&mut page, &orders, style),
        }
    } else if args.json {
        json::write(&mut page, &snapshot, &picked.caches)
    } else if args.csv {
        csv::write(&mut page, &snapshot, &options)
    } else {
        list::write(&mut page, &snapshot, &options, style)
    };
    written.context("the list")?;
    stdout::print(&page)
}

/// Prints the looks of a timeline.
fn over_time(args: &ListArgs) -> Result<ExitCode, Failure> {
    let source = &args.source;
    let one_look = |why: &str| Failure::Usage(format!("{source} {why}"));
    let made = "has one look: --over-time wants what `slabyard watch` writes";
    let path = look::file_of(source).ok_or_else(|| one_look(made))?;
    let (file, look) = file::dump_of(path);
    if look.is_some() && timeline::looks_like(&file) {
        return Err(one_look("is one look of a timeline: leave out what is behind #"));
    }
    if path.exists() && !timeline::looks_like(path) {
        return Err(one_look(made));
    }
    let timeline = Timeline::open(path).map_err(anyhow::Error::from)?;
    let over_time = OverTime::of(&timeline, source, &args.options().pick)?;
    args.html.write(|| over_time.page(&html::short(source)))?;
    if args.json { stdout::print(over_time.json()?.as_bytes()) } else { over_time.print() }
}

impl ListArgs {
    /// As little as the fields need: each file of the kernel's is a call.
    fn want(&self) -> ReadScope {
        let sorts = matches!(self.sort, Some(Key::Field(field)) if !field.column);
        let more = self.columns.iter().any(|c| !c.0.column);
        let every = self.all || self.html.is_asked() || (self.json && !self.orders);
        ReadScope { all: every || sorts || more, slabs: false }
    }

    fn options(&self) -> Options {
        // What is for programs has every cache, in the order of the source.
        let table = CacheFilter::by_bytes();
        let whole = self.json || self.csv || self.orders;
        let key = if whole { None } else { table.key };
        Options {
            pick: CacheFilter {
                patterns: self.patterns.clone(),
                key: self.sort.or(key),
                reverse: self.reverse,
                top: self.top,
                empty: if whole || self.all { Empty::Shown } else { Empty::Hidden },
            },
            columns: match (self.all, &self.columns[..]) {
                (true, _) => Columns::All,
                (false, []) => Columns::Plain,
                (false, these) => Columns::These(these.iter().map(|c| c.0).collect()),
            },
            around: if self.no_header { ListContext::Hidden } else { ListContext::Shown },
        }
    }
}

/// A field that was named.
#[derive(Clone, Copy)]
pub struct Column(&'static Field);

fn field(name: &str) -> Result<Column, String> {
    match name.parse::<Key>() {
        Ok(Key::Field(field)) => Ok(Column(field)),
        Ok(Key::Name) => Err("`name` is the first column always".into()),
        Err(unknown) => Err(unknown.to_string()),
    }
}

fn long_help() -> String {
    let mut text = format!("{EXAMPLES}\n\nFields; those with `*` are columns without --all:\n");
    for field in FIELDS {
        let mark = if field.column { "*" } else { "" };
        let _ = writeln!(text, "  {}{mark}: {}", field.name, field.help);
    }
    let _ = write!(
        text,
        "\n`-` is unknown (JSON: null, CSV: nothing), `low..high` a range (JSON: [low, high]): \
         a kernel does not say how many of its active objects are free in CPU slabs, CPU \
         partial lists, sheaves and barns.\n\n{}",
        look::CODES
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_field() {
        let help = long_help();
        for field in FIELDS {
            let line = format!("  {}{}: ", field.name, if field.column { "*" } else { "" });
            assert!(help.contains(&line), "{}", field.name);
        }
    }
}
