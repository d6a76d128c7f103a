//! Sweeps: the same bytes however they are run, and damage that is found.

use slabyard_ask::sweep::journal::{self, Before};
use slabyard_ask::sweep::{self, Journal, Plan, Row, Shard, SweepRequest, Table};
use slabyard_ask::{Error, Silent};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tempfile::TempDir;

fn trace(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../lab/traces").join(name)
}

fn asked(vary: &[&str]) -> SweepRequest {
    let vary = vary.iter().map(|text| (*text).to_owned()).collect();
    SweepRequest { files: vec![trace("tr64k_hb_smp4.slabtrace")], vary, ..SweepRequest::default() }
}

fn plan(asked: &SweepRequest) -> Plan {
    sweep::plan(asked, &Silent).unwrap_or_else(|error| panic!("{error}"))
}

const VARY: [&str; 2] = ["max_order=0..2", "cpus=4,16"];

/// One plan and its rows, for all tests.
fn whole() -> &'static (Plan, Vec<Row>) {
    static WHOLE: OnceLock<(Plan, Vec<Row>)> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let plan = plan(&asked(&VARY));
        let mut rows = Vec::new();
        let points: Vec<usize> = plan.of_shard(Shard::WHOLE).collect();
        let mut take = |row| {
            rows.push(row);
            Ok(())
        };
        sweep::run(&plan, &points, &Silent, &mut take).expect("rows");
        (plan, rows)
    })
}

fn written(name: &str, rows: &[Row], directory: &TempDir) -> PathBuf {
    let file = directory.path().join(name);
    sweep::write(&whole().0, rows.to_vec(), &file).expect("a file");
    file
}

fn part(shard: Shard) -> Vec<Row> {
    let (plan, rows) = whole();
    let points: Vec<usize> = plan.of_shard(shard).collect();
    rows.iter().filter(|row| points.contains(&row.point())).cloned().collect()
}

fn text(error: impl Into<Error>) -> String {
    match error.into() {
        Error::Usage(text) => text,
        Error::Cannot(error) => format!("{error:#}"),
    }
}

/// All CPUs give what one gives, and what workers of other programs send as lines.
#[test]
fn rows_are_those_of_single_points() {
    let (plan, rows) = whole();
    assert_eq!(rows.len(), 6);
    let again = self::plan(&asked(&VARY));
    assert_eq!((&plan.digest, &plan.text), (&again.digest, &again.text));
    for nth in [0, 5] {
        let alone = sweep::run_point(&again, nth, &Silent).expect("a row");
        let of_all = rows.iter().find(|row| row.point() == nth).expect("the point");
        assert_eq!(alone, *of_all);
        assert_eq!(plan.row_of_line(&alone.line()).expect("of this sweep"), alone);
    }
    let other = self::plan(&asked(&["max_order=0..2"]));
    assert!(text(other.row_of_line(&rows[0].line()).expect_err("another")).contains("a row"));
    assert_eq!(other.points[1].name, "tr64k_hb_smp4.slabtrace:max_order=1");
}

/// In each format: a table is read as it was written, shards make up the whole, and formats mix.
#[test]
fn shards_are_joined_to_the_bytes_of_the_whole() {
    let directory = TempDir::new().expect("a directory");
    let rows = &whole().1;
    for format in ["csv", "json", "parquet"] {
        let whole = written(&format!("whole.{format}"), rows, &directory);
        let mut parts = Vec::new();
        // More shards than points: some are empty.
        for (nth, from) in (1..=7).zip(["csv", "json", "parquet"].iter().cycle()) {
            let name = format!("{nth}.{from}");
            parts.insert(0, written(&name, &part(Shard { nth, of: 7 }), &directory));
        }
        let joined = directory.path().join(format!("joined.{format}"));
        sweep::join(&parts).expect("a join").write(&joined).expect("a file");
        assert!(fs::read(&joined).expect("bytes") == fs::read(&whole).expect("bytes"), "{format}");
        assert_eq!(Table::read(&whole).expect("a table").rows.len(), 6);
    }
}

