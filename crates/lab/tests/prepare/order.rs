//! Tests of when each event runs.

use super::*;

#[test]
fn an_allocation_runs_before_other_cpus_frees_of_the_last_microsecond() {
    let mut case = Case::plain();
    case.free(5.0, 1, 1, 0);
    case.free(5.6, 1, 1, 1);
    case.alloc(6.5, 0, 1, 2);
    assert_eq!(runs(&case.prepare()).map_ops(), [StepKind::Free, StepKind::Free, StepKind::Alloc]);
    case.order = Order::HOST;
    assert_eq!(runs(&case.prepare()).map_ops(), [StepKind::Free, StepKind::Alloc, StepKind::Free]);
}

#[test]
fn what_one_cpu_did_stays_in_order() {
    let mut case = Case::plain();
    case.free(5.0, 0, 1, 0);
    case.free(5.6, 0, 1, 1);
    case.alloc(6.5, 0, 1, 2);
    case.order = Order::HOST;
    assert_eq!(
        runs(&case.prepare()),
        [
            (5000, StepKind::Free, false),
            (5600, StepKind::Free, false),
            (5600, StepKind::Alloc, false)
        ]
    );
}

#[test]
fn an_object_is_freed_before_it_is_allocated_again() {
    let mut case = Case::plain();
    case.free(5.6, 1, 1, 0);
    case.alloc(6.0, 0, 1, 0);
    case.order = Order::HOST;
    let prepared = case.prepare();
    assert_eq!(runs(&prepared), [(5600, StepKind::Free, false), (5600, StepKind::Alloc, false)]);
    assert_eq!(prepared.oddities.missed_before_alloc, 0);
}

#[test]
fn the_first_allocation_of_a_new_slab_runs_when_its_pages_were_got() {
    let mut case = Case::plain();
    case.alloc(0.0, 0, 1, 0);
    case.pages(10.0, 0, EventKind::PageAlloc, 5, 0);
    case.free(15.0, 1, 1, 0);
    case.alloc(20.0, 0, 5, 0);
    case.alloc(30.0, 0, 5, 1);
    case.order = Order::HOST;
    assert_eq!(
        runs(&case.prepare()),
        [
            (0, StepKind::Alloc, false),
            (10_000, StepKind::Alloc, false),
            (15_000, StepKind::Free, false),
            (29_000, StepKind::Alloc, false)
        ]
    );
    case.order.first_at_pages = false;
    assert_eq!(runs(&case.prepare())[2], (19_000, StepKind::Alloc, false));
    // From a sheaf its objects may come long after it was made.
    case.order.first_at_pages = true;
    case.caches[0].sheaf_capacity = 4;
    assert_eq!(runs(&case.prepare())[2], (19_000, StepKind::Alloc, false));
}

#[test]
fn an_allocation_that_made_a_slab_and_took_an_object_of_another_was_delayed() {
    let mut case = Case::plain();
    case.alloc(0.0, 0, 1, 0);
    case.pages(10.0, 0, EventKind::PageAlloc, 5, 0);
    case.alloc(20.0, 0, 1, 1);
    case.alloc(30.0, 0, 5, 0);
    case.pages(40.0, 0, EventKind::PageAlloc, 6, 0);
    case.alloc(50.0, 0, 6, 0);
    let calls = |case: &Case| {
        let steps = case.prepare().steps;
        steps.iter().map(|step| step.via).collect::<Vec<_>>()
    };
    assert_eq!(calls(&case), [Via::Plain; 4], "no sheaves");
    case.caches[0].sheaf_capacity = 4;
    assert_eq!(calls(&case), [Via::Plain, Via::Delayed(1), Via::Plain, Via::Plain]);
}

#[test]
fn no_cpu_allocates_from_a_slab_before_its_pages_were_got() {
    let mut case = Case::plain();
    case.pages(10.0, 0, EventKind::PageAlloc, 5, 0);
    case.alloc(10.2, 0, 5, 0);
    case.alloc(10.5, 1, 5, 1);
    case.order = Order::HOST;
    let times: Vec<_> = runs(&case.prepare()).iter().map(|run| run.0).collect();
    assert_eq!(times, [10_000, 10_000]);
}

