//! Checks the results against the goals, and lists the losses.
//!
//! Two measures are checked, wall time and peak RSS, each as the mean over all loads and on each
//! load. On each load our time is compared with the best peer on that load, our memory with the
//! second-best, so that a peer that excels at that load alone does not set the limit of memory.

use serde::Serialize;

use super::measures::{MEASURES, OfLoad, PEAK, Run, WALL};
use super::results::{Mean, Results};
use crate::allocators::{EARLIER, OURS_NAME};
use crate::goals::Goal;
use crate::stats::{Estimate, PairedSamples, beside, ratio};

/// In the mean, ours takes at most this share of each peer's time.
const TIME_MEAN: f64 = 0.90;
/// And of their memory, that of the C library and of others.
const RSS_FIRST: &str = "glibc";
const RSS_MEAN_FIRST: f64 = 0.95;
const RSS_MEAN: f64 = 1.00;
/// On one load, to the best peer.
const TIME_LOAD: Limit = Limit { rank: 0, words: "the best", ratio: 1.10 };
/// To the second-best.
const RSS_LOAD: Limit = Limit { rank: 1, words: "the second-best", ratio: 1.25 };

/// What ours may take on each load.
struct Limit {
    /// Of this peer, where the best is 0.
    rank: usize,
    words: &'static str,
    ratio: f64,
}

/// Why peers are ahead, by measure and load.
pub const EXPLAINED: &str = include_str!("../../explained.txt");

pub const NOT_EXPLAINED: &str = "not explained yet";
const NOT_SHOWN: &str = "no difference is shown: the interval holds 1";

/// A load on which a peer is ahead.
#[derive(Clone, Debug, Serialize)]
pub struct Loss {
    /// Its name.
    pub load: String,
    pub measure: &'static str,
    /// Who is ahead of all.
    pub best: &'static str,
    /// Ours to that.
    pub to_best: Estimate,
    /// The second-best peer, if two ended this load.
    pub second: Option<&'static str>,
    /// Ours to that.
    pub to_second: Option<Estimate>,
    /// Why, if somebody found out.
    pub why: Option<&'static str>,
}

impl Loss {
    /// What is said where nobody found out why.
    pub fn without_reason(&self) -> &'static str {
        if self.to_best.low <= 1.0 { NOT_SHOWN } else { NOT_EXPLAINED }
    }
}

/// Which loads run on: fronts are not held against a limit.
pub fn open_for(fronts: &[String]) -> fn(&OfLoad) -> bool {
    if fronts.is_empty() { is_open } else { |_| false }
}

/// True if a load's runs do not show whether its time, relative to the best peer's, is above or
/// below its limit.
pub fn is_open(runs: &OfLoad) -> bool {
    let walls = |of: &Vec<Run>| of.iter().map(|run| run.measures[WALL] as f64).collect();
    let walls: Vec<Vec<f64>> = runs.iter().map(walls).collect();
    let Some((ours, peers)) = walls.split_first().filter(|(ours, _)| !ours.is_empty()) else {
        return false;
    };
    let ended = peers.iter().filter(|peer| peer.len() == ours.len());
    let mut ended: Vec<PairedSamples> = ended.map(|peer| PairedSamples { ours, peer }).collect();
    ended.sort_by(|a, b| beside(b).total_cmp(&beside(a)));
    ended.get(TIME_LOAD.rank).is_some_and(|pair| {
        let Estimate { low, high, .. } = ratio(&[*pair]);
        low <= TIME_LOAD.ratio && high > TIME_LOAD.ratio
    })
}

