//! Reads the call sites that allocated a cache's live objects, and the objects of each, if the
//! cache stores allocation tracks.
//!
//! Neighbours: `slabyard_abi::region::debugging` says where tracks are stored; [`super::walk`]
//! finds the slabs, and [`crate::symbols`] names the stack frames. Invariant: the layout that the
//! target gives for a slab is checked against the slab's size before it is used. Objects may be
//! allocated and freed during the read: each track is consistent in itself, but the tracks may come
//! from different moments.

use super::collect;
use super::front::Front;
use super::memory::{self, Fault, Memory, MemoryPart};
use super::to_snapshot::free_name;
use super::walk::{self, Shape};
use super::words::CacheWords;
use super::yards::{self, Unreadable};
use crate::traces::{Site, Traces};
use slabyard_abi::debug::DebugFlags;
use slabyard_abi::region::{CacheWord, GRANULE, Word, debugging};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Most bytes of slabs that are read at once.
const BATCH: usize = 4 << 20;
/// Slabs are of 2^10 granules at most.
const MOST_ORDER: u32 = 10;

/// Where the parts of a cache's objects are.
#[derive(Debug)]
struct ObjectLayout {
    shape: Shape,
    slab_bytes: usize,
    first: usize,
    stride: usize,
    state: usize,
}

impl ObjectLayout {
    /// As the target describes them; `None` for a cache that keeps no tracks, or if they are
    /// impossible.
    fn of(words: &CacheWords, debugging: u64) -> Option<ObjectLayout> {
        let flags = DebugFlags::of((debugging & debugging::FLAGS) as u8);
        let order = u32::try_from(words.get(CacheWord::Order)).ok()?;
        if !flags.has(DebugFlags::TRACK) || order > MOST_ORDER {
            return None;
        }
        let parts = ObjectLayout {
            shape: Shape {
                slot: words.slot()?,
                objects: u32::try_from(words.get(CacheWord::Objects)).ok()?,
                order,
            },
            slab_bytes: GRANULE << order,
            first: (debugging >> debugging::FIRST) as usize & 0xff_ffff,
            stride: usize::try_from(words.get(CacheWord::SlabSize)).ok()?,
            state: (debugging >> debugging::STATE) as usize,
        };
        let end = parts.state + debugging::STATE_BYTES + 2 * TRACK_BYTES;
        let all = (parts.shape.objects as usize).checked_mul(parts.stride)?;
        // The part in front of an object belongs to the object before, and to none at the first.
        let fits = parts.stride > 0
            && end <= parts.stride
            && parts.first.checked_add(all)? <= parts.slab_bytes + parts.stride;
        (fits && parts.shape.objects > 0).then_some(parts)
    }
}

const TRACK_BYTES: usize = debugging::TRACK_WORDS * 8;

/// The sites of a cache's live objects, without names; `None` if no cache of this name keeps tracks.
pub(crate) fn read(
    memory: &dyn Memory,
    cache: &str,
    now_ns: Option<u64>,
) -> Result<Option<Traces>, Unreadable> {
    let mut names = BTreeSet::new();
    for front in yards::fronts(memory)? {
        let seen = collect::collect(memory, &front)?;
        let mut of_yard = BTreeSet::new();
        for (number, take) in seen.takes.iter().enumerate() {
            let words = &take.words[2];
            if words.slot().is_none() {
                continue;
            }
            let name = free_name(&mut of_yard, &words.name());
            if free_name(&mut names, &name) != cache {
                continue;
            }
            let Some(debugging) = debugging_of(memory, &front, number)? else { return Ok(None) };
            let Some(parts) = ObjectLayout::of(words, debugging) else { return Ok(None) };
            let mut sites = Sites::new(now_ns);
            sites.read(memory, &front, &parts)?;
            return Ok(Some(sites.done(cache)));
        }
    }
    Ok(None)
}

