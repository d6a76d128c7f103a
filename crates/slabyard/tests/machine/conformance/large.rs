//! Large blocks: each is a mapping while the program rests, and a warm run while such blocks come
//! and go; the memory that is kept warm raises the peak by a third at most.

use super::{Says, each_machine, yard_on};
use slabyard::calls::resize;
use slabyard::pages::huge::HUGE;
use slabyard::pages::runs;
use slabyard::platform::GRANULE;
use slabyard::yard::{LARGEST_RUN, Yard};
use slabyard_testkit::Random;
use slabyard_testkit::machine::{Config, Machine};

const DECAY_MS: u32 = 250;
const HUGE_BYTES: usize = HUGE * GRANULE;

fn yard_of_blocks(config: Config) -> Yard<Machine> {
    let yard = yard_on(config);
    yard.set_decay_ms(DECAY_MS);
    yard
}

fn is_run(yard: &Yard<Machine>, address: usize) -> bool {
    yard.heap.run_bytes(address).is_some()
}

#[test]
fn a_large_block_is_a_mapping_until_such_blocks_come_and_go() {
    each_machine(|config| {
        let _says = Says::of(&config);
        let yard = yard_of_blocks(config);
        yard.platform().advance(10_000);
        let take = || yard.alloc(2 * LARGEST_RUN, 16).expect("memory");
        for pause in [0, u64::from(DECAY_MS)] {
            yard.platform().advance(pause);
            let first = take();
            assert!(!is_run(&yard, first), "after {pause} ms");
            assert_eq!(yard.free(first), Ok(()));
            let second = take();
            assert!(is_run(&yard, second));
            assert_eq!(yard.free(second), Ok(()));
            assert_eq!(take(), second, "the warm pages are not used");
            assert_eq!(yard.free(second), Ok(()));
        }
    });
}

#[test]
fn a_block_that_grows_is_a_mapping_until_such_blocks_come_and_go() {
    each_machine(|config| {
        let _says = Says::of(&config);
        let yard = yard_of_blocks(config);
        let grow = || {
            let address = resize::alloc_growing(&yard, 2 * LARGEST_RUN).expect("memory");
            let is_run = is_run(&yard, address);
            // Twice as large, step by step: a run stays where it is.
            let grown = (3..32).fold(address, |address, times| {
                yard.resize(address, times * LARGEST_RUN).expect("grows without copying")
            });
            assert!(!is_run || grown == address);
            assert_eq!(yard.usable(grown), Some(31 * LARGEST_RUN));
            assert_eq!(yard.free(grown), Ok(()));
            is_run.then_some(address)
        };
        assert_eq!(grow(), None);
        let first = grow();
        assert!(first.is_some(), "a mapping though one was freed just now");
        let dirty = runs::free_count(&yard.heap).dirty;
        assert_eq!(dirty, 31 * LARGEST_RUN / GRANULE);
        assert_eq!(grow(), first, "other pages than those that wait");
        assert_eq!(runs::free_count(&yard.heap).dirty, dirty);
    });
}

#[test]
fn the_last_run_of_the_region_grows_with_it() {
    each_machine(|config| {
        let _says = Says::of(&config);
        let yard = warm_yard(config);
        let run = resize::alloc_growing(&yard, 2 * LARGEST_RUN).expect("memory");
        let top = yard.heap.region.top();
        assert_eq!(yard.resize(run, 9 * HUGE_BYTES), Some(run));
        assert!(yard.heap.region.top() > top && is_run(&yard, run));
    });
}

#[test]
fn a_block_that_grows_begins_where_there_is_room() {
    each_machine(|config| {
        let _says = Says::of(&config);
        let yard = warm_yard(config);
        let take = |huge_pages| yard.alloc(huge_pages * HUGE_BYTES, 16).expect("memory");
        let (less, _between, more, _behind) = (take(2), take(1), take(8), take(1));
        for run in [less, more] {
            assert_eq!(yard.free(run), Ok(()));
        }
        assert_eq!(resize::alloc_growing(&yard, HUGE_BYTES), Some(more));
        assert_eq!(yard.resize(more, 8 * HUGE_BYTES), Some(more));
    });
}

#[test]
fn a_block_that_grows_begins_on_dirty_pages_though_the_room_is_less() {
    each_machine(|config| {
        let _says = Says::of(&config);
        let yard = warm_yard(config);
        let large = yard.alloc(8 * HUGE_BYTES, 16).expect("memory");
        assert_eq!(yard.free(large), Ok(()));
        let place = large..large + 8 * HUGE_BYTES;
        let in_the_way = yard.alloc(LARGEST_RUN, 16).expect("memory");
        assert!(place.contains(&in_the_way));
        let grown = resize::alloc_growing(&yard, 2 * LARGEST_RUN).expect("memory");
        assert!(place.contains(&grown), "new pages while dirty ones wait");
    });
}

