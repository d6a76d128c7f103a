//! `slabyard trace leaks`: prints which call sites and processes allocated what a recording leaves
//! behind.
//!
//! Neighbour: `slabyard_lab::leaks` finds it and has the rules.

use super::output::progress;
use crate::bars::Bars;
use crate::failure::Failure;
use crate::stderr::say;
use crate::terminal::{Colour, Grid, bytes, seconds};
use crate::{stdout, trace_file};
use anyhow::Context;
use clap::ValueHint;
use serde_json::{Value, json};
use slabyard_ask::Listener as _;
use slabyard_ask::files;
use slabyard_lab::leaks::{self, Leaks, Limits, Site, Survivors, TENTHS, Verdict};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  slabyard trace leaks load.slabtrace
  slabyard trace leaks load.slabtrace --all --top 40
  slabyard trace leaks load.slabtrace --json | jq '.sites[] | select(.verdict == \"leak\")'
  slabyard trace leaks load.slabtrace --csv > sites.csv

An object is overdue if it is older than twice what 99 of 100 freed objects of its site lived, and
than a twentieth of the recording; where a site freed none, if it is older than a tenth of it.
  leak         more than a tenth are overdue, and the site allocated them throughout the recording
  reclaimable  the same, of a cache from which the kernel takes objects when memory is short
  kept         overdue, and allocated in few tenths of the recording
  replaced     overdue, and the cache did not grow: older objects were freed for them
  unseen       as a leak, but the kernel frees such objects many at once, which the trace lacks
  young        no older than the site's objects become

Exit code: 0 no leak; 1 a leak, or the trace is damaged; 2 usage; 3 it cannot be done.";

/// `slabyard trace leaks`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct LeaksArgs {
    /// The trace
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Call sites to show, leaks first
    #[arg(long, value_name = "N", default_value = "20")]
    top: usize,
    /// Sites without a leak, too
    #[arg(long)]
    all: bool,
    /// For programs
    #[arg(long)]
    json: bool,
    /// One line for each site and process, for spreadsheets
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

pub fn run(args: &LeaksArgs) -> Result<ExitCode, Failure> {
    let screen = progress(&format!("reading {}", files::shown(&args.file)));
    let mut stream = trace_file::open(&args.file)?;
    let mut found = leaks::find(&mut stream, Limits::default()).map_err(trace_file::failed)?;
    screen.clear();
    for damage in stream.damaged() {
        say(&format!("{} is damaged: {damage}", files::shown(&args.file)));
    }
    let leaked = found.sites.iter().any(|site| site.verdict == Verdict::Leak);
    if args.json || args.csv || args.all {
        found.sites.truncate(args.top);
    } else {
        found.sites.retain(|site| site.verdict <= Verdict::Reclaimable);
        found.sites.truncate(args.top);
    }
    let page = match (args.json, args.csv) {
        (true, _) => format!("{:#}\n", json(&found)).into_bytes(),
        (_, true) => csv(&found)?,
        _ => text(&found, args.all).into_bytes(),
    };
    stdout::print(&page)?;
    Ok(ExitCode::from(u8::from(leaked || !stream.damaged().is_empty())))
}

fn text(found: &Leaks, all: bool) -> String {
    let mut text = String::new();
    let Leaks { took_ns, events, lost, one_in, .. } = *found;
    let _ = writeln!(text, "{events} events in {}, {lost} lost", seconds(took_ns));
    if one_in > 1 {
        let _ = writeln!(text, "One object in {one_in} was followed, and counts are estimates.");
    }
    if lost > 0 {
        text.push_str("An object whose free was lost is counted as alive.\n");
    }
    if found.without_sites {
        text.push_str(
            "The trace has no call sites: objects are told apart by cache and process.\n",
        );
    }
    if found.sites.is_empty() {
        text.push_str(match all {
            true => "\nNothing that was allocated in the recording was alive at its end.\n",
            false => "\nNo leak found; --all shows what else was alive at the end.\n",
        });
    } else {
        text.push('\n');
        sites(found, &mut text);
    }
    hoards(found, &mut text);
    text
}