#[test]
fn a_join_without_a_part_or_with_one_twice_is_refused() {
    let directory = TempDir::new().expect("a directory");
    let [a, b] =
        [1, 2].map(|nth| written(&format!("{nth}.csv"), &part(Shard { nth, of: 2 }), &directory));
    let whole = written("whole.parquet", &whole().1, &directory);
    let other = plan(&asked(&["max_order=0..2", "cpus=4,8"]));
    let row = sweep::run_point(&other, 1, &Silent).expect("a row");
    let of_other = directory.path().join("other.csv");
    sweep::write(&other, vec![row], &of_other).expect("a file");
    let fewer = plan(&asked(&["max_order=0"]));
    let of_fewer = directory.path().join("fewer.csv");
    sweep::write(&fewer, Vec::new(), &of_fewer).expect("a file");
    for (parts, why) in [
        (vec![a.clone()], "3 of 6 points are missing: 1, 3, 5; join"),
        (vec![a.clone(), b.clone(), b.clone()], "point 1 is there twice: in "),
        (vec![a.clone(), whole], "point 0 is there twice: in "),
        (vec![a.clone(), of_other], "are of different sweeps"),
        (vec![a.clone(), b.clone(), of_fewer.clone()], "are of different sweeps"),
        (vec![of_fewer], "no part has a row"),
        (vec![a, directory.path().join("none.csv")], "cannot read"),
        (vec![b, PathBuf::from("x.txt")], "ends in .csv, .json or .parquet"),
    ] {
        let error = text(sweep::join(&parts).expect_err(why));
        assert!(error.contains(why), "{error}");
    }
}

/// Rows of one point that differ, each whole: two versions of the model, or memory that failed.
#[test]
fn two_rows_of_a_point_that_differ_are_named() {
    let directory = TempDir::new().expect("a directory");
    let rows = &whole().1;
    let a = written("a.csv", rows, &directory);
    let mut cells = rows[0].cells().to_vec();
    cells.pop();
    cells[12] = slabyard_ask::sweep::columns::Value::Whole(1);
    let b = written("b.csv", &[Row::of_cells(cells)], &directory);
    let error = text(sweep::join(&[a, b]).expect_err("two"));
    assert!(error.contains("its rows differ"), "{error}");
}

/// No byte of a file can be changed or cut off unseen.
#[test]
fn a_damaged_file_is_a_clear_error() {
    let directory = TempDir::new().expect("a directory");
    for format in ["csv", "json", "parquet"] {
        let file = written(&format!("whole.{format}"), &whole().1, &directory);
        let good = fs::read(&file).expect("bytes");
        let places = (0..good.len()).step_by(if format == "parquet" { 7 } else { 41 });
        for at in places.chain([good.len() - 1]) {
            let mut bytes = good.clone();
            bytes[at] = if bytes[at] == b'7' { b'8' } else { b'7' };
            for bytes in [&bytes[..], &good[..at]] {
                fs::write(&file, bytes).expect("a file");
                let error = sweep::join(std::slice::from_ref(&file)).map(drop);
                let error = text(error.expect_err(&format!("{format}: byte {at}")));
                assert!(error.contains(&format!("whole.{format}")) || error.contains("missing"));
            }
        }
    }
    let foreign = directory.path().join("foreign.parquet");
    fs::write(&foreign, b"PAR1....PAR1").expect("a file");
    let error = text(Table::read(&foreign).expect_err("foreign"));
    assert!(error.contains("was not written by slabyard sweep"), "{error}");
}

fn opened(plan: &Plan, shard: Shard, output: &Path, before: Before) -> Result<Journal, String> {
    Journal::open(plan, shard, output, before).map_err(text)
}

