//! Debugging of slabs, the mechanism: objects with red zones, poison, tracks and a state beside
//! them.
//!
//! [`layout`] says where the parts lie, [`object`] fills and checks them, [`track`] records the
//! callers of an object, [`tail`] has what lies behind a slab's last object, [`aside`] takes a
//! slab out of use, [`block`] has what lies behind runs and mappings, [`unused`] checks pages that
//! nobody has.
//! Neighbour: [`crate::engine::debug`] decides when.

pub mod aside;
pub mod block;
mod layout;
pub mod object;
pub mod tail;
pub mod track;
pub mod unused;

pub use block::SEAL;
pub use layout::{Layout, LayoutRequest};
pub use object::{Known, Maker, State};
pub use track::TrackKind;
