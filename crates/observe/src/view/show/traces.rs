//! The allocation sites of a cache's live objects, and which slabs these objects pin.
//!
//! Neighbour: [`crate::traces`] supplies the sites.

use crate::fields::Unit;
use crate::snapshot::Snapshot;
use crate::traces::{Frame, Site, Traces};
use crate::view::grid::{Grid, Weight, bold};
use crate::view::json::{self, Head};
use crate::view::{Style, cell};
use serde::Serialize;
use std::io::{self, Write};

/// Writes the sites as text: as the kernel does, a line of figures and a line a frame.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut dyn Write, traces: &Traces, style: Style) -> io::Result<()> {
    let name = cell::clean(&traces.cache);
    let slabs: u64 = traces.slabs_by_live.iter().map(|(_, slabs)| slabs).sum();
    let held: u64 = traces.slabs_by_live.iter().filter(|it| it.0 > 0).map(|(_, slabs)| slabs).sum();
    writeln!(out, "{}", bold(&name, style.colour))?;
    if slabs > 0 {
        writeln!(out, "{} live objects keep {held} of {slabs} slabs", traces.objects)?;
        writeln!(out)?;
        by_live(out, traces, style)?;
    } else {
        writeln!(out, "{} live objects", traces.objects)?;
    }
    sites(out, "allocated", &traces.alloc, style)?;
    sites(out, "freed before", &traces.free, style)
}

/// How many slabs are kept by how many objects.
fn by_live(out: &mut dyn Write, traces: &Traces, style: Style) -> io::Result<()> {
    let mut grid = Grid::new(["live", "slabs", "objects"]);
    for (live, slabs) in &traces.slabs_by_live {
        let objects = u64::from(*live).saturating_mul(*slabs);
        grid.push(Weight::Row, [live.to_string(), slabs.to_string(), objects.to_string()]);
    }
    grid.write(out, style.colour)
}

fn sites(out: &mut dyn Write, what: &str, sites: &[Site], style: Style) -> io::Result<()> {
    for site in sites {
        let bytes = cell::number(site.bytes, Unit::Bytes, style.units);
        writeln!(out)?;
        write!(out, "{} {what}", site.objects)?;
        if site.stack.is_empty() && site.frames.is_empty() && site.threads.is_none() {
            writeln!(out, " <not-available>")?;
            continue;
        }
        if site.bytes > 0 {
            write!(out, ", {bytes}")?;
        }
        if site.slabs > 0 {
            let slabs = if site.slabs == 1 { "slab" } else { "slabs" };
            write!(
                out,
                ", in {} {slabs}, {} of them kept by these alone",
                site.slabs, site.slabs_alone
            )?;
        }
        if let Some((least, sum, most)) = site.age {
            let mean = sum / u128::from(site.objects.max(1));
            let seconds = |ns: u128| format!("{:.3}", ns as f64 / 1e9);
            let [least, mean, most] = [least.into(), mean, most.into()].map(seconds);
            write!(out, ", age {least}/{mean}/{most} s")?;
        }
        if let Some((least, mean, most)) = site.age_jiffies {
            write!(out, ", age {least}/{mean}/{most} jiffies")?;
        }
        let range = |(low, high): (u32, u32)| match low == high {
            true => low.to_string(),
            false => format!("{low}-{high}"),
        };
        if let Some(threads) = site.threads {
            write!(out, ", thread {}", range(threads))?;
        }
        if let Some(cpus) = site.cpus {
            write!(out, ", cpu {}", range(cpus))?;
        }
        writeln!(out)?;
        for frame in &site.frames {
            writeln!(out, "    {}", line(frame))?;
        }
    }
    Ok(())
}

fn line(frame: &Frame) -> String {
    let offset = frame.offset;
    let file = frame.file.as_deref().map(|file| format!(" [{}]", cell::clean(file)));
    let file = file.unwrap_or_default();
    match &frame.function {
        Some(function) => format!("{}+{offset:#x}{file}", cell::clean(function)),
        None if !file.is_empty() => format!("{offset:#x}{file}"),
        None => format!("{:#x}", frame.address),
    }
}

/// Writes JSON: `{"source", "taken_at", ..., "traces": {"cache", "objects", "slabs_by_live",
/// "alloc": [..], "free": [..]}}`.
///
/// # Errors
/// Those of `out`.
pub fn write_json(out: &mut dyn Write, snapshot: &Snapshot, traces: &Traces) -> io::Result<()> {
    #[derive(Serialize)]
    struct Shape<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        traces: &'a Traces,
    }
    json::line(out, &Shape { head: Head::of(snapshot), traces })
}
