//! Parses what a run of `loads/kernel` prints at its end.

use serde::Serialize;

use crate::compare::measures::{CPU, FAULTS, NR_MEASURES, PEAK};

/// The percentiles of `drain`, in the order in which it prints them.
pub const SHARES: [&str; 3] = ["p50", "p99", "p99.9"];

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// Messages, packets, tasks or frees.
    pub ops: u64,
    /// From the moment when all members were ready to the end of the last.
    pub ns: u64,
    /// Of the process, from its start to its end; of its children too.
    pub cpu_us: u64,
    /// Of the largest process.
    pub peak_kib: u64,
    /// Minor page faults.
    pub faults: u64,
    /// What `drain` has beside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frees: Option<Frees>,
}

/// The times of single frees, in nanoseconds, without what the clock takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Frees {
    /// What read the time.
    pub clock: String,
    /// What two readings of it with nothing between take: the median.
    pub cost_ns: f64,
    pub count: u64,
    pub percentiles: [f64; SHARES.len()],
    pub max: f64,
    /// The least time of a row, and the frees that took so long or up to twice as long.
    pub rows: Vec<(u64, u64)>,
    /// How often another thread took the CPU meanwhile.
    pub switches: u64,
}

/// Reads what the load said; none if it is anything else.
pub fn run_of(measures: &[u64; NR_MEASURES], text: &str) -> Option<Run> {
    let mut lines = text.lines();
    let ops = number(lines.next()?, "ops ")?;
    let ns = number(lines.next()?, "ns ")?;
    let lines: Vec<&str> = lines.collect();
    let frees = if lines.is_empty() { None } else { Some(frees_of(&lines)?) };
    let [cpu_us, peak_kib, faults] = [CPU, PEAK, FAULTS].map(|measure| measures[measure]);
    Some(Run { ops, ns, cpu_us, peak_kib, faults, frees })
}

fn number(line: &str, word: &str) -> Option<u64> {
    line.strip_prefix(word)?.parse().ok()
}

fn frees_of(lines: &[&str]) -> Option<Frees> {
    let [clock, frees, rows @ .., switches] = lines else { return None };
    let (clock, cost) = clock.strip_prefix("clock ")?.split_once(' ')?;
    let (count, times) = frees.strip_prefix("frees ")?.split_once(' ')?;
    let times: Vec<f64> = times.split(' ').map(|time| time.parse().ok()).collect::<Option<_>>()?;
    let (&max, percentiles) = times.split_last()?;
    let row = |line: &&str| {
        let (from, count) = line.strip_prefix("row ")?.split_once(' ')?;
        Some((from.parse().ok()?, count.parse().ok()?))
    };
    let frees = Frees {
        clock: clock.to_owned(),
        cost_ns: cost.parse().ok()?,
        count: count.parse().ok()?,
        percentiles: percentiles.try_into().ok()?,
        max,
        rows: rows.iter().map(row).collect::<Option<_>>()?,
        switches: number(switches, "switches ")?,
    };
    let counted: u64 = frees.rows.iter().map(|(_, count)| count).sum();
    (counted == frees.count).then_some(frees)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURES: [u64; NR_MEASURES] = [900, 800, 700, 600, 500, 400];
    const SAID: &str = "ops 5\nns 1000\nclock tsc 20.0\nfrees 5 10.0 20.0 30.0 99.5\n\
                        row 8 3\nrow 64 2\nswitches 4\n";

    #[test]
    fn every_line_is_read() {
        let run = run_of(&MEASURES, SAID).unwrap();
        assert_eq!((run.ops, run.ns), (5, 1000));
        assert_eq!((run.cpu_us, run.peak_kib, run.faults), (800, 700, 600));
        let frees = run.frees.unwrap();
        assert_eq!((frees.clock.as_str(), frees.cost_ns, frees.max), ("tsc", 20.0, 99.5));
        assert_eq!(frees.percentiles, [10.0, 20.0, 30.0]);
        assert_eq!((frees.rows, frees.switches), (vec![(8, 3), (64, 2)], 4));
        assert_eq!(run_of(&MEASURES, "ops 5\nns 1000\n").unwrap().frees, None);
    }

    #[test]
    fn other_lines_are_refused() {
        let broken = [
            "ops 5\n".to_owned(),
            SAID.replace("ns ", "us "),
            SAID.replace("tsc 20.0", "tsc"),
            SAID.replace(" 99.5", ""),
            SAID.replace("switches 4\n", ""),
            // A row is missing: not all frees are told.
            SAID.replace("row 64 2\n", ""),
        ];
        for text in broken {
            assert!(run_of(&MEASURES, &text).is_none(), "{text}");
        }
    }
}
