//! The measured errors of predictions for machines other than the traced one.
//!
//! A pair is one load recorded on two guests; one guest's slabs are predicted from the other guest's
//! trace. `ci/pairs-by-hand` boots guests of one kernel and measures their peaks,
//! `ci/releases-by-hand` boots two kernels and measures the ends. [`crate::case`] describes how a
//! machine differs from the traced one; commands print the [`Accuracy`] below their results.
//! [`crate::population::measured`] has the same of what snapshots foretell. Invariant: a test
//! compares the figures in docs/replay.md with those in this module.

/// In what a machine, or a kernel's rules, are not those that were traced or counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// It has more CPUs, or fewer.
    Cpus,
    /// Slabs have other orders.
    Orders,
    /// Pages have another size.
    Pages,
    /// There are more tasks.
    Tasks,
    /// CPUs go offline and come online.
    Hotplug,
    /// Caches are shrunk on the way.
    Shrink,
    /// The allocator is another one.
    Allocator,
    /// CPUs' partial lists hold more, or less.
    CpuPartial,
    /// Nodes keep more empty slabs, or fewer.
    MinPartial,
    /// The kernel reserves memory for another number of CPUs, present or not.
    PossibleCpus,
    /// Sheaves in place of CPU slabs, or the reverse.
    Front,
    /// Any other rule.
    Other,
    /// Nothing: it was booted twice.
    Nothing,
}

impl Change {
    /// For programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Change::Cpus => "cpus",
            Change::Orders => "orders",
            Change::Pages => "page_size",
            Change::Tasks => "tasks",
            Change::Hotplug => "hotplug",
            Change::Shrink => "shrink",
            Change::Allocator => "allocator",
            Change::CpuPartial => "cpu_partial",
            Change::MinPartial => "min_partial",
            Change::PossibleCpus => "possible_cpus",
            Change::Front => "front",
            Change::Other => "other",
            Change::Nothing => "nothing",
        }
    }

    /// For people, behind "with".
    pub(crate) fn words(self) -> &'static str {
        match self {
            Change::Cpus => "other CPUs",
            Change::Orders => "other orders",
            Change::Pages => "other pages",
            Change::Tasks => "more tasks",
            Change::Hotplug => "CPUs that come and go",
            Change::Shrink => "caches that are shrunk",
            Change::Allocator => "another allocator",
            Change::CpuPartial => "another cpu_partial",
            Change::MinPartial => "another min_partial",
            Change::PossibleCpus => "other possible CPUs (of 6.1)",
            Change::Front => "sheaves for CPU slabs",
            Change::Other => "these rules",
            Change::Nothing => "another boot",
        }
    }
}

/// A load on one guest, foretold from the trace of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// In what the guests differ.
    pub change: Change,
    /// The kernel that both ran, or both kernels.
    pub kernel: &'static str,
    /// The load: a name of the script.
    pub load: &'static str,
    /// The guest that was traced.
    pub from: &'static str,
    /// The guest that was foretold.
    pub to: &'static str,
    /// Slabs above those of the start, at the peak or, of [`Change::Front`], at the end: the
    /// kernel's.
    pub real: u32,
    /// The model's.
    pub foretold: u32,
}

const fn pair(change: Change, run: [&'static str; 4], real: u32, foretold: u32) -> Pair {
    let [kernel, load, from, to] = run;
    Pair { change, kernel, load, from, to, real, foretold }
}

/// All that were measured.
pub const PAIRS: &[Pair] = &[
    pair(Change::Cpus, ["6.1.174", "files", "4 CPUs", "16 CPUs"], 492, 531),
    pair(Change::Cpus, ["6.1.174", "files", "16 CPUs", "4 CPUs"], 354, 341),
    pair(Change::Cpus, ["6.1.174", "hackbench", "4 CPUs", "16 CPUs"], 786, 923),
    pair(Change::Cpus, ["6.1.174", "hackbench", "16 CPUs", "4 CPUs"], 1312, 1142),
    pair(Change::Cpus, ["6.1.192", "files", "4 CPUs", "16 CPUs"], 483, 532),
    pair(Change::Cpus, ["6.1.192", "files", "16 CPUs", "4 CPUs"], 346, 330),
    pair(Change::Cpus, ["6.1.192", "hackbench", "4 CPUs", "16 CPUs"], 663, 626),
    pair(Change::Cpus, ["6.1.192", "hackbench", "16 CPUs", "4 CPUs"], 706, 908),
    pair(Change::Orders, ["6.1.174", "files", "4 CPUs", "order 1"], 595, 547),
    pair(Change::Orders, ["6.1.174", "files", "order 1", "4 CPUs"], 354, 409),
    pair(Change::Orders, ["6.1.174", "hackbench", "4 CPUs", "order 1"], 1863, 1964),
    pair(Change::Orders, ["6.1.174", "hackbench", "order 1", "4 CPUs"], 1312, 1246),
    pair(Change::Orders, ["6.1.192", "files", "4 CPUs", "order 1"], 563, 553),
    pair(Change::Orders, ["6.1.192", "files", "order 1", "4 CPUs"], 346, 345),
    pair(Change::Orders, ["6.1.192", "hackbench", "4 CPUs", "order 1"], 1161, 1041),
    pair(Change::Orders, ["6.1.192", "hackbench", "order 1", "4 CPUs"], 706, 786),
    // Means of four recordings each.
    pair(Change::Front, ["6.12, 7.3", "hackbench", "7.3", "6.12"], 118, 110),
    pair(Change::Front, ["6.12, 7.3", "files", "7.3", "6.12"], 56, 52),
    pair(Change::Front, ["6.12, 7.3", "hackbench", "6.12", "7.3"], 376, 410),
    pair(Change::Front, ["6.12, 7.3", "files", "6.12", "7.3"], 114, 131),
];

/// How far off answers were where a machine was changed like this.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// What the guests of a pair differ in.
    pub change: Change,
    /// Pairs that were measured.
    pub pairs: usize,
    /// The lowest and the highest of (foretold - real) / real; `None` if nothing was measured.
    pub off: Option<(f64, f64)>,
}

