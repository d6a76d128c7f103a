//! Formats, inside the process, the text that `slabyard list PID --json` would print, with those
//! keys whose values can be read without stopping a thread.
//!
//! Neighbours: [`crate::stats`] calls this module; `slabyard_observe::view::json` defines the full
//! format, and a test compares each value with its output.

use crate::aliases;
use crate::names::Name;
use crate::state::YARD;
use core::ffi::c_int;
use core::fmt::{self, Display, Write};
use slabyard::cache::CacheId;
use slabyard::cache::classes::CLASSES;
use slabyard::observe::count;
use slabyard_process::sample::{Sample, Span, sample};
use slabyard_process::state::{mode_number, ready};

/// Takes a piece of text; anything but 0 stops.
pub(crate) type Take<'a> = &'a mut dyn FnMut(&[u8]) -> c_int;

const PIECE: usize = 256;

/// Text on its way, in pieces.
struct Pieces<'a> {
    take: Take<'a>,
    piece: [u8; PIECE],
    len: usize,
    /// What the taker said that stopped it.
    stopped: c_int,
}

impl Pieces<'_> {
    fn flush(&mut self) -> fmt::Result {
        if self.stopped == 0 && self.len > 0 {
            self.stopped = (self.take)(&self.piece[..self.len]);
        }
        self.len = 0;
        if self.stopped == 0 { Ok(()) } else { Err(fmt::Error) }
    }
}

impl Write for Pieces<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            if self.len == PIECE {
                self.flush()?;
            }
            let (now, later) = rest.split_at(rest.len().min(PIECE - self.len));
            self.piece[self.len..][..now.len()].copy_from_slice(now);
            self.len += now.len();
            rest = later;
        }
        Ok(())
    }
}

/// Writes all; returns what stopped it, or 0.
pub(crate) fn write(take: Take<'_>) -> c_int {
    let mut out = Pieces { take, piece: [0; PIECE], len: 0, stopped: 0 };
    // What fails is the taker, which said why.
    let _ = list(&mut out).and_then(|()| out.flush());
    out.stopped
}

fn list(out: &mut Pieces<'_>) -> fmt::Result {
    unsafe extern "C" {
        safe fn getpid() -> c_int;
    }
    let pid = getpid();
    write!(out, "{{\n  \"source\": {{\n    \"kind\": \"process\",\n    \"pid\": {pid}\n  }},\n")?;
    write!(out, "  \"taken_at\": \"{}\",\n  \"caches\": [", UtcNow::read())?;
    let mut sums = Sums::default();
    let mut comma = "";
    let there = ready();
    for number in YARD.caches().numbers().filter(|_| there) {
        let Some(id) = YARD.caches().id_of(number) else { continue };
        let sample = sample(&YARD, number);
        let Some(sample) = &sample else { continue };
        write!(out, "{comma}\n    ")?;
        cache(out, id, sample)?;
        sums.add(sample);
        comma = ",";
    }
    out.write_str("\n  ],\n  \"totals\": ")?;
    totals(out, &sums)?;
    out.write_str("\n}\n")
}

/// Keys and values of an object, indented as the command does.
struct Object<'o, 'a> {
    out: &'o mut Pieces<'a>,
    indent: &'static str,
    nr: usize,
}

impl<'o, 'a> Object<'o, 'a> {
    fn begin(out: &'o mut Pieces<'a>, indent: &'static str) -> Result<Self, fmt::Error> {
        out.write_str("{")?;
        Ok(Object { out, indent, nr: 0 })
    }

    #[inline(never)]
    fn key(&mut self, key: &str, value: impl Display) -> fmt::Result {
        let comma = if self.nr == 0 { "" } else { "," };
        self.nr += 1;
        write!(self.out, "{comma}\n{}  \"{key}\": {value}", self.indent)
    }

    fn end(self) -> fmt::Result {
        write!(self.out, "\n{}}}", self.indent)
    }
}

/// A number, or both of its bounds.
struct SpanJson(Span);

impl Display for SpanJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Span { low, high } if low == high => write!(f, "{low}"),
            Span { low, high } => write!(f, "[{low}, {high}]"),
        }
    }
}

/// A text between quotes.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            if matches!(c, '"' | '\\') {
                f.write_char('\\')?;
            }
            f.write_char(c)?;
        }
        f.write_char('"')
    }
}

/// The text up to the first 0.
fn text(bytes: &[u8]) -> &str {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    core::str::from_utf8(&bytes[..end]).unwrap_or("?")
}

