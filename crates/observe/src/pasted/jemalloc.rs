//! What jemalloc's `malloc_stats_print` writes as text: totals, and a table of its bins (jemalloc(3),
//! `stats_print`). Of arenas the sum is read.
//!
//! ```text
//! Allocated: 21073088, active: 117297152, metadata: 5847392 (n_thp 0), resident: .., mapped: .., retained: ..
//! bins:  size ind  allocated  nmalloc (#/sec) ...  curregs  curslabs  nonfull_slabs  regs  pgs  util
//!          16   1         80      908     908 ...        5         4              0   256    1 0.004
//! ```
//!
//! Columns differ by version and are found by their names. Neighbour: [`super::jemalloc_json`].

use super::found::{Outcome, Pasted};
use super::lines::{self, Line};
use crate::value::Value;
use std::collections::BTreeMap;

/// jemalloc's numbers of all arenas, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub allocated: Option<u64>,
    pub active: Option<u64>,
    pub metadata: Option<u64>,
    pub resident: Option<u64>,
    pub mapped: Option<u64>,
    pub retained: Option<u64>,
    /// In threads' caches, a part of what is allocated.
    pub tcache: Option<u64>,
    /// Pages that were freed and not given back.
    pub unused: Option<u64>,
}

/// One bin: a size class of small objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bin {
    pub size: u64,
    pub objs_per_slab: u64,
    pub slab_bytes: Option<u64>,
    pub allocated: u64,
    pub slabs: u64,
    pub nonfull: Option<u64>,
}

pub(super) fn read(lines: &[Line<'_>], pasted: &mut Pasted) -> Outcome {
    const BEGIN: &str = "Begin jemalloc statistics";
    let begin = lines.iter().position(|line| line.text.contains(BEGIN));
    let is_totals = |line: &Line<'_>| line.text.trim_start().starts_with("Allocated: ");
    let Some(from) = begin.or_else(|| lines.iter().position(is_totals)) else {
        return Outcome::Absent;
    };
    let own = &lines[from..];
    if own.iter().any(|line| line.text.trim_start().starts_with("{\"jemalloc\"")) {
        return Outcome::Absent;
    }
    let end = own.iter().position(|line| line.text.contains("End jemalloc statistics"));
    let own = &own[..end.unwrap_or(own.len())];
    let Some(mut sums) = own.iter().find(|line| is_totals(line)).and_then(|line| totals(line.text))
    else {
        let number = lines[from].number;
        return Outcome::Damaged(format!(
            "behind line {number} is no line `Allocated: .., active: ..`"
        ));
    };
    let page = own.iter().find_map(|line| value(line.text, "Page size:"));
    sums.tcache = own.iter().find_map(|line| value(line.text, "tcache_bytes:"));
    let pages = |key: &str| own.iter().find_map(|line| decaying(line.text, key));
    sums.unused = pages("dirty:")
        .and_then(|dirty| dirty.checked_add(pages("muzzy:").unwrap_or(0))?.checked_mul(page?));
    let version = own.iter().find_map(|line| line.text.trim().strip_prefix("Version: "));
    pasted.heap(Some(format!("jemalloc {}", version.map_or("", |v| v.trim_matches('"')))));
    pasted.snapshot.machine.page_bytes = page;
    let (bins, strange) = bins(own, page);
    store(&sums, &bins, pasted);
    if let Some(why) = lines::strange(&strange) {
        pasted.miss("bins of jemalloc", why);
    }
    if begin.is_some() && end.is_none() {
        pasted.miss("statistics of jemalloc", "the text ends before `End jemalloc statistics`");
    }
    Outcome::Read
}

fn totals(line: &str) -> Option<Sums> {
    let of = |key: &str| {
        let pair = line.split(", ").find_map(|part| part.trim().strip_prefix(key))?;
        pair.strip_prefix(':')?.split_whitespace().next()?.parse().ok()
    };
    Some(Sums {
        allocated: Some(of("Allocated")?),
        active: Some(of("active")?),
        metadata: of("metadata"),
        resident: of("resident"),
        mapped: of("mapped"),
        retained: of("retained"),
        ..Sums::default()
    })
}

fn value(line: &str, key: &str) -> Option<u64> {
    line.trim().strip_prefix(key)?.trim().parse().ok()
}

/// The pages of "   dirty:   N/A         1919            8 ...".
fn decaying(line: &str, key: &str) -> Option<u64> {
    let rest = line.trim_start().strip_prefix(key)?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// The first table of bins, and lines among it that are none.
fn bins<'a>(lines: &[Line<'a>], page: Option<u64>) -> (Vec<Bin>, Vec<Line<'a>>) {
    let (mut bins, mut strange) = (Vec::new(), Vec::new());
    let Some(at) = lines.iter().position(|line| line.text.starts_with("bins:")) else {
        return (bins, strange);
    };
    let columns: Vec<&str> = lines[at].text.split_whitespace().skip(1).collect();
    for line in &lines[at + 1..] {
        let text = line.text.trim();
        if text.starts_with("large:") || text.starts_with("huge:") {
            break;
        }
        // A line of dashes, or a gap of size classes, ends nothing.
        if text.is_empty() || text.starts_with('-') || text.starts_with('[') {
            continue;
        }
        match bin(&columns, text, page) {
            Some(bin) => bins.push(bin),
            None => {
                strange.push(*line);
                break;
            }
        }
    }
    (bins, strange)
}

