//! Serves the boot-like load on a yard, and reads the yard's state at each checkpoint.
//!
//! Each process requests 2^7 contiguous pages for its image. The first such request that fails
//! prints the kernel's report of a failed page allocation. After the load all caches are shrunk,
//! and then as many blocks of 2^7 pages as possible are allocated.

use crate::machine::Machine;
use crate::tables::{Slot, Tables};
use core::fmt;
use slabyard_fixed::{Alone, Board, CacheId, CacheSettings, FixedEngine, Settings, Yard};
use slabyard_small::boot::Boot;
use slabyard_small::{CACHES, Checkpoint, ObjectType, Request};

/// The order of a process's image.
const IMAGE_ORDER: u8 = 7;
/// Bytes that such a process requests.
const IMAGE_BYTES: usize = 480 << 10;

/// What the load has requested so far.
#[derive(Default)]
struct Tally {
    images: u32,
    granted: u32,
    refused: u32,
    reported: bool,
    calls: u64,
    instructions: u64,
}

/// Runs the load of a seed.
///
/// # Errors
/// As [`crate::report`].
pub fn run<E: FixedEngine>(
    machine: &mut impl Machine,
    settings: Settings,
    name: &str,
    (seed, pages): (u64, usize),
) -> fmt::Result {
    let yard: Yard<Alone, E> = Yard::with(Alone::new(), settings);
    let memory = machine.memory();
    // SAFETY: the memory is for one yard at a time, and the last one has ended.
    unsafe { yard.init_at(memory, pages * Alone::<4096>::PAGE_BYTES) }.map_err(|_| fmt::Error)?;
    let mut caches = [None; CACHES.len()];
    for (id, cache) in caches.iter_mut().zip(&CACHES) {
        let settings = CacheSettings { size: cache.bytes as usize, align: cache.align as usize };
        *id = yard.create(cache.name, settings);
    }
    let tables = machine.tables();
    tables.slots.fill(Slot::Empty);
    let Tables { slots, load } = tables;
    let load = load.insert(Boot::new(seed));
    let mut tally = Tally::default();
    for request in load {
        let begun = machine.instructions();
        serve(&yard, &caches, slots, request, &mut tally);
        if let Some((before, after)) = begun.zip(machine.instructions()) {
            tally.instructions += after - before;
            tally.calls += 1;
        }
        if tally.images > tally.granted && !tally.reported && seed == 1 {
            tally.reported = true;
            let failure = yard.failure(IMAGE_BYTES).map_err(|what| wrong(machine, what))?;
            write!(machine, "{name}: {failure}")?;
        }
        if let Request::Reach(moment) = request {
            look(machine, &yard, (name, seed, moment.name()), &tally)?;
            if moment == Checkpoint::Dropped {
                yard.shrink();
            }
        }
    }
    look(machine, &yard, (name, seed, "shrunk"), &tally)?;
    let blocks = core::iter::from_fn(|| yard.pages(IMAGE_ORDER.into())).count();
    writeln!(machine, "{name} {seed} order-7-blocks {blocks} refused {}", tally.refused)?;
    // The only line that differs from machine to machine.
    if let Some(each) = tally.instructions.checked_div(tally.calls) {
        writeln!(machine, "# {name} {seed} instructions a call {each}")?;
    }
    Ok(())
}

fn wrong(machine: &mut impl Machine, what: &str) -> fmt::Error {
    let _ = writeln!(machine, "FAILED: {what}");
    fmt::Error
}

fn serve<E: FixedEngine>(
    yard: &Yard<Alone, E>,
    caches: &[Option<CacheId>],
    slots: &mut [Slot],
    request: Request,
    tally: &mut Tally,
) {
    match request {
        Request::Alloc { slot, what } => {
            let found = match what {
                ObjectType::Kmalloc(bytes) => yard.malloc(bytes as usize).map(Slot::Block),
                ObjectType::Cache(number) => caches[number as usize]
                    .and_then(|id| yard.alloc(id))
                    .map(|object| Slot::Object(number, object)),
            };
            tally.refused += u32::from(found.is_none());
            slots[slot as usize] = found.unwrap_or(Slot::Empty);
        }
        Request::Pages { slot, order } => {
            let found = yard.pages(order.into());
            if order == IMAGE_ORDER {
                tally.images += 1;
                tally.granted += u32::from(found.is_some());
            } else {
                tally.refused += u32::from(found.is_none());
            }
            slots[slot as usize] = found.map_or(Slot::Empty, Slot::Block);
        }
        Request::Free { slot } | Request::FreePages { slot } => {
            match core::mem::replace(&mut slots[slot as usize], Slot::Empty) {
                Slot::Empty => {}
                // SAFETY: what lay in the slot is live, and forgotten now.
                Slot::Block(block) => assert!(unsafe { yard.mfree(block) }, "a block"),
                Slot::Object(number, object) => {
                    let id = caches[number as usize].expect("it made the object");
                    // SAFETY: as above.
                    assert!(unsafe { yard.free(id, object) }, "an object");
                }
            }
        }
        Request::Reach(_) => {}
    }
}

fn look<E: FixedEngine>(
    machine: &mut impl Machine,
    yard: &Yard<Alone, E>,
    (name, seed, moment): (&str, u64, &str),
    tally: &Tally,
) -> fmt::Result {
    let counts = yard.verify().map_err(|what| wrong(machine, what))?;
    write!(
        machine,
        "{name} {seed} {moment}: free {} slab {} tables {} blocks",
        counts.free, counts.slab_pages, counts.meta_pages
    )?;
    yard.buddy().blocks.iter().try_for_each(|blocks| write!(machine, " {blocks}"))?;
    writeln!(machine, " granted {}/{}", tally.granted, tally.images)
}
