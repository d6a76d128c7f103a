//! The memory that an empty yard and a cache take, by engine: the numbers for one word size.

use core::fmt::{self, Write};
use slabyard_fixed::{Alone, CpuSlab, ENTRY_BYTES, FixedEngine, Slab, Slob, Slub, Tiny, Yard};

/// Bytes of an empty yard on `memory` bytes in pages of `page` bytes.
const fn fixed<E: FixedEngine>(memory: usize, page: usize) -> usize {
    size_of::<Yard<Alone, E>>() + memory / page * ENTRY_BYTES
}

fn line<E: FixedEngine>(out: &mut impl Write) -> fmt::Result {
    let yard: Yard<Alone, E> = Yard::new(Alone::new());
    writeln!(
        out,
        "size {}: {} {} {} {} {}",
        E::NAME,
        size_of::<Yard<Alone, E>>(),
        fixed::<E>(8 << 20, 4096),
        fixed::<E>(64 << 10, 512),
        yard.cache_bytes(),
        E::cpu_bytes(1)
    )
}

/// Prints a line for each engine.
///
/// # Errors
/// The machine cannot print.
pub fn report(out: &mut impl Write) -> fmt::Result {
    line::<Slob>(out)?;
    line::<Tiny>(out)?;
    line::<Slab>(out)?;
    line::<CpuSlab>(out)?;
    line::<Slub>(out)
}