#[test]
fn a_run_that_cannot_grow_moves_out() {
    each_machine(|config| {
        let _says = Says::of(&config);
        let yard = warm_yard(config);
        let runs: Vec<_> = (0..3).map(|_| yard.alloc(HUGE_BYTES, 16).expect("memory")).collect();
        let lowest = *runs.iter().min().expect("three");
        let free = runs::free_count(&yard.heap);
        let grown = yard.resize(lowest, 3 * HUGE_BYTES).expect("grows without copying");
        assert!(!is_run(&yard, grown));
        assert_eq!((yard.usable(lowest), yard.usable(grown)), (None, Some(3 * HUGE_BYTES)));
        // Its pages went with it.
        let now = runs::free_count(&yard.heap);
        assert_eq!((now.free, now.dirty), (free.free + HUGE, free.dirty));
        assert_eq!(yard.free(grown), Ok(()));
        assert_eq!(yard.alloc(HUGE_BYTES, 16), Some(lowest));
        resize::each_dirty_part(&yard.heap, lowest, HUGE_BYTES, |at, n| {
            panic!("{n} bytes at {at} to clear")
        });
    });
}

/// A program is slow by its calls; by the pages that it touches in each it is not.
#[test]
fn a_slow_program_keeps_the_pages_of_large_blocks_for_the_decay_time() {
    each_machine(|config| {
        let _says = Says::of(&config);
        let yard = warm_yard(config);
        let take = |bytes| yard.alloc(bytes, 16).expect("memory");
        let replace_for = |ms: u32, has_pages: &dyn Fn() -> bool| {
            (0..ms / 10).all(|_| {
                let block = take(LARGEST_RUN + 1);
                yard.platform().advance(10);
                assert_eq!(yard.free(block), Ok(()));
                has_pages()
            })
        };
        replace_for(2000, &|| true);
        assert_eq!(yard.free(take(8 * HUGE_BYTES)), Ok(()));
        let has_pages = || runs::free_count(&yard.heap).dirty >= 8 * HUGE;
        assert!(replace_for(DECAY_MS - 10, &has_pages), "given back before its time");
        assert!(!replace_for(2000, &has_pages), "kept beyond the decay time");
    });
}

/// Granules of live large blocks, and of free pages that were not given back.
fn kept(yard: &Yard<Machine>) -> (usize, usize) {
    let (runs, mapped) = (yard.heap.buddy.runs().1, yard.heap.mappings.live().1);
    (runs + mapped / GRANULE, runs::free_count(&yard.heap).dirty)
}

#[test]
fn what_is_kept_warm_raises_the_peak_by_a_third_at_most() {
    each_machine(|config| {
        let _says = Says::of(&config);
        let mut random = Random::new(config.seed);
        let yard = yard_of_blocks(config);
        let (mut slots, mut peak, mut warm) = ([None; 4], 0, 0);
        for _ in 0..400 {
            let slot = &mut slots[random.below(4)];
            if let Some(address) = slot.take() {
                assert_eq!(yard.free(address), Ok(()));
            }
            let bytes = LARGEST_RUN + 1 + random.below(6 * LARGEST_RUN);
            *slot = Some(yard.alloc(bytes, 16).expect("memory"));
            let (live, dirty) = kept(&yard);
            peak = peak.max(live);
            warm += usize::from(is_run(&yard, slot.expect("just taken")));
            // And 512 KiB. Beside blocks, tables and lists of runs take a little.
            let most = peak + peak / 3 + 128 + 64;
            assert!(live + dirty <= most, "{live} live, {dirty} wait, peak {peak}");
        }
        assert!(warm > 300, "{warm} of 400 blocks were warm");
    });
}

#[test]
fn only_what_waits_is_dirty_in_a_warm_block() {
    each_machine(|config| {
        let _says = Says::of(&config);
        let yard = yard_of_blocks(config);
        let small = yard.alloc(2 * LARGEST_RUN, 16).expect("memory");
        assert_eq!(yard.free(small), Ok(()));
        let fresh = yard.alloc(2 * LARGEST_RUN, 16).expect("memory");
        let parts = |address: usize, bytes: usize| {
            let mut parts = Vec::new();
            resize::each_dirty_part(&yard.heap, address, bytes, |at, n| parts.push((at, n)));
            parts
        };
        assert_eq!(parts(fresh, 2 * LARGEST_RUN), []);
        assert_eq!(yard.free(fresh), Ok(()));
        // Twice as large: one of its halves is the one that was freed.
        let grown = yard.alloc(4 * LARGEST_RUN - 100, 16).expect("memory");
        let dirty = parts(grown, 4 * LARGEST_RUN - 100);
        let [first, last] = [(0, 2 * LARGEST_RUN), (2 * LARGEST_RUN, 2 * LARGEST_RUN - 100)];
        assert!(dirty.is_empty() || dirty == [first] || dirty == [last], "{dirty:?}");
        assert_eq!(yard.free(grown), Ok(()));
        let again = yard.alloc(4 * LARGEST_RUN - 100, 16).expect("memory");
        assert_eq!(parts(again, 4 * LARGEST_RUN - 100), [(0, 4 * LARGEST_RUN - 100)]);
    });
}

