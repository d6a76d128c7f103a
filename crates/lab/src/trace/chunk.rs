//! A chunk's header, and its events as columns.
//!
//! The fields of an event are correlated: requests to one cache mostly have the same size and
//! flags. Such a combination is a *shape*, listed once per chunk; an event consists of a shape, a
//! CPU, a process, a time and an address. A chunk can be decoded without any other: it contains the
//! names that it uses.

use super::format::{
    ATTACHED_MAGIC, Bytes, CHUNK_HEADER, CHUNK_MAGIC, MOST_BYTES, MOST_EVENTS, fold, put,
    put_bytes, unfold, word32, word64,
};
use super::names::{NO_NAME, Names};
use crate::event::{Event, EventKind};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// What a chunk, or an attachment, says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkHeader {
    /// No events: something else of the trace.
    pub attached: bool,
    /// Bytes of the compressed body.
    pub body: u32,
    /// Bytes of the body unfolded.
    pub unfolded: u32,
    pub events: u32,
    /// Checksum of the compressed body.
    pub checksum: u32,
    /// Events before it in the file.
    pub first: u64,
    /// Events that the recorder lost before or among these.
    pub lost: u64,
    /// Earliest and latest time in it; 0 and 0 without events.
    pub times: (u64, u64),
}

impl ChunkHeader {
    /// Its bytes.
    pub fn put(&self) -> [u8; CHUNK_HEADER] {
        let mut out = [0; CHUNK_HEADER];
        out[..4].copy_from_slice(if self.attached { &ATTACHED_MAGIC } else { &CHUNK_MAGIC });
        for (at, word) in [(4, self.body), (8, self.unfolded), (12, self.events)] {
            out[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        let words = [(16, self.first), (24, self.lost), (32, self.times.0), (40, self.times.1)];
        for (at, word) in words {
            out[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        out[48..52].copy_from_slice(&self.checksum.to_le_bytes());
        let own = crc32fast::hash(&out[..52]);
        out[52..].copy_from_slice(&own.to_le_bytes());
        out
    }

    /// Back from its bytes; None if they are not a chunk's header.
    pub fn get(bytes: &[u8]) -> Option<ChunkHeader> {
        let bytes = bytes.get(..CHUNK_HEADER)?;
        let attached = bytes[..4] == ATTACHED_MAGIC;
        let known = attached || bytes[..4] == CHUNK_MAGIC;
        if !known || crc32fast::hash(&bytes[..52]) != word32(bytes, 52) {
            return None;
        }
        let header = ChunkHeader {
            attached,
            body: word32(bytes, 4),
            unfolded: word32(bytes, 8),
            events: word32(bytes, 12),
            checksum: word32(bytes, 48),
            first: word64(bytes, 16),
            lost: word64(bytes, 24),
            times: (word64(bytes, 32), word64(bytes, 40)),
        };
        (header.unfolded <= MOST_BYTES && header.events <= MOST_EVENTS).then_some(header)
    }
}

/// Bits of a shape's first byte, beside the kind.
const ACCOUNTED: u8 = 0x80;
const HAS_SITE: u8 = 0x40;

/// All of an event but its CPU, process, time and address.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shape {
    name: u32,
    site: u32,
    requested: u32,
    allocated: u32,
    gfp: u32,
    node: i16,
    order: u8,
    kind: EventKind,
    accounted: bool,
}

impl Hash for Shape {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from(self.name) << 32 | u64::from(self.requested));
        state.write_u64(self.site.into());
        state.write_u64(u64::from(self.gfp) << 32 | u64::from(self.allocated));
        let rest = [self.node as u16, self.order.into(), self.kind as u16, self.accounted.into()];
        state.write_u64(rest.iter().fold(0, |word, part| word << 16 | u64::from(*part)));
    }
}

impl Shape {
    fn of(event: &Event) -> Shape {
        let Event { name, site, requested, allocated, gfp, node, order, kind, accounted, .. } =
            *event;
        Shape { name, site, requested, allocated, gfp, node, order, kind, accounted }
    }

    fn put(&self, out: &mut Vec<u8>) {
        let has_site = self.site != NO_NAME;
        let accounted = if self.accounted { ACCOUNTED } else { 0 };
        out.push(self.kind as u8 | accounted | if has_site { HAS_SITE } else { 0 });
        for value in [self.name, self.requested, self.allocated, self.gfp] {
            put(out, value.into());
        }
        put(out, fold(self.node.into()));
        out.push(self.order);
        if has_site {
            put(out, self.site.into());
        }
    }

