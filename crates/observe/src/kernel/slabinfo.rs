//! `/proc/slabinfo`: one line per cache, the newest cache first (slabinfo(5)).
//!
//! ```text
//! version 2.x, since 2.6:
//! dentry  269619 269619  192  21    1 : tunables 120 60 8 : slabdata 12839 12839 0
//! name    active total   size objs  pages       of SLAB      slabs: active, all
//!         : globalstat LISTALLOCS MAXOBJS GROWN REAPED ... : cpustat ALLOCHIT ALLOCMISS FREEHIT FREEMISS
//! version 1.x, to 2.4:
//! dentry_cache  5100 5130 128 170 171 1 : 252 126
//! name          active total size slabs: active, all; pages of a slab
//! ```
//!
//! A merged cache is listed once, under the name of its first creator. Neighbours: [`super::sample`]
//! reads the kernel's own file, `crate::pasted` copies of it.

/// The numbers of one line of slabinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub name: String,
    /// By the names of [`crate::fields`].
    pub numbers: Vec<(&'static str, u64)>,
}

impl Row {
    /// What all versions print: objects that are active and all, and the bytes of one; objects and
    /// pages of a slab, and all slabs. `None` if no slab can have so many pages.
    fn of(
        name: String,
        [active, total, size]: [u64; 3],
        objs: Option<u64>,
        pages: u64,
        slabs: u64,
    ) -> Option<Row> {
        let order = pages.is_power_of_two().then(|| pages.ilog2())?;
        let numbers = [
            ("objects", Some(active)),
            ("total_objects", Some(total)),
            ("slab_size", Some(size)),
            ("objs_per_slab", objs),
            ("order", Some(order.into())),
            ("slabs", Some(slabs)),
        ];
        let known = numbers.into_iter().filter_map(|(name, number)| Some((name, number?)));
        Some(Row { name, numbers: known.collect() })
    }
}

/// What the columns of a file are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Version {
    /// To Linux 2.4.
    V1,
    /// Its `batchcount` stands before `limit`.
    V2_0,
    /// Since 2.6.10.
    #[default]
    V2_1,
}

/// What a file begins with, before its version.
pub(crate) const HEADING: &str = "slabinfo - version:";

impl Version {
    /// The version in a file's first line.
    pub(crate) fn parse(line: &str) -> Option<Version> {
        let version = line.trim().strip_prefix(HEADING)?.split_whitespace().next()?;
        match version {
            "2.0" => Some(Version::V2_0),
            _ if version.starts_with("1.") => Some(Version::V1),
            _ if version.starts_with("2.") => Some(Version::V2_1),
            _ => None,
        }
    }

    /// A line of a cache.
    pub(crate) fn row(self, line: &str) -> Option<Row> {
        match self {
            Version::V1 => row_1(line),
            Version::V2_0 => row_2(line, ["batchcount", "limit", "sharedfactor"]),
            Version::V2_1 => row_2(line, ["limit", "batchcount", "sharedfactor"]),
        }
    }
}

/// Rows, and the lines that are none.
pub(super) fn parse(text: &str) -> (Vec<Row>, Vec<&str>) {
    let (mut rows, mut strange) = (Vec::new(), Vec::new());
    let version = text.lines().next().and_then(Version::parse).unwrap_or_default();
    let lines = text.lines().filter(|l| !l.starts_with(HEADING) && !l.starts_with('#'));
    for line in lines {
        match version.row(line) {
            Some(row) => rows.push(row),
            None => strange.push(line),
        }
    }
    (rows, strange)
}

/// The counts that SLAB prints behind `slabdata` if it was built with statistics, and the counters
/// that they are.
const GLOBALSTAT: [(usize, &str); 5] = [
    (2, "alloc_slab"),
    (3, "free_slab"),
    (6, "node_allocs"),
    (7, "node_frees"),
    (8, "node_overflow"),
];
const CPUSTAT: [&str; 4] = ["alloc_fastpath", "alloc_slowpath", "free_fastpath", "free_slowpath"];

