//! The mechanism of slab debugging: objects with red zones, poison, tracks and a state word.
//!
//! [`layout`] computes where the parts are, [`object`] fills and checks them, [`track`] records the
//! callers of an object, [`whole`] prepares a slab, checks the bytes after its last object and takes
//! it out of use, [`block`] checks the bytes after runs and mappings, [`unused`] checks free pages.
//! Neighbour: [`crate::engine::debug`] decides when to call these.

pub mod block;
mod layout;
pub mod object;
pub mod track;
pub mod unused;
pub mod whole;

pub use block::SEAL;
pub use layout::{Layout, LayoutRequest};
pub use object::{Known, Maker, State};
pub use track::TrackKind;
