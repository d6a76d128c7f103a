//! The options that name a trace and the snapshot that it starts from, for `replay` and `compare`.

use clap::ValueHint;
use slabyard_ask::load::TraceFile;
use std::path::PathBuf;

/// The trace, and what it begins with.
#[derive(clap::Args)]
pub struct TraceArgs {
    /// The trace: a file of ours, or a CSV, plain or .zst; `-` is standard input; a text named .toml
    /// describes a load, of which a trace is made
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The snapshot taken just before the trace; FILE#DUMP picks one of several, `-` is standard
    /// input
    /// [default: NAME.before.json or NAME.before.json.zst beside the trace]
    #[arg(long, value_name = "SNAPSHOT", value_hint = ValueHint::FilePath)]
    pub start: Option<PathBuf>,
    /// The dump in the snapshot's file
    #[arg(long, value_name = "NAME")]
    pub dump: Option<String>,
    /// Begin as if no lists had been read out of the kernel
    #[arg(long)]
    pub no_lists: bool,
    /// Take what is left of a trace that was cut off or damaged
    #[arg(long)]
    pub partial: bool,
}

impl TraceArgs {
    /// The trace's file without its directory.
    pub fn name(&self) -> String {
        self.file.file_name().unwrap_or(self.file.as_os_str()).to_string_lossy().into_owned()
    }

    /// The same, as the lab is asked.
    pub fn file(&self) -> TraceFile {
        TraceFile {
            file: self.file.clone(),
            start: self.start.clone(),
            dump: self.dump.clone(),
            no_lists: self.no_lists,
            partial: self.partial,
        }
    }
}
