//! Traces and timelines of loose parts: what a fuzzer changes in a file whose bytes are packed and
//! under checksums is found by the first checksum, and no further line of the reader runs.
//!
//! So a fuzzer's bytes are the parts as they are unpacked, and [`trace`] and [`timeline`] pack and
//! seal them, by `docs/trace-format.md` and `docs/formats.md`. [`parts_of_trace`] goes the other
//! way, for files to begin with. A part is its numbers, and its text behind the count of its bytes.
//!
//! Neighbours: the targets of [`crate::trace`] and [`crate::source`]. Invariant: `trace` of the parts
//! of a sound trace holds the same events.

const CHUNK: [u8; 4] = *b"CHNK";
const ATTACHED: [u8; 4] = *b"ATCH";
const MAGIC: [u8; 8] = *b"\x89SLABT\r\n";
/// Of a chunk's header before its checksums: events, and 32 bytes of numbers.
const NUMBERS: usize = 4 + 32;
const CHUNK_HEADER: usize = 56;

/// What is left of the bytes.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    /// As many bytes as the next two say, or what there is.
    fn text(&mut self) -> Option<&'a [u8]> {
        let n = usize::from(word16(self.take(2)?));
        self.take(n.min(self.0.len()))
    }
}

fn word16(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[0], bytes[1]])
}

fn word32(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize)
}

fn packed(text: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(text, 1).expect("memory packs")
}

fn sized(bytes: &[u8]) -> [u8; 4] {
    (bytes.len() as u32).to_le_bytes()
}

fn sum(bytes: &[u8]) -> [u8; 4] {
    crc32fast::hash(bytes).to_le_bytes()
}

/// A trace file: the fields of its header, then chunks and attachments, each a byte that says which,
/// its numbers and its body. Without an index, as one that was cut off.
pub fn trace(parts: &[u8]) -> Vec<u8> {
    let mut rest = Rest(parts);
    let fields = rest.text().unwrap_or_default();
    let mut out = [&MAGIC[..], &4u32.to_le_bytes(), &sized(fields), fields].concat();
    out.extend(sum(&out));
    while let Some((which, numbers, body)) = part(&mut rest, NUMBERS) {
        let packed = packed(body);
        let magic = if which % 2 == 0 { CHUNK } else { ATTACHED };
        let header = [&magic[..], &sized(&packed), &sized(body), numbers, &sum(&packed)].concat();
        out.extend([&header[..], &sum(&header), &packed].concat());
    }
    out
}

/// A timeline: looks, each a byte of its kind, its time and its text.
pub fn timeline(parts: &[u8]) -> Vec<u8> {
    let (mut out, mut before): (_, &[u8]) = (b"slabyard timeline 1\n".to_vec(), &[]);
    let mut rest = Rest(parts);
    while let Some((kind, time, text)) = part(&mut rest, 8) {
        let follows = u32::from(kind % 2);
        let dictionary = if follows == 1 { before } else { &[] };
        let mut packer = zstd::bulk::Compressor::with_dictionary(1, dictionary).expect("a packer");
        let packed = packer.compress(text).expect("memory packs");
        let header = [&follows.to_le_bytes()[..], &sized(&packed), &sized(text), time].concat();
        out.extend([&header[..], &sum(&header), &packed].concat());
        before = text;
    }
    out
}

fn part<'a>(rest: &mut Rest<'a>, numbers: usize) -> Option<(u8, &'a [u8], &'a [u8])> {
    Some((rest.take(1)?[0], rest.take(numbers)?, rest.text()?))
}

/// The parts of a sound trace whose bodies are short enough.
pub fn parts_of_trace(file: &[u8]) -> Option<Vec<u8>> {
    let fields = word32(file, 12)?;
    let mut out = part_text(file.get(16..16 + fields)?)?;
    let mut at = 16 + fields + 4;
    while let Some(header) = file.get(at..at + CHUNK_HEADER)
        && (header.starts_with(&CHUNK) || header.starts_with(&ATTACHED))
    {
        let (packed, unpacked) = (word32(header, 4)?, word32(header, 8)?);
        at += CHUNK_HEADER;
        let body = zstd::bulk::decompress(file.get(at..at + packed)?, unpacked).ok()?;
        at += packed;
        out.push(u8::from(header.starts_with(&ATTACHED)));
        out.extend(&header[12..12 + NUMBERS]);
        out.extend(part_text(&body)?);
    }
    Some(out)
}

fn part_text(text: &[u8]) -> Option<Vec<u8>> {
    Some([&u16::try_from(text.len()).ok()?.to_le_bytes()[..], text].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use slabyard_lab::trace;
    use slabyard_observe::timeline::Timeline;

    const SMALL: &[u8] = include_bytes!("../../lab/tests/trace/v1.slabtrace");

    #[test]
    fn parts_of_a_trace_hold_its_events() {
        let parts = parts_of_trace(SMALL).expect("a sound trace");
        let again = trace::read(&super::trace(&parts)[..]).expect("a trace that was cut off");
        let was = trace::read(SMALL).expect("a sound trace");
        assert!(!was.events.is_empty());
        assert_eq!(was.events, again.events);
    }

    #[test]
    fn looks_of_loose_parts_are_read() {
        let look = br#"{"format":1,"taken_at_ms":1,"source":{"kind":"kernel"},"caches":[]}"#;
        let part = |kind: u8| [&[kind], &[0; 8][..], &part_text(look).expect("short")].concat();
        let file = crate::file::holding(&timeline(&[part(0), part(1)].concat()), "");
        let timeline = Timeline::open(file.path()).expect("a timeline");
        assert_eq!(timeline.len(), 2);
        assert_eq!(timeline.incomplete_bytes(), 0);
    }
}