pub fn goals(results: &Results) -> Vec<Goal> {
    let mut goals = vec![complete(results)];
    if !is_ours(results) {
        return goals;
    }
    let peers = || {
        let names = results.peers().map(|peer| results.allocators[peer]);
        let names = names.filter(|name| ![RSS_FIRST, EARLIER].contains(name));
        [RSS_FIRST].into_iter().chain(names)
    };
    goals.extend(peers().map(|name| {
        let goal = format!("wall time to {name}'s, mean");
        let limit = format!("<= {TIME_MEAN:.2}, interval below 1");
        mean(results, WALL, name, goal, limit, |e| e.value <= TIME_MEAN && e.high < 1.0)
    }));
    if results.place(EARLIER).is_some() {
        let goal = "wall time to the earlier build's, mean".to_owned();
        // Of equal builds half have a mean above 1.
        let limit = "interval not above 1".to_owned();
        goals.push(mean(results, WALL, EARLIER, goal, limit, |e| e.low <= 1.0));
    }
    goals.push(each(results, WALL, &TIME_LOAD));
    goals.extend(peers().map(|name| {
        let goal = format!("peak RSS to {name}'s, mean");
        if name == RSS_FIRST {
            let limit = format!("<= {RSS_MEAN_FIRST:.2}");
            mean(results, PEAK, name, goal, limit, |e| e.value <= RSS_MEAN_FIRST)
        } else {
            let limit = format!("<= {RSS_MEAN:.2}");
            mean(results, PEAK, name, goal, limit, |e| e.value <= RSS_MEAN)
        }
    }));
    goals.push(each(results, PEAK, &RSS_LOAD));
    goals
}

/// Those of single loads: where something else than the allocator is much of
/// the time, a mean is only shown.
pub fn goals_of_each(results: &Results) -> Vec<Goal> {
    if !is_ours(results) {
        return vec![complete(results)];
    }
    vec![complete(results), each(results, WALL, &TIME_LOAD), each(results, PEAK, &RSS_LOAD)]
}

/// Fronts are shown side by side: none has a goal but to end its loads.
pub fn is_ours(results: &Results) -> bool {
    results.allocators[0] == OURS_NAME
}

/// Ours ends every load: what it does not end is in no mean.
fn complete(results: &Results) -> Goal {
    let ours = results.allocators[0];
    let failed: Vec<&str> = results
        .failures
        .iter()
        .filter(|failure| failure.allocator == ours)
        .map(|failure| failure.load.as_str())
        .collect();
    Goal {
        name: "loads that ours ends".to_owned(),
        measured: match failed.as_slice() {
            [] => format!("all {}", results.loads.len()),
            failed => format!("not {}", failed.join(", ")),
        },
        limit: "all".to_owned(),
        met: Some(failed.is_empty()),
    }
}

fn mean(
    results: &Results,
    measure: usize,
    peer: &str,
    name: String,
    limit: String,
    enough: fn(&Estimate) -> bool,
) -> Goal {
    let Some(place) = results.place(peer) else {
        return Goal::skipped(name, &format!("{peer} was not measured"));
    };
    let Some(Mean { ratio, loads }) = results.mean(measure, place) else {
        return Goal::skipped(name, &format!("no load ended on {peer} and on ours"));
    };
    let Estimate { value, low, high } = ratio;
    Goal {
        name,
        measured: format!("{value:.3} ({low:.3} to {high:.3}), {loads} loads"),
        limit,
        met: Some(enough(&ratio)),
    }
}

/// The load that is worst beside the peer of the limit.
fn each(results: &Results, measure: usize, limit: &Limit) -> Goal {
    let name = format!("{} to {} peer's, worst load", MEASURES[measure].name, limit.words);
    let to_peer = |load: usize| {
        results.ranked(measure, load).get(limit.rank).map(|&(peer, value)| (value, load, peer))
    };
    let judged: Vec<_> = (0..results.loads.len()).filter_map(to_peer).collect();
    let Some(&(value, load, peer)) = judged.iter().max_by(|a, b| a.0.total_cmp(&b.0)) else {
        return Goal::skipped(name, "no load ended on ours and on enough peers");
    };
    let above = judged.iter().filter(|(value, ..)| *value > limit.ratio).count();
    let (load, peer) = (&results.loads[load].name, results.allocators[peer]);
    Goal {
        name,
        measured: format!("{value:.3} ({load}, {peer}); {above} of {} above", judged.len()),
        limit: format!("<= {:.2}", limit.ratio),
        met: Some(value <= limit.ratio),
    }
}

