//! Compares SLOB with a real kernel: Linux 6.1 with SLOB, one CPU and 64 MiB, from its boot through
//! a load whose objects are held and then freed.
//!
//! `cargo test --release -p slabyard-lab --test lab slob:: -- --nocapture` prints the numbers.

use slabyard_lab::event::EventKind;
use slabyard_lab::slob::{Machine, PageChange, Replayed, replay};
use slabyard_lab::trace::{self, Trace};
use std::path::Path;

/// What the kernel marked in its trace, when, in microseconds, and what the number of unreclaimable slab pages in
/// its `/proc/vmstat` was then.
const MARKS: [(&str, u64, i64); 3] =
    [("LOAD-BEGIN", 517_698, 601), ("HELD", 749_201, 722), ("RELEASED", 766_212, 675)];

const MOST_PAGES: u32 = 5000;

fn traced() -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/slob_6.1.csv.zst");
    trace::open(&path).expect("a trace")
}

fn run(trace: &Trace) -> Replayed {
    replay(trace, Machine::X86_64, MOST_PAGES).expect("pages enough")
}

#[test]
fn the_page_events_agree_with_what_the_kernel_counts() {
    let replayed = run(&traced());
    let at = |us: u64| replayed.at(us * 1000).expect("events before").kernel;
    let begin = at(MARKS[0].1);
    for (name, us, counted) in MARKS {
        assert_eq!(at(us) - begin, counted - MARKS[0].2, "{name}");
    }
}

#[test]
fn the_model_has_as_many_pages_as_the_kernel() {
    let replayed = run(&traced());
    // Pages that were full before the trace, and stay so, are in no event of it.
    let unseen = MARKS[0].2 - replayed.at(MARKS[0].1 * 1000).expect("events").kernel;
    println!("{} pages from before the trace, {unseen} unseen", replayed.old_pages);
    println!("{} frees of objects from before it", replayed.unknown_frees);
    let Replayed { blocks, same, same_at_first, .. } = replayed;
    println!("{same} of {blocks} blocks at the kernel's place, the first {same_at_first} all");
    let error = |kernel: i64, model: i64| 100.0 * (model - kernel) as f64 / kernel as f64;
    for (name, us, counted) in MARKS {
        let moment = replayed.at(us * 1000).expect("events before");
        let model = moment.model + unseen;
        let off = error(counted, model);
        let traced = error(moment.kernel, moment.model);
        println!(
            "{name:10} kernel {counted}, model {model}: {off:+.2} %, of pages traced {traced:+.2} %"
        );
        assert!(off.abs() < 2.0 && traced.abs() < 2.0, "{name}");
    }
    let is_near = |m: &&PageChange| (m.model - m.kernel).abs() * 50 <= m.kernel;
    let near = replayed.moments.iter().filter(is_near).count();
    println!("within 2 % after {near} of {} changes of a number of pages", replayed.moments.len());
    assert!(near * 100 > replayed.moments.len() * 95);
    assert!(replayed.same_at_first > 5000 && replayed.same * 3 > replayed.blocks * 2);
}

/// A wrong policy must show in the numbers: here each object of a cache has a header, too.
#[test]
fn wrong_sizes_are_found_out() {
    let mut trace = traced();
    for event in trace.events.iter_mut().filter(|event| event.kind == EventKind::CacheAlloc) {
        event.allocated += if event.allocated < 2048 { 16 } else { 0 };
    }
    let replayed = run(&trace);
    let moment = replayed.at(MARKS[1].1 * 1000).expect("events before");
    assert!((moment.model - moment.kernel).abs() * 50 > moment.kernel, "{moment:?}");
    assert!(replayed.same * 10 < replayed.blocks, "{} of {}", replayed.same, replayed.blocks);
}

#[test]
fn too_few_pages_are_said() {
    assert!(replay(&traced(), Machine::X86_64, 50).is_err());
}