fn sites(found: &Leaks, text: &mut String) {
    let heads = ["VERDICT", "OBJECTS", "BYTES", "OVERDUE", "OLDEST", "BORN", "PROCESS", "CACHE"];
    let mut grid = Grid::new(&[&heads[..], &["CALL SITE"]].concat());
    let bars = Bars::of_terminal();
    for site in &found.sites {
        let Survivors { objects, bytes: size, overdue, oldest_ns, .. } = site.survivors;
        let born: Vec<_> = site.survivors.born.iter().map(|born| Some(*born as f64)).collect();
        let process = match &site.processes[..] {
            [] => "-".into(),
            [(pid, _)] => pid.to_string(),
            [(pid, _), others @ ..] => format!("{pid} and {} more", others.len()),
        };
        grid.push(vec![
            site.verdict.word().into(),
            objects.to_string(),
            bytes(Some(size)),
            overdue.to_string(),
            seconds(oldest_ns),
            bars.sparkline(&born, TENTHS),
            process,
            site.cache.clone(),
            site.site.clone().unwrap_or_else(|| "-".into()),
        ]);
    }
    grid.write(text, Colour::of_stdout());
}

fn hoards(found: &Leaks, text: &mut String) {
    let Some(hoards) = &found.hoards else {
        text.push_str("\nThe trace has no snapshot of its end, which would tell of free memory.\n");
        return;
    };
    if hoards.is_empty() {
        return;
    }
    text.push_str("\nkept without a live object\n");
    let mut grid = Grid::new(&["CACHE", "SLABS", "GREW", "FREE", "SHRINK GAVE"]);
    for hoard in hoards.iter().take(10) {
        let grew = bytes(Some(hoard.grew_bytes.unsigned_abs()));
        grid.push(vec![
            hoard.cache.clone(),
            bytes(Some(hoard.bytes)),
            if hoard.grew_bytes < 0 { format!("-{grew}") } else { grew },
            bytes(Some(hoard.free_bytes)),
            bytes(hoard.shrink_gave),
        ]);
    }
    grid.write(text, Colour::of_stdout());
}

fn survivors(of: &Survivors) -> serde_json::Map<String, Value> {
    let Survivors { objects, bytes, overdue, oldest_ns, median_ns, born } = of;
    let value = json!({
        "objects": objects, "bytes": bytes, "overdue": overdue,
        "oldest_ns": oldest_ns, "median_ns": median_ns, "born_by_tenth": born,
    });
    match value {
        Value::Object(map) => map,
        _ => serde_json::Map::new(),
    }
}

fn json(found: &Leaks) -> Value {
    let site = |site: &Site| {
        let mut row = survivors(&site.survivors);
        row.insert("verdict".into(), site.verdict.word().into());
        row.insert("site".into(), json!(site.site));
        row.insert("cache".into(), json!(site.cache));
        row.insert("allocated".into(), json!(site.allocated));
        row.insert("usual_life_ns".into(), json!(site.usual_life_ns));
        let process = |(pid, of): &(u32, Survivors)| {
            let mut row = survivors(of);
            row.insert("pid".into(), json!(pid));
            Value::Object(row)
        };
        row.insert("processes".into(), site.processes.iter().map(process).collect());
        Value::Object(row)
    };
    json!({
        "events": found.events,
        "lost": found.lost,
        "took_ns": found.took_ns,
        "one_in": found.one_in,
        "without_sites": found.without_sites,
        "sites": found.sites.iter().map(site).collect::<Vec<_>>(),
        "hoards": found.hoards.as_ref().map(|hoards| hoards.iter().map(|hoard| json!({
            "cache": hoard.cache,
            "bytes": hoard.bytes,
            "grew_bytes": hoard.grew_bytes,
            "free_bytes": hoard.free_bytes,
            "shrink_gave_bytes": hoard.shrink_gave,
        })).collect::<Vec<_>>()),
    })
}

fn csv(found: &Leaks) -> Result<Vec<u8>, Failure> {
    let mut out = csv::Writer::from_writer(Vec::new());
    let heads = "verdict,site,cache,pid,objects,bytes,overdue,oldest_ns,median_ns";
    let tenths = (1..=TENTHS).map(|tenth| format!("born_{tenth}"));
    let heads: Vec<String> = heads.split(',').map(str::to_owned).chain(tenths).collect();
    out.write_record(&heads).context("the table")?;
    for site in &found.sites {
        for (pid, of) in &site.processes {
            let words = [site.verdict.word(), site.site.as_deref().unwrap_or(""), &site.cache];
            let numbers = [of.objects, of.bytes, of.overdue, of.oldest_ns, of.median_ns];
            let numbers = std::iter::once(u64::from(*pid)).chain(numbers).chain(of.born);
            let row: Vec<String> = words
                .into_iter()
                .map(str::to_owned)
                .chain(numbers.map(|n| n.to_string()))
                .collect();
            out.write_record(&row).context("the table")?;
        }
    }
    Ok(out.into_inner().context("the table")?)
}
