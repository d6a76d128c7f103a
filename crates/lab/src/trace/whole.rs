//! A whole trace in memory, and how it is saved.
//!
//! [`super::Reader`] and [`super::csv`] build such traces.

use super::attached::Attached;
use super::error::{Damage, Error};
use super::header::Header;
use super::names::Names;
use super::writer::Writer;
use crate::event::Event;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// zstd's level for files that are written once and kept.
const KEPT: i32 = 19;

/// A whole trace in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// In the order of the file.
    pub events: Vec<Event>,
    /// What [`Event::name`] is an index of.
    pub names: Names,
    /// What is known of the machine.
    pub header: Header,
    /// Events that the recorder lost.
    pub lost: u64,
    /// Parts of the file that were skipped.
    pub damaged: Vec<Damage>,
    /// What is attached to it, as the snapshots of its recording.
    pub attached: Vec<Attached>,
}

impl Trace {
    /// Events that happened and are not here, as far as is known: lost ones, and
    /// those of damaged chunks.
    pub fn missing(&self) -> u64 {
        self.damaged.iter().filter_map(|d| d.events).fold(self.lost, u64::saturating_add)
    }

    /// What is attached under a name.
    pub fn attachment(&self, name: &str) -> Option<&Attached> {
        self.attached.iter().find(|attached| attached.name == name)
    }

    /// Writes the trace in our format, what a replay starts from first. What is missing is written
    /// as lost.
    pub fn write<W: Write>(&self, out: W) -> Result<W, Error> {
        let writer = Writer::new(out, &self.header)?;
        let mut writer = writer.with_names(self.names.clone()).with_level(KEPT);
        let (first, last): (Vec<&Attached>, Vec<&Attached>) =
            self.attached.iter().partition(|attached| attached.is_of_start());
        first.into_iter().try_for_each(|attached| writer.attach(attached))?;
        writer.lost(self.missing());
        for event in &self.events {
            writer.push(event)?;
        }
        last.into_iter().try_for_each(|attached| writer.attach(attached))?;
        writer.finish()
    }

    /// Writes the trace to a file in our format.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let save = || Ok(self.write(File::create(path)?)?.sync_data()?);
        save().map_err(|e: Error| e.in_file(path))
    }
}