    fn get(bytes: &mut Bytes) -> Option<Shape> {
        let first = bytes.take(1)?[0];
        let kind = match first & !(ACCOUNTED | HAS_SITE) {
            0 => EventKind::CacheAlloc,
            1 => EventKind::CacheFree,
            2 => EventKind::Kmalloc,
            3 => EventKind::Kfree,
            4 => EventKind::PageAlloc,
            5 => EventKind::PageFree,
            6 => EventKind::KfreeRcu,
            7 => EventKind::PrefillSheaf,
            8 => EventKind::ReturnSheaf,
            9 => EventKind::AllocBulk,
            10 => EventKind::FreeBulk,
            _ => return None,
        };
        Some(Shape {
            kind,
            accounted: first & ACCOUNTED != 0,
            name: bytes.get_as()?,
            requested: bytes.get_as()?,
            allocated: bytes.get_as()?,
            gfp: bytes.get_as()?,
            node: i16::try_from(unfold(bytes.get()?)).ok()?,
            order: bytes.take(1)?[0],
            site: if first & HAS_SITE != 0 { bytes.get_as()? } else { NO_NAME },
        })
    }

    /// Addresses of the same cache or call site are near each other: the one
    /// before is looked up by the name.
    fn near(&self) -> u32 {
        self.name
    }
}

/// The body of a chunk, not yet compressed. `named` are the names to be listed,
/// in rising order: those that the events use, and new ones.
pub fn encode(events: &[Event], names: &Names, named: &[u32]) -> Vec<u8> {
    let mut out = Vec::with_capacity(events.len() * 8);
    let mut column = Vec::with_capacity(events.len() * 5);
    put(&mut column, named.len() as u64);
    for &name in named {
        put(&mut column, name.into());
        put_bytes(&mut column, names.get(name).as_bytes());
    }
    put_bytes(&mut out, &column);

    let (shapes, ids) = shapes(events);
    column.clear();
    put(&mut column, shapes.len() as u64);
    shapes.iter().for_each(|shape| shape.put(&mut column));
    put_bytes(&mut out, &column);
    column.clear();
    ids.iter().for_each(|&id| put(&mut column, id.into()));
    put_bytes(&mut out, &column);

    column.clear();
    events.iter().for_each(|e| put(&mut column, e.cpu.into()));
    put_bytes(&mut out, &column);
    column.clear();
    let cpus = events.iter().map(|event| usize::from(event.cpu) + 1).max().unwrap_or(0);
    let mut last = vec![0; cpus];
    for event in events {
        let last = &mut last[usize::from(event.cpu)];
        put(&mut column, fold(i64::from(event.pid) - i64::from(*last)));
        *last = event.pid;
    }
    put_bytes(&mut out, &column);

    column.clear();
    encode_times(events, &mut column);
    put_bytes(&mut out, &column);

    column.clear();
    let mut first = HashMap::new();
    let near = shapes.iter().zip(0..).map(|(shape, nth)| *first.entry(shape.near()).or_insert(nth));
    let near: Vec<usize> = near.collect();
    let mut last = vec![0; shapes.len()];
    for (event, &id) in events.iter().zip(&ids) {
        let last = &mut last[near[id as usize]];
        put(&mut column, fold(event.address.wrapping_sub(*last) as i64));
        *last = event.address;
    }
    put_bytes(&mut out, &column);
    out
}

/// A hash of shapes, whose numbers are small: an event is looked up by it. Traces that make it
/// bad make it slow, and nothing else.
#[derive(Default)]
struct ShapeHasher(u64);

impl ShapeHasher {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for ShapeHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.add(u64::from(*byte)));
    }

    fn write_u64(&mut self, word: u64) {
        self.add(word);
    }

    fn finish(&self) -> u64 {
        // The table takes its buckets from the low bits, which know the least.
        self.0 ^ self.0 >> 32
    }
}

/// The shapes, most used first so that their numbers are short, and each
/// event's.
fn shapes(events: &[Event]) -> (Vec<Shape>, Vec<u32>) {
    let mut index = HashMap::with_hasher(BuildHasherDefault::<ShapeHasher>::default());
    let mut counted: Vec<(Shape, u32)> = Vec::new();
    let mut ids = Vec::with_capacity(events.len());
    for event in events {
        let shape = Shape::of(event);
        let id = *index.entry(shape).or_insert_with(|| {
            counted.push((shape, 0));
            counted.len() as u32 - 1
        });
        counted[id as usize].1 += 1;
        ids.push(id);
    }
    let mut order: Vec<u32> = (0..counted.len() as u32).collect();
    order.sort_by_key(|&id| std::cmp::Reverse(counted[id as usize].1));
    let mut place = vec![0; order.len()];
    for (at, &id) in order.iter().enumerate() {
        place[id as usize] = at as u32;
    }
    ids.iter_mut().for_each(|id| *id = place[*id as usize]);
    (order.iter().map(|&id| counted[id as usize].0).collect(), ids)
}

