//! The CSV form of traces, as recorded from a kernel, plain or compressed with zstd.
//!
//! A row is `t_us,cpu,pid,ev,cache_or_site,ptr,req,alloc,gfp,node,acct`. Columns that do not apply
//! to an event are empty: a free has neither sizes nor flags. For a page event, the fifth column is
//! `oN`, its order, and the node column holds the page's migratetype. A row that breaks these rules
//! is an error that names its line, or is skipped and reported ([`read_left`]): nothing is guessed.
//! Rows are parsed as bytes, without allocating a string for each.

use super::error::{Damage, Harm};
use super::header::Header;
use super::names::{NO_NAME, Names};
use super::rows::{COLUMNS, LONGEST};
pub use super::rows::{Error, HEADING, RowError};
use super::times::RowTimes;
use super::whole::Trace;
use crate::event::{Event, EventKind};
use crate::packed::ZSTD;
use std::io::{self, BufRead, BufReader, Cursor, Read};

/// Largest order that the column `oN` may have.
const MOST_ORDER: u64 = 63;

/// Whether a file that begins so can be a CSV of events.
pub fn begins(bytes: &[u8]) -> bool {
    let n = bytes.len().min(HEADING.len());
    !bytes.is_empty() && bytes[..n] == HEADING.as_bytes()[..n] || bytes.starts_with(&ZSTD)
}

/// Reads all rows. The trace's header holds what the events tell of the machine;
/// release and source are the caller's to fill in.
pub fn read(input: impl BufRead) -> Result<Trace, Error> {
    read_with(input, Rows::default())
}

/// As before; rows that cannot be parsed are skipped and reported in [`Trace::damaged`], and so is
/// an end within a row or within the compressed stream.
pub fn read_left(input: impl BufRead) -> Result<Trace, Error> {
    read_with(input, Rows { skipped: Some(Vec::new()), ..Rows::default() })
}

fn read_with(mut input: impl BufRead, rows: Rows) -> Result<Trace, Error> {
    let mut first = Vec::new();
    let at_first = |error| Error::Read { line: 1, error };
    input.by_ref().take(ZSTD.len() as u64).read_to_end(&mut first).map_err(at_first)?;
    let compressed = first == ZSTD;
    let input = Cursor::new(first).chain(input);
    if !compressed {
        return read_plain(input, rows);
    }
    let plain = zstd::Decoder::with_buffer(input).map_err(at_first)?;
    read_plain(BufReader::with_capacity(1 << 18, plain), rows)
}

fn read_plain(mut input: impl BufRead, mut rows: Rows) -> Result<Trace, Error> {
    // The part of a line that the last buffer ended with.
    let mut begun: Vec<u8> = Vec::new();
    loop {
        let buffer = match input.fill_buf() {
            Ok(buffer) => buffer,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if rows.cut(&error) => return Ok(rows.done()),
            Err(error) => return Err(Error::Read { line: rows.line + 1, error }),
        };
        if buffer.is_empty() {
            break;
        }
        let mut rest = buffer;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            if begun.is_empty() {
                rows.take(line)?;
            } else {
                begun.extend_from_slice(line);
                rows.take(&begun)?;
                begun.clear();
            }
            rest = after;
        }
        if begun.len() + rest.len() > LONGEST {
            if rows.cut(&RowError::Long) {
                return Ok(rows.done());
            }
            return Err(rows.wrong(RowError::Long));
        }
        begun.extend_from_slice(rest);
        let n = buffer.len();
        input.consume(n);
    }
    if !begun.is_empty() {
        // Without the end of its line a row that is none was cut off.
        match rows.row(begun.strip_suffix(b"\r").unwrap_or(&begun)) {
            Err(what) if rows.cut(&what) => {}
            _ => rows.take(&begun)?,
        }
    }
    if rows.line == 0 {
        return Err(Error::NotCsv);
    }
    Ok(rows.done())
}

/// Slots of the table of names met lately.
const NAME_CACHE_SLOTS: usize = 1024;

/// Places of a CSV that are reported one by one; what is skipped after them counts to the last.
const MOST_TOLD: usize = 20;

struct Rows {
    events: Vec<Event>,
    names: Names,
    /// Indices of names by a hash of their bytes.
    lately: Box<[u32; NAME_CACHE_SLOTS]>,
    times: RowTimes,
    /// Lines taken.
    line: u64,
    /// What was skipped; `None` if the first row that is none is an error.
    skipped: Option<Vec<Damage>>,
}

