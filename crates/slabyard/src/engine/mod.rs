//! Floor 4: policy. Engines move objects between containers; they own no
//! `unsafe` code.
#![forbid(unsafe_code)]

pub mod slub;
