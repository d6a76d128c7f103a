//! A trace that stays in its file yields the same steps as one in memory.

use super::{Case, hold};
use proptest::test_runner::TestCaseResult;
use slabyard_lab::event::EventKind;
use slabyard_lab::prepare::{Order, Prepared, Step, StepKind, Steps, prepare};
use slabyard_lab::trace::{Header, Source, Writer};
use std::collections::HashMap;
use std::fs::File;

/// Events of a chunk and of a block: so few that much comes too late to be held back.
const FEW: usize = 8;

/// The case as a file's source.
fn stored(case: &Case, file: &tempfile::NamedTempFile) -> Source {
    let header = Header {
        page_size: Some(1 << case.frames.page_shift),
        page_offset: Some(case.frames.page_offset),
        ..Header::default()
    };
    let writer = Writer::new(File::create(file).unwrap(), &header).unwrap();
    let mut writer = writer.with_names(case.names.clone()).with_chunk_events(FEW);
    case.events.iter().for_each(|event| writer.push(event).unwrap());
    writer.finish().unwrap();
    let source = Source::open_long(file.path(), 0).unwrap().expect("a file of ours");
    source.in_blocks_of(FEW)
}

/// Prepares the case from a file, and holds it against what was prepared in memory.
pub fn hold_streamed(case: &Case, held: &Prepared) -> TestCaseResult {
    let file = tempfile::NamedTempFile::new().unwrap();
    let source = stored(case, &file);
    let mut input = case.input();
    input.events = source.events();
    let streamed = prepare(&input).unwrap();
    proptest::prop_assert!(matches!(streamed.steps, Steps::Streamed(_)));
    proptest::prop_assert_eq!(&streamed.oddities, &held.oddities);
    proptest::prop_assert_eq!(&streamed.tally, &held.tally);
    proptest::prop_assert_eq!(&streamed.caches, &held.caches);
    proptest::prop_assert_eq!(&streamed.span, &held.span);
    let without_number = |step: Step| Step { object: 0, ..step };
    // A second pass gives what the first one did.
    for _ in 0..2 {
        let steps: Vec<Step> = streamed.steps.iter().map(without_number).collect();
        let whole: Vec<Step> = held.steps.iter().map(without_number).collect();
        proptest::prop_assert_eq!(steps, whole);
    }
    proptest::prop_assert_eq!(streamed.steps.sound(), Ok(()));
    // Each number is one object's until that is dead.
    let mut now = streamed.live_at_start.clone();
    let mut owner: HashMap<u32, u32> = HashMap::new();
    for (step, whole) in streamed.steps.iter().zip(&held.steps) {
        let live = &mut now[step.object as usize];
        proptest::prop_assert_eq!(*live, step.op == StepKind::Free);
        *live = !*live;
        if step.op == StepKind::Alloc {
            owner.insert(step.object, whole.object);
        } else if let Some(owner) = owner.remove(&step.object) {
            proptest::prop_assert_eq!(owner, whole.object);
        }
    }
    for slab in held.initial_slabs() {
        let range = slab.objects_range();
        proptest::prop_assert_eq!(
            &streamed.live_at_start[range.clone()],
            &held.live_at_start[range]
        );
    }
    Ok(())
}

/// Slabs that are allocated and freed, one live at a time.
fn turnover(slabs: u64) -> Case {
    let mut case = Case::plain();
    case.order = Order::HOST;
    for nth in 0..slabs {
        let (us, frame) = (nth as f64 * 100.0, nth % 7);
        case.pages(us, 0, EventKind::PageAlloc, frame, 0);
        for object in 0..4 {
            case.alloc(us + 10.0 + object as f64, 0, frame, object);
            case.free(us + 50.0 + object as f64, 0, frame, object);
        }
        case.pages(us + 90.0, 0, EventKind::PageFree, frame, 0);
    }
    case.events.sort_by_key(|event| event.time);
    case
}

#[test]
fn numbers_of_ended_slabs_are_used_again() {
    let objects = |slabs| {
        let case = turnover(slabs);
        let held = prepare(&case.input()).unwrap();
        hold(&held);
        hold_streamed(&case, &held).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        let source = stored(&case, &file);
        let mut input = case.input();
        input.events = source.events();
        (held.nr_objects(), prepare(&input).unwrap().nr_objects())
    };
    assert_eq!(objects(10), (40, 4));
    assert_eq!(objects(1000), (4000, 4));
}

#[test]
fn a_step_that_runs_long_before_its_event_is_put_there() {
    let mut case = Case::plain();
    case.order = Order::HOST;
    // The first allocation of frame 9 runs when its pages were got.
    case.pages(0.0, 0, EventKind::PageAlloc, 9, 0);
    for nth in 1..100 {
        case.pages(nth as f64 * 10.0, 1, EventKind::PageAlloc, 20 + nth, 0);
        case.alloc(nth as f64 * 10.0 + 5.0, 1, 20 + nth, 0);
    }
    case.alloc(2000.0, 0, 9, 0);
    let held = prepare(&case.input()).unwrap();
    assert_eq!(held.steps.held()[0].time_ns, 0);
    hold_streamed(&case, &held).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let source = stored(&case, &file);
    let mut input = case.input();
    input.events = source.events();
    let Steps::Streamed(streamed) = prepare(&input).unwrap().steps else { panic!("held") };
    assert_eq!(streamed.early(), 1);
}

#[test]
fn a_file_that_changed_meanwhile_is_told() {
    let case = turnover(50);
    let file = tempfile::NamedTempFile::new().unwrap();
    let source = stored(&case, &file);
    let mut input = case.input();
    input.events = source.events();
    let prepared = prepare(&input).unwrap();
    assert_eq!(prepared.steps.iter().count(), prepared.steps.len());
    assert!(prepared.steps.sound().is_ok());
    stored(&turnover(20), &file);
    assert!(prepared.steps.iter().count() < prepared.steps.len());
    let error = prepared.steps.sound().unwrap_err().to_string();
    assert!(error.contains("when it was read first"), "{error}");
}