impl Default for Rows {
    fn default() -> Rows {
        let lately = Box::new([NO_NAME; NAME_CACHE_SLOTS]);
        Rows {
            events: Vec::new(),
            names: Names::new(),
            lately,
            times: RowTimes::default(),
            line: 0,
            skipped: None,
        }
    }
}

impl Rows {
    fn take(&mut self, line: &[u8]) -> Result<(), Error> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.line == 0 {
            if line != HEADING.as_bytes() {
                return Err(Error::NotCsv);
            }
        } else {
            match self.row(line) {
                Ok(event) if !self.times.takes(event.time) => self.skip(RowError::Astray)?,
                Ok(event) => self.events.push(event),
                Err(what) => self.skip(what)?,
            }
        }
        self.line += 1;
        Ok(())
    }

    fn skip(&mut self, what: RowError) -> Result<(), Error> {
        let at = self.line + 1;
        let Some(skipped) = &mut self.skipped else { return Err(self.wrong(what)) };
        let is_last = skipped.len() == MOST_TOLD;
        let next = |d: &Damage| d.events.is_some_and(|n| is_last || d.at + n == at);
        match skipped.last_mut().filter(|d| next(d)) {
            Some(Damage { events: Some(n), .. }) => *n += 1,
            _ => skipped.push(Damage { at, events: Some(1), what: Harm::Rows(what) }),
        }
        Ok(())
    }

    /// Says that nothing more can be read; false if that is an error.
    fn cut(&mut self, why: &dyn std::fmt::Display) -> bool {
        let at = self.line + 1;
        let Some(skipped) = self.skipped.as_mut().filter(|_| at > 1) else { return false };
        skipped.push(Damage { at, events: None, what: Harm::RowsCut(why.to_string()) });
        true
    }

    fn done(self) -> Trace {
        let header = Header::detect(&self.events);
        let damaged = self.skipped.unwrap_or_default();
        Trace {
            events: self.events,
            names: self.names,
            header,
            damaged,
            lost: 0,
            attached: Vec::new(),
        }
    }

    /// The error for the line being read.
    fn wrong(&self, what: RowError) -> Error {
        Error::Row { line: self.line + 1, what }
    }

    fn row(&mut self, line: &[u8]) -> Result<Event, RowError> {
        if line.len() > LONGEST {
            return Err(RowError::Long);
        }
        let [time, cpu, pid, ev, name, ptr, req, alloc, gfp, node, acct] = split(line)?;
        let kind = kind(ev)?;
        let mut event = Event {
            time: nanoseconds(time)?,
            cpu: decimal("cpu", cpu)?,
            pid: decimal("pid", pid)?,
            address: hex("ptr", ptr)?,
            kind,
            ..Event::BLANK
        };
        match kind {
            EventKind::CacheAlloc | EventKind::Kmalloc => {
                event.requested = decimal("req", req)?;
                event.allocated = decimal("alloc", alloc)?;
                event.gfp = hex("gfp", gfp)?;
                event.node = signed("node", node)?;
                event.accounted = match acct {
                    b"0" => false,
                    b"1" => true,
                    _ => return Err(value("acct", acct, "0 or 1")),
                };
            }
            EventKind::PageAlloc => {
                empty(&[("req", req), ("alloc", alloc), ("acct", acct)])?;
                event.gfp = hex("gfp", gfp)?;
                event.node = signed("node", node)?;
            }
            _ => {
                let columns = [("req", req), ("alloc", alloc), ("gfp", gfp)];
                empty(&columns)?;
                empty(&[("node", node), ("acct", acct)])?;
            }
        }
        if matches!(kind, EventKind::PageAlloc | EventKind::PageFree) {
            event.order = order(name)?;
        } else {
            event.name = self.name(name)?;
        }
        Ok(event)
    }

    fn name(&mut self, name: &[u8]) -> Result<u32, RowError> {
        // FNV-1a; only speed depends on it.
        let mix = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let hash = name.iter().fold(0xcbf2_9ce4_8422_2325, mix);
        let slot = (hash ^ hash >> 32) as usize % NAME_CACHE_SLOTS;
        let index = self.lately[slot];
        if index != NO_NAME && self.names.get(index).as_bytes() == name {
            return Ok(index);
        }
        let wanted = "a name in UTF-8";
        let text = std::str::from_utf8(name).ok().filter(|text| !text.is_empty());
        let index = self.names.intern(text.ok_or_else(|| value("cache_or_site", name, wanted))?);
        self.lately[slot] = index;
        Ok(index)
    }
}

