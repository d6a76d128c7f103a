//! Follows the slab lists of a kernel that keeps running, and checks what it reads.
//!
//! The walk takes no kernel lock. A list is accepted if its links agree in both directions and its
//! length equals the node's count. A slab is accepted if it belongs to the cache, its free objects
//! lie inside it and match its counter, and it did not change while its contents were read. Lists
//! and slabs that fail these checks are read again, a few times; after that, they are counted and
//! left out.
//!
//! [`super::layout`] supplies the fields' offsets, [`super::memory`] reads the bytes.

use super::error::{ChangedMeanwhile, ListsError};
use super::layout::Layout;
use super::memory::{ADDRESS, Memory, u32_at, u64_at};
use super::sheaves::{self, Sheaves};
use super::{CacheLists, CpuSlabLists, Lists, Objects, SlabOnList};

/// How often something that moves is read.
const READ_ATTEMPTS: u32 = 5;
/// Names are shorter.
const NAME: usize = 128;
/// What a slab's order and objects are packed into.
const ORDER_SHIFT: u32 = 16;
/// No slab is larger (`MAX_PAGE_ORDER`).
const MOST_ORDER: u32 = 10;
/// Slabs that a list may have: links that lead in a circle end there.
const MOST_SLABS: u64 = 1 << 22;

/// What bounds the search of the kernel's memory.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Bytes of a page.
    pub page_size: u64,
    /// `nr_cpu_ids`: those that may ever be there.
    pub cpus: u32,
    /// Each that may ever be there has a partial list of its own.
    pub nodes: u32,
}

/// Reads the lists of the caches whose names are `wanted`. `clock` gives nanoseconds since the trace
/// began.
///
/// # Errors
/// The memory cannot be read at all.
pub fn lists(
    memory: &mut dyn Memory,
    layout: &Layout,
    machine: Machine,
    wanted: &dyn Fn(&str) -> bool,
    clock: &dyn Fn() -> u64,
) -> Result<Lists, ListsError> {
    let mut cpu_offsets = Vec::new();
    if layout.cpu.is_some() || layout.sheaves.is_some() {
        for cpu in 0..machine.cpus {
            cpu_offsets.push(memory.cpu_offset(layout, cpu)?);
        }
    }
    let addresses = memory.caches(layout)?;
    let mut walk = Walk { memory, layout, machine, cpu_offsets, anchor: None, clock };
    let mut lists = Lists::default();
    let mut caches = Vec::new();
    for address in addresses {
        match walk.facts(address) {
            Ok(cache) => caches.push(cache),
            Err(ChangedMeanwhile) => lists.unread += 1,
        }
    }
    for cache in &caches {
        // Where a slab's memory is follows from that of another one, of whichever cache.
        if walk.anchor.is_none() {
            let _ = walk.cache(cache);
        }
    }
    for cache in caches.iter().filter(|cache| wanted(&cache.name)) {
        match walk.cache(cache) {
            Ok(cache) => lists.caches.push(cache),
            Err(ChangedMeanwhile) => lists.unread += 1,
        }
    }
    Ok(lists)
}

struct Walk<'a> {
    memory: &'a mut dyn Memory,
    layout: &'a Layout,
    machine: Machine,
    cpu_offsets: Vec<u64>,
    /// A `struct slab`, and where its memory is: all others follow, as both are arrays.
    anchor: Option<(u64, u64)>,
    clock: &'a dyn Fn() -> u64,
}

/// What is read of a cache.
#[derive(Clone)]
struct Cache {
    address: u64,
    name: String,
    size: u64,
    offset: u64,
    random: u64,
    /// Objects and order, as wanted and as little as may be.
    shapes: [(u32, u32); 2],
    /// Its variable of each CPU, on each, if it has CPU slabs.
    cpus: Vec<u64>,
    nodes: Vec<u64>,
    /// Its sheaves on each CPU, its barn on each node, and how much a sheaf holds.
    sheaves: sheaves::Places,
}

/// A `struct slab`.
#[derive(Clone, PartialEq, Eq)]
struct Head {
    address: u64,
    bytes: Vec<u8>,
}

/// What is where, before the slabs are looked at.
struct Heads {
    nodes: Vec<Vec<Head>>,
    cpus: Vec<(Option<Head>, Vec<Head>)>,
    sheaves: Sheaves,
    read_at: u64,
}

/// Whether a slab that is not what it was counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strictness {
    Strict,
    Lenient,
}

