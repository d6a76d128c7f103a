//! The smallest example: a yard on 64 KiB that are part of the program, on a machine without an OS.
//! Built as a program for Linux, it does the same.
//!
//! `ci/fixed sizes` builds it with each engine, and measures the image.
#![cfg_attr(target_os = "none", no_std, no_main)]

use slabyard_fixed::{Memory, ObjectCache, Spin, Yard};

#[cfg(engine = "cpu-slabs")]
use slabyard_fixed::CpuSlab as Engine;
#[cfg(engine = "slab")]
use slabyard_fixed::Slab as Engine;
#[cfg(engine = "slob")]
use slabyard_fixed::Slob as Engine;
#[cfg(engine = "slub")]
use slabyard_fixed::Slub as Engine;
#[cfg(not(any(engine = "slob", engine = "slab", engine = "slub", engine = "cpu-slabs")))]
use slabyard_fixed::Tiny as Engine;

static MEMORY: Memory<{ 64 << 10 }> = Memory::new();
static YARD: Yard<Spin<512>, Engine> = Yard::new(Spin::new());

/// What a sensor says.
struct Reading {
    millis: u32,
    values: [i16; 6],
}

/// Fills the memory with readings, and when there is no more, frees the older half and continues.
fn works() -> Option<()> {
    YARD.init(&MEMORY).ok()?;
    let readings = ObjectCache::<Reading, _, _>::new("readings", &YARD)?;
    let mut kept = [const { None }; 200];
    let mut refused = 0;
    for millis in 0..10_000u32 {
        let values = [millis as i16; 6];
        match readings.alloc(Reading { millis, values }) {
            Ok(reading) => kept[millis as usize % 200] = Some(reading),
            Err(_) => refused += 1,
        }
    }
    let newest = kept.iter().flatten().map(|reading| reading.millis).max()?;
    let is_whole = |reading: &Reading| reading.values == [reading.millis as i16; 6];
    let all_whole = kept.iter().flatten().all(|reading| is_whole(reading));
    // What is left serves others.
    let mut blocks = [None; 100];
    blocks.iter_mut().for_each(|block| *block = YARD.malloc(1000));
    let nr = blocks.iter().flatten().count();
    for block in blocks.iter().flatten() {
        // SAFETY: it is live, and not used any more.
        unsafe { YARD.mfree(*block) };
    }
    let goes_on = (10..100).contains(&nr) && YARD.malloc(1000).is_some();
    (newest == 9_999 && refused == 0 && all_whole && goes_on).then_some(())
}

#[cfg(target_os = "none")]
#[unsafe(no_mangle)]
fn image() -> bool {
    use core::fmt::Write;
    let done = works().is_some();
    let text = if done { "a yard on 64 KiB works\n" } else { "FAILED: a yard on 64 KiB\n" };
    slabyard_firmware::start::Serial.write_str(text).is_ok() && done
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    match works() {
        Some(()) => {
            println!("a yard on 64 KiB works");
            std::process::ExitCode::SUCCESS
        }
        None => std::process::ExitCode::FAILURE,
    }
}