/// The word of a cache's debugging; `None` where no cache has any.
fn debugging_of(memory: &dyn Memory, front: &Front, number: usize) -> Result<Option<u64>, Fault> {
    let offset = front.word(Word::Debugging);
    if offset == 0 || offset >= front.cache_stride as u64 {
        return Ok(None);
    }
    let at = front.caches(memory)?.address(number * front.cache_stride) + offset;
    let bytes = memory::read(memory, &[MemoryPart { address: at, bytes: 8 }])?;
    Ok(memory::words(&bytes).next())
}

/// Return addresses, the innermost first.
type Stack = Vec<u64>;

/// What is known of the sites so far.
struct Sites {
    now_ns: Option<u64>,
    allocs: HashMap<Stack, Site>,
    frees: HashMap<Stack, Site>,
    objects: u64,
    held: BTreeMap<u32, u64>,
}

impl Sites {
    fn new(now_ns: Option<u64>) -> Sites {
        Sites {
            now_ns,
            allocs: HashMap::new(),
            frees: HashMap::new(),
            objects: 0,
            held: BTreeMap::new(),
        }
    }

    fn read(
        &mut self,
        memory: &dyn Memory,
        front: &Front,
        parts: &ObjectLayout,
    ) -> Result<(), Fault> {
        let at = front.word(Word::TopAt);
        let top = memory::read(memory, &[MemoryPart { address: at, bytes: 8 }])?;
        let top = memory::words(&top).next().unwrap_or(0);
        let mut slabs = Vec::new();
        let shapes = [parts.shape];
        walk::each(memory, front, top, &shapes, &mut |granule, _, _| slabs.push(granule))?;
        let address = |granule: u64| front.region + granule * GRANULE as u64;
        for some in slabs.chunks((BATCH / parts.slab_bytes).max(1)) {
            let part =
                |granule: &u64| MemoryPart { address: address(*granule), bytes: parts.slab_bytes };
            let pieces: Vec<MemoryPart> = some.iter().map(part).collect();
            match memory::read(memory, &pieces) {
                Ok(bytes) => bytes.chunks(parts.slab_bytes).for_each(|it| self.slab(parts, it)),
                // A slab may end meanwhile: then each by itself.
                Err(Fault::Absent(_)) => {
                    for piece in pieces {
                        match memory::read(memory, &[piece]) {
                            Ok(bytes) => self.slab(parts, &bytes),
                            Err(Fault::Absent(_)) => {}
                            Err(why) => return Err(why),
                        }
                    }
                }
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// Adds the live objects of a slab.
    fn slab(&mut self, parts: &ObjectLayout, slab: &[u8]) {
        let mut stacks: BTreeMap<Stack, u64> = BTreeMap::new();
        let mut live = 0;
        for nth in 0..parts.shape.objects as usize {
            let begin = parts.first + nth * parts.stride + parts.state;
            let Some(words) = slab.get(begin..begin + debugging::STATE_BYTES + 2 * TRACK_BYTES)
            else {
                break;
            };
            let words: Vec<u64> = memory::words(words).collect();
            if (words[0] >> debugging::WHAT) as u8 != debugging::LIVE {
                continue;
            }
            live += 1;
            let track = |nth| track(&words[1 + nth * debugging::TRACK_WORDS..]);
            let (alloc, free) = (track(0), track(1));
            *stacks.entry(stack(&alloc)).or_default() += 1;
            add(&mut self.allocs, &alloc, self.now_ns);
            add(&mut self.frees, &free, self.now_ns);
        }
        self.objects += u64::from(live);
        *self.held.entry(live).or_default() += 1;
        let alone = u64::from(stacks.len() == 1);
        for stack in stacks.into_keys() {
            if let Some(site) = self.allocs.get_mut(&stack) {
                site.slabs += 1;
                site.slabs_alone += alone;
            }
        }
    }

    fn done(self, cache: &str) -> Traces {
        let sorted = |sites: HashMap<Stack, Site>| {
            let mut sites: Vec<Site> = sites.into_values().collect();
            sites.sort_by(|a, b| b.objects.cmp(&a.objects).then_with(|| a.stack.cmp(&b.stack)));
            sites
        };
        Traces {
            cache: cache.to_owned(),
            objects: self.objects,
            slabs_by_live: self.held.into_iter().collect(),
            alloc: sorted(self.allocs),
            free: sorted(self.frees),
        }
    }
}

/// A track as it was written, without its check; of one that the program wrote over, or that is
/// written just now, as if there were none.
fn track(words: &[u64]) -> [u64; debugging::TRACK_WORDS] {
    let mut track: [u64; debugging::TRACK_WORDS] = std::array::from_fn(|nth| words[nth]);
    if !debugging::is_whole(&track) {
        return [0; debugging::TRACK_WORDS];
    }
    track[debugging::BYTES] &= (1 << debugging::BYTES_BITS) - 1;
    track
}

fn stack(track: &[u64]) -> Stack {
    if track[debugging::TIME] == 0 {
        return Stack::new();
    }
    track[..debugging::FRAMES].iter().copied().take_while(|address| *address != 0).collect()
}

/// Adds one track to its site.
fn add(sites: &mut HashMap<Stack, Site>, track: &[u64], now_ns: Option<u64>) {
    let stack = stack(track);
    let site = sites.entry(stack).or_insert_with_key(|stack| Site::at(stack));
    site.objects += 1;
    // Without a track nobody did it, or before tracks were kept.
    if track[debugging::TIME] == 0 {
        return;
    }
    site.bytes = site.bytes.saturating_add(track[debugging::BYTES]);
    let (thread, row) = (track[debugging::WHO] as u32, (track[debugging::WHO] >> 32) as u32);
    site.ran(thread, (row != u32::MAX).then_some(row));
    if let Some(now_ns) = now_ns {
        site.aged(now_ns.saturating_sub(track[debugging::TIME]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::planted::{CACHES, PlantedTarget, REGION, STRIDE};

    /// Where a cache's word of debugging is, and what it says.
    const OFFSET: u64 = 240;
    const STATE_AT: u64 = 64;
    const OBJECT: u64 = 336;
    const OBJECTS: u64 = 97;
    const FLAGS: u64 = DebugFlags::TRACK.bits() as u64;

    /// The yard of `planted`, whose cache "known" keeps tracks in its two slabs.
    fn tracked() -> PlantedTarget {
        let planted = PlantedTarget::yard();
        planted.cache(CacheWord::SlabSize, OBJECT);
        planted.cache(CacheWord::Objects, OBJECTS);
        planted.word(Word::Debugging, OFFSET);
        planted.put(CACHES + STRIDE + OFFSET, FLAGS | STATE_AT << debugging::STATE);
        planted.room(REGION + GRANULE as u64, 16 * GRANULE);
        planted
    }

    /// A live object of a slab, allocated and freed before by these stacks.
    fn live(planted: &PlantedTarget, granule: u64, nth: u64, stacks: [&[u64]; 2], time_ns: u64) {
        let state = REGION + granule * GRANULE as u64 + nth * OBJECT + STATE_AT;
        planted.put(state, u64::from(debugging::LIVE) << debugging::WHAT | 60);
        for (which, stack) in stacks.into_iter().enumerate() {
            let track = state + 8 + (which * TRACK_BYTES) as u64;
            for (nth, frame) in stack.iter().enumerate() {
                planted.put(track + nth as u64 * 8, *frame);
            }
            let word = |nth: usize| track + nth as u64 * 8;
            if !stack.is_empty() {
                planted.put(word(debugging::WHO), 3 << 32 | 77);
                planted.put(word(debugging::TIME), time_ns);
                let mut words: [u64; debugging::TRACK_WORDS] =
                    std::array::from_fn(|nth| planted.get(word(nth)));
                words[debugging::BYTES] = 60;
                let check = debugging::check(&words) << debugging::BYTES_BITS;
                planted.put(word(debugging::BYTES), 60 | check);
            }
        }
    }

    fn told(planted: &PlantedTarget) -> Traces {
        read(planted, "known", Some(1000)).expect("a yard").expect("it keeps tracks")
    }

    #[test]
    fn each_live_object_is_of_one_site_and_each_slab_is_counted_once_a_site() {
        let planted = tracked();
        assert_eq!(told(&planted).slabs_by_live, [(0, 2)]);
        let (here, there) = ([0x10, 0x20], [0x10, 0x30]);
        live(&planted, 1, 0, [&here, &[]], 400);
        live(&planted, 1, 1, [&here, &there], 600);
        live(&planted, 9, OBJECTS - 1, [&here, &[]], 900);
        live(&planted, 9, 5, [&there, &[]], 900);
        let Traces { objects, slabs_by_live, alloc, free, .. } = told(&planted);
        assert_eq!((objects, slabs_by_live), (4, vec![(2, 2)]));
        let site = Site {
            objects: 3,
            bytes: 180,
            slabs: 2,
            slabs_alone: 1,
            age: Some((100, 600 + 400 + 100, 600)),
            age_jiffies: None,
            threads: Some((77, 77)),
            cpus: Some((3, 3)),
            stack: here.to_vec(),
            frames: Vec::new(),
        };
        assert_eq!(alloc[0], site);
        assert_eq!((alloc[1].objects, alloc[1].slabs, alloc[1].slabs_alone), (1, 1, 0));
        let free: Vec<_> = free.iter().map(|it| (it.objects, it.stack.as_slice())).collect();
        assert_eq!(free, [(3, &[][..]), (1, &there[..])]);
    }

    #[test]
    fn a_track_that_was_written_over_is_no_stack() {
        let planted = tracked();
        live(&planted, 1, 0, [&[0x10, 0x20], &[]], 400);
        live(&planted, 1, 1, [&[0x10, 0x20], &[]], 400);
        let track = REGION + GRANULE as u64 + OBJECT + STATE_AT + 8;
        for (words, left) in [(1, 1), (9, 1), (debugging::TRACK_WORDS as u64, 1)] {
            (0..words).for_each(|nth| planted.put(track + nth * 8, 0x4141_4141_4141_4141));
            let alloc = told(&planted).alloc;
            let stacks: Vec<_> = alloc.iter().map(|it| (it.objects, it.stack.as_slice())).collect();
            assert_eq!(stacks, [(1, &[][..]), (left, &[0x10, 0x20][..])], "{words}");
        }
    }

    #[test]
    fn parts_that_cannot_be_are_not_read() {
        let none =
            |planted: &PlantedTarget| read(planted, "known", None).expect("a yard").is_none();
        let at = CACHES + STRIDE + OFFSET;
        let planted = tracked();
        assert!(!none(&planted) && read(&planted, "other", None).expect("a yard").is_none());
        for word in [
            0,
            FLAGS,
            STATE_AT << debugging::STATE,
            FLAGS | OBJECT << debugging::STATE,
            FLAGS | 0xff_ffff << debugging::FIRST | STATE_AT << debugging::STATE,
            u64::MAX,
        ] {
            planted.put(at, word);
            // Without a place for tracks: `FLAGS` alone has them at the begin of the object.
            assert_eq!(none(&planted), word != FLAGS, "{word:#x}");
        }
        for (word, value) in [
            (CacheWord::Order, 40),
            (CacheWord::Objects, 1 << 31),
            (CacheWord::Objects, 0),
            (CacheWord::SlabSize, u64::MAX),
            (CacheWord::SlabSize, 0),
        ] {
            let planted = tracked();
            planted.cache(word, value);
            assert!(none(&planted), "{word:?} of {value}");
        }
        let planted = tracked();
        planted.word(Word::Debugging, STRIDE);
        assert!(none(&planted));
    }
}
