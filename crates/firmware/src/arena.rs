//! How much of 64 KiB a program can allocate, by engine and page size: a guide to the page size of
//! a small memory.
//!
//! Three loads fill the memory until a request fails. The first allocates blocks of seven sizes in
//! turn, as firmware does; the second, objects of one size. The third allocates the seven sizes
//! again after every second block was freed, which shows how many of the holes can be reused. The
//! result is the sum of the requested bytes.

use crate::machine::Machine;
use core::fmt;
use core::ptr::NonNull;
use slabyard_fixed::{Alone, CpuSlab, FixedEngine, Slab, Slob, Slub, Tiny, Yard};

const BYTES: usize = 64 << 10;
const SIZES: [usize; 7] = [16, 24, 40, 64, 100, 200, 500];
const MOST: usize = 2000;

fn fill<const PAGE: usize, E: FixedEngine>(
    yard: &Yard<Alone<PAGE>, E>,
    blocks: &mut [Option<(NonNull<u8>, usize)>],
    size: impl Fn(usize) -> usize,
) -> usize {
    for (nth, room) in blocks.iter_mut().enumerate() {
        if room.is_none() {
            let bytes = size(nth);
            match yard.malloc(bytes) {
                Some(block) => *room = Some((block, bytes)),
                None => break,
            }
        }
    }
    blocks.iter().flatten().map(|(_, bytes)| bytes).sum()
}

/// Bytes that each load could allocate.
fn loads<const PAGE: usize, E: FixedEngine>(memory: *mut u8) -> Result<[usize; 3], fmt::Error> {
    let begin = || {
        let yard: Yard<Alone<PAGE>, E> = Yard::new(Alone::new());
        // SAFETY: the memory is for one yard at a time, and the last one has ended.
        unsafe { yard.init_at(memory, BYTES) }.map_err(|_| fmt::Error)?;
        Ok(yard)
    };
    let mut blocks = [None; MOST];
    let one = fill(&begin()?, &mut blocks, |_| 48);
    blocks.fill(None);
    let yard = begin()?;
    let seven = fill(&yard, &mut blocks, |nth| SIZES[nth % SIZES.len()]);
    for block in blocks.iter_mut().step_by(2) {
        if let Some((block, _)) = block.take() {
            // SAFETY: it is live, and forgotten.
            unsafe { yard.mfree(block) };
        }
    }
    let again = fill(&yard, &mut blocks, |nth| SIZES[(nth / 2 + 3) % SIZES.len()]);
    yard.verify().map_err(|_| fmt::Error)?;
    Ok([one, seven, again])
}

fn line<E: FixedEngine>(machine: &mut impl Machine) -> fmt::Result {
    let memory = machine.memory();
    write!(machine, "size arena {}:", E::NAME)?;
    for [one, seven, again] in [
        loads::<256, E>(memory)?,
        loads::<512, E>(memory)?,
        loads::<1024, E>(memory)?,
        loads::<2048, E>(memory)?,
        loads::<4096, E>(memory)?,
    ] {
        write!(machine, " {one}/{seven}/{again}")?;
    }
    writeln!(machine)
}

/// Prints a line for each engine.
///
/// # Errors
/// As [`crate::report`].
pub fn report(machine: &mut impl Machine) -> fmt::Result {
    line::<Slob>(machine)?;
    line::<Tiny>(machine)?;
    line::<Slab>(machine)?;
    line::<CpuSlab>(machine)?;
    line::<Slub>(machine)
}
