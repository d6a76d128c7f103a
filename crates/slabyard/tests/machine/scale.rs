//! What a process costs on machines of many CPUs, written down in `docs/scale.md`: what the modelled
//! machine counts. To write it anew:
//! `SLABYARD_BLESS=1 cargo test -p slabyard --test machine scale`.

use slabyard::cache::classes::ROWS;
use slabyard::platform::{GRANULE, PerCpu, Time};
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::machine::{Config, Machine, Tally};
use std::fmt::Write;

const BEGIN: &str = "<!-- scale -->\n";
const END: &str = "<!-- end of scale -->";
/// CPUs of a machine, and how many of them a process visits.
const MACHINES: [(usize, usize); 8] =
    [(2, 1), (512, 1), (8, 8), (64, 8), (512, 8), (64, 64), (192, 192), (512, 512)];
const COMMAND: &str = "run `SLABYARD_BLESS=1 cargo test -p slabyard --test machine scale`";

/// A yard on so many CPUs.
fn yard(cpus: usize) -> Box<Yard<Machine>> {
    let machine = Machine::new(Config { cpus, ..Config::default() });
    let yard = Box::new(<Yard<_>>::new(machine));
    assert!(yard.init(Settings { reserve_bytes: 8 << 30, decay_ms: 250 }));
    yard
}

/// What a thread does before it moves on: 64 objects of each class up to 1 KiB, at once.
fn visit(yard: &Yard<Machine>, cpu: usize) {
    yard.platform().set_cpu(cpu);
    let mut all = Vec::new();
    for (size, _) in ROWS.iter().filter(|(size, _)| *size <= 1024) {
        all.extend((0..64).map(|_| yard.alloc_fast(*size as usize, 16).expect("memory")));
    }
    all.into_iter().for_each(|object| yard.free_fast(object).expect("a live object"));
}

/// Pages of a MiB are freed, so that the reclaim ticker runs.
fn start_ticker(yard: &Yard<Machine>) {
    let runs: Vec<_> = (0..4).map(|_| yard.alloc(500_000, 16).expect("memory")).collect();
    runs.into_iter().for_each(|run| yard.free(run).expect("a live run"));
    assert!(yard.is_ticking(), "pages wait to be purged");
}

/// Bytes that CPUs have parked.
fn parked(yard: &Yard<Machine>) -> u64 {
    let count = yard.quiesce(|quiesced| Yard::count(quiesced, |_, _| ()));
    count.expect("outside of a slow path").parked_cpu
}

/// Bytes of objects of a process without live ones that are not in their slabs.
fn out(yard: &Yard<Machine>) -> u64 {
    let of = |(class, (size, _)): (usize, &(u32, u32))| yard.cache(class).out() * u64::from(*size);
    ROWS.iter().enumerate().map(of).sum()
}

/// What was found of a process.
struct Found {
    rows: usize,
    parked: u64,
    left: u64,
    ms: u64,
    trim: Tally,
}

/// A process that visits so many of so many CPUs, and then makes 100 pairs of calls in each
/// millisecond on one of them; another one trims after its visits.
fn measure(visited: usize, cpus: usize) -> Found {
    let wandered = || {
        let yard = yard(cpus);
        (0..visited).for_each(|nth| visit(&yard, nth * (cpus / visited)));
        yard.platform().set_cpu(0);
        yard
    };
    let yard = wandered();
    let parked_first = parked(&yard);
    start_ticker(&yard);
    let (begin, first) = (yard.platform().now_ms(), out(&yard));
    let mut ms = 0;
    while yard.is_ticking() {
        for _ in 0..100 {
            let object = yard.alloc_fast(448, 16).expect("memory");
            yard.free_fast(object).expect("a live object");
        }
        yard.platform().advance(1);
        if ms == 0 && out(&yard) < first / 20 {
            ms = yard.platform().now_ms() - begin;
        }
    }
    let left = parked(&yard);
    assert!(yard.verify().expect("no slow path").is_ok());

    let other = wandered();
    let before = other.platform().tally();
    other.trim();
    let after = other.platform().tally();
    let trim = Tally {
        fences: after.fences - before.fences,
        fenced_cpus: after.fenced_cpus - before.fenced_cpus,
        locks: after.locks - before.locks,
        ..Tally::default()
    };
    Found { rows: yard.platform().rows().nr_used(), parked: parked_first, left, ms, trim }
}

/// The generated part.
fn text() -> String {
    let mut text = format!(
        "To regenerate it, {COMMAND}.\n\n\
         | CPUs | visited | rows in use, KiB | parked on CPUs, KiB | ms until a twentieth is left | KiB left | trim: fences | CPUs fenced |\n\
         |---:|---:|---:|---:|---:|---:|---:|---:|\n"
    );
    for (cpus, visited) in MACHINES {
        let Found { rows, parked, left, ms, trim } = measure(visited, cpus);
        assert_eq!(rows, visited, "rows in use");
        assert!(left <= 64 << 10, "{left} bytes stay on {visited} of {cpus} CPUs");
        let row_kib = rows * GRANULE / 1024;
        let (parked, left) = (parked.div_ceil(1024), left.div_ceil(1024));
        let (fences, fenced) = (trim.fences, trim.fenced_cpus);
        let _ = writeln!(
            text,
            "| {cpus} | {visited} | {row_kib} | {parked} | {ms} | {left} | {fences} | {fenced} |"
        );
    }
    text
}

#[test]
#[cfg_attr(miri, ignore = "a million allocations")]
fn the_document_is_what_the_machine_counts() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scale.md");
    let there = std::fs::read_to_string(path).expect("docs/scale.md");
    let (before, rest) = there.split_once(BEGIN).expect("where the part begins");
    let (_, after) = rest.split_once(END).expect("where it ends");
    let text = format!("{before}{BEGIN}{}{END}{after}", text());
    if std::env::var_os("SLABYARD_BLESS").is_some() {
        return std::fs::write(path, &text).expect("write the document");
    }
    let differs = text.lines().zip(there.lines()).find(|(new, old)| new != old);
    assert!(there == text, "docs/scale.md is not what is counted ({differs:?}); {COMMAND}");
}