/// Times as steps, in the largest unit that divides them all: a recorder whose
/// clock has tenths of a microsecond pays for no nanoseconds.
fn encode_times(events: &[Event], column: &mut Vec<u8>) {
    let mut last = 0;
    let mut unit = 0;
    let mut steps = Vec::with_capacity(events.len());
    for event in events {
        let step = event.time.wrapping_sub(last) as i64;
        last = event.time;
        if unit != 1 {
            unit = divisor(unit, step.unsigned_abs());
        }
        steps.push(step);
    }
    let unit = i64::try_from(unit).unwrap_or(1).max(1);
    put(column, unit as u64);
    match unit {
        1 => steps.iter().for_each(|&step| put(column, fold(step))),
        _ => steps.iter().for_each(|&step| put(column, fold(step / unit))),
    }
}

fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Reads a body: places its names, and gives its events to `events`. What is
/// wrong, if it makes no sense; events may then be partly there.
pub fn decode(
    body: &[u8],
    count: u32,
    names: &mut Names,
    events: &mut Vec<Event>,
) -> Result<(), &'static str> {
    let mut body = Bytes(body);
    let mut column = || body.take_bytes().map(Bytes).ok_or("a column is cut off");
    place_names(&mut column()?, names)?;
    let (shapes, near) = read_shapes(&mut column()?, names)?;
    let (mut ids, mut cpus, mut pids) = (column()?, column()?, column()?);
    let (mut times, mut addresses) = (column()?, column()?);
    if !body.0.is_empty() {
        return Err("there is more than its columns");
    }

    let unit = times.get().ok_or("no unit of time")? as i64;
    let mut time = 0u64;
    let mut address_before = vec![0u64; shapes.len()];
    let mut pid_before: Vec<u32> = Vec::new();
    events.reserve(count as usize);
    for _ in 0..count {
        let id: usize = ids.get_as().ok_or("a shape is cut off")?;
        let shape = shapes.get(id).ok_or("a shape is not listed")?;
        let cpu: u16 = cpus.get_as().ok_or("no such CPU")?;
        if pid_before.len() <= cpu.into() {
            pid_before.resize(usize::from(cpu) + 1, 0);
        }
        let pid = &mut pid_before[usize::from(cpu)];
        let step = unfold(pids.get().ok_or("a process is cut off")?);
        *pid = u32::try_from(i64::from(*pid).wrapping_add(step)).map_err(|_| "no such process")?;
        let step = unfold(times.get().ok_or("a time is cut off")?);
        time = time.wrapping_add(step.wrapping_mul(unit) as u64);
        let address = &mut address_before[near[id]];
        let step = unfold(addresses.get().ok_or("an address is cut off")?);
        *address = address.wrapping_add(step as u64);
        let (pid, address) = (*pid, *address);
        let Shape { name, site, requested, allocated, gfp, node, order, kind, accounted } = *shape;
        events.push(Event {
            time,
            address,
            name,
            site,
            pid,
            requested,
            allocated,
            gfp,
            cpu,
            node,
            order,
            kind,
            accounted,
        });
    }
    let rest = [ids, cpus, pids, times, addresses];
    if rest.iter().any(|column| !column.0.is_empty()) {
        return Err("a column is longer than the events");
    }
    Ok(())
}

fn place_names(column: &mut Bytes, names: &mut Names) -> Result<(), &'static str> {
    const WRONG: &str = "its names are wrong";
    let count = column.get().ok_or(WRONG)?;
    for _ in 0..count {
        let index = column.get_as().ok_or(WRONG)?;
        let name = column.take_bytes().ok_or(WRONG)?;
        let name = std::str::from_utf8(name).map_err(|_| "a name is not UTF-8")?;
        if !names.place(index, name) {
            return Err("a name is not that of other chunks");
        }
    }
    column.0.is_empty().then_some(()).ok_or(WRONG)
}

/// The shapes, and for each the number of the first with the same
/// [`Shape::near`].
fn read_shapes(
    column: &mut Bytes,
    names: &Names,
) -> Result<(Vec<Shape>, Vec<usize>), &'static str> {
    const WRONG: &str = "its shapes are wrong";
    let count = column.get().ok_or(WRONG)?;
    let mut shapes = Vec::new();
    let mut near = Vec::new();
    let mut first = HashMap::new();
    for nth in 0..count as usize {
        let shape = Shape::get(column).ok_or(WRONG)?;
        let lacks = |name| name != NO_NAME && names.get(name).is_empty();
        if lacks(shape.name) || lacks(shape.site) {
            return Err("an event's name is not listed");
        }
        near.push(*first.entry(shape.near()).or_insert(nth));
        shapes.push(shape);
    }
    column.0.is_empty().then_some((shapes, near)).ok_or(WRONG)
}
