//! Reports as HTML pages: one file each, with text, tables and charts, which needs no network.
//!
//! A page contains the JSON of the command that made it, once; its charts name where in that JSON
//! their numbers are, so that a chart shows the numbers of `--json` and no others. Chart.js draws
//! them; it is in the page, too. This crate depends on no other of ours: whoever has JSON can make
//! a page of it.
//!
//! - [`Page`] is what a page says: a title, how it was made, and [`Section`]s of text, tables and
//!   charts. [`Page::html`] checks that each series finds its numbers, and makes the file's text.
//! - [`Chart`] is a chart with its [`Axis`] and [`Series`]; [`path`] is how series name numbers.
//! - [`Table`] is a table, whose columns sort by a click.
//!
//! Invariants: all text is escaped, also within scripts, because names of caches and programs come
//! from traces and other processes; the page's content security policy lets it load nothing.
//!
//! ```
//! use slabyard_page::{Axis, Cell, Chart, Page, Section, Series, Table, Unit};
//!
//! let json = r#"{"points": [
//!     {"order": 0, "bytes": 4096, "slow_paths": 20, "set": "max_order=0"},
//!     {"order": 1, "bytes": 8192, "slow_paths": 10, "set": "max_order=1"}
//! ]}"#;
//! let bytes = Axis::new("memory at the peak", Unit::Bytes);
//! let work = Axis::new("slow paths", Unit::Count);
//! let points = Series::new("settings", "/points/*/bytes", "/points/*/slow_paths");
//! let front = Series::new("front", "/points/*/bytes", "/points/*/slow_paths");
//! let chart = Chart::scatter("Memory against work", bytes, work)
//!     .with(points.labels("/points/*/set"))
//!     // The front alone, point by point in this order, with a line through it.
//!     .with(front.rows([1, 0]).connected());
//! let mut table = Table::new(["settings", "memory"]);
//! table.push([Cell::text("max_order=0"), Cell::number("4.0 KiB", 4096.0)]);
//! let page = Page::new("tune load.slabtrace", json)
//!     .made_by("slabyard 0.1.0", "slabyard tune load.slabtrace --html f.html")
//!     .with(Section::new("The front").text("No setting is better in both.").chart(chart))
//!     .with(Section::new("Settings").table(table).code("slub_max_order=1"));
//! let html = page.html().unwrap();
//! assert!(html.starts_with("<!doctype html>"));
//! ```
#![forbid(unsafe_code)]

mod chart;
mod error;
mod escape;
mod html;
mod page;
pub mod path;
mod table;

pub use chart::{Axis, Chart, Series, Unit};
pub use error::Error;
pub use page::{Page, Section};
pub use table::{Cell, Table};
