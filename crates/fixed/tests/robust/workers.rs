//! Processes that use one yard in loops, and are killed at random times.

use super::scene::{Block, BlockOwner, Call, Done, PAGE, Random, Zone, call, map};
use slabyard_fixed::{CacheId, CacheSettings, FixedEngine, Settings};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

const WORKERS: usize = 4;
const SLOTS: usize = 64;
const ZONE_BYTES: usize = 2 << 20;

/// What a worker has, where its parent finds it: address, kind, bytes; 0: nothing.
type Slots = [AtomicU64; SLOTS];

fn word_of(block: &Block) -> u64 {
    let kind = match block.of {
        BlockOwner::Malloc => 0,
        BlockOwner::Pages => 1,
        BlockOwner::Cache(_) => 2,
    };
    (block.at.addr().get() as u64) << 16 | kind << 14 | block.bytes as u64
}

fn block_of(word: u64, id: CacheId) -> Option<Block> {
    let at = NonNull::new(std::ptr::with_exposed_provenance_mut((word >> 16) as usize))?;
    let of =
        [BlockOwner::Malloc, BlockOwner::Pages, BlockOwner::Cache(id)][(word >> 14 & 3) as usize];
    Some(Block { at, bytes: (word & 0x3fff) as usize, of })
}

/// Allocates, writes, looks, frees, until it is killed; ends by itself if it finds what others wrote.
fn work<E: FixedEngine>(yard: &Zone<E>, id: CacheId, slots: &Slots, seed: u64) -> ! {
    let (mut random, salt) = (Random(seed), seed as u32);
    loop {
        let slot = &slots[random.below(SLOTS)];
        if let Some(block) = block_of(slot.load(Ordering::Relaxed), id) {
            let is_whole = block.is_whole(salt);
            // First, so that nobody frees it twice; whoever is killed here has lost it.
            slot.store(0, Ordering::Relaxed);
            if !is_whole || call(yard, Call::Free(block)) != Done::Said(true) {
                // SAFETY: the end of this process.
                unsafe { libc::_exit(3) };
            }
            continue;
        }
        let what = match random.below(10) {
            0 => Call::Pages(random.below(3) as u32),
            1..4 => Call::Malloc((8 + random.below(700)) & !7),
            4 if random.below(20) == 0 => Call::Shrink,
            _ => Call::Alloc(id, 56),
        };
        if let Done::Block(Some(block)) = call(yard, what) {
            block.write(salt);
            slot.store(word_of(&block), Ordering::Release);
        }
    }
}

/// Kills workers at random, frees what they had, and forks others.
pub fn killed_at_random<E: FixedEngine>(seed: u64) {
    let memory = map(ZONE_BYTES);
    let settings = Settings { cpu_partial: 12, ..Settings::DEFAULT };
    // SAFETY: new memory, unmapped at the end.
    let yard = unsafe { Zone::<E>::place(memory, ZONE_BYTES, settings) }.expect("room");
    let id = yard.create("objects", CacheSettings { size: 56, align: 8 }).expect("room");
    // SAFETY: new memory, of zeros.
    let slots: &[Slots; WORKERS] = unsafe { &*map(size_of::<[Slots; WORKERS]>()).cast() };
    let (mut random, mut pids, mut salts) = (Random(seed + 100), [0; WORKERS], [0; WORKERS]);
    let kills = if std::env::var_os("SLABYARD_EACH_STORE").is_some() { 5_000 } else { 250 };
    let fork = |nth: usize, salt: u64| {
        // SAFETY: the child makes no call but those of the yard.
        match unsafe { libc::fork() } {
            0 => work(yard, id, &slots[nth], salt),
            pid => pid,
        }
    };
    for nth in 0..WORKERS {
        salts[nth] = (seed << 32) | (nth as u64 + 1);
        pids[nth] = fork(nth, salts[nth]);
    }
    for kill in 0..kills + WORKERS {
        let nth = if kill < kills { random.below(WORKERS) } else { kill - kills };
        let wait = std::time::Duration::from_micros(random.below(400) as u64);
        std::thread::sleep(wait);
        let mut status = 0;
        // SAFETY: our own child.
        unsafe {
            libc::kill(pids[nth], libc::SIGKILL);
            assert_eq!(libc::waitpid(pids[nth], &raw mut status, 0), pids[nth]);
        }
        assert!(libc::WIFSIGNALED(status), "{}: a worker found what others wrote", E::NAME);
        for slot in &slots[nth] {
            if let Some(block) = block_of(slot.swap(0, Ordering::Acquire), id) {
                assert!(block.is_whole(salts[nth] as u32), "{}: {block:?} of the dead", E::NAME);
                assert_eq!(call(yard, Call::Free(block)), Done::Said(true));
            }
        }
        if kill % 25 == 0 {
            yard.verify().unwrap_or_else(|what| panic!("{}: {what} after {kill} deaths", E::NAME));
        }
        if kill < kills {
            salts[nth] = seed << 32 | (kill + 1_000) as u64;
            pids[nth] = fork(nth, salts[nth]);
        }
    }
    let counts = yard.verify().expect("sound");
    println!("{}: {} calls cut of {kills} deaths, {counts:?}", E::NAME, yard.cut_calls());
    // Each death lost a block at most.
    let most = (kills + WORKERS) as u64;
    assert!(
        counts.live <= most && u64::from(counts.run_pages) <= 4 * most,
        "{}: {counts:?}",
        E::NAME
    );
    assert!(counts.live_bytes + u64::from(counts.run_pages) * PAGE as u64 <= most * 1024);
    assert!(yard.cut_calls() > 0);
    // SAFETY: all workers are gone.
    unsafe { libc::munmap(memory.cast(), ZONE_BYTES) };
}
