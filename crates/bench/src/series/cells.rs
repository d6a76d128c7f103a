//! A cell of the tables: a load, its number of threads, and the number of CPUs.
//!
//! Neighbours: `measure` runs these; `loads/kernel` defines the loads and the limits of their
//! settings.

use serde::Serialize;

use crate::questions::{SeriesLoad, SeriesOptions};

/// Messages, and packets, of a run.
const MESSAGES: u64 = 200_000;
const PACKETS: u64 = 1_000_000;
/// Senders of a group at most: hackbench's.
const FAN: u64 = 20;
const THREADS: [u64; 3] = [2, 8, 64];

/// What the series' author measured: 128 CPUs, 2 nodes, three runs, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PublishedRun {
    pub command: &'static str,
    /// Before the series.
    pub before: [f64; 3],
    pub after: [f64; 3],
}

/// A load, its threads and its CPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The load's name.
    pub load: &'static str,
    /// Threads at the same time.
    pub threads: u64,
    /// CPUs at most.
    pub cpus: u32,
    /// The load's settings.
    pub settings: Vec<(&'static str, u64)>,
    /// The line of the series' table that this is nearest to.
    pub published: Option<PublishedRun>,
}

impl Cell {
    /// What the program of loads is passed after the load's name.
    pub fn words(&self) -> Vec<String> {
        let settings = self.settings.iter().map(|(name, value)| format!("{name}={value}"));
        settings.chain(["--cpus".to_owned(), self.cpus.to_string()]).collect()
    }
}

impl SeriesLoad {
    fn published(self) -> (u64, PublishedRun) {
        match self {
            // 5 groups of 20 and 20.
            Self::Messaging => (
                200,
                PublishedRun {
                    command: "perf bench sched messaging -g 5 -t -l 100000",
                    before: [7.042, 7.022, 7.054],
                    after: [6.966, 7.045, 6.985],
                },
            ),
            Self::Packets => (
                128,
                PublishedRun {
                    command: "stress-ng --rawpkt 128 --rawpkt-ops 100000000",
                    before: [2.42, 2.45, 2.44],
                    after: [2.15, 2.16, 2.17],
                },
            ),
        }
    }

    fn cell(self, threads: u64, cpus: u32, scale: f64) -> Cell {
        let (theirs, published) = self.published();
        let scaled = |n: u64| ((n as f64 * scale) as u64).max(1);
        let (load, settings) = match self {
            Self::Messaging => {
                let pairs = threads / 2;
                let fan =
                    (1..=FAN.min(pairs)).rev().find(|fan| pairs.is_multiple_of(*fan)).unwrap_or(1);
                let loops = scaled(MESSAGES).div_ceil(pairs * fan);
                let settings = vec![("groups", pairs / fan), ("fan", fan), ("loops", loops)];
                ("messaging", settings)
            }
            Self::Packets => {
                ("packets", vec![("pairs", threads / 2), ("packets", scaled(PACKETS))])
            }
        };
        let published = (threads == theirs).then_some(published);
        Cell { load, threads, cpus, settings, published }
    }
}

/// All requested cells, on a machine with this many CPUs.
pub fn all(options: &SeriesOptions, all_cpus: usize) -> Vec<Cell> {
    let all_cpus = u32::try_from(all_cpus).unwrap_or(u32::MAX);
    let mut cpus = if options.cpus.is_empty() { vec![1, all_cpus] } else { options.cpus.clone() };
    cpus.dedup();
    let loads = [SeriesLoad::Messaging, SeriesLoad::Packets];
    let wanted = |load: &SeriesLoad| options.only.is_empty() || options.only.contains(load);
    let mut cells = Vec::new();
    for load in loads.into_iter().filter(wanted) {
        let mut threads = options.threads.clone();
        if threads.is_empty() {
            threads.extend(THREADS);
            threads.push(load.published().0);
        }
        for threads in threads {
            cells.extend(cpus.iter().map(|&cpus| load.cell(threads, cpus, options.scale)));
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Suite};
    use clap::Parser;

    fn options(more: &[&str]) -> SeriesOptions {
        let line = ["slabyard-bench", "series"].iter().chain(more);
        match Args::parse_from(line).suite {
            Suite::Series(options) => options,
            _ => unreachable!("it was asked for the series"),
        }
    }

    #[test]
    fn cells_have_their_threads_and_as_many_messages() {
        let cells = all(&options(&[]), 4);
        assert_eq!(cells.len(), 2 * 4 * 2);
        assert!(cells.iter().all(|cell| cell.cpus == 1 || cell.cpus == 4));
        for cell in &cells {
            let of = |name| cell.settings.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
            if let (Some(groups), Some(fan), Some(loops)) = (of("groups"), of("fan"), of("loops")) {
                assert_eq!(groups * fan * 2, cell.threads);
                let messages = groups * fan * fan * loops;
                assert!((MESSAGES..MESSAGES + 20_000).contains(&messages), "{cell:?}");
            } else {
                assert_eq!((of("pairs"), of("packets")), (Some(cell.threads / 2), Some(PACKETS)));
            }
        }
        let theirs: Vec<&Cell> = cells.iter().filter(|cell| cell.published.is_some()).collect();
        assert_eq!(theirs.len(), 4);
        assert_eq!(theirs[0].words().join(" "), "groups=5 fan=20 loops=100 --cpus 1");
        assert_eq!(theirs[3].words().join(" "), "pairs=64 packets=1000000 --cpus 4");
    }

    #[test]
    fn only_what_is_asked_for_is_run() {
        let cells = all(&options(&["--only", "packets", "--threads", "6", "--scale", "0.001"]), 1);
        let [cell] = cells.as_slice() else { panic!("one CPU, one cell: {cells:?}") };
        assert_eq!(cell.words().join(" "), "pairs=3 packets=1000 --cpus 1");
        for wrong in [["--threads", "3"], ["--cpus", "0"], ["--scale", "0"], ["--fronts", "6.2"]] {
            let line = ["slabyard-bench", "series"].iter().chain(&wrong);
            assert!(Args::try_parse_from(line).is_err(), "{wrong:?}");
        }
    }
}
