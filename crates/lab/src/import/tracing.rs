//! Reads the part that perf's and trace-cmd's files share: the traced kernel's event formats.
//!
//! ```text
//! magic, "tracing", version | order of bytes, bytes of a word, page size
//! header_page, header_event | ftrace's formats | systems, each with formats | kallsyms | ...
//! ```
//!
//! The format is described in `trace-cmd.dat.v6(5)`, "INITIAL FORMAT" to "KALLSYMS INFORMATION". In
//! `trace.dat` version 7, each of these parts is a separate section. A file from a machine with the
//! other byte order is rejected.

use std::collections::HashMap;

/// The first bytes of such a file.
pub const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// What the file says of the machine's events.
#[derive(Default)]
pub struct Tracing {
    pub page_size: u32,
    /// How a page of the ring buffer is made.
    pub header_page: String,
    /// By the event's name, those of `kmem`.
    pub formats: HashMap<String, String>,
    pub kallsyms: String,
}

/// Bytes not yet read.
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn word16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(*self.take(2)?.first_chunk()?))
    }

    pub fn word32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(*self.take(4)?.first_chunk()?))
    }

    pub fn word64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(*self.take(8)?.first_chunk()?))
    }

    /// Bytes behind their number, which has eight bytes.
    pub fn sized(&mut self) -> Option<&'a [u8]> {
        let n = self.word64()?;
        self.take(usize::try_from(n).ok()?)
    }

    /// Bytes behind their number, which has four bytes.
    pub fn sized32(&mut self) -> Option<&'a [u8]> {
        let n = self.word32()?;
        self.take(n as usize)
    }

    /// Text up to a null byte.
    pub fn words(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let words = self.take(end)?;
        self.take(1)?;
        Some(words)
    }
}

impl Tracing {
    /// Reads all, to behind the names of functions.
    pub fn parse(bytes: &mut Bytes<'_>) -> Option<Tracing> {
        let mut tracing = Tracing::default();
        tracing.begin(bytes)?;
        tracing.header(bytes)?;
        for _ in 0..bytes.word32()? {
            bytes.sized()?;
        }
        tracing.events(bytes)?;
        // perf writes none where it may not.
        let _ = tracing.functions(bytes);
        Some(tracing)
    }

    /// The beginning; the version.
    pub fn begin(&mut self, bytes: &mut Bytes<'_>) -> Option<String> {
        if bytes.take(MAGIC.len())? != MAGIC {
            return None;
        }
        let version = String::from_utf8_lossy(bytes.words()?).into_owned();
        if bytes.take(1)? != [0] {
            return None;
        }
        bytes.take(1)?;
        self.page_size = bytes.word32()?;
        Some(version)
    }

    /// `header_page` and `header_event`.
    pub fn header(&mut self, bytes: &mut Bytes<'_>) -> Option<()> {
        for name in [&b"header_page"[..], b"header_event"] {
            if bytes.words()? != name {
                return None;
            }
            let text = bytes.sized()?;
            if name == b"header_page" {
                self.header_page = String::from_utf8_lossy(text).into_owned();
            }
        }
        Some(())
    }

    /// The formats of all systems' events.
    pub fn events(&mut self, bytes: &mut Bytes<'_>) -> Option<()> {
        for _ in 0..bytes.word32()? {
            let system = bytes.words()?;
            for _ in 0..bytes.word32()? {
                let text = bytes.sized()?;
                if system != b"kmem" {
                    continue;
                }
                let text = String::from_utf8_lossy(text).into_owned();
                if let Some(name) = text.lines().find_map(|line| line.strip_prefix("name: ")) {
                    self.formats.insert(name.trim().to_owned(), text.clone());
                }
            }
        }
        Some(())
    }

    /// The text of `/proc/kallsyms`.
    pub fn functions(&mut self, bytes: &mut Bytes<'_>) -> Option<()> {
        self.kallsyms = String::from_utf8_lossy(bytes.sized32()?).into_owned();
        Some(())
    }
}
