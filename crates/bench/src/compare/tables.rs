//! The result tables, the same on the screen and in the written document.

use comfy_table::Table;

use super::calls::Calls;
use super::judge::Loss;
use super::measures::{
    AREA, CPU, FAULTS, Failure, Load, MAPPINGS, MEASURES, NR_MEASURES, PEAK, WALL,
};
use super::results::Results;
use crate::screen;
use crate::stats::{Estimate, median};

/// In the order in which they are shown.
const SHOWN: [usize; NR_MEASURES] = [WALL, CPU, PEAK, AREA, FAULTS, MAPPINGS];

/// Geometric means of ours to each peer's, in each measure.
pub fn means(results: &Results) -> Table {
    let first = format!("{} to", results.allocators[0]);
    let mut heading = vec![first.as_str()];
    heading.extend(SHOWN.map(|m| MEASURES[m].name));
    heading.push("loads");
    let row = |peer: usize| {
        let means = SHOWN.map(|m| results.mean(m, peer));
        let mut row = vec![results.allocators[peer].to_owned()];
        row.extend(means.iter().map(|m| m.map_or("-".to_owned(), |m| with_interval(&m.ratio))));
        row.push(means[0].map_or(0, |mean| mean.loads).to_string());
        row
    };
    screen::table(&heading, results.peers().map(row).collect())
}

/// The text above [`side_by_side`].
pub const SIDE_BY_SIDE: &str =
    "wall time, ms / peak RSS, MiB / mean RSS, MiB; medians, and the first to each in the mean";

/// Time and memory of each allocator in one cell: what one would choose by. The mean of
/// memory is its integral by the wall time, of each run.
pub fn side_by_side(results: &Results) -> Table {
    let mut heading = vec!["load"];
    heading.extend(&results.allocators);
    let cell = |load: usize, allocator: usize| {
        let Some(samples) = &results.samples[load][allocator] else { return "failed".to_owned() };
        // KiB ms by us: MiB are 1000 / 1024 of it.
        let mean = samples[AREA].iter().zip(&samples[WALL]).map(|(area, wall)| area / wall);
        let mean = median(&mean.collect::<Vec<f64>>()) * 1000.0 / 1024.0;
        let [wall, peak] = [WALL, PEAK].map(|m| number(median(&samples[m]) / MEASURES[m].per_unit));
        format!("{wall} / {peak} / {}", number(mean))
    };
    let everybody = 0..results.allocators.len();
    let mut rows: Vec<Vec<String>> = (0..results.loads.len())
        .map(|load| {
            let name = results.loads[load].name.clone();
            [name].into_iter().chain(everybody.clone().map(|a| cell(load, a))).collect()
        })
        .collect();
    let of = |m: usize, peer: usize| {
        results.mean(m, peer).map_or("-".to_owned(), |mean| with_interval(&mean.ratio))
    };
    let mean = |m: usize, words: &str| {
        let peers = results.peers().map(|peer| of(m, peer));
        [format!("{} to it: {words}", results.allocators[0]), String::new()]
            .into_iter()
            .chain(peers)
            .collect()
    };
    rows.extend([mean(WALL, "time"), mean(PEAK, "peak")]);
    screen::table(&heading, rows)
}

/// One measure: a load a row, medians, and ours to the best peer's.
pub fn medians(results: &Results, measure: usize) -> Table {
    let mut heading = vec!["load"];
    heading.extend(&results.allocators);
    heading.extend(["to best", "95 %", "rounds"]);
    let row = |load: usize| {
        let mut row = vec![results.loads[load].name.clone()];
        let cell = |allocator| results.median(measure, load, allocator);
        let cells = (0..results.allocators.len()).map(cell);
        row.extend(cells.map(|median| {
            median.map_or("failed".to_owned(), |m| number(m / MEASURES[measure].per_unit))
        }));
        let best = results.ranked(measure, load).first().map(|&(peer, _)| peer);
        let ratio = best.and_then(|peer| results.ratio(measure, load, peer));
        row.push(ratio.map_or("-".to_owned(), |e| format!("{:.3}", e.value)));
        row.push(ratio.map_or("-".to_owned(), |e| interval(&e)));
        row.push(results.rounds(load).to_string());
        row
    };
    screen::table(&heading, (0..results.loads.len()).map(row).collect())
}

