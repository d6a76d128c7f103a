//! The loop of September 2002 on this machine's CPUs: this command starts itself with the library of
//! all engines preloaded, and times turns in which all objects of some slabs are allocated and freed.
//!
//! The library's SLAB runs without arrays, as in a kernel for one CPU. Its slabs of 4 KiB objects
//! have eight of them, so a turn allocates eight objects for each slab of theirs.

use crate::run::PRELOAD_ENV;
use crate::run::{library, preload};
use slabyard_abi::engines::EngineName;
use slabyard_ask::threads::runs::RealLoop;
use slabyard_kernels::settings::{EngineKey, Key, engine_row, row};
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

/// Objects in a slab of the library's 4 KiB class.
const OBJECTS: u32 = 8;
const BYTES: usize = 4096;
/// Bytes of a cache line: one of each is written to.
const LINE: usize = 64;
/// Timed runs, of which the fastest counts, after some that do not.
const RUNS: u32 = 100;
const UNTIMED: u32 = 10;
/// Turns of a run: a clock tells less than one.
const TURNS: u32 = 64;

/// Nanoseconds of a turn, in the fastest run.
pub(super) fn turn_ns(slabs: u32, touched: bool) -> f64 {
    let mut held: Vec<Vec<u8>> = Vec::with_capacity((slabs * OBJECTS) as usize);
    let mut turn = || {
        for _ in 0..slabs * OBJECTS {
            let mut object = Vec::with_capacity(BYTES);
            if touched {
                object.resize(BYTES, 0);
                object.iter_mut().step_by(LINE).for_each(|byte| *byte = black_box(1));
            }
            held.push(black_box(object));
        }
        held.clear();
    };
    let mut fastest = f64::MAX;
    for nth in 0..UNTIMED + RUNS {
        let begun = Instant::now();
        (0..TURNS).for_each(|_| turn());
        let ns = begun.elapsed().as_nanos() as f64 / f64::from(TURNS);
        if nth >= UNTIMED {
            fastest = fastest.min(ns);
        }
    }
    fastest
}

/// Starts this command with the library preloaded.
pub(super) struct PreloadedLoop;

impl RealLoop for PreloadedLoop {
    fn nanoseconds(&self, reclaim: &str, slabs: u32, touched: bool) -> Result<f64, String> {
        let library = library::find(true).map_err(|error| format!("{error:#}"))?;
        if !library::holds_all_engines(&library) {
            return Err("SLABYARD_LIB names a library without SLAB".into());
        }
        let existing = std::env::var_os(PRELOAD_ENV);
        let preloaded =
            preload(&library, existing.as_deref()).map_err(|error| error.to_string())?;
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(own);
        command
            .args(["reproduce", "--turns", &slabs.to_string()])
            .args(touched.then_some("--touched"))
            .env(PRELOAD_ENV, preloaded)
            .env(row(Key::Engine).env, EngineName::Slab.row().name)
            .env(engine_row(EngineKey::Reclaim).env, reclaim)
            .env(engine_row(EngineKey::Arrays).env, "0");
        let output = command.output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let ns = text.trim().parse().ok().filter(|_| output.status.success());
        ns.ok_or_else(|| {
            format!("the loop failed: {}", String::from_utf8_lossy(&output.stderr).trim())
        })
    }
}