/// Each load and judged measure in which a peer is ahead; the greatest loss first.
pub fn losses(results: &Results) -> Vec<Loss> {
    let both = [(WALL, "time"), (PEAK, "rss")];
    let mut losses: Vec<Loss> = both
        .iter()
        .flat_map(|&(measure, word)| {
            (0..results.loads.len()).filter_map(move |load| loss(results, measure, word, load))
        })
        .collect();
    losses.sort_by(|a, b| b.to_best.value.total_cmp(&a.to_best.value));
    losses
}

fn loss(results: &Results, measure: usize, word: &str, load: usize) -> Option<Loss> {
    let ranked = results.ranked(measure, load);
    let &(best, _) = ranked.first()?;
    let to_best = results.ratio(measure, load, best).filter(|ratio| ratio.value > 1.0)?;
    let second = ranked.get(1).map(|&(peer, _)| peer);
    let name = &results.loads[load].name;
    Some(Loss {
        load: name.clone(),
        measure: MEASURES[measure].name,
        best: results.allocators[best],
        to_best,
        second: second.map(|peer| results.allocators[peer]),
        to_second: second.and_then(|peer| results.ratio(measure, load, peer)),
        // They tell of ours beside other people's allocators.
        why: explanation(EXPLAINED, word, name)
            .filter(|_| is_ours(results) && results.allocators[best] != EARLIER),
    })
}

