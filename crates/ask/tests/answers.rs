//! Answers about traces of real kernels.

use slabyard_ask::answer::{Answer, Answerer};
use slabyard_ask::answers::{self, Task};
use slabyard_ask::axis::{Changes, variants};
use slabyard_ask::load::{self, Loaded, TraceFile};
use slabyard_ask::question::Question;
use slabyard_ask::trust::Trust;
use slabyard_ask::tune::judge;
use slabyard_ask::{Error, Listener, Silent, Wanted};
use slabyard_lab::replay::contend::COSTS;
use slabyard_lab::trace::LISTS;
use std::path::PathBuf;

fn file(name: &str) -> TraceFile {
    let traces = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../lab/traces");
    TraceFile { file: traces.join(name), ..TraceFile::default() }
}

fn loaded(name: &str) -> Loaded {
    load::load(&file(name), &Wanted::default(), &Silent).unwrap_or_else(|error| panic!("{error}"))
}

fn points(texts: &[&str]) -> Vec<Changes> {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    let mut points = vec![Changes::new()];
    points.extend(variants(&texts).unwrap_or_else(|error| panic!("{error}")));
    points
}

fn ask(loaded: &Loaded, texts: &[&str]) -> Result<Vec<Answer>, Error> {
    let (base, points) = (Question::default(), points(texts));
    let mut answerer = Answerer::new(loaded, COSTS, &Silent)?;
    let task = Task { base: &base, points: &points, contention: None };
    answers::all(&mut answerer, &task, &Silent)
}

/// All CPUs give the answers of one, and in each answer the parts make up the whole.
#[test]
fn answers_are_those_of_one_cpu_and_add_up() {
    let loaded = loaded("tr64k_hb_smp4.slabtrace");
    let texts = ["max_order=0..2", "cpu_partial=0", "cpus=16+possible=512", "release=6.1,7.3"];
    let all = ask(&loaded, &texts).expect("answers");
    let mut one = Answerer::new(&loaded, COSTS, &Silent).expect("a case");
    for (answer, changes) in all.iter().zip(points(&texts)) {
        let alone = one.answer(&Question::default(), &changes).expect("an answer");
        assert_eq!(*answer, alone);
        let memory = &answer.memory;
        assert!(memory.peak as f64 >= memory.mean && memory.peak >= memory.end, "{memory:?}");
        let places = &memory.parked_by_place;
        let parked = places.cpu_slabs + places.cpu_partial + places.sheaves + places.barns;
        let told = memory.parked;
        assert!((parked - told).abs() <= told * 1e-9 + 1.0, "{}: {parked}, {told}", answer.name);
        assert!(answer.work.ns >= f64::from(COSTS.fast), "{answer:?}");
    }
    assert_eq!(all.len(), 8);
    let (base, order0) = (&all[0], &all[1]);
    assert!(order0.memory.peak < base.memory.peak, "smaller slabs waste less");
    assert!(order0.work.page_calls > base.work.page_calls, "and are made more often");
    assert_eq!(base.error, None);
    assert!(order0.error.is_some());
    // More possible CPUs make larger slabs.
    assert_eq!(all[5].changed, ["cpus", "orders"]);
}

#[test]
fn a_wrong_question_is_named_before_any_is_answered() {
    let loaded = loaded("forkexec.slabtrace");
    for (text, why) in [
        ("max_ordre=1", "did you mean `max_order`?"),
        ("max_order=99", "max_order=99: "),
        ("cpus=0", "must be from 1"),
        ("release=1.0", "older than the oldest preset"),
    ] {
        let error = ask(&loaded, &["max_order=0", text]).expect_err(text);
        assert!(matches!(&error, Error::Usage(told) if told.contains(why)), "{error}");
    }
}

#[test]
fn a_machine_that_runs_out_of_memory_says_when() {
    let loaded = loaded("forkexec.slabtrace");
    let all = ask(&loaded, &["memory=64M,4G"]).expect("answers");
    assert_eq!(all[2].out_of_memory_ns, None);
    let small = ask(&loaded, &["memory=8M"]);
    let failed = small.map(|all| all[1].out_of_memory_ns);
    assert!(matches!(failed, Ok(Some(_))), "{failed:?}");
}

#[test]
fn trust_is_that_of_the_check() {
    let (hackbench, guest) = ("hackbench.slabtrace", "tr64k_hb_smp4.slabtrace");
    for (name, goals) in [(hackbench, 9), (guest, 6)] {
        let loaded = loaded(name);
        let answerer = Answerer::new(&loaded, COSTS, &Silent).expect("a case");
        let case = answerer.case().clone();
        let trust = Trust::of(&file(name), &loaded, case, &Silent).expect("a check");
        assert_eq!((trust.goals, trust.missed.len()), (goals, 0), "{trust:?}");
        assert!(trust.curve.expect("known") < 0.01);
        assert!(trust.line().contains(&format!("meets {goals} of {goals} goals")));
    }
}

/// Who no longer waits for answers gets none.
struct Gone;

impl Listener for Gone {
    fn stage(&self, _: &str) {}
    fn clear(&self) {}
    fn say(&self, _: &str) {}

    fn is_stopped(&self) -> bool {
        true
    }
}

#[test]
fn a_listener_that_goes_ends_the_work() {
    let loaded = loaded("tr64k_hb_smp4.slabtrace");
    let (base, points) = (Question::default(), points(&["max_order=0..3"]));
    let task = Task { base: &base, points: &points, contention: None };
    let mut answerer = Answerer::new(&loaded, COSTS, &Silent).expect("a case");
    let mut taken = 0;
    let result = answers::each(&mut answerer, &task, &Gone, &mut |_, _| {
        taken += 1;
        Ok(())
    });
    assert_eq!(result.expect_err("ended").to_string(), "stopped");
    assert_eq!(taken, 0);
}

#[test]
fn figures_are_those_of_the_answer() {
    let loaded = loaded("tr64k_hb_smp4.slabtrace");
    let mut answerer = Answerer::new(&loaded, COSTS, &Silent).expect("a case");
    let question = Question::default();
    let answer = answerer.answer(&question, &Changes::new()).expect("an answer");
    let figures = answerer.figures(&question, 10).expect("figures");
    assert_eq!(figures.totals.peak_bytes, answer.memory.peak);
    assert!((5..=11).contains(&figures.series.len()), "{}", figures.series.len());
    assert!(answerer.figures(&question, 0).expect("figures").series.is_empty());
    let error = answerer.figures(&question, 100_001).map(drop).expect_err("too many").to_string();
    assert!(error.contains("at most 100000"), "{error}");
}

#[test]
fn the_lists_of_a_trace_are_those_of_its_first_half() {
    let whole = loaded("lists_6.18.slabtrace");
    let events = whole.trace.nr_events();
    let halves = judge::halves(whole).expect("halves");
    assert_eq!(halves.each_ref().map(|it| it.trace.attachment(LISTS).is_some()), [true, false]);
    assert_eq!(halves.iter().map(|it| it.trace.nr_events()).sum::<u64>(), events);
}
