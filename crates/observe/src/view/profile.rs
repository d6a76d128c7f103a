//! A profile of allocations as a table: the sites of most live bytes, one line each.

use super::Colour;
use super::cell::{clean, human};
use super::grid::{Grid, Weight};
use crate::profile::{Profile, ProfileFrame, ProfileSite};
use std::io::{self, Write};
use std::time::Duration;

/// Frames of a site that are shown: the innermost.
const FRAMES: usize = 3;
/// Frames that say nothing of who allocates: those through which all calls go.
const PASSED: [&str; 6] = [
    "__rust_alloc",
    "__rdl_alloc",
    "alloc::",
    "<alloc::",
    "std::allocator",
    "__gnu_cxx::new_allocator",
];

/// Writes the table of at most so many sites.
///
/// # Errors
/// Those of the writer.
pub fn write(
    profile: &Profile,
    most: usize,
    colour: Colour,
    out: &mut dyn Write,
) -> io::Result<()> {
    let sum = |number: fn(&ProfileSite) -> f64| profile.sites.iter().map(number).sum::<f64>();
    let seconds = profile.duration.as_secs_f64();
    writeln!(
        out,
        "process {} ({}): {} allocated in {seconds:.1} s, {} of it lives; {} samples, one in {} on average",
        profile.pid,
        clean(&profile.program),
        bytes(sum(|site| site.alloc_bytes)),
        bytes(sum(|site| site.live_bytes)),
        profile.samples,
        human(profile.rate),
    )?;
    let heading = ["live", "objects", "rate", "allocated", "lifetime", "samples", "site"];
    let mut grid = Grid::new(heading).words_from(6);
    for site in profile.sites.iter().take(most) {
        let cells = [
            bytes(site.live_bytes),
            format!("{:.0}", site.live_objects),
            format!("{}/s", bytes(site.alloc_bytes / seconds.max(1e-9))),
            bytes(site.alloc_bytes),
            site.median_lifetime().map_or_else(|| "-".to_owned(), lifetime),
            site.samples.to_string(),
            site_name(site),
        ];
        grid.push(Weight::Row, cells);
    }
    grid.write(out, colour)?;
    if let Some(more) = profile.sites.len().checked_sub(most).filter(|more| *more > 0) {
        writeln!(out, "and {more} more sites")?;
    }
    Ok(())
}

/// The frames that say who allocates.
#[must_use]
pub fn site_name(site: &ProfileSite) -> String {
    let says_nothing =
        |frame: &&ProfileFrame| PASSED.iter().any(|passed| frame.name().starts_with(passed));
    let frames: Vec<String> = site
        .frames
        .iter()
        .skip_while(says_nothing)
        .take(FRAMES)
        .map(|frame| clean(&frame.name()))
        .collect();
    if frames.is_empty() { "unknown".to_owned() } else { frames.join(" < ") }
}

fn bytes(number: f64) -> String {
    human(number.round() as u64)
}

/// A lifetime, which is known within a factor of two.
fn lifetime(time: Duration) -> String {
    let ns = time.as_nanos();
    match ns {
        0..1_000 => format!("~{ns} ns"),
        1_000..1_000_000 => format!("~{} us", ns / 1_000),
        1_000_000..1_000_000_000 => format!("~{} ms", ns / 1_000_000),
        _ => format!("~{} s", ns / 1_000_000_000),
    }
}
