//! The report that a process writes at its end: lines of text, so that fields can be added without
//! breaking a reader.
//!
//! ```text
//! slabyard-report 1
//! process pid=1234 program=python3
//! yard live=1024 parked_cpu=0 ...
//! cache malloc-64 object_size=64 slab_size=64 ...
//! counts malloc-64 alloc_slowpath=12 ...
//! pressure pressure_events=2 ...
//! end 4
//! ```
//!
//! A reader ignores unknown keys and unknown kinds of lines; a missing key means unknown, not 0.
//! `end` carries the number of lines before it (not counting the first): a file without a matching
//! `end` is truncated.

use crate::counters::{CacheCounters, YardCounters};
use crate::pressure::PressureCounter;
use crate::stats::{CACHE_WORDS, WordName};
use core::fmt::{self, Write};

/// First word of a report.
pub const MAGIC: &str = "slabyard-report";
/// Version written by this build. A reader takes this and all earlier ones.
pub const VERSION: u32 = 1;

/// Environment variable: file that the process writes its report to when it
/// ends. Which process that is says the page beside it ([`crate::ending`]);
/// without one it is the first that takes the variable out of its environment.
pub const REPORT_ENV: &str = "SLABYARD_REPORT";

/// Writes a report, line by line, without allocating.
pub struct Writer<'a, W: Write> {
    out: &'a mut W,
    lines: u32,
}

impl<'a, W: Write> Writer<'a, W> {
    /// Begins a report.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(out: &'a mut W) -> Result<Self, fmt::Error> {
        writeln!(out, "{MAGIC} {VERSION}")?;
        Ok(Writer { out, lines: 0 })
    }

    /// The process that reports.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn process(&mut self, pid: u32) -> fmt::Result {
        self.lines += 1;
        writeln!(self.out, "process pid={pid}")
    }

    /// The yard's totals.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn yard(&mut self, yard: &YardCounters) -> fmt::Result {
        self.lines += 1;
        write!(self.out, "yard")?;
        self.numbers(YardCounters::NAMES, &yard.values())
    }

    /// One cache.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn cache(&mut self, name: &str, cache: &CacheCounters) -> fmt::Result {
        self.lines += 1;
        write!(self.out, "cache {name}")?;
        self.numbers(CacheCounters::NAMES, &cache.values())
    }

    /// What one cache counted, by the words of [`crate::stats`]; without a line where it counted
    /// nothing.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn counts(&mut self, name: &str, counts: &[u64; CACHE_WORDS]) -> fmt::Result {
        if counts.iter().all(|n| *n == 0) {
            return Ok(());
        }
        self.lines += 1;
        write!(self.out, "counts {name}")?;
        for (nth, n) in counts.iter().enumerate().filter(|(_, n)| **n != 0) {
            write!(self.out, " {}={n}", WordName(nth))?;
        }
        writeln!(self.out)
    }

    /// What a watch of memory pressure counted.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn pressure(&mut self, counts: &[u64; PressureCounter::NAMES.len()]) -> fmt::Result {
        self.lines += 1;
        write!(self.out, "pressure")?;
        self.numbers(PressureCounter::NAMES, counts)
    }

    fn numbers(&mut self, names: &[&str], values: &[u64]) -> fmt::Result {
        for (name, value) in names.iter().zip(values) {
            write!(self.out, " {name}={value}")?;
        }
        writeln!(self.out)
    }

    /// Ends the report.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn end(self) -> fmt::Result {
        writeln!(self.out, "end {}", self.lines)
    }
}