fn bin(columns: &[&str], line: &str, page: Option<u64>) -> Option<Bin> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let row: BTreeMap<&str, &str> = columns.iter().copied().zip(words.iter().copied()).collect();
    let of = |name: &str| row.get(name)?.parse::<u64>().ok();
    (words.len() >= columns.len()).then_some(Bin {
        size: of("size")?,
        objs_per_slab: of("regs")?,
        slab_bytes: of("pgs").zip(page).and_then(|(pages, page)| pages.checked_mul(page)),
        allocated: of("curregs")?,
        // `runs` to version 4.
        slabs: of("curslabs").or_else(|| of("curruns"))?,
        nonfull: of("nonfull_slabs"),
    })
}

/// Stores what both forms tell.
pub(super) fn store(sums: &Sums, bins: &[Bin], pasted: &mut Pasted) {
    let tcache = sums.tcache;
    for bin in bins.iter().filter(|bin| bin.slabs > 0 || bin.allocated > 0) {
        let mut cache = pasted.cache(&format!("bin {}", bin.size));
        let total = bin.slabs.checked_mul(bin.objs_per_slab);
        // Of which bins threads' caches hold objects is not told.
        let parked =
            tcache.map(|bytes| bytes.checked_div(bin.size).unwrap_or(0).min(bin.allocated));
        let live = parked.map(|parked| Value::between(bin.allocated - parked, bin.allocated));
        let numbers = [
            ("live", live.or(Some(Value::Exact(bin.allocated)))),
            ("parked_cpu", parked.map(|parked| Value::between(0, parked))),
            ("slab_size", Some(Value::Exact(bin.size))),
            ("object_size", Some(Value::Exact(bin.size))),
            ("objs_per_slab", Some(Value::Exact(bin.objs_per_slab))),
            ("slabs", Some(Value::Exact(bin.slabs))),
            ("partial", bin.nonfull.map(Value::Exact)),
            ("total_objects", total.map(Value::Exact)),
            (
                "free_partial",
                total.and_then(|all| all.checked_sub(bin.allocated)).map(Value::Exact),
            ),
            (
                "bytes",
                bin.slab_bytes.and_then(|slab| slab.checked_mul(bin.slabs)).map(Value::Exact),
            ),
        ];
        for (name, value) in numbers {
            value.into_iter().for_each(|value| cache.set(name, value));
        }
        pasted.snapshot.caches.push(cache);
    }
    let live =
        sums.allocated.map(|all| Value::between(all.saturating_sub(tcache.unwrap_or(0)), all));
    let reserved = sums.mapped.zip(sums.retained).and_then(|(a, b)| a.checked_add(b));
    let all = [
        ("live", live),
        ("parked_cpu", tcache.map(Value::Exact)),
        // Of active pages: those of bins, and tails of large objects.
        (
            "free_partial",
            sums.active.zip(sums.allocated).and_then(|(a, b)| a.checked_sub(b)).map(Value::Exact),
        ),
        ("free_runs", sums.unused.map(Value::Exact)),
        ("metadata", sums.metadata.map(Value::Exact)),
        ("returned", sums.retained.map(Value::Exact)),
        ("resident_allocator", sums.resident.map(Value::Exact)),
        ("reserved", reserved.map(Value::Exact)),
    ];
    for (name, value) in all {
        value.into_iter().for_each(|value| pasted.total(name, value));
    }
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use crate::value::Value;

    const TEXT: &str = "\
___ Begin jemalloc statistics ___
Version: \"5.3.0-0-g54eaed\"
Page size: 4096
Allocated: 21073088, active: 117297152, metadata: 5847392 (n_thp 0), resident: 130928640, mapped: 146128896, retained: 94519296
   dirty:   N/A         1919            8         3628        13713
   muzzy:   N/A            1            0            0            0
tcache_bytes:                   320
bins:           size ind    allocated      nmalloc (#/sec)  nshards      curregs     curslabs  nonfull_slabs regs pgs   util
                     ---
                  16   1           80          908     908        1            5            4              0  256   1  0.004
                  48   3         5904         2275    2275        1          123            8              1  256   3  0.060
                     ---
large:          size ind
--- End jemalloc statistics ---
";

    #[test]
    fn totals_and_bins_are_read() {
        let found = read(TEXT, 0).unwrap();
        assert_eq!(found.total("live"), Some(&Value::Range(21_073_088 - 320, 21_073_088)));
        assert_eq!(found.total("free_runs"), Some(&Value::Exact(1920 * 4096)));
        assert_eq!(found.total("reserved"), Some(&Value::Exact(146_128_896 + 94_519_296)));
        assert_eq!(found.total("engine"), Some(&Value::Text("jemalloc 5.3.0-0-g54eaed".into())));
        let bin = found.cache("bin 48").unwrap();
        let all = ["slabs", "objs_per_slab", "total_objects", "bytes", "partial"];
        assert_eq!(all.map(|name| bin.exact(name).unwrap()), [8, 256, 2048, 8 * 3 * 4096, 1]);
        assert_eq!(bin.value("live"), Some(&Value::Range(117, 123)));
        assert_eq!(found.missing, []);
    }

    #[test]
    fn an_older_table_is_read_by_its_names_and_a_cut_one_named() {
        let old = TEXT
            .replace("curslabs  nonfull_slabs", "curruns")
            .replace("4              0  256", "4  256")
            .replace("8              1  256", "8  256");
        assert_eq!(read(&old, 0).unwrap().cache("bin 48").unwrap().exact("slabs"), Some(8));
        let cut = &TEXT[..TEXT.find("2275    2275").unwrap()];
        let found = read(cut, 0).unwrap();
        assert!(found.missing[0].why.starts_with("line 11 is no row"), "{:?}", found.missing);
        assert_eq!(found.missing.len(), 2);
        assert!(format!("{:?}", read(&TEXT[..40], 0)).contains("no line `Allocated"));
    }
}