fn row_2(line: &str, tunables: [&'static str; 3]) -> Option<Row> {
    // From the right: a name may hold spaces and colons.
    let (rest, slabdata) = line.rsplit_once(": slabdata")?;
    let (rest, limits) = rest.rsplit_once(": tunables")?;
    let (slabdata, statistics) = slabdata.split_once(':').unwrap_or((slabdata, ""));
    let [_active, slabs, _shared] = numbers(slabdata)?[..] else { return None };
    let (name, [active, total, size, objs, pages]) = name_and(rest)?;
    let mut row = Row::of(name, [active, total, size], Some(objs), pages, slabs)?;
    // SLUB has none, and prints zeros.
    let limits = numbers(limits)?;
    if limits.first().is_some_and(|limit| *limit > 0) {
        row.numbers.extend(tunables.into_iter().zip(limits));
    }
    for part in statistics.split(':') {
        if let Some(counts) = part.trim().strip_prefix("globalstat").and_then(numbers) {
            let of = |(at, name): (usize, &'static str)| Some((name, *counts.get(at)?));
            row.numbers.extend(GLOBALSTAT.into_iter().filter_map(of));
        } else if let Some(counts) = part.trim().strip_prefix("cpustat").and_then(numbers) {
            row.numbers.extend(CPUSTAT.into_iter().zip(counts));
        }
    }
    Some(row)
}

fn row_1(line: &str) -> Option<Row> {
    let mut parts = line.split(':');
    let (name, [active, total, size, _, slabs, pages]) = name_and(parts.next()?)?;
    // It prints all objects, and not those of one slab.
    let objs = total.checked_div(slabs);
    let mut row = Row::of(name, [active, total, size], objs, pages, slabs)?;
    for part in parts {
        match numbers(part)?[..] {
            [limit, batchcount] => {
                row.numbers.extend([("limit", limit), ("batchcount", batchcount)]);
            }
            [_high, _allocs, grown, reaped, _errors] => {
                row.numbers.extend([("alloc_slab", grown), ("free_slab", reaped)]);
            }
            [alloc_hit, alloc_miss, free_hit, free_miss] => {
                row.numbers
                    .extend(CPUSTAT.into_iter().zip([alloc_hit, alloc_miss, free_hit, free_miss]));
            }
            _ => return None,
        }
    }
    Some(row)
}

/// A name, which may have blanks, and the numbers behind it.
pub(crate) fn name_and<const N: usize>(text: &str) -> Option<(String, [u64; N])> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (name, numbers) = words.split_at_checked(words.len().checked_sub(N)?)?;
    let name = super::attribute::printable(&name.join(" "));
    let mut found = [0; N];
    for (number, word) in found.iter_mut().zip(numbers) {
        *number = word.parse().ok()?;
    }
    (!name.is_empty()).then_some((name, found))
}

/// All words, if each is a number.
fn numbers(text: &str) -> Option<Vec<u64>> {
    text.split_whitespace().map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "slabinfo - version: 2.1\n# name  <active_objs> : tunables : slabdata\n";

    fn number(row: &Row, name: &str) -> Option<u64> {
        row.numbers.iter().find(|(n, _)| *n == name).map(|(_, value)| *value)
    }

    #[test]
    fn a_line_is_read_by_its_columns() {
        let text = format!(
            "{HEAD}kmalloc-1k 16 32 1024 16 4 : tunables 0 0 0 : slabdata 2 3 0\n\
             two words: x 1 2 8 512 1 : tunables 0 0 0 : slabdata 1 1 0\n"
        );
        let (rows, strange) = parse(&text);
        assert!(strange.is_empty());
        let numbers: Vec<u64> = rows[0].numbers.iter().map(|(_, n)| *n).collect();
        assert_eq!(
            (rows[0].name.as_str(), &numbers[..]),
            ("kmalloc-1k", &[16, 32, 1024, 16, 2, 3][..])
        );
        assert_eq!(rows[1].name, "two words: x");
    }

    #[test]
    fn the_limits_and_counts_of_slab_are_read() {
        let stats = ": globalstat 900 80 40 30 0 0 6 7 8 : cpustat 101 102 103 104";
        let line = |version: &str| {
            format!(
                "slabinfo - version: {version} (statistics)\n# name\n\
                 size-64 9 59 64 59 1 : tunables 120 60 8 : slabdata 1 1 0 {stats}\n"
            )
        };
        let text = line("2.1");
        let (rows, strange) = parse(&text);
        assert!(strange.is_empty());
        let of = |name| number(&rows[0], name);
        assert_eq!(
            [of("limit"), of("batchcount"), of("sharedfactor")].map(Option::unwrap),
            [120, 60, 8]
        );
        assert_eq!(
            [of("alloc_slab"), of("free_slab"), of("node_overflow")].map(Option::unwrap),
            [40, 30, 8]
        );
        assert_eq!([of("alloc_fastpath"), of("free_slowpath")].map(Option::unwrap), [101, 104]);
        let (rows, _) = parse(&line("2.0"));
        assert_eq!(number(&rows[0], "limit"), Some(60), "the first of version 2.0 is batchcount");
    }

    #[test]
    fn version_1_has_the_slabs_before_the_pages() {
        let text = "slabinfo - version: 1.1 (SMP)\n\
                    dentry_cache 5100 5130 128 170 171 1 : 252 126\n\
                    size-131072(DMA) 0 0 131072 0 0 32 : 0 0\n";
        let (rows, strange) = parse(text);
        assert!(strange.is_empty());
        let all = ["objects", "slab_size", "slabs", "objs_per_slab", "order", "limit"];
        assert_eq!(all.map(|name| number(&rows[0], name).unwrap()), [5100, 128, 171, 30, 0, 252]);
        assert_eq!(number(&rows[1], "order"), Some(5));
        assert_eq!(number(&rows[1], "objs_per_slab"), None);
        let row = Version::V1.row("x 1 2 8 1 1 1 : 9 8 7 6 5 : 252 126 : 1 2 3 4").unwrap();
        let all = ["alloc_slab", "free_slab", "free_slowpath"];
        assert_eq!(all.map(|name| number(&row, name).unwrap()), [7, 6, 4]);
        assert_eq!(Version::V1.row("x 1 2 8 1 1 1 : 9"), None);
    }

    #[test]
    fn other_lines_are_given_back() {
        for line in [
            "x 1 2 3 : tunables 0 0 0 : slabdata 1 1 0",
            "x 1 2 8 512 3 : tunables 0 0 0 : slabdata 1 1 0",
            "x 1 2 8 512 1 : tunables 0 0 0",
            "1 2 8 512 1 : tunables 0 0 0 : slabdata 1 1 0",
            "x 1 2 8 -1 1 : tunables 0 0 0 : slabdata 1 1 0",
        ] {
            assert_eq!(parse(line), (vec![], vec![line]));
        }
    }
}
