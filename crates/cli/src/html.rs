//! `--html FILE` of the commands whose results make a page: the option, and the file.
//!
//! Neighbour: `slabyard-page` makes the text. Invariants: the page has the JSON that `--json`
//! prints; the file is written whole or not at all, before anything is printed.

use crate::failure::Failure;
use crate::{look, outputs, typed};
use anyhow::Context;
use clap::ValueHint;
use slabyard_observe::fields::Unit;
use slabyard_observe::file;
use slabyard_observe::source::SourceName;
use slabyard_observe::value::Value;
use slabyard_observe::view::cell::clean;
use slabyard_observe::view::{Units, cell};
use slabyard_page::{Axis, Cell, Page};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// `--html`.
#[derive(clap::Args)]
pub struct HtmlArgs {
    /// Write the result to a file as well, as a page with charts for a browser, which needs no network
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,
}

impl HtmlArgs {
    /// Refuses to write over a file that is read, or among the report, and into a directory that is not
    /// there. For the start of long work.
    pub fn look_before<P: AsRef<Path>>(
        &self,
        inputs: impl IntoIterator<Item = P>,
    ) -> Result<(), Failure> {
        let Some(to) = &self.html else { return Ok(()) };
        outputs::look_before("--html", to, inputs)?;
        let directory = to.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.map_or(Ok(()), |parent| std::fs::metadata(parent).map(drop));
        directory.with_context(|| format!("cannot write {}", to.display()))?;
        Ok(())
    }

    /// Refuses the name of another file that the command writes, by whichever option.
    pub fn is_beside(&self, option: &str, other: &Path) -> Result<(), Failure> {
        let same = |to: &Path| {
            let there = to.canonicalize().ok();
            to == other || (there.is_some() && there == other.canonicalize().ok())
        };
        match &self.html {
            Some(to) if same(to) => {
                let text = format!("--html and {option} are both {}: give two", to.display());
                Err(Failure::Usage(text))
            }
            _ => Ok(()),
        }
    }

    /// True if a page is asked for.
    pub fn is_asked(&self) -> bool {
        self.html.is_some()
    }

    /// Writes the page, if one is asked for.
    pub fn write(&self, page: impl FnOnce() -> Result<Page, Failure>) -> Result<(), Failure> {
        let Some(to) = &self.html else { return Ok(()) };
        let html = page()?.html().context("the page")?;
        file::put(html.as_bytes(), to).with_context(|| format!("cannot write {}", to.display()))?;
        Ok(())
    }
}

/// A page of this run, with the JSON that it prints or would print.
pub fn page(title: impl Into<String>, json: impl Into<String>) -> Page {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let command = format!("slabyard {}", typed::command(&words));
    Page::new(title, json).made_by(concat!("slabyard ", env!("CARGO_PKG_VERSION")), command)
}

/// A source for a heading: of a file its name alone.
pub fn short(source: &SourceName) -> String {
    let name = look::file_of(source).and_then(Path::file_name);
    name.map_or_else(|| source.to_string(), |name| clean(&name.to_string_lossy()))
}

/// A value of a look as a cell: `-` if it is unknown; a range sorts by its high end.
pub fn cell(value: Option<&Value>, unit: Unit) -> Cell {
    let text = cell::value(value, unit, Units::Human);
    match value {
        None => Cell::unknown(),
        Some(value) => match value.high() {
            Some(number) => Cell::number(text, number as f64),
            None => Cell::text(text),
        },
    }
}

/// An axis of a field's values as JSON has them.
pub fn axis(title: &str, unit: Unit) -> Axis {
    let unit = match unit {
        Unit::Bytes => slabyard_page::Unit::Bytes,
        Unit::Share => slabyard_page::Unit::Share,
        _ => slabyard_page::Unit::Count,
    };
    Axis::new(title, unit)
}

/// The axis of bars that have names, of caches or others.
pub fn names() -> Axis {
    Axis::new("", slabyard_page::Unit::Name)
}
