//! The measures that are compared, and each contender's result.
//!
//! [`MEASURES`] is the one table of measures: columns, pictures, JSON keys and the help are
//! generated from it. Less is better in every measure. Invariants: an unknown value is `None` and
//! never 0; sample `i` of each contender comes from the same round.

use std::collections::BTreeMap;

/// In what a measure is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Bytes,
    Count,
}

/// One measure of the table: a row of the report.
pub struct Measure {
    /// Its key in JSON.
    pub key: &'static str,
    /// Heading of its column.
    pub head: &'static str,
    pub unit: Unit,
    /// One line of help.
    pub help: &'static str,
    /// True if a program has it.
    pub of_programs: bool,
    /// True if a trace has it.
    pub of_traces: bool,
}

macro_rules! measures {
    ($($what:ident $key:literal $head:literal $unit:ident $programs:literal $traces:literal $help:literal;)*) => {
        /// A measure by its name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum MeasureKey { $(#[doc = $help] $what,)* }

        impl MeasureKey {
            /// All measures, in the order of display.
            pub const ALL: &[MeasureKey] = &[$(MeasureKey::$what,)*];
        }

        /// All measures, in the order of display.
        pub static MEASURES: &[Measure] = &[$(Measure {
            key: $key, head: $head, unit: Unit::$unit, help: $help,
            of_programs: $programs, of_traces: $traces,
        },)*];
    };
}

measures! {
    Time "time_s" "time" Seconds true true
        "wall time: of the program, of the client with --client; with --time, of the replay of a trace";
    Cpu "cpu_s" "cpu" Seconds true false
        "user and system time of the program and of what it waited for";
    Peak "peak_bytes" "peak" Bytes true true
        "most resident bytes (the larger of the largest process's and of the process tree's samples); of a trace most bytes of slabs";
    Mean "mean_bytes" "mean" Bytes true true
        "mean resident bytes of the process tree, sampled, pages that processes share counted in each; of a trace mean bytes of slabs over its time";
    Waste "waste_bytes" "waste" Bytes true true
        "most bytes that the allocator held less the most that were live, as they were seen; of a trace, bytes of slabs";
    Slabs "slabs" "slabs" Count false true
        "most slabs at a time";
    SlowPaths "slow_paths" "slow paths" Count true true
        "allocations and frees that a slab served one by one, behind the front (alloc_slowpath, free_slowpath)";
    Moved "moved_objects" "moved" Count true true
        "objects that went between sheaves and slabs together (sheaf_refill, sheaf_flush)";
    ListLocks "list_locks" "list locks" Count true true
        "acquisitions of a list lock (list_lock)";
    Exchanges "exchanges" "exchanges" Count true true
        "compare-exchanges of a slab's word that were tried (cmpxchg_slab)";
    Failed "exchanges_failed" "failed" Count true false
        "those of them that failed (cmpxchg_double_fail)";
}

impl MeasureKey {
    /// How it is headed, printed and explained.
    pub fn row(self) -> &'static Measure {
        &MEASURES[self as usize]
    }
}

/// All contenders on one load.
pub struct LoadComparison {
    /// The contenders; the first is what the others are held against.
    pub figures: Vec<Figures>,
    /// What makes some of it doubtful.
    pub findings: Vec<String>,
    /// What else should be known.
    pub notes: Vec<String>,
}

impl LoadComparison {
    /// The measures that are known of one contender at least.
    pub fn measures(&self) -> impl Iterator<Item = MeasureKey> {
        let known = |what: &MeasureKey| self.figures.iter().any(|f| f.median(*what).is_some());
        MeasureKey::ALL.iter().copied().filter(known)
    }
}

/// One contender, and what it came to.
#[derive(Clone, Debug)]
pub struct Figures {
    /// As people name it.
    pub name: String,
    /// Of each measure a sample for each round, or one.
    samples: Vec<Vec<Option<f64>>>,
    /// How far off its peak may be, for people: of a trace's machine that is not the traced one.
    pub error: Option<String>,
    /// True if its figures do not compare with those of another machine.
    pub unlike: bool,
    /// What was counted, by the kernel's names; `None` if nothing was.
    pub counters: Option<BTreeMap<String, u64>>,
}

impl Figures {
    /// Figures of a contender that has not run yet.
    pub fn new(name: &str) -> Figures {
        let samples = vec![Vec::new(); MEASURES.len()];
        Figures { name: name.into(), samples, error: None, unlike: false, counters: None }
    }

    /// Adds what one run gave; `None` if it gave nothing.
    pub fn add(&mut self, what: MeasureKey, sample: Option<f64>) {
        self.samples[what as usize].push(sample);
    }

    /// Adds a count, likewise.
    pub fn count(&mut self, what: MeasureKey, sample: Option<u64>) {
        self.add(what, sample.map(|n| n as f64));
    }

