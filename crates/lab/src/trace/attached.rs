//! What a trace holds besides its events: the snapshots taken while recording, and how it was
//! recorded.
//!
//! [`super::Writer`] writes these attachments between the chunks of a file, [`super::Reader`] and
//! [`super::Trace`] return them. Attachments exist since version 2 of the format
//! (`docs/trace-format.md`). Nothing here interprets their contents.

use super::format::{Bytes, put_bytes};

/// The kernel's caches just before the first event, as `slabyard snapshot` saves them.
pub const START: &str = "start";
/// What lay on the caches' lists just after the first event, slab by slab.
pub const LISTS: &str = "lists";
/// The kernel's caches just after the last event.
pub const END: &str = "end";
/// The same after all caches were shrunk at the end.
pub const SHRUNK: &str = "shrunk";
/// A cache was shrunk while it was recorded, at the attachment's time: its name. There is one for each
/// shrink.
pub const SHRINK: &str = "shrink";
/// Of a process: the caches of malloc's size classes, empty, in the same form as [`START`].
pub const MALLOC: &str = "malloc";
/// The text that it was made from ([`crate::load`]).
pub const LOAD: &str = "load";
/// How it was recorded, as JSON.
pub const RECORDING: &str = "recording";

/// Something of a trace that is no event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// What it is: [`START`] and others.
    pub name: String,
    /// When it was so, in nanoseconds since the trace began.
    pub time: u64,
    /// The file as it was.
    pub bytes: Vec<u8>,
}

impl Attached {
    /// True if a replay starts from it.
    #[must_use]
    pub fn is_of_start(&self) -> bool {
        [START, LISTS, MALLOC].contains(&self.name.as_str())
    }

    /// The body of its block, not yet compressed.
    pub(super) fn put(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes.len() + self.name.len() + 1);
        put_bytes(&mut out, self.name.as_bytes());
        out.extend_from_slice(&self.bytes);
        out
    }

    /// Back from [`Attached::put`].
    pub(super) fn get(body: &[u8], time: u64) -> Option<Attached> {
        let mut body = Bytes(body);
        let name = std::str::from_utf8(body.take_bytes()?).ok()?.to_owned();
        Some(Attached { name, time, bytes: body.0.to_vec() })
    }
}
