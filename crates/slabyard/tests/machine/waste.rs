//! What the size classes and page runs waste, asked of every request up to
//! 1 MiB on pages of 4 KiB, and written down in `docs/geometry.md`.
//!
//! `measure` computes the waste and checks the goals, `document` writes it
//! down. To write it anew:
//! `SLABYARD_BLESS=1 cargo test -p slabyard --test machine waste`.

mod document;
mod measure;

use measure::{Committed, LARGEST_ASKED, breaches};
use slabyard::cache::classes::{self, CLASSES};
use slabyard::platform::{GRANULE, Memory};
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::machine::{Config, Machine};

/// A yard on a modelled machine with pages of 4 KiB.
fn yard() -> Box<Yard<Machine>> {
    let config = Config { cpus: 1, page_bytes: GRANULE, ..Config::default() };
    let yard = Box::new(<Yard<_>>::new(Machine::new(config)));
    assert!(yard.init(Settings { reserve_bytes: 1 << 30, ..Settings::default() }));
    yard
}

/// What is committed for a request, by the functions that allocations use.
fn committed(yard: &Yard<Machine>, request: usize) -> Committed {
    match classes::class_for(request) {
        Some(class) => {
            let geometry = &yard.cache(class).shape().geometry;
            Committed { bytes: geometry.slab_bytes(), objects: geometry.objects as usize }
        }
        None => Committed { bytes: yard.heap.granules_for(request) * GRANULE, objects: 1 },
    }
}

#[test]
#[cfg_attr(miri, ignore = "a million requests")]
fn no_request_wastes_more_than_the_goals_allow() {
    let yard = yard();
    let found = breaches(|request| committed(&yard, request));
    let first = &found[..found.len().min(10)];
    assert!(found.is_empty(), "{} breaches, the first:\n{}", found.len(), first.join("\n"));
}

#[test]
#[cfg_attr(miri, ignore = "a million requests")]
fn the_document_is_what_would_be_generated() {
    let yard = yard();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/geometry.md");
    let there = std::fs::read_to_string(path).expect("docs/geometry.md");
    let text = document::renewed(&there, &yard);
    if std::env::var_os("SLABYARD_BLESS").is_some() {
        return std::fs::write(path, &text).expect("write the document");
    }
    let differs = text.lines().zip(there.lines()).find(|(new, old)| new != old);
    assert!(
        there == text,
        "docs/geometry.md is not what the table gives ({differs:?}); {}",
        document::COMMAND
    );
}

/// Bytes that are in use, be it by live objects, tails or runs: what the system
/// lent less what is free, and less the allocator's own tables.
fn used(yard: &Yard<Machine>) -> usize {
    let count = yard.quiesce(|quiesced| Yard::count(quiesced, |_, _| ())).expect("no slow path");
    let in_region = count.committed - count.metadata - count.mapped;
    (in_region - count.free_runs - count.parked_pages) as usize
}

#[test]
#[cfg_attr(miri, ignore = "thousands of allocations")]
fn the_machine_commits_what_was_computed() {
    for request in sample() {
        // A yard of its own: a cache that has many slabs makes new ones ahead of need.
        let yard = yard();
        let computed = committed(&yard, request);
        let n = 2 * computed.objects;
        let before = used(&yard);
        for _ in 0..n {
            let address = yard.alloc(request, 16).expect("memory");
            assert!(yard.usable(address) >= Some(request));
        }
        assert_eq!(used(&yard) - before, 2 * computed.bytes, "{n} requests of {request} bytes");
        // The yard's own number of committed bytes is the machine's.
        let own = yard.quiesce(|quiesced| Yard::count(quiesced, |_, _| ())).expect("no slow path");
        let machine = yard.platform().committed_bytes();
        // The machine gives the rows and the header page before them without counting them.
        let header = yard.platform().page_bytes() + slabyard::platform::stack::FIRST_ROW_BYTES;
        let ahead = yard.heap.region.ahead() * GRANULE;
        assert_eq!((own.committed + own.returned) as usize + ahead, machine + header);
    }
}

/// The ends of each class and of some runs, and sizes between.
fn sample() -> Vec<usize> {
    let ends = (0..CLASSES).flat_map(|class| {
        let size = classes::ROWS[class].0 as usize;
        [size, size + 1]
    });
    let runs = (5..=256).step_by(17).flat_map(|n| [n * GRANULE - 1, n * GRANULE, n * GRANULE + 1]);
    let between = (0..LARGEST_ASKED).step_by(9973);
    let mut sizes: Vec<usize> = ends.chain(runs).chain(between).collect();
    sizes.extend([0, 1, LARGEST_ASKED]);
    sizes.retain(|size| *size <= LARGEST_ASKED);
    sizes
}

/// A row with a fault, which the judge must find.
fn planted(wrong: impl Fn(usize) -> Option<Committed>) -> Vec<String> {
    let yard = yard();
    breaches(|request| wrong(request).unwrap_or_else(|| committed(&yard, request)))
}

#[test]
#[cfg_attr(miri, ignore = "a million requests")]
fn the_judge_finds_planted_waste() {
    let one = |bytes| Committed { bytes, objects: 1 };
    // One byte more than 16 for one small request.
    let found = planted(|n| (n == 100).then(|| one(117)));
    assert!(found.len() == 1 && found[0].contains("100 bytes"), "{found:?}");
    // A fifth and a little at one size; the mean hardly moves.
    let found = planted(|n| (n == 5000).then(|| one(6001)));
    assert!(found.len() == 1 && found[0].contains("5000 bytes"), "{found:?}");
    // A mean of an eighth and a little; no request above a fifth.
    let found =
        planted(|n| (257..=512).contains(&n).then(|| Committed { bytes: n * 9, objects: 8 }));
    assert!(found.is_empty(), "{found:?}");
    let found =
        planted(|n| (257..=512).contains(&n).then(|| Committed { bytes: n * 91, objects: 80 }));
    assert!(found.len() == 1 && found[0].contains("257 to 512"), "{found:?}");
    // Less than was asked for is no saving.
    let found = planted(|n| (n == 300).then(|| one(299)));
    assert!(found.len() == 1 && found[0].contains("300 bytes"), "{found:?}");
}