/// Of a text like [`EXPLAINED`]; a load's name there may end in `*`.
pub fn explanation(text: &'static str, measure: &str, load: &str) -> Option<&'static str> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let (of, why) = line.strip_prefix(measure)?.strip_prefix(' ')?.split_once(' ')?;
        let is_it = match of.strip_suffix('*') {
            Some(begin) => load.starts_with(begin),
            None => load == of,
        };
        is_it.then(|| why.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::{Row, made_up};
    use super::*;

    #[test]
    fn a_load_is_open_while_its_interval_holds_the_limit() {
        let of = |walls: &[u64]| {
            walls.iter().map(|&wall| Run { measures: [wall; 6], work: 1 }).collect::<Vec<_>>()
        };
        let (best, second) = (of(&[100, 100, 100, 100]), of(&[200, 200, 200, 200]));
        let is_open = |ours: &[u64]| is_open(&vec![of(ours), second.clone(), best.clone()]);
        assert!(!is_open(&[90, 108, 100, 105]) && !is_open(&[130, 120, 140, 130]));
        assert!(is_open(&[90, 130, 100, 140]), "between the limits");
        // One that did not end is not compared; without one nothing is open.
        let ours = of(&[90, 130, 100, 140]);
        assert!(!super::is_open(&vec![ours.clone(), second.clone(), of(&[100])]));
        assert!(!super::is_open(&vec![of(&[]), of(&[]), of(&[])]));
    }

    const ALL: [&str; 4] = ["ours", "mimalloc", "snmalloc", "glibc"];

    fn verdicts(rows: &[Row]) -> Vec<(String, &'static str)> {
        let goals = goals(&made_up(&ALL, rows));
        goals.iter().map(|goal| (goal.name.clone(), goal.word())).collect()
    }

    fn missed(rows: &[Row]) -> Vec<String> {
        let missed = verdicts(rows).into_iter().filter(|(_, word)| *word == "MISSED");
        missed.map(|(name, _)| name).collect()
    }

    const GOOD: Row =
        ("a", &[Some((900, 950)), Some((1000, 1000)), Some((1000, 1100)), Some((2000, 1000))]);

    #[test]
    fn all_goals_are_met_at_their_limits() {
        assert_eq!(missed(&[GOOD]), Vec::<String>::new());
        assert!(verdicts(&[GOOD]).iter().all(|(_, word)| *word == "met"), "none is skipped");
    }

    #[test]
    fn time_mean_above_the_limit_of_one_peer_is_missed() {
        let cells = [Some((901, 950)), Some((1000, 1000)), Some((1200, 1000)), Some((2000, 1000))];
        assert_eq!(missed(&[("a", &cells)]), ["wall time to mimalloc's, mean"]);
    }

    #[test]
    fn a_build_that_is_slower_than_the_earlier_one_is_missed() {
        let goal = |walls: [f64; 3]| {
            let mut results =
                made_up(&["ours", EARLIER], &[("a", &[Some((1000, 1000)), Some((1000, 1000))])]);
            results.samples[0][0].as_mut().unwrap()[WALL] = walls.to_vec();
            goals(&results).into_iter().find(|goal| goal.name.contains("earlier")).unwrap().met
        };
        assert_eq!(goal([1010.0, 1020.0, 1030.0]), Some(false));
        assert_eq!(goal([990.0, 1010.0, 1030.0]), Some(true), "not told");
        assert_eq!(goal([900.0, 910.0, 900.0]), Some(true));
    }

    #[test]
    fn interval_that_reaches_one_is_missed() {
        let enough = |e: &Estimate| e.value <= TIME_MEAN && e.high < 1.0;
        assert!(enough(&Estimate { value: 0.9, low: 0.8, high: 0.99 }));
        // Noise in one of three rounds: the value is good, the interval wide.
        let mut results = made_up(&ALL, &[GOOD]);
        results.samples[0][0].as_mut().unwrap()[WALL] = vec![900.0, 900.0, 1300.0];
        let goals = goals(&results);
        let goal = goals.iter().find(|goal| goal.name.contains("mimalloc's")).unwrap();
        assert!(goal.measured.starts_with("0.900"), "{}", goal.measured);
        assert_eq!(goal.met, Some(false), "{}", goal.measured);
    }

    #[test]
    fn one_bad_load_is_missed_though_the_means_are_good() {
        let slow: Row = (
            "slow",
            &[Some((1110, 900)), Some((1000, 1000)), Some((1100, 1000)), Some((1010, 1000))],
        );
        let fast: Row = (
            "fast",
            &[Some((100, 900)), Some((1000, 1000)), Some((1000, 1000)), Some((1000, 1000))],
        );
        assert_eq!(missed(&[slow, fast]), ["wall time to the best peer's, worst load"]);
        let fat: Row = (
            "fat",
            &[Some((100, 1260)), Some((1000, 900)), Some((1000, 1000)), Some((1000, 2000))],
        );
        let thin: Row = (
            "thin",
            &[Some((100, 100)), Some((1000, 1000)), Some((1000, 1000)), Some((1000, 1000))],
        );
        assert_eq!(missed(&[fat, thin]), ["peak RSS to the second-best peer's, worst load"]);
    }

    #[test]
    fn goals_of_each_know_no_mean() {
        let cells =
            [Some((1100, 1200)), Some((1000, 1000)), Some((1000, 1000)), Some((1000, 1000))];
        let goals = goals_of_each(&made_up(&ALL, &[("a", &cells)]));
        assert!(goals.iter().all(|goal| goal.met == Some(true)), "worse in the mean, not by much");
        let cells =
            [Some((1200, 1200)), Some((1000, 1000)), Some((1000, 1000)), Some((1000, 1000))];
        let goals = goals_of_each(&made_up(&ALL, &[("a", &cells)]));
        assert_eq!(goals.iter().filter(|goal| goal.met == Some(false)).count(), 1);
    }

    #[test]
    fn memory_above_one_peer_is_missed() {
        let cells = [Some((100, 1001)), Some((1000, 1100)), Some((1000, 1000)), Some((1000, 1100))];
        assert_eq!(missed(&[("a", &cells)]), ["peak RSS to snmalloc's, mean"]);
        let cells = [Some((100, 951)), Some((1000, 1100)), Some((1000, 1000)), Some((1000, 1000))];
        assert_eq!(missed(&[("a", &cells)]), ["peak RSS to glibc's, mean"]);
    }

    #[test]
    fn load_that_ours_does_not_end_is_missed() {
        let cells = [None, Some((1000, 1000)), Some((1000, 1000)), Some((1000, 1000))];
        let missed = missed(&[GOOD, ("dead", &cells)]);
        assert_eq!(missed, ["loads that ours ends"]);
    }

    #[test]
    fn absent_peer_is_skipped_with_its_name() {
        let results = made_up(&["ours", "snmalloc"], &[("a", &[Some((1, 1)), Some((2, 2))])]);
        let goals = goals(&results);
        let skipped = |name: &str| goals.iter().find(|g| g.measured.contains(name)).unwrap().met;
        assert_eq!(skipped("glibc was not measured"), None);
        assert_eq!(skipped("no load ended on ours and on enough peers"), None);
    }

    #[test]
    fn losses_name_the_best_and_the_second_best() {
        let cells = [Some((1100, 10)), Some((1000, 20)), Some((1200, 20)), Some((1050, 20))];
        let losses = losses(&made_up(&ALL, &[GOOD, ("slow", &cells)]));
        assert_eq!(losses.len(), 1, "{losses:?}");
        let loss = &losses[0];
        assert_eq!((loss.load.as_str(), loss.measure), ("slow", "wall time"));
        assert_eq!((loss.best, loss.second), ("mimalloc", Some("glibc")));
        assert!((loss.to_best.value - 1.1).abs() < 1e-12);
    }

    #[test]
    fn who_is_best_is_told_within_rounds() {
        let cells = [Some((1000, 10)), Some((1000, 20)), Some((1000, 20)), Some((1000, 20))];
        let mut results = made_up(&ALL, &[("drift", &cells)]);
        let walls = [
            vec![1100.0, 2200.0, 4400.0],
            // Ahead by a tenth in two rounds, though its median is that of the last but one.
            vec![1000.0, 2300.0, 4000.0],
            // Behind in two, with the lowest median.
            vec![1150.0, 1900.0, 4600.0],
            vec![2000.0, 4000.0, 8000.0],
        ];
        for (samples, walls) in results.samples[0].iter_mut().zip(walls) {
            samples.as_mut().unwrap()[WALL] = walls;
        }
        let losses = losses(&results);
        assert_eq!((losses[0].best, losses[0].second), ("mimalloc", Some("snmalloc")));
        assert!((losses[0].to_best.value - 1.1).abs() < 1e-12);
    }

    #[test]
    fn loss_within_the_noise_is_not_called_one() {
        let cells = [Some((1100, 10)), Some((1000, 20)), Some((1200, 20)), Some((1050, 20))];
        let mut results = made_up(&ALL, &[("slow", &cells)]);
        assert_eq!(losses(&results)[0].without_reason(), NOT_EXPLAINED);
        results.samples[0][0].as_mut().unwrap()[WALL] = vec![900.0, 1100.0, 1300.0];
        let losses = losses(&results);
        assert_eq!((losses[0].to_best.value, losses[0].without_reason()), (1.1, NOT_SHOWN));
    }

    #[test]
    fn explanation_is_of_its_measure_and_load() {
        let text = "# time a no\ntime a because\nrss ab other\nrss c_* all of them\n";
        assert_eq!(explanation(text, "time", "a"), Some("because"));
        assert_eq!(explanation(text, "rss", "a"), None);
        assert_eq!(explanation(text, "rss", "ab"), Some("other"));
        assert_eq!(explanation(text, "rss", "c_2"), Some("all of them"));
        assert_eq!(explanation(text, "rss", "c"), None);
    }

    #[test]
    fn every_written_explanation_is_read() {
        for line in EXPLAINED.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let mut words = line.splitn(3, ' ');
            let (measure, load) = (words.next().unwrap(), words.next().unwrap());
            assert!(matches!(measure, "time" | "rss"), "{line}");
            assert_eq!(explanation(EXPLAINED, measure, load), words.next(), "{line}");
        }
    }
}