impl Accuracy {
    /// What the pairs say of a change.
    #[must_use]
    pub fn of(change: Change) -> Accuracy {
        let off = PAIRS.iter().filter(|pair| pair.change == change).map(Pair::off);
        let pairs = off.clone().count();
        let range = off.fold(None, |range: Option<(f64, f64)>, off| {
            let (low, high) = range.unwrap_or((off, off));
            Some((low.min(off), high.max(off)))
        });
        Accuracy { change, pairs, off: range }
    }

    /// The range in words, if it was measured.
    pub(crate) fn range(&self) -> Option<String> {
        let (low, high) = self.off?;
        Some(format!(
            "with {} {:+.0} to {:+.0} % on {} pairs of guests",
            self.change.words(),
            low * 100.0,
            high * 100.0,
            self.pairs
        ))
    }
}

impl Pair {
    /// How far off the model is, as a share of what the kernel did.
    #[must_use]
    pub fn off(&self) -> f64 {
        f64::from(self.foretold) / f64::from(self.real) - 1.0
    }
}

/// The lowest and the highest of (foretold - real) / real over all changes; `None` if there are none,
/// or one of them was not measured.
#[must_use]
pub fn range(changes: &[Change]) -> Option<(f64, f64)> {
    let all = changes.iter().map(|change| Accuracy::of(*change).off);
    let range = all.reduce(|a, b| {
        let ((low, high), (lower, higher)) = (a?, b?);
        Some((low.min(lower), high.max(higher)))
    });
    range.flatten()
}

/// The same in few words, for a table; `None` without changes.
#[must_use]
pub fn cell(changes: &[Change]) -> Option<String> {
    if changes.is_empty() {
        return None;
    }
    Some(match range(changes) {
        Some((low, high)) => format!("{:+.0} to {:+.0} %", low * 100.0, high * 100.0),
        None => "not measured".into(),
    })
}

/// A line on the accuracy of a machine that differs in these ways, if it does in any.
#[must_use]
pub fn line(changes: &[Change]) -> Option<String> {
    let (known, unknown): (Vec<Accuracy>, Vec<Accuracy>) =
        changes.iter().map(|change| Accuracy::of(*change)).partition(|it| it.off.is_some());
    let known: Vec<String> = known.iter().filter_map(Accuracy::range).collect();
    let unknown: Vec<&str> = unknown.iter().map(|it| it.change.words()).collect();
    let mut text = Vec::new();
    if !known.is_empty() {
        text.push(format!("slabs above the start were off by: {}", known.join(", ")));
    }
    if !unknown.is_empty() {
        text.push(format!("no machine was measured with {}", unknown.join(", ")));
    }
    (!text.is_empty()).then(|| text.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_every_pair_and_what_was_not_measured_has_none() {
        for change in [Change::Cpus, Change::Orders, Change::Front] {
            let accuracy = Accuracy::of(change);
            let (low, high) = accuracy.off.expect("it was measured");
            let of_change: Vec<f64> =
                PAIRS.iter().filter(|pair| pair.change == change).map(Pair::off).collect();
            assert!(of_change.iter().all(|off| (low..=high).contains(off)));
            assert!(of_change.contains(&low) && of_change.contains(&high));
            assert_eq!(of_change.len(), accuracy.pairs);
        }
        assert_eq!(Accuracy::of(Change::Pages).off, None);
        assert_eq!((line(&[]), cell(&[])), (None, None));
        assert_eq!(cell(&[Change::Cpus]).expect("a cell").matches(" to ").count(), 1);
        assert_eq!(cell(&[Change::Cpus, Change::Pages]).as_deref(), Some("not measured"));
        let line = line(&[Change::Cpus, Change::Tasks]).expect("a line");
        assert!(line.contains("with other CPUs ") && line.contains(" measured with more tasks"));
    }

    /// The table of the documentation: a row for each two guests, with both kernels' pairs.
    fn rows() -> String {
        let of_table = PAIRS.iter().filter(|pair| pair.change != Change::Front);
        let mut guests: Vec<_> = of_table.map(|pair| (pair.from, pair.to)).collect();
        guests.sort_unstable();
        guests.dedup();
        let cell = |from, to, load| {
            let of_load =
                PAIRS.iter().filter(|pair| (pair.from, pair.to, pair.load) == (from, to, load));
            of_load
                .map(|pair| format!("{:+.0} %", pair.off() * 100.0))
                .collect::<Vec<_>>()
                .join(", ")
        };
        guests
            .iter()
            .map(|&(from, to)| {
                let [files, hackbench] = ["files", "hackbench"].map(|load| cell(from, to, load));
                format!("| {from} | {to} | {files} | {hackbench} |\n")
            })
            .collect()
    }

    /// The documentation has the numbers of each pair.
    #[test]
    fn the_documentation_has_these_figures() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/replay.md");
        let docs = std::fs::read_to_string(docs).expect("docs/replay.md");
        assert!(docs.contains(&rows()), "docs/replay.md is to have these rows:\n{}", rows());
        for pair in PAIRS.iter().filter(|pair| pair.change == Change::Front) {
            let figures = format!("{} / {}", pair.real, pair.foretold);
            assert!(docs.contains(&figures), "docs/replay.md is to have {figures}");
        }
        let in_order = PAIRS.is_sorted_by_key(|pair| (pair.change, pair.kernel));
        assert!(in_order, "the first figure of a cell is the older kernel's");
    }
}