/// Wherever a journal was cut off or damaged, what is before counts, and the result is the same.
#[test]
fn a_torn_journal_goes_on_where_it_is_whole() {
    let directory = TempDir::new().expect("a directory");
    let output = directory.path().join("out.csv");
    let (plan, rows) = whole();
    let mut journal = opened(plan, Shard::WHOLE, &output, Before::Resume).expect("new");
    rows.iter().for_each(|row| journal.push(row.clone()).expect("pushed"));
    drop(journal);
    let part = journal::beside(&output);
    let good = fs::read(&part).expect("bytes");
    let mut seen = std::collections::BTreeSet::new();
    for at in (0..=good.len()).step_by(37).chain([good.len()]) {
        fs::write(&part, &good[..at]).expect("a file");
        let mut journal = opened(plan, Shard::WHOLE, &output, Before::Resume).expect("resumed");
        seen.insert(journal.rows().len());
        let is_left = |row: &&Row| !journal.rows().contains_key(&row.point());
        let left: Vec<Row> = rows.iter().filter(is_left).cloned().collect();
        left.into_iter().for_each(|row| journal.push(row).expect("pushed"));
        assert_eq!(journal.rows().len(), rows.len());
        drop(journal);
        assert_eq!(fs::read(&part).expect("bytes"), good, "cut at {at}");
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
    let mut bytes = good.clone();
    let at = good.len() - rows[5].line().len() - rows[4].line().len() - 10;
    bytes[at] ^= 1;
    fs::write(&part, &bytes).expect("a file");
    let journal = opened(plan, Shard::WHOLE, &output, Before::Resume).expect("resumed");
    assert_eq!(journal.rows().len(), 3, "what follows a damaged row is done again");
}

#[test]
fn a_journal_of_another_sweep_is_refused_and_locked_ones_too() {
    let directory = TempDir::new().expect("a directory");
    let output = directory.path().join("out.parquet");
    let (plan, rows) = whole();
    let mut journal = opened(plan, Shard::WHOLE, &output, Before::Resume).expect("new");
    journal.push(rows[0].clone()).expect("pushed");
    for before in [Before::Resume, Before::Discard] {
        let error = opened(plan, Shard::WHOLE, &output, before).map(drop).expect_err("locked");
        assert!(error.contains("another sweep is writing"), "{error}");
    }
    drop(journal);
    let other = self::plan(&asked(&["max_order=0..2", "cpus=4,8"]));
    let error = opened(&other, Shard::WHOLE, &output, Before::Resume).map(drop).expect_err("other");
    for part in ["it has vary cpus=4,16", "this one has vary cpus=4,8", "--restart"] {
        assert!(error.contains(part), "{error}");
    }
    let half = Shard { nth: 1, of: 2 };
    let error = opened(plan, half, &output, Before::Resume).map(drop).expect_err("another shard");
    assert!(error.contains("it has shard 1/1, and this one has shard 1/2"), "{error}");
    fs::write(journal::beside(&output), "my diary\n").expect("a file");
    let error = opened(plan, half, &output, Before::Resume).map(drop).expect_err("a diary");
    assert!(error.contains("is no journal of a sweep"), "{error}");
    let fresh = opened(&other, Shard::WHOLE, &output, Before::Discard).expect("discarded");
    assert!(fresh.rows().is_empty());
    fresh.remove().expect("removed");
    assert!(!journal::beside(&output).exists());
}

#[test]
fn what_cannot_be_planned_says_why() {
    let (none, twice) = (trace("no-such"), trace("../traces/tr64k_hb_smp4.slabtrace"));
    let (good, hackbench) = (trace("tr64k_hb_smp4.slabtrace"), trace("hackbench.slabtrace"));
    let only = vec![good.clone()];
    for (files, vary, machine, why) in [
        (only.clone(), &["max_ordre=1"][..], "", "did you mean `max_order`?"),
        (only.clone(), &["max_order=3..1"], "", "the range is empty"),
        (only.clone(), &["max_order="], "", "empty"),
        (only.clone(), &[], "", "a sweep varies something"),
        (only.clone(), &["cpus=1,2", "online=3"], "", "varied twice"),
        (only.clone(), &["cpus=1,2"], "cpus=4", "do one of both"),
        (only.clone(), &["cpus=1,2"], "page", "expected KEY=VALUE"),
        (only.clone(), &["cpus=0"], "", "tr64k_hb_smp4.slabtrace:cpus=0: "),
        (only.clone(), &["cpus=x"], "", "cpus takes"),
        (only.clone(), &["cpus=1..1000", "possible=1..1000"], "", "vary less"),
        (vec![good.clone(), hackbench], &["cpus=1..1000", "max_order=0..98"], "", "vary less"),
        (
            only,
            &["release=6.12,7.3", "cpu_partial=4"],
            "",
            "tr64k_hb_smp4.slabtrace:release=7.3+cpu_partial=4: ",
        ),
        (vec![good.clone(), none], &["cpus=4"], "", "no-such"),
        (vec![good, twice], &["cpus=4"], "", "are the same trace"),
        (vec!["-".into()], &["cpus=4"], "", "not standard input"),
        (Vec::new(), &["cpus=4"], "", "needs the files"),
    ] {
        let asked = SweepRequest { files, machine: machine.into(), ..asked(vary) };
        let error = text(sweep::plan(&asked, &Silent).expect_err(why));
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn impossible_points_are_rows_with_the_reason_if_asked_for() {
    let asked =
        SweepRequest { keeps_impossible: true, ..asked(&["release=6.12,7.3", "cpu_partial=4"]) };
    let plan = plan(&asked);
    let mut rows = Vec::new();
    let mut take = |row: Row| {
        rows.push(row);
        Ok(())
    };
    sweep::run(&plan, &[0, 1], &Silent, &mut take).expect("rows");
    rows.sort_by_key(Row::point);
    assert_eq!([false, true], [rows[0].is_impossible(), rows[1].is_impossible()]);
    let why = rows[1].line();
    assert!(why.contains("cpu_partial") && why.contains("lists"), "{why}");
}