impl Walk<'_> {
    fn cache(&mut self, cache: &Cache) -> Result<CacheLists, ChangedMeanwhile> {
        let mut best = Err(ChangedMeanwhile);
        for nth in 1..=READ_ATTEMPTS {
            let strictness =
                if nth < READ_ATTEMPTS { Strictness::Strict } else { Strictness::Lenient };
            let Ok(heads) = self.heads(cache, strictness) else { continue };
            let lists = self.slabs(cache, heads, strictness)?;
            let is_whole = lists.each().all(|listed| listed.free.is_some());
            best = Ok(lists);
            if is_whole {
                break;
            }
        }
        best
    }

    fn facts(&mut self, address: u64) -> Result<Cache, ChangedMeanwhile> {
        let layout = &self.layout.cache;
        let mut bytes = vec![0; layout.bytes as usize];
        self.memory.read(address, &mut bytes)?;
        let int = |at: u32| u32_at(&bytes, at);
        let shape = |word: u32| (word & ((1 << ORDER_SHIFT) - 1), word >> ORDER_SHIFT);
        let mut nodes = Vec::new();
        for node in 0..u64::from(self.machine.nodes) {
            let at = u64::from(layout.node) + u64::from(layout.node_stride) * node;
            nodes.push(self.memory.word(address + at)?);
        }
        let sheaves = sheaves::Places::of(
            self.memory,
            self.layout,
            (address, &bytes),
            &nodes,
            &self.cpu_offsets,
        )?;
        let cache = Cache {
            address,
            name: self.name(u64_at(&bytes, layout.name))?,
            size: int(layout.size).into(),
            offset: int(layout.offset).into(),
            random: layout.random.map_or(0, |at| u64_at(&bytes, at)),
            shapes: [shape(int(layout.oo)), shape(int(layout.min))],
            cpus: layout.cpu_slab.map_or(Vec::new(), |at| self.on_each_cpu(u64_at(&bytes, at))),
            nodes,
            sheaves,
        };
        let fits = |(_, order): &(u32, u32)| *order <= MOST_ORDER;
        if cache.size == 0 || !cache.shapes.iter().all(fits) {
            Err(ChangedMeanwhile)
        } else {
            Ok(cache)
        }
    }

    /// Where a variable of each CPU is on each.
    fn on_each_cpu(&self, variable: u64) -> Vec<u64> {
        self.cpu_offsets.iter().map(|offset| variable.wrapping_add(*offset)).collect()
    }

    fn name(&mut self, address: u64) -> Result<String, ChangedMeanwhile> {
        let mut bytes = Vec::new();
        // It may lie at the end of what is mapped.
        while bytes.len() < NAME {
            let word = self.memory.word(address + bytes.len() as u64)?.to_ne_bytes();
            bytes.extend(word);
            if word.contains(&0) {
                break;
            }
        }
        let end = bytes.iter().position(|byte| *byte == 0).ok_or(ChangedMeanwhile)?;
        String::from_utf8(bytes[..end].to_vec()).map_err(|_| ChangedMeanwhile)
    }

    /// Which slabs are where, at one moment if it is strict.
    fn heads(&mut self, cache: &Cache, strictness: Strictness) -> Result<Heads, ChangedMeanwhile> {
        let before = self.ends(cache)?;
        let sheaves = self.sheaves(cache)?;
        let mut nodes = Vec::new();
        for node in &cache.nodes {
            nodes.push(if *node == 0 { Vec::new() } else { self.node_list(*node)? });
        }
        let mut cpus = Vec::new();
        for at in &cache.cpus {
            cpus.push(self.cpu(*at)?);
        }
        let is_strict = strictness == Strictness::Strict;
        if is_strict && (self.sheaves(cache)? != sheaves || self.ends(cache)? != before) {
            return Err(ChangedMeanwhile);
        }
        Ok(Heads { nodes, cpus, sheaves, read_at: (self.clock)() })
    }

    fn sheaves(&mut self, cache: &Cache) -> Result<Sheaves, ChangedMeanwhile> {
        let Some(layout) = &self.layout.sheaves else { return Ok(Sheaves::default()) };
        cache.sheaves.read(self.memory, layout)
    }

    /// The ends of all lists, which change with the lists.
    fn ends(&mut self, cache: &Cache) -> Result<Vec<u64>, ChangedMeanwhile> {
        let mut words = Vec::new();
        let (node, of_cpu) = (&self.layout.node, &self.layout.cpu);
        for at in cache.nodes.iter().filter(|at| **at != 0) {
            for field in [node.nr_partial, node.partial, node.partial + 8] {
                words.push(self.memory.word(at + u64::from(field))?);
            }
        }
        for (at, of) in cache.cpus.iter().zip(of_cpu.iter().cycle()) {
            for field in [Some(of.slab), of.partial].into_iter().flatten() {
                words.push(self.memory.word(at + u64::from(field))?);
            }
        }
        Ok(words)
    }

    fn node_list(&mut self, node: u64) -> Result<Vec<Head>, ChangedMeanwhile> {
        let (of_node, links) = (&self.layout.node, self.layout.slab.list);
        let head = node + u64::from(of_node.partial);
        let mut heads = Vec::new();
        let (mut before, mut at) = (head, self.memory.word(head)?);
        while at != head {
            let slab = self.head(at.wrapping_sub(links.into()))?;
            if u64_at(&slab.bytes, links + 8) != before || heads.len() as u64 >= MOST_SLABS {
                return Err(ChangedMeanwhile);
            }
            (before, at) = (at, u64_at(&slab.bytes, links));
            heads.push(slab);
        }
        let told = self.memory.word(node + u64::from(of_node.nr_partial))?;
        if told == heads.len() as u64 { Ok(heads) } else { Err(ChangedMeanwhile) }
    }

    fn cpu(&mut self, at: u64) -> Result<(Option<Head>, Vec<Head>), ChangedMeanwhile> {
        let Some(layout) = &self.layout.cpu else { return Ok((None, Vec::new())) };
        let own = match self.memory.word(at + u64::from(layout.slab))? {
            0 => None,
            slab => Some(self.head(slab)?),
        };
        let mut listed = Vec::new();
        if let (Some(partial), Some(next)) = (layout.partial, self.layout.slab.next) {
            let mut slab = self.memory.word(at + u64::from(partial))?;
            while slab != 0 {
                let head = self.head(slab)?;
                slab = u64_at(&head.bytes, next);
                listed.push(head);
                if listed.len() as u64 > MOST_SLABS {
                    return Err(ChangedMeanwhile);
                }
            }
        }
        Ok((own, listed))
    }

    /// Looks into the slabs.
    fn slabs(
        &mut self,
        cache: &Cache,
        heads: Heads,
        strictness: Strictness,
    ) -> Result<CacheLists, ChangedMeanwhile> {
        let (name, read_at) = (cache.name.clone(), heads.read_at);
        let Sheaves { cpus: sheaves, barns } = heads.sheaves;
        let mut lists = CacheLists { name, read_at, sheaves, barns, ..CacheLists::default() };
        for heads in heads.nodes {
            lists.nodes.push(self.each_slab(cache, heads, strictness));
        }
        for (cpu, (own, listed)) in (0..).zip(heads.cpus) {
            let slab = own.and_then(|own| self.own(cache, cpu, own).ok());
            let partial = self.each_slab(cache, listed, strictness);
            if slab.is_some() || !partial.is_empty() {
                lists.cpus.push(CpuSlabLists { cpu, slab, partial });
            }
        }
        Ok(lists)
    }

    fn each_slab(
        &mut self,
        cache: &Cache,
        heads: Vec<Head>,
        strictness: Strictness,
    ) -> Vec<SlabOnList> {
        let mut slabs = Vec::new();
        for head in heads {
            let objects = self.layout.slab.objects.get(&head.bytes) as u32;
            let base = self.base_of(cache, &head);
            let free = self.slab(cache, head, 0, strictness).map(|listed| listed.free);
            if let Ok(base) = base {
                slabs.push(SlabOnList {
                    base: base & ADDRESS,
                    objects,
                    free: free.unwrap_or_default(),
                });
            }
        }
        slabs
    }

    /// A CPU's slab, whose free objects are the CPU's for the most part.
    fn own(&mut self, cache: &Cache, cpu: u32, head: Head) -> Result<SlabOnList, ChangedMeanwhile> {
        let Some(layout) = &self.layout.cpu else { return Err(ChangedMeanwhile) };
        let at = cache.cpus[cpu as usize] + u64::from(layout.freelist);
        for _ in 0..READ_ATTEMPTS {
            let own = self.memory.word(at)?;
            let listed = self.slab(cache, head.clone(), own, Strictness::Lenient);
            if listed.is_ok() && self.memory.word(at)? == own {
                return listed;
            }
        }
        Err(ChangedMeanwhile)
    }

    fn head(&mut self, address: u64) -> Result<Head, ChangedMeanwhile> {
        let mut bytes = vec![0; self.layout.slab.bytes as usize];
        self.memory.read(address, &mut bytes)?;
        Ok(Head { address, bytes })
    }

    /// A slab, with the free objects that it has and those that begin with `own`.
    fn slab(
        &mut self,
        cache: &Cache,
        mut head: Head,
        own: u64,
        strictness: Strictness,
    ) -> Result<SlabOnList, ChangedMeanwhile> {
        for _ in 0..READ_ATTEMPTS {
            match self.slab_once(cache, &head, own) {
                Err(ChangedMeanwhile) if strictness == Strictness::Lenient => {}
                done => return done,
            }
            head = self.head(head.address)?;
        }
        Err(ChangedMeanwhile)
    }

    fn slab_once(
        &mut self,
        cache: &Cache,
        head: &Head,
        own: u64,
    ) -> Result<SlabOnList, ChangedMeanwhile> {
        let layout = &self.layout.slab;
        let bytes = &head.bytes;
        let objects = layout.objects.get(bytes) as u32;
        let in_use = layout.inuse.get(bytes) as u32;
        let freelist = u64_at(bytes, layout.freelist);
        let size = self.size_of(cache, head)?;
        let base = match [freelist, own].into_iter().find(|at| *at != 0) {
            Some(at) => self.anchored(head.address, at & !(size - 1))?,
            None => self.base(head.address)?,
        };
        let mut contents = vec![0; size as usize];
        self.memory.read(base, &mut contents)?;
        let mut free = Objects::default();
        for first in [freelist, own] {
            chain(cache, base, objects, &contents, first, &mut free)?;
        }
        // A CPU's own are in use for its slab.
        let of_slab = objects.checked_sub(in_use).ok_or(ChangedMeanwhile)?;
        let (least, most) = if own == 0 { (of_slab, of_slab) } else { (of_slab + 1, objects) };
        let same = self.head(head.address)?;
        let is_same = u64_at(&same.bytes, layout.freelist) == freelist
            && layout.inuse.get(&same.bytes) as u32 == in_use
            && u64_at(&same.bytes, layout.cache) == cache.address;
        if !is_same || !(least..=most).contains(&free.len()) {
            return Err(ChangedMeanwhile);
        }
        self.anchor.get_or_insert((head.address, base));
        Ok(SlabOnList { base: base & ADDRESS, objects, free: Some(free) })
    }

    /// The bytes of a slab of the cache.
    fn size_of(&self, cache: &Cache, head: &Head) -> Result<u64, ChangedMeanwhile> {
        let layout = &self.layout.slab;
        let objects = layout.objects.get(&head.bytes) as u32;
        let shape = cache.shapes.iter().find(|(of, _)| *of == objects).ok_or(ChangedMeanwhile)?;
        match u64_at(&head.bytes, layout.cache) == cache.address {
            true => Ok(self.machine.page_size << shape.1),
            false => Err(ChangedMeanwhile),
        }
    }

    fn base_of(&mut self, cache: &Cache, head: &Head) -> Result<u64, ChangedMeanwhile> {
        let size = self.size_of(cache, head)?;
        match u64_at(&head.bytes, self.layout.slab.freelist) {
            0 => self.base(head.address),
            at => self.anchored(head.address, at & !(size - 1)),
        }
    }

    /// A slab's memory as one of its objects shows it, if that fits what is known of others.
    fn anchored(&mut self, slab: u64, base: u64) -> Result<u64, ChangedMeanwhile> {
        match self.anchor {
            Some(_) if self.base(slab)? != base => Err(ChangedMeanwhile),
            _ => Ok(base),
        }
    }

    /// The memory that a `struct slab` describes, where another one's is known.
    fn base(&self, slab: u64) -> Result<u64, ChangedMeanwhile> {
        let (of, base) = self.anchor.ok_or(ChangedMeanwhile)?;
        let each = i64::from(self.layout.page_struct);
        let pages = slab.wrapping_sub(of) as i64 / each;
        Ok(base.wrapping_add_signed(pages * self.machine.page_size as i64))
    }
}

/// Follows the free objects from one to the next.
fn chain(
    cache: &Cache,
    base: u64,
    objects: u32,
    contents: &[u8],
    first: u64,
    free: &mut Objects,
) -> Result<(), ChangedMeanwhile> {
    let mut at = first;
    while at != 0 {
        let within = at.wrapping_sub(base);
        let nth = within / cache.size;
        if nth >= u64::from(objects) || !free.add(nth as u32) {
            return Err(ChangedMeanwhile);
        }
        let link = at.wrapping_add(cache.offset);
        let from = (within + cache.offset) as usize;
        let word: [u8; 8] = contents
            .get(from..from + 8)
            .and_then(|word| word.try_into().ok())
            .ok_or(ChangedMeanwhile)?;
        let word = u64::from_ne_bytes(word);
        at = match cache.random {
            0 => word,
            random => word ^ random ^ link.swap_bytes(),
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests;