    /// What was counted, and the measures that are sums of it.
    pub fn counted(&mut self, counters: Option<BTreeMap<String, u64>>) {
        let sum = |names: &[&str]| {
            let counters = counters.as_ref()?;
            names.iter().map(|name| counters.get(*name).copied()).sum()
        };
        self.count(MeasureKey::SlowPaths, sum(&["alloc_slowpath", "free_slowpath"]));
        self.count(MeasureKey::Moved, sum(&["sheaf_refill", "sheaf_flush"]));
        self.count(MeasureKey::ListLocks, sum(&["list_lock"]));
        self.count(MeasureKey::Exchanges, sum(&["cmpxchg_slab"]));
        self.count(MeasureKey::Failed, sum(&["cmpxchg_double_fail"]));
        self.counters = counters;
    }

    /// The samples, round by round.
    pub fn samples(&self, what: MeasureKey) -> &[Option<f64>] {
        &self.samples[what as usize]
    }

    /// The median; unknown if one of the rounds is.
    pub fn median(&self, what: MeasureKey) -> Option<f64> {
        Some(median(&mut self.known(what)?))
    }

    /// How far the middle half of the samples lies apart, as a share of their median; unknown
    /// for fewer than two.
    pub fn spread(&self, what: MeasureKey) -> Option<f64> {
        let mut known = self.known(what).filter(|known| known.len() > 1)?;
        let median = median(&mut known);
        let quarter = known.len() / 4;
        let apart = known[known.len() - 1 - quarter] - known[quarter];
        (median > 0.0).then(|| apart / median)
    }

    /// The median over rounds of this to the other. What disturbs a round disturbs both, so a
    /// ratio is taken within each. Unlike machines have none.
    pub fn to(&self, base: &Figures, what: MeasureKey) -> Option<f64> {
        if (self.unlike || base.unlike) && self.name != base.name {
            return None;
        }
        let (ours, theirs) = (self.known(what)?, base.known(what)?);
        if ours.len() != theirs.len() || theirs.contains(&0.0) {
            return None;
        }
        let mut ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(a, b)| a / b).collect();
        Some(median(&mut ratios))
    }

    /// All samples, if there are any and none is unknown.
    fn known(&self, what: MeasureKey) -> Option<Vec<f64>> {
        let samples: Option<Vec<f64>> = self.samples(what).iter().copied().collect();
        samples.filter(|samples| !samples.is_empty())
    }
}

/// The median; sorts the values, of which there is one at least.
fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { f64::midpoint(values[half - 1], values[half]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(samples: &[f64]) -> Figures {
        let mut figures = Figures::new("x");
        samples.iter().for_each(|sample| figures.add(MeasureKey::Time, Some(*sample)));
        figures
    }

    #[test]
    fn a_disturbed_round_leaves_no_mark_on_the_ratio() {
        let (base, slower) = (of(&[1.0, 9.0, 2.0]), of(&[1.5, 13.5, 3.0]));
        assert_eq!(slower.to(&base, MeasureKey::Time), Some(1.5));
        assert_eq!(base.to(&slower, MeasureKey::Time).map(|r| (r * 3.0).round()), Some(2.0));
        assert_eq!(slower.median(MeasureKey::Time), Some(3.0));
        assert_eq!(of(&[90.0, 100.0, 110.0, 1000.0]).spread(MeasureKey::Time), Some(10.0 / 105.0));
    }

    #[test]
    fn what_is_unknown_stays_so() {
        let mut figures = of(&[1.0]);
        assert_eq!(
            (figures.spread(MeasureKey::Time), figures.median(MeasureKey::Waste)),
            (None, None)
        );
        figures.add(MeasureKey::Time, None);
        assert_eq!(
            (figures.median(MeasureKey::Time), figures.to(&of(&[1.0]), MeasureKey::Time)),
            (None, None)
        );
        assert_eq!(
            of(&[1.0]).to(&of(&[0.0]), MeasureKey::Time),
            None,
            "nothing is a multiple of 0"
        );
        figures.counted(None);
        assert_eq!(figures.median(MeasureKey::ListLocks), None);
    }

    #[test]
    fn unlike_machines_have_no_ratio() {
        let (base, mut other) = (of(&[1.0]), of(&[2.0]));
        other.name = "other".into();
        assert_eq!(other.to(&base, MeasureKey::Time), Some(2.0));
        other.unlike = true;
        assert_eq!(
            (other.to(&base, MeasureKey::Time), base.to(&other, MeasureKey::Time)),
            (None, None)
        );
        assert_eq!(other.to(&other, MeasureKey::Time), Some(1.0));
    }

    #[test]
    fn counters_become_measures() {
        let mut figures = Figures::new("x");
        let counters =
            [("alloc_slowpath", 3), ("free_slowpath", 4), ("sheaf_flush", 9), ("list_lock", 0)];
        figures.counted(Some(counters.map(|(name, n)| (name.into(), n)).into()));
        assert_eq!(figures.median(MeasureKey::SlowPaths), Some(7.0));
        assert_eq!(figures.median(MeasureKey::ListLocks), Some(0.0), "counted, and none");
        // One of two is not told.
        assert_eq!(
            (figures.median(MeasureKey::Moved), figures.median(MeasureKey::Failed)),
            (None, None)
        );
    }
}
