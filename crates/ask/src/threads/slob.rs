//! "Deprecating and removing SLOB" (November 2022): free pages that each allocator leaves on a board
//! of 8 MiB, a fork that fails, and bytes of code.
//!
//! Their machine: a K210 without an MMU, 8192 KiB of which 6240 are managed. Ours: generated boots on
//! a model of that board, of which only slabs and images differ from allocator to allocator; and
//! real kernels of 6.1 and 6.12 on 16 MiB, whose events another allocator serves as well.

use super::basis::{Basis, RowError};
use super::measured::Column;
use super::recordings::{
    FIXED_SIZES, SMALL_BOARD, SMALL_SLAB, SMALL_SLOB, SMALL_SLUB_0, SMALL_SLUB_3, SMALL_TINY_1,
    SmallBoot,
};
use super::row::{Compute, Near, Row, Table, Thread};
use super::runs::Runs;
use slabyard_lab::small::contender::{Empties, Lists};
use slabyard_lab::small::{Contender, Outcome, board};

const BOOTS: Basis = Basis::SmallMachine("generated boots");
const EVENTS: Basis = Basis::SmallMachine("small_slob");
const FIXED: Basis = Basis::Measured("ci/fixed-sizes.txt");
/// Boots, each in another order.
const SEEDS: u64 = 20;
const SLABS_ALONE: &str = "what slabs alone take more for the boot of a kernel on 16 MiB; the rest is \
    per-CPU data and code";

const fn slub(max_order: u8) -> Contender {
    Contender::Slub { max_order, empties: Empties::Kept, lists: Lists::Off }
}

const fn without_empties(max_order: u8) -> Contender {
    Contender::Slub { max_order, empties: Empties::Ended, lists: Lists::Off }
}

const fn tiny(max_order: u8) -> Contender {
    Contender::Tiny { max_order }
}

/// Free pages, fewer than with SLOB, of a real kernel's boot on 8 MiB.
fn of_board(runs: &Runs, allocator: &str) -> Result<f64, RowError> {
    let sections = SMALL_BOARD.split("\n## ");
    let section = sections.into_iter().find(|section| section.starts_with("A kernel configured"));
    let free = |row| runs.measured("ci/small-board", section.unwrap_or(""), row, Column::Number(1));
    Ok(free("SLOB")? - free(allocator)?)
}

/// Pages of slabs as booted, of the same events of a kernel with SLOB.
fn slab_pages(runs: &Runs, contender: Contender) -> Result<f64, RowError> {
    booted_pages(&*runs.small_events(&SMALL_SLOB, "6.1", contender)?)
}

fn booted_pages(outcome: &Outcome) -> Result<f64, RowError> {
    let look = outcome.looks.first().ok_or_else(|| RowError::Broken("no moment".into()))?;
    Ok(look.slab_pages().into())
}

/// Pages of slabs of a real kernel as booted, and ours on its own events.
fn real(
    runs: &Runs,
    boot: &SmallBoot,
    release: &'static str,
    contender: Contender,
) -> Result<f64, RowError> {
    let told = f64::from(runs.told(boot, 1)?.slab);
    Ok(booted_pages(&*runs.small_events(boot, release, contender)?)? - told)
}

/// Of boots that leave so many pages, the percentage with every image served; and, of those that
/// fail, the most free pages at the failure.
fn boots(
    runs: &Runs,
    contender: Contender,
    left: u32,
    scattered: u32,
) -> Result<(f64, f64), RowError> {
    let (mut clean, mut most) = (0, 0);
    for seed in 1..=SEEDS {
        let outcome = runs.board(contender, Some(left), scattered, seed)?;
        clean += u32::from(outcome.asked[board::IMAGE] == outcome.served[board::IMAGE]);
        let failed = outcome.failed.first().map(|failed| failed.look.free_pages);
        most = most.max(failed.unwrap_or(0));
    }
    Ok((100.0 * f64::from(clean) / SEEDS as f64, most.into()))
}

/// The first failure's largest free block, as an order.
fn largest_block(runs: &Runs) -> Result<f64, RowError> {
    let mut largest = 0;
    for seed in 1..=SEEDS {
        let outcome = runs.board(without_empties(0), Some(859), 16, seed)?;
        if let Some(failed) = outcome.failed.first() {
            let mut blocks = failed.look.free_blocks.iter();
            largest = largest.max(blocks.rposition(|count| *count > 0).unwrap_or(0));
        }
    }
    Ok(largest as f64)
}

fn code(runs: &Runs, target: &str, engine: &str) -> Result<f64, RowError> {
    runs.measured("ci/fixed-sizes.txt", FIXED_SIZES, target, Column::Head(engine))
}

