//! All rows of all threads, computed: each has a number of ours, that comes from what its basis
//! names, and is as near as it says. `--nocapture` prints them.

use super::*;
use std::collections::BTreeSet;

/// Rows that need a program which a test of this crate does not have.
fn is_real(row: &Row) -> bool {
    matches!(row.basis, Basis::RealRun(_))
}

/// What is wrong with a row's answer.
fn wrong(answer: &Answer) -> Option<String> {
    match &answer.ours {
        Err(RowError::NotHere(_)) if is_real(answer.row) => None,
        Ok(ours) if ours.is_finite() && !answer.fails() => None,
        other => Some(format!(
            "{}.{}: {}: {other:?}",
            answer.thread.name, answer.table.name, answer.row.name
        )),
    }
}

fn each() -> impl Iterator<Item = (&'static Thread, &'static Table, &'static Row)> {
    tables().flat_map(|(thread, table)| table.rows.iter().map(move |row| (thread, table, row)))
}

#[test]
fn each_row_has_its_basis_and_is_near() {
    let runs = Runs::new(None);
    let mut all = Vec::new();
    for (thread, table, row) in each() {
        let answer = answer(&runs, thread, table, row);
        println!(
            "{:5.2} s {}.{}: {}: theirs {:?}, ours {:?} {} [{}] {:?}",
            answer.seconds,
            thread.name,
            table.name,
            row.name,
            row.theirs,
            answer.ours,
            row.unit,
            row.basis,
            answer.is_near()
        );
        all.extend(wrong(&answer));
    }
    assert_eq!(all, [""; 0]);
}

#[test]
fn names_are_unique_and_each_tolerance_says_why() {
    let mut names = BTreeSet::new();
    for (thread, table, row) in each() {
        assert!(names.insert((thread.name, table.name, row.name)), "{} twice", row.name);
        assert!(row.near.is_none_or(|near| !near.why().is_empty()), "{}", row.name);
        assert!(!row.basis.parts().1.is_empty(), "{}", row.name);
        assert!(!matches!(row.theirs, Theirs::Claim("")), "{}", row.name);
    }
    for thread in THREADS {
        assert!(!thread.inconsistencies.is_empty() && !find(thread.name).is_empty());
    }
    assert_eq!((find("64k.boot").len(), find("64k.").len(), find("boot").len()), (1, 0, 0));
}

/// A real run that takes as long as is said.
struct Fixed(f64);

impl runs::RealLoop for Fixed {
    fn nanoseconds(&self, _: &str, _: u32, _: bool) -> Result<f64, String> {
        Ok(self.0)
    }
}

#[test]
fn rows_of_a_real_run_take_what_it_says_and_nothing_else() {
    let (fast, slow) = (Fixed(100.0), Fixed(700.0));
    let both = [&fast, &slow].map(|fixed| {
        let runs = Runs::new(Some(fixed));
        let rows = each().filter(|(.., row)| is_real(row));
        rows.map(|(thread, table, row)| answer(&runs, thread, table, row).ours.unwrap())
            .collect::<Vec<f64>>()
    });
    assert_eq!(both[0].len(), both[1].len());
    assert!(both[0].contains(&100.0) && both[1].contains(&700.0) && both[0].contains(&1.0));
}

/// Planted: rows whose number nobody computes, or is computed from something else, or is far off.
#[test]
fn a_row_without_its_basis_is_found() {
    const GUEST: Basis = Basis::Guest(recordings::X86_5_10.name);
    fn used(runs: &Runs) -> Result<f64, RowError> {
        Ok(runs.dump(&recordings::X86_5_10, "boot")?.caches.len() as f64)
    }
    static PLANTED: [Row; 4] = [
        Row::new("written down", 126.0, "caches", GUEST, |_| Ok(126.0)),
        Row::new("from another one", 126.0, "caches", Basis::Guest("x86_618_4k_smp2"), used),
        Row::new("far off", 63.0, "caches", GUEST, used).near(Near::Within(0.1, "planted")),
        Row::new("no number", 126.0, "caches", GUEST, |runs| Ok(used(runs)? / 0.0)),
    ];
    static RIGHT: Row =
        Row::new("right", 126.0, "caches", GUEST, used).near(Near::Equal("planted"));
    let runs = Runs::new(None);
    let (thread, table) = (&THREADS[0], &THREADS[0].tables[0]);
    assert_eq!(wrong(&answer(&runs, thread, table, &RIGHT)), None);
    for row in &PLANTED {
        assert!(wrong(&answer(&runs, thread, table, row)).is_some(), "{} was not found", row.name);
    }
    let lost = answer(&runs, thread, table, &PLANTED[0]);
    assert!(matches!(lost.ours, Err(RowError::LostBasis(_))) && lost.fails());
}

#[test]
fn near_is_what_it_says() {
    let theirs = Theirs::Number(100.0);
    for (near, ours, holds) in [
        (Near::Equal(""), 100.0, true),
        (Near::Equal(""), 101.0, false),
        (Near::Within(0.1, ""), 91.0, true),
        (Near::Within(0.1, ""), 89.0, false),
        (Near::Points(5.0, ""), 104.0, true),
        (Near::Points(5.0, ""), 106.0, false),
        (Near::Times(2.0, ""), 51.0, true),
        (Near::Times(2.0, ""), 49.0, false),
        (Near::Times(2.0, ""), -100.0, false),
        (Near::AtLeast(3.0, ""), 2.0, false),
        (Near::AtMost(3.0, ""), 4.0, false),
    ] {
        assert_eq!(near.holds(theirs, ours), holds, "{near} {ours}");
        assert!(!near.holds(Theirs::Number(100.0), f64::NAN), "{near}");
    }
    assert!(!Near::Equal("").holds(Theirs::Claim("words"), 0.0));
}
