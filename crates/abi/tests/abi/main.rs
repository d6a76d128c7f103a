//! Compares what crosses a process boundary with its documents and its readers.

mod documents;
mod region;
