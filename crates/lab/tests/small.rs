//! How much of a machine of 8 MiB each allocator leaves free: the tables of the thread of 2022
//! about SLOB's end, and what they depend on.
//!
//! `cargo test --release -p slabyard-lab --test lab small:: -- --nocapture` prints the numbers.

use slabyard_lab::small::contender::{Empties, Lists};
use slabyard_lab::small::{Contender, Load, Outcome, SmallMachine, Step, run};

/// 8192 KiB, of which a kernel of the thread had 6240 to give.
const SMALL: SmallMachine = SmallMachine { page_size: 4096, pages: 2048, reserved: 488 };
const SEEDS: u64 = 5;
const IMAGE: usize = 7;

const fn slub(max_order: u8) -> Contender {
    Contender::Slub { max_order, empties: Empties::Kept, lists: Lists::Off }
}

fn outcomes(small: SmallMachine, contender: Contender) -> Vec<Outcome> {
    (1..=SEEDS).map(|seed| run(small, contender, &Load::generated(seed)).unwrap()).collect()
}

fn least_free(contender: Contender, moment: &str) -> u32 {
    let free = |it: &Outcome| it.at(moment).expect("each load has it").free_pages;
    outcomes(SMALL, contender).iter().map(free).min().unwrap()
}

#[test]
fn pages_are_neither_lost_nor_doubled() {
    for contender in Contender::all() {
        for outcome in outcomes(SMALL, contender) {
            assert_eq!(outcome.looks.len(), 4);
            for look in &outcome.looks {
                let all = look.free_pages + look.slab_pages() + look.of_requests + SMALL.reserved;
                assert_eq!(all, SMALL.pages, "{} {}", contender.name(), look.moment);
                let blocks: u32 = (0..).zip(&look.free_blocks).map(|(o, n)| n << o).sum();
                assert_eq!(blocks, look.free_pages);
            }
        }
    }
}

#[test]
fn orders_matter_and_tiny_lies_near_slob() {
    let booted = |contender| least_free(contender, "booted");
    let slob = booted(Contender::Slob);
    let slab = booted(Contender::Slab { max_order: 0 });
    let of_slub = [0, 1, 2, 3].map(|order| booted(slub(order)));
    let tiny = [0, 1, 2, 3].map(|max_order| booted(Contender::Tiny { max_order }));
    println!("free pages: slob {slob}, slab {slab}, slub {of_slub:?}, tiny {tiny:?}");
    assert!(of_slub.iter().all(|free| *free < slob) && slab < slob);
    let (least, most) = (of_slub.iter().min().unwrap(), of_slub.iter().max().unwrap());
    assert!(most - least >= 10, "SLUB's order matters");
    assert!((0..4).all(|order| tiny[order] >= of_slub[order]), "TINY leaves no less than SLUB");
    assert!(slob.abs_diff(tiny[1]) < 30, "a few pages from SLOB");
}

#[test]
fn dropping_caches_gives_pages_back() {
    for contender in Contender::all() {
        for outcome in outcomes(SMALL, contender) {
            let [released, dropped] = ["released", "dropped"].map(|it| outcome.at(it).unwrap());
            let (before, after) = (released.slab_pages(), dropped.slab_pages());
            // SLAB keeps objects in arrays; SLUB empty slabs on its lists, if it may.
            let keeps = matches!(contender, Contender::Slab { .. } | Contender::Slub { .. });
            assert!(after < before || (keeps && after == before), "{}", contender.name());
        }
    }
}

#[test]
fn a_block_of_the_image_s_size_goes_first_where_memory_is_short() {
    // Less and less memory: the first machine on which a load does not get all its images.
    let first_failure = |contender: Contender| {
        (300..1400).rev().step_by(8).find(|pages| {
            let small = SmallMachine { pages: *pages + 488, ..SMALL };
            outcomes(small, contender).iter().any(|it| it.asked[IMAGE] > it.served[IMAGE])
        })
    };
    let [slob, slub, tiny] = [Contender::Slob, slub(3), Contender::Tiny { max_order: 1 }]
        .map(|contender| first_failure(contender).expect("some machine is too small"));
    println!("an image fails below so many pages: slob {slob}, slub {slub}, tiny {tiny}");
    assert!(slob <= slub && tiny <= slub, "theirs may be smaller");
    let small = SmallMachine { pages: slub + 488, ..SMALL };
    let failed =
        outcomes(small, self::slub(3)).into_iter().find_map(|it| it.failed.first().cloned());
    let failed = failed.expect("it fails there");
    assert!(failed.look.free_blocks[IMAGE..].iter().all(|blocks| *blocks == 0));
    assert!(failed.look.free_pages >= 1, "{failed:?}");
}

#[test]
fn a_request_without_memory_is_refused_and_the_load_goes_on() {
    let small = SmallMachine { pages: 300, reserved: 0, ..SMALL };
    for contender in [Contender::Slob, Contender::Slab { max_order: 0 }, slub(3)] {
        let outcome = run(small, contender, &Load::generated(1)).unwrap();
        assert!(outcome.objects_refused > 0, "{}", contender.name());
        assert_eq!(outcome.looks.len(), 4);
        for look in &outcome.looks {
            assert_eq!(look.free_pages + look.slab_pages() + look.of_requests, 300);
        }
    }
}

/// A model that forgets to give pages back is found out by the sums above.
#[test]
fn a_load_that_leaks_is_found_out() {
    let mut load = Load::generated(1);
    let whole = run(SMALL, slub(0), &load).unwrap();
    load.steps.retain(|step| !matches!(step, Step::Free(number) if number % 3 == 0));
    let leaky = run(SMALL, slub(0), &load).unwrap();
    let free = |it: &Outcome| it.at("dropped").unwrap().free_pages;
    assert!(free(&leaky) + 20 < free(&whole));
}