/// CPU 0 is silent from 10 to 500 µs; CPU 1 frees at 200.
fn pause(last: impl FnOnce(&mut Case)) -> Case {
    let mut case = Case::plain();
    case.order = Order { lead_ns: 0, ..Order::GUEST };
    case.free(10.0, 0, 1, 0);
    case.free(200.0, 1, 1, 1);
    last(&mut case);
    case
}

#[test]
fn in_a_guest_the_first_allocation_after_a_pause_runs_before_it() {
    let mut case = pause(|case| case.alloc(500.0, 0, 1, 2));
    assert_eq!(runs(&case.prepare())[1], (10_000, StepKind::Alloc, false));
    // The next one was not paused.
    case.alloc(510.0, 0, 1, 3);
    assert_eq!(runs(&case.prepare())[3], (510_000, StepKind::Alloc, false));
    // Silence on a host is idleness.
    case.order = Order { lead_ns: 0, ..Order::HOST };
    assert_eq!(runs(&case.prepare())[2], (500_000, StepKind::Alloc, false));
}

#[test]
fn in_a_guest_a_free_after_a_pause_stays() {
    let case = pause(|case| case.free(500.0, 0, 1, 2));
    assert_eq!(runs(&case.prepare())[2], (500_000, StepKind::Free, false));
}

#[test]
fn in_a_guest_pages_got_after_a_pause_take_the_first_allocation_with_them() {
    let case = pause(|case| {
        case.pages(500.0, 0, EventKind::PageAlloc, 5, 0);
        case.alloc(504.0, 0, 5, 0);
    });
    let prepared = case.prepare();
    assert_eq!(runs(&prepared)[1], (10_000, StepKind::Alloc, false));
    // The truth stays where it was traced.
    assert_eq!(prepared.slabs[1].opened_at, 500_000);
}

#[test]
fn a_tenth_of_a_millisecond_and_the_begin_of_the_trace_are_no_pause() {
    let mut case = Case::plain();
    case.order = Order { lead_ns: 0, ..Order::GUEST };
    case.alloc(150.0, 0, 1, 0);
    case.alloc(250.0, 0, 1, 1);
    case.alloc(350.1, 0, 1, 2);
    let times: Vec<_> = runs(&case.prepare()).iter().map(|run| run.0).collect();
    assert_eq!(times, [150_000, 250_000, 250_000]);
}

#[test]
fn jitter_shakes_by_half_a_microsecond_and_repeats_from_its_seed() {
    let mut case = Case::plain();
    for nth in 0..200u32 {
        case.free(10.0 * f64::from(nth) + 5.0, 1, 1000 + u64::from(nth), 0);
    }
    case.order = Order::AS_TRACED.shaken(7);
    let shaken = case.prepare();
    let off = |nth: usize, time: u64| time as i64 - case.events[nth].time as i64;
    let offs: Vec<_> =
        shaken.steps.iter().enumerate().map(|(nth, step)| off(nth, step.time_ns)).collect();
    assert!(offs.iter().all(|off| off.abs() <= 500), "{offs:?}");
    assert!(offs.iter().any(|off| *off < -400) && offs.iter().any(|off| *off > 400));
    assert_eq!(case.prepare(), shaken);
    case.order = Order::AS_TRACED.shaken(8);
    assert_ne!(case.prepare(), shaken);
}

#[test]
fn jitter_frees_no_object_before_it_is_allocated() {
    let mut case = Case::plain();
    for nth in 0..200u32 {
        let (us, frame) = (10.0 * f64::from(nth), 1000 + u64::from(nth));
        case.pages(us, 0, EventKind::PageAlloc, frame, 0);
        case.alloc(us, 0, frame, 0);
        case.free(us + 0.1, 1, frame, 0);
    }
    case.order = Order::AS_TRACED.shaken(7);
    assert_eq!(case.prepare().steps.len(), 400);
}

trait MapOps {
    fn map_ops(&self) -> Vec<StepKind>;
}

impl MapOps for Vec<(u64, StepKind, bool)> {
    fn map_ops(&self) -> Vec<StepKind> {
        self.iter().map(|run| run.1).collect()
    }
}