/// [`medians`] with its title.
pub fn titled(results: &Results, m: usize) -> (String, Table) {
    let measure = &MEASURES[m];
    (format!("{}, {}, median", measure.name, measure.unit), medians(results, m))
}

/// What failed: a line each.
pub fn failed(failures: &[Failure]) -> String {
    let line = |failure: &Failure| {
        format!("failed: {} on {}: {}\n", failure.load, failure.allocator, failure.why)
    };
    failures.iter().map(line).collect()
}

/// All measures of [`medians`] with a title each.
pub fn all_medians(results: &Results) -> impl Iterator<Item = (String, Table)> + '_ {
    SHOWN.into_iter().map(|m| titled(results, m))
}

pub fn losses(losses: &[Loss]) -> Table {
    let row = |loss: &Loss| {
        let second = loss.second.zip(loss.to_second);
        vec![
            loss.load.clone(),
            loss.measure.to_owned(),
            format!("{} of {}'s", with_interval(&loss.to_best), loss.best),
            second.map_or("-".to_owned(), |(name, e)| format!("{:.3} of {name}'s", e.value)),
            loss.why.unwrap_or(loss.without_reason()).to_owned(),
        ]
    };
    let heading = ["load", "measure", "to the best", "to the second-best", "why"];
    screen::table(&heading, losses.iter().map(row).collect())
}

/// The text above [`calls`].
pub const CALLS_TITLE: &str =
    "system calls of one run: madvise / mmap, munmap, mremap and brk / mprotect";

/// Calls of the memory system by load and allocator.
pub fn calls(loads: &[Load], allocators: &[&'static str], calls: &[Vec<Option<Calls>>]) -> Table {
    let mut heading = vec!["load"];
    heading.extend(allocators);
    let row = |(load, of): (&Load, &Vec<Option<Calls>>)| {
        let mut row = vec![load.name.clone()];
        row.extend(of.iter().map(|calls| {
            let Some(Calls { madvise, map, mprotect }) = calls else { return "failed".to_owned() };
            format!("{madvise} / {map} / {mprotect}")
        }));
        row
    };
    screen::table(&heading, loads.iter().zip(calls).map(row).collect())
}

fn interval(e: &Estimate) -> String {
    format!("{:.3} to {:.3}", e.low, e.high)
}

fn with_interval(e: &Estimate) -> String {
    format!("{:.3} ({})", e.value, interval(e))
}

/// Three digits or more.
fn number(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::made_up;
    use super::*;

    #[test]
    fn calls_are_shown_and_failed_ones_too() {
        let loads = [Load { name: "web".to_owned(), threads: 1, words: String::new() }];
        let some = Some(Calls { madvise: 1, map: 20, mprotect: 3 });
        let text = calls(&loads, &["ours", "glibc"], &[vec![some, None]]).to_string();
        assert!(text.contains("1 / 20 / 3") && text.contains("failed"), "{text}");
    }
    #[test]
    fn cells_side_by_side_have_time_peak_and_mean() {
        let mut results = made_up(
            &["sheaves", "6.1", "glibc"],
            &[("a", &[Some((9000, 2048)), None, Some((18_000, 4096))])],
        );
        // 1024 KiB over 9 ms, which are 9000 us.
        results.samples[0][0].as_mut().unwrap()[AREA] = vec![9.0 * 1024.0; 3];
        let text = side_by_side(&results).to_string();
        assert!(text.contains("9.00 / 2.00 / 1.00") && text.contains("failed"), "{text}");
        let time = text.lines().find(|line| line.contains("sheaves to it: time")).unwrap();
        assert!(time.contains("0.500 (0.500 to 0.500)") && time.contains(" - |"), "{text}");
    }

    #[test]
    fn failed_cells_are_shown_as_such() {
        let results = made_up(
            &["ours", "mimalloc", "glibc"],
            &[("a", &[Some((9000, 2048)), None, Some((18_000, 4096))])],
        );
        let text = medians(&results, WALL).to_string();
        assert!(
            text.contains("9.00") && text.contains("failed") && text.contains("18.0"),
            "{text}"
        );
        let text = means(&results).to_string();
        let mimalloc = text.lines().find(|line| line.contains("mimalloc")).unwrap();
        assert!(mimalloc.contains(" - |"), "{text}");
        assert!(text.contains("0.500 (0.500 to 0.500)"), "{text}");
    }
}