#[test]
fn a_run_finds_the_place_of_one_of_its_size_again() {
    each_machine(|config| {
        let _says = Says::of(&config);
        let unit = config.page_bytes;
        let yard = yard_of_blocks(config);
        // One page more than a power of two: in a block that holds it, half would be free.
        let bytes = if 33 * unit > LARGEST_RUN { 9 * unit } else { 33 * unit };
        let take = || yard.alloc(bytes, 16).expect("memory");
        let runs: Vec<_> = (0..6).map(|_| take()).collect();
        for run in runs.iter().step_by(2) {
            assert_eq!(yard.free(*run), Ok(()));
        }
        for _ in runs.iter().step_by(2) {
            let again = take();
            assert!(runs.contains(&again), "{again:#x} is another place than {runs:x?}");
        }
    });
}

/// A yard on which large blocks are runs.
fn warm_yard(config: Config) -> Yard<Machine> {
    let yard = yard_of_blocks(config);
    let first = yard.alloc(2 * LARGEST_RUN, 16).expect("memory");
    assert_eq!(yard.free(first), Ok(()));
    yard
}

#[test]
fn runs_that_lay_side_by_side_make_a_place_for_a_larger_one() {
    each_machine(|config| {
        let _says = Says::of(&config);
        let yard = warm_yard(config);
        let mut runs: Vec<_> =
            (0..12).map(|_| yard.alloc(HUGE_BYTES, 16).expect("memory")).collect();
        runs.sort_unstable();
        let base = yard.heap.region.base();
        let is_row = |row: &&[usize]| {
            // The begin of a block of the next order would be a place anyway.
            (row[0] - base) % (2 * HUGE_BYTES) == HUGE_BYTES && row[2] - row[0] == 2 * HUGE_BYTES
        };
        let row = runs.windows(3).find(is_row).expect("three runs side by side");
        for run in row {
            assert_eq!(yard.free(*run), Ok(()));
        }
        assert_eq!(yard.alloc(3 * HUGE_BYTES, 16), Some(row[0]));
    });
}

#[test]
fn a_large_run_begins_behind_another_where_there_are_no_huge_pages() {
    each_machine(|config| {
        let _says = Says::of(&config);
        let yard = warm_yard(config);
        let take = |bytes| yard.alloc(bytes, 16).expect("memory");
        let bytes = 2 * HUGE_BYTES + LARGEST_RUN;
        let former = take(2 * bytes);
        assert_eq!(yard.free(former), Ok(()));
        assert_eq!([take(bytes), take(bytes)], [former, former + bytes]);
    });
}

#[test]
fn what_somebody_asked_for_goes_back_in_whole_huge_pages() {
    each_machine(|config| {
        let _says = Says::of(&config);
        let yard = warm_yard(config);
        let large = yard.alloc(8 * HUGE_BYTES, 16).expect("memory");
        assert_eq!(yard.free(large), Ok(()));
        let before = yard.platform().tally();
        assert_eq!(yard.heap.purge(0, usize::MAX), 8 * HUGE_BYTES / GRANULE);
        let after = yard.platform().tally();
        assert_eq!(after.give_backs - before.give_backs, 1);
        assert_eq!(after.give_back_bytes - before.give_back_bytes, 8 * HUGE_BYTES as u64);
    });
}

#[test]
fn the_region_ends_with_a_huge_page_behind_a_large_run() {
    each_machine(|config| {
        let _says = Says::of(&config);
        let yard = warm_yard(config);
        let region = &yard.heap.region;
        let before = region.top();
        yard.alloc(5 * HUGE_BYTES, 16).expect("memory");
        assert!(region.top() > before);
        assert_eq!(region.top() % HUGE, 0);
    });
}

