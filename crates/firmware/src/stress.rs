//! Random calls with an oracle: each block is written completely, and checked before it is freed;
//! when the memory runs out, the calls continue.

use crate::machine::Machine;
use core::fmt;
use core::ptr::NonNull;
use slabyard_fixed::{Alone, CacheSettings, FixedEngine, Settings, Yard};

/// A small part of the memory: it runs out soon.
const BYTES: usize = 256 << 10;
/// Blocks that may be live at once.
const MOST: usize = 1500;
/// Calls between two checks of the whole yard.
const LOOK: u32 = 10_000;

#[derive(Clone, Copy)]
struct Live {
    at: NonNull<u8>,
    bytes: u16,
    cache: u8,
    stamp: u8,
}

const CACHES: [(usize, usize); 5] = [(8, 8), (40, 8), (192, 64), (640, 8), (2600, 64)];
const BLOCK: u8 = CACHES.len() as u8;

/// Marsaglia's xorshift of 64 bits (2003).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * u64::from(end)) >> 32) as u32
    }
}

/// Runs this many calls.
///
/// # Errors
/// As [`crate::report`].
pub fn run<E: FixedEngine>(
    machine: &mut impl Machine,
    settings: Settings,
    name: &str,
    calls: u32,
) -> fmt::Result {
    let yard: Yard<Alone, E> = Yard::with(Alone::new(), settings);
    let memory = machine.memory();
    // SAFETY: the memory is for one yard at a time, and the last one has ended.
    unsafe { yard.init_at(memory, BYTES) }.map_err(|_| fmt::Error)?;
    let caches = CACHES.map(|(size, align)| yard.create("objects", CacheSettings { size, align }));
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut live = [const { None::<Live> }; MOST];
    let (mut nr, mut refused, mut grows) = (0, 0u32, true);
    for call in 0..calls {
        if nr == 0 || nr < MOST && random.below(100) < if grows { 65 } else { 35 } {
            let cache = random.below(u32::from(BLOCK) * 2).min(BLOCK.into()) as u8;
            let (at, bytes) = match CACHES.get(usize::from(cache)) {
                Some((size, _)) => {
                    (caches[usize::from(cache)].and_then(|id| yard.alloc(id)), *size)
                }
                None => {
                    let most = [64, 700, 9000][random.below(3) as usize];
                    let bytes = random.below(most) as usize;
                    (yard.malloc(bytes), bytes)
                }
            };
            match at {
                None => {
                    refused += 1;
                    grows = false;
                }
                Some(at) => {
                    let block = Live { at, bytes: bytes as u16, cache, stamp: call as u8 };
                    // SAFETY: the block is ours.
                    unsafe { at.as_ptr().write_bytes(block.stamp, bytes) };
                    live[nr] = Some(block);
                    nr += 1;
                }
            }
        } else {
            nr -= 1;
            live.swap(random.below(nr as u32 + 1) as usize, nr);
            let block = live[nr].take().ok_or(fmt::Error)?;
            // SAFETY: as above, until it is freed.
            let bytes =
                unsafe { core::slice::from_raw_parts(block.at.as_ptr(), usize::from(block.bytes)) };
            if !bytes.iter().all(|byte| *byte == block.stamp) {
                writeln!(machine, "FAILED: {name} at call {call}: a block was written to")?;
                return Err(fmt::Error);
            }
            // SAFETY: it is live, and forgotten now.
            let freed = unsafe {
                match caches.get(usize::from(block.cache)) {
                    Some(Some(id)) => yard.free(*id, block.at),
                    _ => yard.mfree(block.at),
                }
            };
            if !freed {
                writeln!(machine, "FAILED: {name} at call {call}: a live block was refused")?;
                return Err(fmt::Error);
            }
            grows |= nr < 40;
        }
        if call % LOOK == 0
            && let Err(what) = yard.verify()
        {
            writeln!(machine, "FAILED: {name} at call {call}: {what}")?;
            return Err(fmt::Error);
        }
    }
    let counts = yard.verify().map_err(|_| fmt::Error)?;
    if refused == 0 {
        writeln!(machine, "FAILED: {name}: the memory never ran out")?;
        return Err(fmt::Error);
    }
    writeln!(
        machine,
        "{name}: {calls} calls, {refused} refused, {nr} live, {} slab pages",
        counts.slab_pages
    )
}
