//! Sweeps: one replay for each combination of traces and values, whose rows make one table.
//!
//! `plan` names the points and finds the impossible ones, `run` replays, [`journal`] keeps what is
//! done, [`table`] writes and reads the files, [`join`](mod@join) puts shards together, and [`summary`]
//! finds the best points. A program that
//! has workers of its own gives each a [`Plan`] and the numbers of points, gathers [`Row::line`]s, and
//! ends with `write`:
//!
//! ```no_run
//! use slabyard_ask::sweep::{self, SweepRequest, Shard};
//! # fn main() -> Result<(), slabyard_ask::Error> {
//! let asked = SweepRequest {
//!     files: vec!["load.slabtrace".into()],
//!     vary: vec!["max_order=0..3".into(), "cpus=16,64".into()],
//!     ..SweepRequest::default()
//! };
//! let plan = sweep::plan(&asked, &slabyard_ask::Silent)?;
//! // On a worker, which has planned the same:
//! let line = sweep::run_point(&plan, 5, &slabyard_ask::Silent)?.line();
//! // Where the rows meet:
//! let row = plan.row_of_line(&line);
//! let rows = plan.of_shard(Shard::WHOLE).map(|nth| sweep::run_point(&plan, nth, &slabyard_ask::Silent));
//! sweep::write(&plan, rows.collect::<Result<_, _>>()?, "out.parquet".as_ref())?;
//! # Ok(())
//! # }
//! ```
//!
//! Invariants: equal traces, values and versions of Slabyard give equal bytes on any machine, whatever
//! the number of CPUs and shards and however often a run was killed; each row has a checksum, and so
//! has each Parquet file.

mod cells;
pub mod columns;
mod csv;
pub mod join;
pub mod journal;
mod json;
mod kept;
mod parquet;
pub mod plan;
pub mod row;
pub mod run;
pub mod shard;
pub mod summary;
pub mod table;

pub use join::join;
pub use journal::Journal;
pub use plan::{Plan, Point, SweepRequest, plan};
pub use row::Row;
pub use run::{run, run_point, trust};
pub use shard::Shard;
pub use summary::Summary;
pub use table::{Format, Table, write};
