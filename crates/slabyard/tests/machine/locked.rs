//! Pages that the system refuses to purge (locked ones, or by a filter that refuses the call)
//! count as dirty: `calloc` zeroes them, they do not keep a program busy, and they do not keep
//! the pages beside them from being purged.

use slabyard::calls::resize;
use slabyard::pages::runs;
use slabyard::platform::{GRANULE, Memory};
use slabyard::yard::{Settings, Yard};
use slabyard_testkit::machine::{Config, Machine};
use slabyard_testkit::{read_word, write_word};

const DECAY_MS: u32 = 250;

fn yard_on(page_bytes: usize) -> Yard<Machine> {
    let yard = <Yard<_>>::new(Machine::new(Config { page_bytes, ..Config::default() }));
    assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: DECAY_MS }));
    yard
}

/// A word of each page that a block holds.
fn words(yard: &Yard<Machine>, address: usize, bytes: usize) -> impl Iterator<Item = usize> {
    let page = yard.platform().page_bytes();
    (address..address + bytes).step_by(page)
}

/// Writes to each page.
fn soil(yard: &Yard<Machine>, address: usize, bytes: usize) {
    for word in words(yard, address, bytes) {
        // SAFETY: of a live block, whose begin is aligned to pages.
        unsafe { write_word(yard.platform(), word, word) };
    }
}

/// Zeroes what is said to be dirty, as `calloc` does; then all of it must be zero.
fn check_zeroed(yard: &Yard<Machine>, address: usize, bytes: usize) {
    let p = yard.platform();
    resize::each_dirty_part(&yard.heap, address, bytes, |offset, n| {
        for word in words(yard, address + offset, n) {
            // SAFETY: of the live block.
            unsafe { write_word(p, word, 0) };
        }
    });
    for word in words(yard, address, bytes) {
        // SAFETY: as above.
        let found = unsafe { read_word(p, word) };
        assert_eq!(found, 0, "dirty memory at {word:#x} of a block of {bytes} bytes");
    }
}

/// A number below `n`, by xorshift (Marsaglia, 2003).
fn below(random: &mut u64, n: usize) -> usize {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    (*random >> 11) as usize % n
}

#[test]
fn blocks_of_any_history_are_zeroed() {
    for page_bytes in [GRANULE, 4 * GRANULE] {
        for seed in 1..40u64 {
            let yard = yard_on(page_bytes);
            let p = yard.platform();
            let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut live: Vec<(usize, usize)> = Vec::new();
            for _ in 0..600 {
                let pick = below(&mut random, 100);
                match pick {
                    0..45 => {
                        let bytes = 20_000 + below(&mut random, 1_500_000);
                        let address = yard.alloc(bytes, page_bytes).expect("memory");
                        check_zeroed(&yard, address, bytes);
                        soil(&yard, address, bytes);
                        live.push((address, bytes));
                    }
                    45..90 if !live.is_empty() => {
                        let (address, bytes) = live.swap_remove(below(&mut random, live.len()));
                        if pick.is_multiple_of(2) && yard.heap.run_bytes(address).is_some() {
                            let page = below(&mut random, bytes / page_bytes) * page_bytes;
                            p.lock_pages(address + page, page_bytes, pick.is_multiple_of(4));
                        }
                        yard.free(address).expect("a live block");
                    }
                    90..93 => drop(yard.trim()),
                    _ => p.advance(below(&mut random, 300) as u64),
                }
            }
            yard.verify().expect("outside of a slow path").expect("a sound yard");
        }
    }
}

/// A block of which one page is locked, free: how much of it is back after a while.
fn returned_after(yard: &Yard<Machine>, ms: u64) -> usize {
    let p = yard.platform();
    for _ in 0..ms {
        for _ in 0..20 {
            let object = yard.alloc(100, 16).expect("memory");
            yard.free(object).expect("a live object");
        }
        p.advance(1);
    }
    let count = runs::free_count(&yard.heap);
    count.free - count.dirty
}

#[test]
fn one_locked_page_keeps_its_neighbours_for_a_call_alone() {
    const BYTES: usize = 1 << 20;
    for locked in [0, BYTES / 2, BYTES - GRANULE] {
        let yard = yard_on(GRANULE);
        let blocks: Vec<_> = (0..16).map(|_| yard.alloc(BYTES, 16).expect("memory")).collect();
        for (i, block) in blocks.iter().enumerate() {
            soil(&yard, *block, BYTES);
            if i == 5 {
                yard.platform().lock_pages(block + locked, GRANULE, true);
            }
        }
        for block in blocks {
            yard.free(block).expect("a live run");
        }
        let back = returned_after(&yard, 8 * u64::from(DECAY_MS)) * GRANULE;
        // One call is about 512 KiB.
        assert!(back >= 15 * BYTES + BYTES / 2, "{back} bytes went back, locked at {locked}");
    }
}

#[test]
fn refused_pages_do_not_keep_a_program_busy() {
    let yard = yard_on(GRANULE);
    let (base, p) = (yard.heap.region.base(), yard.platform());
    p.lock_pages(base, 64 << 20, true);
    let blocks: Vec<_> = (0..32).map(|_| yard.alloc(1 << 20, 16).expect("memory")).collect();
    for block in &blocks {
        yard.free(*block).expect("a live run");
    }
    assert!(yard.is_ticking(), "pages wait to be purged");
    assert!(!yard.trim(), "all is locked");
    returned_after(&yard, 8 * u64::from(DECAY_MS));
    let kept = runs::free_count(&yard.heap).dirty * GRANULE;
    assert!(kept >= 31 << 20, "{kept} bytes of 32 MiB are dirty still");
    assert!(!yard.is_ticking(), "no page can be purged");
    // Once the system accepts it, it is purged.
    p.lock_pages(base, 64 << 20, false);
    assert!(yard.trim());
    let count = runs::free_count(&yard.heap);
    assert_eq!(count.dirty, 0);
}
