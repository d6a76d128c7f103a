//! The common code of the images for machines without an OS and of the program for Linux: loads
//! that each engine serves from a few MiB, with a line of output per comparable result.
//!
//! [`report`] prints the same on every machine of one word size: the outputs of the image under
//! qemu and of the program on Linux are identical (`ci/fixed`). The tests compare the slabs with
//! those of modelled kernels.
//!
//! Neighbours: `slabyard-small` generates the boot-like load, [`boot`] serves it; [`stress`] makes
//! random calls with an oracle; `start` starts the machine.

#![no_std]

pub mod arena;
pub mod boot;
mod machine;
pub mod sizes;
#[cfg(target_os = "none")]
pub mod start;
pub mod stress;
mod tables;

pub use machine::{MEMORY_BYTES, Machine, PAGES, TIGHT_PAGES};
pub use tables::Tables;

use core::fmt;
use slabyard_fixed::{CpuSlab, FixedEngine, Settings, Slab, Slob, Slub, Tiny};

/// Seeds of the boot-like load.
const SEEDS: u64 = 4;
/// Calls of the random load, all engines together.
pub const CALLS: u32 = 1_000_000;

/// Something that is run with each engine and setting.
trait Each {
    fn with<E: FixedEngine>(&mut self, settings: Settings, name: &str) -> fmt::Result;
}

fn each(f: &mut impl Each) -> fmt::Result {
    let with = |max_order| Settings { max_order: Some(max_order), ..Settings::DEFAULT };
    let keeps_none = |settings| Settings { min_partial: Some(0), ..settings };
    f.with::<Slob>(Settings::DEFAULT, "slob")?;
    for (order, name) in (0..).zip(["tiny o0", "tiny o1", "tiny o2", "tiny o3"]) {
        f.with::<Tiny>(with(order), name)?;
    }
    for (order, name) in (0..).zip(["slab o0", "slab o1", "slab o2", "slab o3"]) {
        f.with::<Slab>(with(order), name)?;
    }
    for (order, name) in (0..).zip(["cpu-slabs o0", "cpu-slabs o1", "cpu-slabs o2", "cpu-slabs o3"])
    {
        f.with::<CpuSlab>(with(order), name)?;
    }
    f.with::<CpuSlab>(keeps_none(with(0)), "cpu-slabs o0 mp0")?;
    f.with::<CpuSlab>(keeps_none(with(3)), "cpu-slabs o3 mp0")?;
    f.with::<CpuSlab>(Settings { cpu_partial: 30, ..with(3) }, "cpu-slabs o3 cp30")?;
    for (order, name) in (0..).zip(["sheaves o0", "sheaves o1", "sheaves o2", "sheaves o3"]) {
        f.with::<Slub>(with(order), name)?;
    }
    Ok(())
}

/// Runs everything, and prints the results.
///
/// # Errors
/// An engine's equation does not hold, or the machine cannot print.
pub fn report(machine: &mut impl Machine) -> fmt::Result {
    struct Boots<'a, M>(&'a mut M, usize);
    impl<M: Machine> Each for Boots<'_, M> {
        fn with<E: FixedEngine>(&mut self, settings: Settings, name: &str) -> fmt::Result {
            let pages = self.1;
            (1..=SEEDS).try_for_each(|seed| boot::run::<E>(self.0, settings, name, (seed, pages)))
        }
    }
    struct Stresses<'a, M>(&'a mut M);
    impl<M: Machine> Each for Stresses<'_, M> {
        fn with<E: FixedEngine>(&mut self, settings: Settings, name: &str) -> fmt::Result {
            stress::run::<E>(self.0, settings, name, CALLS / 20)
        }
    }
    writeln!(
        machine,
        "sizes: engine, yard, empty yard of 8 MiB, of 64 KiB, a cache, of it for each CPU"
    )?;
    sizes::report(machine)?;
    writeln!(
        machine,
        "of 64 KiB in pages of 256, 512, 1024, 2048, 4096 bytes: objects/blocks/blocks again"
    )?;
    arena::report(machine)?;
    writeln!(
        machine,
        "boot: engine, seed, moment, free pages, slab pages, tables, free blocks by order, order-7 requests granted of those made"
    )?;
    for pages in [PAGES].into_iter().chain(TIGHT_PAGES) {
        writeln!(machine, "{pages} pages")?;
        each(&mut Boots(machine, pages))?;
    }
    writeln!(machine, "random calls: engine, calls, refused, live, slab pages")?;
    each(&mut Stresses(machine))?;
    writeln!(machine, "done")
}
