//! The report at the end: where the library writes it, and where it is printed.
//!
//! ```text
//! the program ends by               the report is
//! exit, a return of main            what the library wrote
//! _exit, quick_exit, or it cannot   a last look at the process, which waits for it
//!   write
//! a signal that was sent to us      a look that is taken before it is passed on
//! another signal, in a terminal     the last look that was taken while it ran, and a line
//!                                   says how old it is
//! another signal, a system call     none, and a line says why
//! ```
//!
//! Neighbours: `observe` parses, checks and formats the report; [`super::last_look`] reads the
//! memory of programs that end without `exit`. Invariants: the named output file is opened before
//! the program starts, so that no long run ends without a place for its report; the library writes
//! its file into a temporary directory, which we remove. If no directory is writable, the program
//! runs all the same, and a message says that there will be no report.

use super::args::{ReportForm, RunArgs};
use super::child::End;
use super::last_look::{LastLook, Page};
use crate::look;
use crate::stderr::say;
use anyhow::Context;
use slabyard_observe::snapshot::SourceKind;
use slabyard_observe::view::json;
use slabyard_observe::view::list::{self, Options};
use slabyard_observe::view::pick::CacheFilter;
use slabyard_observe::{Cache, Snapshot, identity, report};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use tempfile::TempDir;

/// A report that is to come.
pub struct Report {
    form: ReportForm,
    directory: TempDir,
    page: Page,
    output: Output,
}

enum Output {
    Stderr,
    File(PathBuf, File),
}

impl Report {
    /// Opens the places; `None` if no report is wanted.
    pub fn prepare(args: &RunArgs) -> anyhow::Result<Option<Report>> {
        // A program that is profiled knows by the page that it is the one.
        if args.report == ReportForm::None && args.profile.is_none() {
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
        match room() {
            Ok((directory, page)) => {
                Ok(Some(Report { form: args.report, directory, page, output }))
            }
            // Who named a file wants it more than the program's run.
            Err(error) if matches!(output, Output::File(..)) => Err(error),
            Err(error) => {
                say(&format!("no report: {error:#}"));
                Ok(None)
            }
        }
    }

    /// The file that the library is to write.
    pub fn place(&self) -> PathBuf {
        place(&self.directory)
    }

    /// By which the program asks for a last look.
    pub fn page(&self) -> Page {
        self.page
    }

    /// Shows what the program left or was last seen with. Its exit code stays ours
    /// whatever happens here.
    pub fn show(mut self, program: &OsStr, mut end: End) {
        let look = end.seen.as_mut().and_then(|seen| seen.look.take());
        let sent = end.before_signal.take().filter(|_| end.ending.signal().is_some());
        let look = look.or(sent);
        let watched = end.watched.take().zip(end.ending.signal());
        let mut age = None;
        let snapshot = match (self.left(), look) {
            (Some(Ok(snapshot)), _) => snapshot,
            (_, Some(Ok(mut snapshot))) => {
                snapshot.source.kind = SourceKind::Report;
                snapshot
            }
            (Some(Err(why)), _) => return say(&why),
            (None, None) if let Some((watched, signal)) = watched => {
                age = Some((signal, watched.at.elapsed()));
                let mut snapshot = watched.look;
                snapshot.source.kind = SourceKind::Report;
                snapshot
            }
            (None, look) => {
                let why = look.map_or_else(|| none(program, &end), |e| e.unwrap_err().to_string());
                return say(&format!("no report: {why}"));
            }
        };
        if let Err(error) = self.write(&snapshot)
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            say(&format!("cannot write the report: {error}"));
        }
        if let Some((signal, age)) = age {
            let (typed, seconds) = (program.display(), age.as_secs_f64());
            say(&format!(
                "{typed} was ended by {signal}: the report is of a look {seconds:.1} s before"
            ));
        }
        for finding in identity::check(&snapshot) {
            say(&format!("the report's numbers disagree: {finding}"));
        }
    }

    /// What the library wrote, or why that cannot be used; `None`: it wrote nothing.
    fn left(&self) -> Option<Result<Snapshot, String>> {
        match std::fs::read(self.place()) {
            Ok(bytes) if bytes.is_empty() => None,
            Ok(bytes) => {
                Some(report::parse(&bytes).map_err(|e| format!("the report cannot be read: {e}")))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(Err(format!("cannot read the report: {error}"))),
        }
    }

    fn write(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let mut text = Vec::new();
        match self.form {
            ReportForm::Json => {
                let caches: Vec<&Cache> = snapshot.caches.iter().collect();
                json::write(&mut text, snapshot, &caches)?;
            }
            ReportForm::Table | ReportForm::None => {
                let options = Options { pick: CacheFilter::by_bytes(), ..Options::default() };
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

/// A directory of our own with the page in it: where temporary files go, or, where that cannot be
/// written or is full, in memory or in the user's directory.
fn room() -> anyhow::Result<(TempDir, Page)> {
    let others = ["/dev/shm", "/run/shm", "/var/tmp", "/run"].map(PathBuf::from);
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let places = [std::env::temp_dir()].into_iter().chain(runtime).chain(others);
    let mut first = None;
    for parent in places.filter(|parent| parent.is_absolute()) {
        let made = tempfile::Builder::new().prefix("slabyard-").tempdir_in(&parent);
        let made = made.and_then(|directory| {
            let page = Page::make(&place(&directory))?;
            Ok((directory, page))
        });
        match made {
            Ok(made) => return Ok(made),
            Err(error) => first = first.or(Some((parent, error))),
        }
    }
    let why = "set TMPDIR to a writable directory with room";
    match first {
        Some((parent, error)) => {
            let what = format!("nothing can be written in {}; {why}", parent.display());
            Err(anyhow::Error::from(error).context(what))
        }
        None => Err(anyhow::anyhow!("there is no directory for temporary files; {why}")),
    }
}

fn place(directory: &TempDir) -> PathBuf {
    directory.path().join("report")
}

/// Why there is no report, as far as it can be known.
fn none(program: &OsStr, end: &End) -> String {
    let typed = program.display();
    let last = end.seen.as_ref().and_then(|seen: &LastLook| seen.program.as_deref());
    match (end.ending.signal(), last) {
        (Some(signal), _) => format!(
            "{typed} was ended by {signal}, which leaves none where no look came before: looks are taken in a \
             terminal's foreground. A signal that is sent to `slabyard run` itself (`kill`) is passed on after a \
             last look, and `slabyard snapshot PID` saves the numbers of a program that runs"
        ),
        (None, None) => format!(
            "{typed} was not on Slabyard: it is statically linked or set-user-id, \
             changed its user, or LD_PRELOAD was taken from it"
        ),
        (None, Some(last)) => format!(
            "{typed} ended as `{}`; the last program on Slabyard was `{last}`, which began \
             another one that is not (statically linked, set-user-id, or without LD_PRELOAD), \
             or ended by a system call of its own",
            end.name
        ),
    }
}