/// Bytes of `struct kmem_cache_cpu` without CPU partial lists: list, transaction id, slab.
const CPU_BYTES: f64 = 24.0;

/// KiB of per-CPU data of SLUB's caches on the board.
fn per_cpu_kb(runs: &Runs, contender: Contender) -> Result<f64, RowError> {
    let outcome = runs.board(contender, None, 0, 1)?;
    Ok(outcome.caches as f64 * CPU_BYTES / 1024.0)
}

const RISCV: &str = "riscv64gc-unknown-none-elf";

pub(super) const THREAD: Thread = Thread {
    name: "slob",
    title: "Deprecating and removing SLOB (linux-riscv, 8 to 15 November 2022)",
    inconsistencies: &[
        "SLUB leaves 400 pages with 5.19 and 429 to 448 with 6.1-rc5; with 6.0.1 it cannot fork at all, \
         with 6.1-rc5 all boots are clean",
        "the failed fork's report has 859 free pages (3436 kB) and a list of blocks that adds up to \
         3460 kB: it was counted at another moment",
        "that report is of a boot with slub_max_order=0 and min_partial=0, which left 499 pages where it \
         came to a shell: at the failure 859 are free, as init holds nothing yet",
    ],
    tables: &[
        Table {
            name: "free",
            title: "pages fewer than with SLOB that are free after boot (theirs: 629 with SLOB)",
            rows: &[
                board_row("SLUB, built", 629.0 - 448.0, |runs| of_board(runs, "SLUB, 3")),
                board_row("SLUB, max_order 0, built", 629.0 - 508.0, |runs| of_board(runs, "SLUB, `max_order` 0")),
                board_row("SLAB, built", 630.0 - 500.0, |runs| of_board(runs, "SLAB")),
                more_row("SLUB", 629.0 - 448.0, |runs| more(runs, slub(3))).note(SLABS_ALONE),
                more_row("SLUB, max_order 0", 629.0 - 508.0, |runs| more(runs, slub(0))).note(SLABS_ALONE),
                more_row("SLUB, min_partial 0", 629.0 - 448.0, |runs| more(runs, without_empties(3))).note(SLABS_ALONE),
                more_row("SLUB, both", 629.0 - 499.0, |runs| more(runs, without_empties(0))).note(SLABS_ALONE),
                more_row("SLAB", 630.0 - 500.0, |runs| more(runs, Contender::Slab { max_order: 0 })).note(SLABS_ALONE),
                more_row("SLUB_TINY, max_order 3", 629.0 - 579.0, |runs| more(runs, tiny(3))).note(SLABS_ALONE),
                more_row("SLUB_TINY, max_order 2", 629.0 - 582.0, |runs| more(runs, tiny(2))).note(SLABS_ALONE),
                more_row("SLUB_TINY, max_order 1", 629.0 - 601.0, |runs| more(runs, tiny(1)))
                    .near(Near::Within(0.5, "another kernel's boot")),
                more_row("SLUB_TINY, max_order 0", 629.0 - 592.0, |runs| more(runs, tiny(0)))
                    .near(Near::Within(0.5, "another kernel's boot")),
                Row::claim("order of the allocators", "SLOB, TINY, then SLUB with smaller orders first", "pairs right of 3", EVENTS, |runs| {
                    let order = [Contender::Slob, tiny(1), slub(0), slub(3)];
                    let pages: Result<Vec<f64>, _> = order.into_iter().map(|of| slab_pages(runs, of)).collect();
                    Ok(pages?.windows(2).filter(|pair| pair[0] < pair[1]).count() as f64)
                })
                .near(Near::AtLeast(3.0, "the ranking is what the thread decided on")),
            ],
        },
        Table {
            name: "kernels",
            title: "slab pages of ours less those of real kernels, each on its own events",
            rows: &[
                kernel_row("6.1 with SLOB", Basis::Guest("small_slob"), |runs| real(runs, &SMALL_SLOB, "6.1", Contender::Slob)),
                kernel_row("6.1 with SLAB", Basis::Guest("small_slab"), |runs| real(runs, &SMALL_SLAB, "6.1", Contender::Slab { max_order: 0 })),
                kernel_row("6.1 with SLUB, max_order 0", Basis::Guest("small_slub-o0"), |runs| real(runs, &SMALL_SLUB_0, "6.1", slub(0))),
                kernel_row("6.1 with SLUB", Basis::Guest("small_slub-o3"), |runs| real(runs, &SMALL_SLUB_3, "6.1", slub(3))),
                kernel_row("6.12 with SLUB_TINY", Basis::Guest("small_tiny12-o1"), |runs| real(runs, &SMALL_TINY_1, "6.12", tiny(1))),
            ],
        },
        Table {
            name: "fork",
            title: "the fork that fails: an image of 491520 bytes",
            rows: &[
                Row::new("order of the request", 7.0, "", Basis::Formula("get_order"), |runs| {
                    runs.formula("get_order", || f64::from((491_520_u32 / 4096).next_power_of_two().ilog2()))
                })
                .near(Near::Equal("a formula"))
                .note("120 pages in a block of 128"),
                Row::new("boots with SLUB, both, that fail with 859 pages left", 75.0, "%", BOOTS, |runs| {
                    Ok(100.0 - boots(runs, without_empties(0), 859, 16)?.0)
                })
                .near(Near::AtLeast(25.0, "theirs: three of four boots; ours with 16 single pages that the kernel keeps, which is a guess")),
                Row::new("free pages at the failure", 859.0, "pages", BOOTS, |runs| Ok(boots(runs, without_empties(0), 859, 16)?.1))
                    .near(Near::Within(0.1, "the boot leaves about as many")),
                Row::new("largest free block at the failure", 6.0, "order", BOOTS, largest_block)
                    .near(Near::Equal("a request for order 7 fails")),
                Row::claim("clean boots with SLOB, as much left as on the board", "occasional failures", "%", BOOTS, |runs| Ok(boots(runs, Contender::Slob, 629, 8)?.0)),
                Row::claim("clean boots with SLUB", "failures if I keep running commands", "%", BOOTS, |runs| Ok(boots(runs, slub(3), 448, 8)?.0)),
                Row::claim("SLOB's clean boots less SLUB's", "switching to SLUB is not ideal", "points", BOOTS, |runs| {
                    Ok(boots(runs, Contender::Slob, 629, 8)?.0 - boots(runs, slub(3), 448, 8)?.0)
                })
                .near(Near::AtLeast(10.0, "SLUB fails more often")),
                Row::claim("the same with 629 pages left for both", "memory seems more fragmented", "points", BOOTS, |runs| {
                    Ok(boots(runs, Contender::Slob, 629, 8)?.0 - boots(runs, slub(3), 629, 8)?.0)
                })
                .near(Near::AtMost(30.0, "by how much is left, not by where slabs are")),
            ],
        },
        Table {
            name: "bytes",
            title: "code, and data for each CPU",
            rows: &[
                Row::new("code of SLOB to SLAB", 1896.0 / 13221.0, "ratio", FIXED, |runs| Ok(code(runs, RISCV, "slob")? / code(runs, RISCV, "slab")?))
                    .near(Near::AtMost(0.75, "theirs are mm/slob.o and mm/slab.o of 2005, without the page allocator that our images have"))
                    .note("theirs from SLOB's first commit, which the thread does not cite; ours: images of our engines for riscv64"),
                Row::claim("code of SLUB to SLOB", "the extra overhead could also be code", "ratio", FIXED, |runs| Ok(code(runs, RISCV, "cpu-slabs")? / code(runs, RISCV, "slob")?)),
                Row::claim("code of SLUB_TINY to SLOB", "SLUB_TINY to take care of all that", "ratio", FIXED, |runs| Ok(code(runs, RISCV, "tiny")? / code(runs, RISCV, "slob")?)),
                Row::claim("code of SLUB less SLOB's", "230 pages less: slabs, percpu, code", "KiB", FIXED, |runs| Ok((code(runs, RISCV, "cpu-slabs")? - code(runs, RISCV, "slob")?) / 1024.0)),
                Row::claim("per-CPU data of SLUB's caches", "percpu allocations", "KiB a CPU", BOOTS, |runs| per_cpu_kb(runs, slub(3)))
                    .note("24 bytes a cache without CPU partial lists, times the caches of a generated boot"),
            ],
        },
    ],
};

/// Pages of slabs more than SLOB needs for the same events.
fn more(runs: &Runs, contender: Contender) -> Result<f64, RowError> {
    Ok(slab_pages(runs, contender)? - slab_pages(runs, Contender::Slob)?)
}

const fn board_row(name: &'static str, theirs: f64, ours: Compute) -> Row {
    Row::new(name, theirs, "pages", Basis::Measured("ci/small-board"), ours)
        .near(Near::Within(0.15, "a kernel configured like the board's, in qemu with two CPUs"))
        .note("boots of 6.1 on 8 MiB without an MMU, in docs/small-machines.md")
}

const fn more_row(name: &'static str, theirs: f64, ours: Compute) -> Row {
    Row::new(name, theirs, "pages", EVENTS, ours)
}

const fn kernel_row(name: &'static str, basis: Basis, ours: Compute) -> Row {
    Row::new(name, 0.0, "pages", basis, ours)
        .near(Near::Equal("the engine and the kernel get the same events"))
}
