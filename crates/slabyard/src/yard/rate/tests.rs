use super::*;

/// The interval of a program that frees at this rate, seen by a clock of 4 ms resolution.
fn interval_after(frees_a_second: u64, slices: u64) -> u32 {
    let rate = Rate::new();
    let (mut interval, mut frees) = (LONGEST_INTERVAL, 0);
    while frees < 20 * frees_a_second.max(100) {
        frees += u64::from(interval);
        let now = 1_000_000 + frees * 1000 / frees_a_second / 4 * 4;
        if rate.look(now, interval) {
            interval = rate.interval(slices);
        }
    }
    interval
}

#[test]
fn slow_paths_come_as_often_as_slices_need() {
    for rate in [10, 100, 1000, 2000, 10_000, 100_000, 10_000_000] {
        for slices in [0, 1, 10, 1000] {
            let interval = interval_after(rate, slices);
            let expected = (rate * SLOW_PATH_MS / 1000)
                .min(rate * DONE_MS / 1000 / slices.max(1))
                .clamp(1, LONGEST_INTERVAL.into());
            let near = expected / 2..=expected + expected / 2 + 1;
            assert!(
                near.contains(&interval.into()),
                "{rate} frees a second, {slices} slices: interval {interval}, expected {expected}"
            );
        }
    }
}

#[test]
fn one_long_gap_marks_a_program_as_slow() {
    let rate = Rate::new();
    for now in 0..100 {
        rate.look(1_000_000 + now / 10, LONGEST_INTERVAL);
    }
    assert!(!rate.is_slow());
    assert!(rate.look(1_000_074, LONGEST_INTERVAL));
    assert!(rate.is_slow());
}
