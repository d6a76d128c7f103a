//! What a replay with an end to its memory tells: how short that was, and, where it was not
//! enough, what a kernel prints when it must kill (`mm/show_mem.c`, `mm/slab_common.c:
//! dump_unreclaimable_slab`), with a column more: what of the used objects is parked.
//!
//! Neighbour: [`slabyard_lab::replay::memory`] counts. The report goes to standard error, as
//! standard output has the figures until then.

use super::input::Loaded;
use slabyard_lab::case::Case;
use slabyard_lab::replay::memory::{Failed, Told};
use slabyard_lab::replay::{Relief, Replayed};
use std::fmt::Write;

/// The exit code of a run that had too little memory.
pub const CODE: u8 = 4;

/// What is done when memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Pressure {
    /// Nothing, as in every kernel
    None,
    /// Empty slabs on CPUs' and nodes' lists end
    Empties,
    /// CPUs' lists and sheaves are flushed, and empty slabs end
    Full,
}

impl Pressure {
    /// As the lab names it.
    pub fn relief(self) -> Relief {
        match self {
            Pressure::None => Relief::None,
            Pressure::Empties => Relief::Empties,
            Pressure::Full => Relief::Full,
        }
    }
}

/// `65536`, `512K`, `40M`, `2G`.
pub fn size(text: &str) -> Result<u64, String> {
    let shift = match text.chars().last() {
        Some('k' | 'K') => 10,
        Some('m' | 'M') => 20,
        Some('g' | 'G') => 30,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { &text[..text.len() - 1] };
    let number: Option<u64> = digits.parse().ok().filter(|_| !digits.starts_with('+'));
    number
        .and_then(|n| n.checked_mul(1 << shift))
        .filter(|n| *n > 0)
        .ok_or_else(|| "expected bytes, such as 512K, 40M or 2G".into())
}

/// How short memory was, in one line.
pub fn line(told: &Told, loaded: &Loaded) -> String {
    let kb = |pages: u64| pages * u64::from(loaded.settings.machine.page_size) / 1024;
    format!(
        "memory limit {} kB: at least {} kB free, {} reliefs gave back {} kB, {} objects retried, {} slabs of smaller blocks",
        told.limit.bytes / 1024,
        kb(told.least_free_pages),
        told.reliefs,
        kb(told.relieved_pages),
        told.retried,
        told.fallbacks,
    )
}

/// One line of the table.
struct Row {
    name: String,
    reclaimable: bool,
    pages: u64,
    used: u64,
    parked: u64,
    total: u64,
}

/// The report; `None` if memory was enough.
pub fn report(told: &Told, case: &Case, loaded: &Loaded, replayed: &Replayed) -> Option<String> {
    let failed = told.failed?;
    let rows = rows(&failed, case, loaded, replayed);
    let mut text = String::new();
    write(&mut text, told, &failed, case, loaded, &rows).ok()?;
    Some(text)
}

/// The caches, the largest first.
fn rows(failed: &Failed, case: &Case, loaded: &Loaded, replayed: &Replayed) -> Vec<Row> {
    let all = replayed.after.caches.iter().enumerate();
    let mut rows: Vec<Row> = all
        .map(|(nth, moment)| {
            let objects = u64::from(case.rules[nth].objects);
            // The slab that found no memory is not there.
            let missing = u64::from(nth == failed.cache);
            let slabs = u64::from(moment.places.slabs).saturating_sub(missing);
            let size = u64::from(case.sizes[nth]);
            // As /proc/slabinfo counts: free are those on nodes' lists alone.
            let total = slabs * objects;
            let used = total.saturating_sub(moment.free.node_partial);
            Row {
                name: case.ids[nth].clone(),
                reclaimable: loaded.snapshot.caches[nth].reclaim_account == Some(true),
                pages: slabs << case.orders[nth],
                used: used * size,
                parked: moment.free.parked().min(used) * size,
                total: total * size,
            }
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.total));
    rows
}

fn write(
    text: &mut String,
    told: &Told,
    failed: &Failed,
    case: &Case,
    loaded: &Loaded,
    rows: &[Row],
) -> std::fmt::Result {
    let page_kb = u64::from(case.page_size) / 1024;
    let kb = |bytes: u64| format!("{}KB", bytes / 1024);
    writeln!(
        text,
        "slab allocation failure: order:{}, cache={}, at {:.6} s (step {})",
        failed.order,
        case.ids[failed.cache],
        failed.time_ns.saturating_sub(*case.prepared.span.start()) as f64 / 1e9,
        failed.step,
    )?;
    let pages = |reclaimable| -> u64 {
        rows.iter().filter(|row| row.reclaimable == reclaimable).map(|row| row.pages).sum()
    };
    writeln!(text, "Mem-Info:")?;
    writeln!(text, " slab_reclaimable:{} slab_unreclaimable:{}", pages(true), pages(false))?;
    writeln!(
        text,
        " free:{} waiting_for_rcu:{} of {} pages of {page_kb}kB on {} CPUs",
        told.free_pages(),
        told.waiting_pages,
        told.limit.bytes / u64::from(case.page_size),
        loaded.settings.machine.online_cpus,
    )?;
    write!(text, "Node 0 Normal:")?;
    for (order, n) in told.free_blocks.iter().enumerate() {
        write!(text, " {n}*{}kB", page_kb << order)?;
    }
    writeln!(text, " = {}kB", told.free_pages() * page_kb)?;
    writeln!(text, "Unreclaimable slab info:")?;
    writeln!(text, "Name                      Used          Total    of Used parked")?;
    for row in rows.iter().filter(|row| !row.reclaimable && row.total > 0) {
        let [used, total, parked] = [row.used, row.total, row.parked].map(kb);
        writeln!(text, "{:<17} {used:>12} {total:>14} {parked:>17}", row.name)?;
    }
    let sum = |of: fn(&Row) -> u64| rows.iter().map(of).sum::<u64>();
    let (used, parked, total) = (sum(|r| r.used), sum(|r| r.parked), sum(|r| r.total));
    writeln!(
        text,
        "Out of memory: of {} in slabs {} count as used, {} of that are free and parked",
        kb(total),
        kb(used),
        kb(parked)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in [("1", Some(1)), ("40M", Some(40 << 20)), ("2g", Some(2 << 30))] {
            assert_eq!(size(text).ok(), bytes, "{text}");
        }
        for text in ["", "0", "M", "-1", "+1", "1.5G", "99999999999G"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