// Apart from the loop: programs with small stacks ask.
#[inline(never)]
fn cache(out: &mut Pieces<'_>, id: CacheId, sample: &Sample) -> fmt::Result {
    let mut object = Object::begin(out, "    ")?;
    if id.number() < CLASSES {
        object.key("name", format_args!("\"{}\"", Name(id.number())))?;
    } else {
        object.key("name", Quoted(text(&sample.name)))?;
    }
    object.key("aliases", "[")?;
    let mut comma = "";
    aliases::each(id, &mut |name| {
        let result = write!(object.out, "{comma}\n        {}", Quoted(text(name)));
        comma = ",";
        result
    })?;
    object.out.write_str(if comma.is_empty() { "]" } else { "\n      ]" })?;
    let Sample { live, out, slabs, partial, parked_cpu, parked_node, .. } = *sample;
    let mut key = |key: &str, span| object.key(key, SpanJson(span));
    key("live", live)?;
    key("parked", parked_cpu.plus(parked_node))?;
    key("objects", out)?;
    key("total_objects", sample.total_objects)?;
    key("slabs", slabs)?;
    key("partial", partial)?;
    key("full", slabs.minus(partial))?;
    key("order", Span::exact(sample.order))?;
    key("objs_per_slab", Span::exact(sample.objs_per_slab))?;
    key("object_size", Span::exact(sample.object_size))?;
    key("slab_size", Span::exact(sample.slab_size))?;
    key("bytes", slabs.times(sample.bytes_of_slab))?;
    key("live_bytes", live.times(sample.slab_size))?;
    key("parked_cpu", parked_cpu)?;
    key("parked_node", parked_node)?;
    key("in_transit", sample.in_transit)?;
    key("free_partial", sample.free_partial)?;
    key("slow_paths", Span::exact(sample.slow_paths))?;
    if sample.has_arrays {
        object.key("limit", sample.sheaf_capacity)?;
    } else {
        object.key("sheaf_capacity", sample.sheaf_capacity)?;
        object.key("min_partial", sample.min_partial)?;
    }
    object.end()
}

/// Bytes of all caches together.
#[derive(Default)]
struct Sums {
    live: Span,
    parked_cpu: Span,
    parked_node: Span,
    free_partial: Span,
    padding: Span,
}

impl Sums {
    fn add(&mut self, sample: &Sample) {
        let add = |sum: &mut Span, objects: Span| *sum = sum.plus(objects.times(sample.slab_size));
        add(&mut self.live, sample.live);
        add(&mut self.parked_cpu, sample.parked_cpu);
        add(&mut self.parked_node, sample.parked_node);
        add(&mut self.free_partial, sample.free_partial);
        let used = sample.objs_per_slab.saturating_mul(sample.slab_size);
        let padding = sample.bytes_of_slab.saturating_sub(used);
        self.padding = self.padding.plus(sample.slabs.times(padding));
    }
}

#[inline(never)]
fn totals(out: &mut Pieces<'_>, sums: &Sums) -> fmt::Result {
    let mut object = Object::begin(out, "  ")?;
    let spans = [
        ("live", sums.live),
        ("parked_cpu", sums.parked_cpu),
        ("parked_node", sums.parked_node),
        ("free_partial", sums.free_partial),
        ("padding", sums.padding),
    ];
    spans.into_iter().try_for_each(|(key, span)| object.key(key, SpanJson(span)))?;
    if ready() {
        let (runs, mapped) = (YARD.heap.buddy.runs(), YARD.heap.mappings.live());
        object.key("mapped", mapped.1)?;
        object.key("nr_runs", runs.0)?;
        object.key("nr_mapped", mapped.0)?;
        object.key("set_aside", count::set_aside(&YARD.heap))?;
        object.key("mode", mode_number(YARD.platform().mode()))?;
        object.key("engine", format_args!("\"{}\"", YARD.engine().row().name))?;
    }
    object.end()
}

/// A time as RFC 3339 has it, in UTC.
struct UtcNow {
    seconds: i64,
    ms: i64,
}

impl UtcNow {
    fn read() -> UtcNow {
        unsafe extern "C" {
            fn clock_gettime(clock: c_int, time: *mut [i64; 2]) -> c_int;
        }
        const REALTIME: c_int = 0;
        let mut time = [0; 2];
        // SAFETY: a `struct timespec` of 64-bit machines is two numbers of 64 bits.
        unsafe { clock_gettime(REALTIME, &raw mut time) };
        UtcNow { seconds: time[0].max(0), ms: time[1] / 1_000_000 }
    }
}

impl Display for UtcNow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.seconds / 86_400, self.seconds % 86_400);
        // Years begin in March here, so that a leap day is the last of its year.
        let days = days + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let (of_month, late) = (day - (153 * month + 2) / 5 + 1, i64::from(month >= 10));
        let (year, month) = (era * 400 + year + late, month + 3 - 12 * late);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let ms = self.ms;
        write!(f, "{year:04}-{month:02}-{of_month:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }
}