/// The columns of a line.
fn split(line: &[u8]) -> Result<[&[u8]; COLUMNS], RowError> {
    let mut columns = [&line[..0]; COLUMNS];
    let mut count = 0;
    let mut start = 0;
    for comma in memchr::memchr_iter(b',', line).chain([line.len()]) {
        if count < COLUMNS {
            columns[count] = &line[start..comma];
        }
        start = comma + 1;
        count += 1;
    }
    if count == COLUMNS { Ok(columns) } else { Err(RowError::Columns(count)) }
}

#[cold]
fn value(column: &'static str, found: &[u8], wanted: &'static str) -> RowError {
    let shown = &found[..found.len().min(40)];
    RowError::Value { column, found: String::from_utf8_lossy(shown).into_owned(), wanted }
}

fn kind(ev: &[u8]) -> Result<EventKind, RowError> {
    Ok(match ev {
        b"A" => EventKind::CacheAlloc,
        b"F" => EventKind::CacheFree,
        b"M" => EventKind::Kmalloc,
        b"K" => EventKind::Kfree,
        b"P" => EventKind::PageAlloc,
        b"Q" => EventKind::PageFree,
        _ => return Err(value("ev", ev, "A, F, M, K, P or Q")),
    })
}

fn empty(columns: &[(&'static str, &[u8])]) -> Result<(), RowError> {
    match columns.iter().find(|(_, bytes)| !bytes.is_empty()) {
        Some((column, bytes)) => Err(value(column, bytes, "empty for such an event")),
        None => Ok(()),
    }
}

/// Digits alone, at least one.
fn digits(bytes: &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(digit.into())?;
    }
    (!bytes.is_empty()).then_some(number)
}

fn decimal<T: TryFrom<u64>>(column: &'static str, bytes: &[u8]) -> Result<T, RowError> {
    let number = digits(bytes).and_then(|n| T::try_from(n).ok());
    number.ok_or_else(|| value(column, bytes, "a whole number in the column's range"))
}

fn signed(column: &'static str, bytes: &[u8]) -> Result<i16, RowError> {
    let (minus, rest) = bytes.strip_prefix(b"-").map_or((1, bytes), |rest| (-1, rest));
    let number = digits(rest).and_then(|n| i64::try_from(n).ok());
    let number = number.and_then(|n| i16::try_from(n * minus).ok());
    number.ok_or_else(|| value(column, bytes, "a small whole number"))
}

fn hex<T: TryFrom<u64>>(column: &'static str, bytes: &[u8]) -> Result<T, RowError> {
    let wrong = || value(column, bytes, "a hexadecimal number in the column's range");
    let mut number = 0u64;
    if bytes.is_empty() || bytes.len() > 16 {
        return Err(wrong());
    }
    for &byte in bytes {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return Err(wrong()),
        };
        number = number << 4 | u64::from(digit);
    }
    T::try_from(number).map_err(|_| wrong())
}

/// Microseconds with at most three decimals, in nanoseconds.
fn nanoseconds(bytes: &[u8]) -> Result<u64, RowError> {
    let whole_and_part = || {
        let point = bytes.iter().position(|&b| b == b'.').unwrap_or(bytes.len());
        let whole = digits(&bytes[..point])?.checked_mul(1000)?;
        let part = match bytes.get(point + 1..) {
            None => 0,
            Some(part) => digits(part)? * *[100, 10, 1].get(part.len() - 1)?,
        };
        whole.checked_add(part)
    };
    whole_and_part().ok_or_else(|| value("t_us", bytes, "microseconds with at most 3 decimals"))
}

fn order(bytes: &[u8]) -> Result<u8, RowError> {
    let order = bytes.strip_prefix(b"o").and_then(digits).filter(|&o| o <= MOST_ORDER);
    order.map(|o| o as u8).ok_or_else(|| value("cache_or_site", bytes, "`o` and an order"))
}