#[test]
fn large_runs_lie_beyond_small_pages_and_the_rest_before() {
    each_machine(|config| {
        let _says = Says::of(&config);
        let yard = warm_yard(config);
        let region = &yard.heap.region;
        let end = region.address(region.small_pages() as u32);
        assert!(region.small_pages() >= 2 * HUGE);
        for _ in 0..3 {
            let small = yard.alloc(LARGEST_RUN, 16).expect("memory");
            assert!(small < end, "a small run at {small:#x}");
            let large = yard.alloc(HUGE_BYTES, 16).expect("memory");
            assert!(large >= end, "a large run at {large:#x}");
        }
    });
}

#[test]
fn small_pages_are_better_than_none() {
    let yard = warm_yard(Config::default());
    let region = &yard.heap.region;
    let small = region.address(region.small_pages() as u32);
    let runs = std::iter::from_fn(|| yard.heap.alloc_run(HUGE_BYTES, 16));
    let before = runs.filter(|run| *run < small).count();
    // The first huge page has tables' or lists' runs in it, or the first unit.
    assert!(before >= region.small_pages() / HUGE - 1, "{before} runs on small pages");
}

/// The blocks that are looked at first have no room behind them.
#[test]
fn the_last_room_is_found_behind_any_number_of_blocks() {
    let yard = yard_on(Config::default());
    let bytes = LARGEST_RUN;
    let mut runs: Vec<_> = std::iter::from_fn(|| yard.heap.alloc_run(bytes, bytes)).collect();
    runs.sort_unstable();
    while yard.heap.alloc_run(GRANULE, GRANULE).is_some() {}
    // Neighbours that do not join.
    let odd = |run: &&[usize]| run[1] == run[0] + bytes && run[0] / bytes % 2 == 1;
    let room = runs.windows(2).find(odd).expect("neighbours")[0];
    let single = runs.iter().filter(|run| run.abs_diff(room) > 2 * bytes).step_by(2);
    for run in [room, room + bytes].iter().chain(single) {
        assert_eq!(yard.heap.free_live_run(*run), Some(bytes));
    }
    assert_eq!(yard.heap.alloc_run(bytes + bytes / 2, GRANULE), Some(room));
    assert_eq!(yard.heap.alloc_run(bytes + bytes / 2, GRANULE), None);
}

#[test]
fn dirty_pages_of_a_larger_block_come_before_clean_ones() {
    each_machine(|config| {
        let _says = Says::of(&config);
        let unit = config.page_bytes;
        let yard = yard_of_blocks(config);
        let large = yard.alloc(LARGEST_RUN, 16).expect("memory");
        assert_eq!(yard.free(large), Ok(()));
        let (place, bytes) = (large..large + LARGEST_RUN, 9 * unit);
        let small = yard.alloc(bytes.max(64 << 10), 16).expect("memory");
        assert!(place.contains(&small), "new pages while dirty ones wait");
    });
}

#[test]
fn of_free_blocks_of_a_size_the_lowest_is_taken() {
    each_machine(|config| {
        let _says = Says::of(&config);
        let unit = config.page_bytes;
        let yard = yard_of_blocks(config);
        // Of each pair one is freed, so that none coalesces with another.
        let bytes = unit.max(64 << 10);
        let mut runs: Vec<_> = (0..16).map(|_| yard.alloc(bytes, bytes).expect("memory")).collect();
        runs.sort_unstable();
        let free: Vec<_> = runs.into_iter().step_by(2).collect();
        // Two wait as they were freed; of more all are asked for, and so they are blocks.
        for (freed, wait) in [(&free[..2], true), (&free[..], false)] {
            runs::each_free_block(&yard.heap, |_, _| {});
            let (last, first) = freed.split_at(freed.len() / 3 + 1);
            for run in first.iter().chain(last) {
                assert!(yard.heap.free_live_run(*run).is_some(), "past the banks");
            }
            if !wait {
                runs::each_free_block(&yard.heap, |_, _| {});
            }
            for run in freed {
                assert_eq!(yard.alloc(bytes, bytes), Some(*run));
            }
        }
    });
}

#[test]
fn a_mapping_that_grows_makes_room() {
    each_machine(|config| {
        let _says = Says::of(&config);
        let yard = yard_of_blocks(config);
        let warm: Vec<_> = (0..16).map(|_| yard.alloc(LARGEST_RUN, 16).expect("memory")).collect();
        let mut grown = resize::alloc_growing(&yard, 2 * LARGEST_RUN).expect("memory");
        for run in warm {
            assert_eq!(yard.free(run), Ok(()));
        }
        assert!(kept(&yard).1 > 0);
        for times in [4, 8, 16, 32] {
            grown = yard.resize(grown, times * LARGEST_RUN).expect("memory");
        }
        let (live, dirty) = kept(&yard);
        assert!(live + dirty <= live + live / 3 + 128 + 64, "{live} live, {dirty} wait");
    });
}
