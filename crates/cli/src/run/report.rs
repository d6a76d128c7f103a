//! The report at the end: where the library leaves it, and where it goes.
//!
//! Neighbours: `observe` reads, checks and shows it.
//! Invariants: the output is opened before the program starts, so that a long
//! run does not end without a place for its report; the library's file is in
//! a directory of our own and goes away with it.

use crate::args::{Form, RunArgs};
use crate::{look, say};
use anyhow::Context;
use slabyard_observe::view::json;
use slabyard_observe::view::list::{self, Options};
use slabyard_observe::view::pick::Pick;
use slabyard_observe::{Cache, Snapshot, identity, report};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
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
        for finding in identity::check(&snapshot) {
            say(&format!("the report's numbers disagree: {finding}"));
        }
    }

    fn write(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let mut text = Vec::new();
        match self.form {
            Form::Json => {
                let caches: Vec<&Cache> = snapshot.caches.iter().collect();
                json::write(&mut text, snapshot, &caches)?;
            }
            Form::Table | Form::None => {
                let options = Options { pick: Pick::by_bytes(), ..Options::default() };
                let style = match &self.output {
                    Output::Stderr => look::style(&io::stderr()),
                    Output::File(_, file) => look::style(file),
                };
                list::write(&mut text, snapshot, &options, style)?;
            }
        }
        match &mut self.output {
            Output::Stderr => io::stderr().write_all(&text),
            Output::File(path, file) => file
                .write_all(&text)
                .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display()))),
        }
    }
}
