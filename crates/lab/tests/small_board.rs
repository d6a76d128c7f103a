//! The board of the thread of 2022 about SLOB's end, with its published numbers: when a request for
//! 2^7 pages fails, and how the allocators differ in that.
//!
//! Each allocator gets a memory of the size at which it leaves as many free pages after its boot as
//! on the board. `cargo test --release -p slabyard-lab --test lab small_board:: -- --nocapture`
//! prints the table; `SEEDS=100` runs more boots.

use slabyard_lab::small::board::{self, IMAGE};
use slabyard_lab::small::contender::{Empties, Lists};
use slabyard_lab::small::{Contender, Outcome};
use std::env;

/// Single pages that are kept all over memory.
const SCATTERED: u32 = 8;

const fn slub(max_order: u8, empties: Empties) -> Contender {
    Contender::Slub { max_order, empties, lists: Lists::Off }
}

/// Free pages at a shell's prompt (`linux-riscv`, 8 to 15 November 2022), the most of its boots.
const LEFT: [(Contender, u32); 10] = [
    (Contender::Slob, 629),
    (Contender::Tiny { max_order: 1 }, 601),
    (Contender::Tiny { max_order: 0 }, 592),
    (Contender::Tiny { max_order: 2 }, 582),
    (Contender::Tiny { max_order: 3 }, 579),
    (slub(0, Empties::Kept), 508),
    (slub(0, Empties::Ended), 499),
    (Contender::Slab { max_order: 0 }, 500),
    (slub(3, Empties::Kept), 448),
    (slub(3, Empties::Ended), 448),
];

fn seeds() -> u64 {
    env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(60)
}

/// A boot on a memory of which the allocator leaves this many pages.
fn boot_that_leaves(contender: Contender, left: u32, scattered: u32, seed: u64) -> Outcome {
    let outcome = board::boot_that_leaves(contender, left, scattered, seed).unwrap();
    let free = board::free(&outcome);
    assert!(free.abs_diff(left) <= 8, "{} {free}", contender.name());
    outcome
}

/// Boots whose every image found its block.
fn clean(contender: Contender, left: u32, scattered: u32) -> u64 {
    let is_clean = |seed: &u64| {
        let it = boot_that_leaves(contender, left, scattered, *seed);
        it.asked[IMAGE] == it.served[IMAGE]
    };
    (1..=seeds()).filter(is_clean).count() as u64
}

#[test]
fn a_board_whose_free_pages_lie_together_never_fails() {
    for (contender, left) in LEFT {
        assert_eq!(clean(contender, left, 0), seeds(), "{}", contender.name());
    }
}

/// With a few pages that are kept all over memory, requests fail the more often, the less is
/// left; with the same memory left the allocators hardly differ.
#[test]
fn scattered_pages_and_what_is_left_make_images_fail() {
    let all = LEFT.map(|(contender, left)| {
        let [of_board, same] = [left, 629].map(|left| clean(contender, left, SCATTERED));
        println!(
            "{:28} {left} left: {of_board} of {} boots are clean; 629 left: {same}",
            contender.name(),
            seeds()
        );
        (of_board, same)
    });
    let (slob, slub, slub_without) = (all[0], all[8], all[9]);
    assert!(slob.0 >= slub.0 + seeds() / 4, "SLUB fails more often than SLOB");
    assert!(slob.0 >= slub_without.0 + seeds() / 4, "without empty slabs it does, too");
    assert!(all[1..5].iter().all(|tiny| tiny.0 <= slob.0 && tiny.0 >= slub.0), "TINY between");
    let same = all.map(|it| it.1);
    let (least, most) = (same.iter().min().unwrap(), same.iter().max().unwrap());
    assert!(most - least <= seeds() * 3 / 10, "with as much left: {same:?}");
}

/// The board's report: SLUB with slabs of one page and without empty ones, 859 pages free, the free
/// blocks `17 10 7 6 11 6 6`, none of more than 64 pages. Sixteen scattered pages do that to most boots.
#[test]
fn a_request_fails_while_859_pages_are_free() {
    let contender = slub(0, Empties::Ended);
    let failures = [8, 16].map(|scattered| {
        let fails =
            |seed| boot_that_leaves(contender, 859, scattered, seed).failed.first().cloned();
        let failed: Vec<_> = (1..=seeds()).filter_map(fails).collect();
        let most = failed.iter().max_by_key(|it| it.look.free_pages).map(|it| it.look.clone());
        let most = most.expect("some boots fail");
        println!("{scattered} scattered: {} of {} boots fail", failed.len(), seeds());
        println!("with {} pages free: {:?}", most.free_pages, most.free_blocks);
        assert!(failed.iter().all(|it| it.look.free_blocks[IMAGE..].iter().all(|n| *n == 0)));
        (failed.len() as u64, most.free_pages)
    });
    let [few, many] = failures;
    assert!(few.0 < seeds() / 10 && many.0 > seeds() / 2, "{failures:?}");
    assert!(many.1 > 800, "all that the boot left is still free");
}
