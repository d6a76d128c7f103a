//! What is known about a trace's machine: from the trace's file, from its events, or from the
//! program that converts it.

use super::frames::Frames;
use crate::event::Event;

/// What is known of the machine and of the trace. A field about which nothing is known is None or
/// empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The kernel's release, such as `6.18.44`.
    pub release: String,
    /// Bytes of a page, a power of two.
    pub page_size: Option<u32>,
    /// CPUs of the machine; of a CSV, one more than the largest number seen.
    pub cpus: Option<u32>,
    /// Address of page frame 0, its low 48 bits.
    pub page_offset: Option<u64>,
    /// Where the trace comes from, in words.
    pub source: String,
}

impl Header {
    /// Binary logarithm of the page size.
    pub fn page_shift(&self) -> Option<u32> {
        self.page_size.filter(|size| size.is_power_of_two()).map(u32::trailing_zeros)
    }

    /// How an address becomes a page frame.
    pub fn frames(&self) -> Option<Frames> {
        Some(Frames { page_offset: self.page_offset?, page_shift: self.page_shift()? })
    }

    /// These facts; where one is not known, that of `other`.
    #[must_use]
    pub fn or(self, other: &Header) -> Header {
        let or =
            |mine: String, theirs: &String| if mine.is_empty() { theirs.clone() } else { mine };
        Header {
            release: or(self.release, &other.release),
            page_size: self.page_size.or(other.page_size),
            cpus: self.cpus.or(other.cpus),
            page_offset: self.page_offset.or(other.page_offset),
            source: or(self.source, &other.source),
        }
    }

    /// What the events themselves tell: CPUs that were seen, page size and base.
    pub fn detect(events: &[Event]) -> Header {
        let frames = Frames::detect(events);
        Header {
            page_size: frames.map(|f| 1 << f.page_shift),
            page_offset: frames.map(|f| f.page_offset),
            cpus: events.iter().map(|e| u32::from(e.cpu) + 1).max(),
            ..Header::default()
        }
    }
}
