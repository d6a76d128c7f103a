//! What crosses a process boundary, as its documents and its readers have it.

mod documents;
mod region;
