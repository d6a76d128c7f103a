//! The constants of the file format, and its number encodings: little-endian words and varints.
//! `docs/trace-format.md` draws the whole format.

use super::error::Error;
use super::header::Header;
use crate::plain::plain;

/// The first bytes of a trace file: not text, and changed by whoever takes it for
/// text.
pub const MAGIC: [u8; 8] = *b"\x89SLABT\r\n";
/// The format's version that is written, and the newest that is read.
pub const VERSION: u32 = 4;
/// Events of a full chunk.
pub const CHUNK_EVENTS: usize = 1 << 16;

/// Most events that a chunk may say it has.
pub const MOST_EVENTS: u32 = 1 << 20;
/// Most bytes that a chunk's body may unfold to.
pub const MOST_BYTES: u32 = 1 << 27;
/// Most bytes of a header's fields.
pub const MOST_HEADER: u32 = 1 << 20;

pub const CHUNK_MAGIC: [u8; 4] = *b"CHNK";
pub const ATTACHED_MAGIC: [u8; 4] = *b"ATCH";
pub const INDEX_MAGIC: [u8; 4] = *b"INDX";
pub const FOOTER_MAGIC: [u8; 8] = *b"SLABEND\n";
pub const CHUNK_HEADER: usize = 56;
/// Magic, length and checksum in front of the index.
pub const INDEX_HEADER: usize = 12;
/// Offset of the index, checksum, magic.
pub const FOOTER: usize = 20;
/// Magic, version, length of the fields.
pub const HEADER_START: usize = 16;

/// Appends a varint: seven bits a byte, lowest first, high bit set if more follow.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends bytes and, before them, their number.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A signed number as a small unsigned one: 0, -1, 1, -2, 2 become 0, 1, 2, 3, 4.
pub fn fold(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Back from [`fold`].
pub fn unfold(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Bytes not yet read.
#[derive(Clone, Copy)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// The next varint; None if it is cut off or has more than 64 bits.
    #[inline]
    pub fn get(&mut self) -> Option<u64> {
        let (&first, rest) = self.0.split_first()?;
        if first < 0x80 {
            self.0 = rest;
            return Some(u64::from(first));
        }
        self.get_long()
    }

    fn get_long(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// The next varint, if it fits.
    #[inline]
    pub fn get_as<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.get()?).ok()
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next bytes, their number before them.
    pub fn take_bytes(&mut self) -> Option<&'a [u8]> {
        let n = self.get_as()?;
        self.take(n)
    }
}

/// The little-endian word at `at` of a buffer that is long enough.
pub fn word32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// As [`word32`], of 8 bytes.
pub fn word64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

// Fields of the header. A key is never used again for something else.
const RELEASE: u64 = 1;
const PAGE_SIZE: u64 = 2;
const CPUS: u64 = 3;
const PAGE_OFFSET: u64 = 4;
const SOURCE: u64 = 5;

/// The file's header with its checksum.
pub fn put_header(header: &Header) -> Vec<u8> {
    let mut fields = Vec::new();
    let mut field = |key: u64, value: &[u8]| {
        put(&mut fields, key);
        put_bytes(&mut fields, value);
    };
    let number = |value: u64| {
        let mut bytes = Vec::new();
        put(&mut bytes, value);
        bytes
    };
    // Words about the trace are cut rather than make a header that is refused.
    let words = |text: &str| text.as_bytes()[..text.floor_char_boundary(1 << 16)].to_vec();
    if !header.release.is_empty() {
        field(RELEASE, &words(&header.release));
    }
    if let Some(size) = header.page_size {
        field(PAGE_SIZE, &number(size.into()));
    }
    if let Some(cpus) = header.cpus {
        field(CPUS, &number(cpus.into()));
    }
    if let Some(offset) = header.page_offset {
        field(PAGE_OFFSET, &number(offset));
    }
    if !header.source.is_empty() {
        field(SOURCE, &words(&header.source));
    }
    let mut out = MAGIC.to_vec();
    out.extend(VERSION.to_le_bytes());
    out.extend((fields.len() as u32).to_le_bytes());
    out.extend(fields);
    out.extend(crc32fast::hash(&out).to_le_bytes());
    out
}

/// The header's fields; keys that are not known are left for later versions.
pub fn get_header(fields: &[u8]) -> Result<Header, Error> {
    read_fields(fields).ok_or(Error::Header("its fields make no sense"))
}

fn read_fields(fields: &[u8]) -> Option<Header> {
    let mut header = Header::default();
    let mut bytes = Bytes(fields);
    let text = |value: &[u8]| Some(plain(std::str::from_utf8(value).ok()?).into_owned());
    while !bytes.0.is_empty() {
        let key = bytes.get()?;
        let value = bytes.take_bytes()?;
        match key {
            RELEASE => header.release = text(value)?,
            PAGE_SIZE => header.page_size = Some(Bytes(value).get_as()?),
            CPUS => header.cpus = Some(Bytes(value).get_as()?),
            PAGE_OFFSET => header.page_offset = Some(Bytes(value).get()?),
            SOURCE => header.source = text(value)?,
            _ => {}
        }
    }
    Some(header)
}
