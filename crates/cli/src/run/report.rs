//! The report at the end: where the library leaves it, and where it goes.
//!
//! Neighbours: `observe` reads, checks and shows it.
//! Invariants: the output is opened before the program starts, so that a long
//! run does not end without a place for its report; the library's file is in
//! a directory of our own and goes away with it.

use crate::args::{Form, RunArgs};
use crate::say;
use anyhow::Context;
use slabyard_observe::ended::Snapshot;
use slabyard_observe::table::{Colour, Style, Units};
use slabyard_observe::{check, json, report, table};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use tempfile::TempDir;

/// A report that is to come.
pub struct Report {
    form: Form,
    directory: TempDir,
    output: Output,
}

enum Output {
    Stderr,
    File(PathBuf, File),
}

impl Report {
    /// Opens the places; `None` if no report is wanted.
    pub fn prepare(args: &RunArgs) -> anyhow::Result<Option<Report>> {
        if args.report == Form::None {
            return Ok(None);
        }
        let output = match &args.report_file {
            None => Output::Stderr,
            Some(path) => {
                let file = File::create(path)
                    .with_context(|| format!("cannot write the report to {}", path.display()))?;
                Output::File(path.clone(), file)
            }
        };
        let directory = tempfile::Builder::new()
            .prefix("slabyard-")
            .tempdir()
            .context("cannot make a directory for the report; set TMPDIR to a writable one")?;
        Ok(Some(Report { form: args.report, directory, output }))
    }

    /// The file that the library is to write.
    pub fn place(&self) -> PathBuf {
        self.directory.path().join("report")
    }

    /// Reads what the program left, and shows it. The program's exit code
    /// stays ours whatever happens here.
    pub fn show(mut self, program: &OsStr) {
        let bytes = match std::fs::read(self.place()) {
            Ok(bytes) if !bytes.is_empty() => bytes,
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return say(&format!("cannot read the report: {error}"));
            }
            _ => {
                return say(&format!(
                    "no report: {} ended without one \
                     (killed, _exit, exec, statically linked or setuid)",
                    program.display()
                ));
            }
        };
        let snapshot = match report::parse(&bytes) {
            Ok(snapshot) => snapshot,
            Err(error) => return say(&format!("the report cannot be read: {error}")),
        };
        if let Err(error) = self.write(&snapshot)
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            say(&format!("cannot write the report: {error}"));
        }
        for finding in check::check(&snapshot) {
            say(&format!("the report's numbers disagree: {finding}"));
        }
    }

    fn write(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let mut text = Vec::new();
        match self.form {
            Form::Json => json::write(&mut text, snapshot)?,
            Form::Table | Form::None => table::write(&mut text, snapshot, self.style())?,
        }
        match &mut self.output {
            Output::Stderr => io::stderr().write_all(&text),
            Output::File(path, file) => file
                .write_all(&text)
                .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display()))),
        }
    }

    fn style(&self) -> Style {
        let terminal = match &self.output {
            Output::Stderr => io::stderr().is_terminal(),
            Output::File(_, file) => file.is_terminal(),
        };
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|v| v == "dumb");
        Style {
            units: if terminal { Units::Human } else { Units::Plain },
            colour: if terminal && !no_color && !dumb { Colour::Yes } else { Colour::No },
        }
    }
}
