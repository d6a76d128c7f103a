//! Input that may be packed by zstd, as its first bytes say.
//!
//! The readers of traces, snapshots and reports of boots ask here.

/// What packed bytes begin with (RFC 8878, 3.1.1).
pub(crate) const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
