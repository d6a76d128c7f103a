//! Rows of CPUs that ran no thread of the process take no page: no pass, drain, trim or count looks
//! at them.

use crate::in_own_process;
use slabyard::platform::linux::{Linux, Mode};
use slabyard::platform::stack::{FIRST_ROW_BYTES, ROW_STRIDE};
use slabyard::platform::{Memory, PerCpu};
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::stay_on_this_cpu;
use std::time::{Duration, Instant};

static YARD: Yard<Linux> = Yard::new(Linux::new());

#[test]
fn a_row_that_was_never_used_takes_no_page() {
    in_own_process("rows::a_row_that_was_never_used_takes_no_page", || look(None));
}

#[test]
fn a_private_slot_that_was_never_used_takes_no_page() {
    let slots = || look(Some(Mode::Slots));
    in_own_process("rows::a_private_slot_that_was_never_used_takes_no_page", slots);
}

fn look(mode: Option<Mode>) {
    // A call could else be on a row that no look between two calls saw.
    stay_on_this_cpu();
    let p = YARD.platform();
    assert!(p.init(mode));
    assert!(YARD.init(Settings { reserve_bytes: 4 << 30, decay_ms: 16 }));
    let mut was_here: Vec<_> = p.row_hint().into_iter().collect();

    // The reclaim ticker starts, runs passes, and ends.
    let runs: Vec<_> = (0..4).map(|_| YARD.alloc(500_000, 16).expect("memory")).collect();
    runs.into_iter().for_each(|run| YARD.free(run).expect("a live run"));
    assert!(YARD.is_ticking());
    let begin = Instant::now();
    while YARD.is_ticking() && begin.elapsed() < Duration::from_secs(10) {
        let object = YARD.alloc_fast(64, 16).expect("memory");
        YARD.free_fast(object).expect("a live object");
        was_here.extend(p.row_hint().filter(|row| !was_here.contains(row)));
    }
    YARD.trim();
    assert!(YARD.quiesce(|quiesced| quiesced.rows_in_use()).is_some());

    let rows = p.rows();
    assert!(rows.nr_used() > 0 && rows.nr_used() == rows.used().count());
    // Row 0 begins with element 0, which pops without a stack read.
    let touched: Vec<_> = (1..rows.len())
        .filter(|row| !was_here.contains(row) && rows.used().all(|used| used != *row))
        .filter(|row| p.resident(rows.base() + row * ROW_STRIDE, FIRST_ROW_BYTES) > 0)
        .collect();
    assert!(touched.is_empty(), "of {} rows nobody used {touched:?}", rows.len());
}
