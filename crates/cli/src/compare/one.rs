//! One run of the program on one contender: the preparation, the program, the client if the program
//! is a server, and the cleanup.
//!
//! ```text
//! --setup     before everything
//! PROGRAM     is timed; as a server: is started, and asked to end by SIGTERM at the end
//! --ready     again and again, until it succeeds
//! --client    is timed in place of the program
//! --cleanup   last, even after failures
//! ```
//!
//! Neighbours: [`super::child`] starts processes and waits for them; [`super::contender`] says what
//! is preloaded.

use super::child::{Child, Leftovers, ProcessEnd, Stop, Watch};
use super::contender::{Contender, Counts};
use super::yard::Yard;
use crate::failure::{Failure, signal_name};
use crate::run::last_look::{LastLook, Page};
use anyhow::{Context, anyhow};
use nix::sys::signal::Signal;
use slabyard_abi::report::REPORT_ENV;
use slabyard_observe::view::cell::clean;
use slabyard_observe::{Snapshot, report};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Between two tries of `--ready`.
const RETRY: Duration = Duration::from_millis(20);
/// Lines of a failing program that are told.
const LAST_LINES: usize = 10;

/// The program that is run, and what prepares it and clears up behind it.
pub struct Load {
    /// The program and its arguments.
    pub program: Vec<OsString>,
    /// What is timed in its place.
    pub client: Option<String>,
    /// What succeeds once it may be.
    pub ready: Option<String>,
    /// What prepares each run.
    pub setup: Option<String>,
    /// What clears up after it.
    pub cleanup: Option<String>,
    /// The program's standard input.
    pub input: Option<PathBuf>,
    /// Where its output goes.
    pub output: Output,
    /// Between two looks at its memory.
    pub interval: Duration,
    /// For `--ready`, and for the end after SIGTERM.
    pub timeout: Duration,
}

/// Where the program's output goes.
pub enum Output {
    /// Nowhere; of a failing program the last lines on standard error are told.
    Nowhere,
    /// Goes to our own output.
    Shown,
    /// To files in this directory, two for each run.
    Files(PathBuf),
}

/// What one run came to.
pub struct Run {
    /// Wall time of what is timed.
    pub took: Duration,
    /// How the program ended, and what it used.
    pub ended: ProcessEnd,
    /// Mean resident bytes; `None` if it was too short to be looked at.
    pub mean: Option<f64>,
    /// Most that was looked at.
    pub most: u64,
    /// Bytes that its allocator held beyond what is live, if it was to count.
    pub waste: Option<u64>,
    /// What it reported, if it was to count.
    pub report: Option<Snapshot>,
    /// What people should know.
    pub told: Vec<String>,
}

/// Where files of runs go.
pub struct RunFiles<'a> {
    pub load: &'a Load,
    /// Ours, and gone at the end.
    pub directory: &'a TempDir,
    /// A name for the run, `warmup`, `round-1`.
    pub round: String,
}

impl RunFiles<'_> {
    /// Runs the program once on a contender.
    pub fn run(&self, on: &Contender, counts: Counts, stop: &mut Stop) -> Result<Run, Failure> {
        self.shell("--setup", self.load.setup.as_deref(), on, stop)?;
        let run = self.prepared(on, counts, stop);
        let cleared = self.shell("--cleanup", self.load.cleanup.as_deref(), on, stop);
        // The first failure is the one to tell.
        let run = run?;
        cleared.map(|()| run)
    }

    fn prepared(&self, on: &Contender, counts: Counts, stop: &mut Stop) -> Result<Run, Failure> {
        let load = self.load;
        let mut command = Command::new(&load.program[0]);
        command.args(&load.program[1..]);
        on.serve(&mut command, counts)?;
        let input = load.input.as_deref().unwrap_or(Path::new("/dev/null"));
        command.stdin(open(input)?);
        let said = self.redirect(&mut command, on, "")?;
        let report = match (counts, on.is_ours()) {
            (Counts::Kept, true) => Some(self.expect_report(&mut command)?),
            _ => None,
        };
        let mut child = Child::start(&mut command, Leftovers::Ended)?;
        let looker = report.as_ref().map(|(_, page)| page.listen(child.pid().cast_unsigned()));
        let mut told = Vec::new();
        let program = load.program[0].display().to_string();
        let yard = (counts == Counts::Kept && on.is_ours()).then(Yard::default);
        let mut watch = Watch::new(load.interval, yard);
        let (took, ended) = if let Some(client) = &load.client {
            self.wait_until_ready(on, &mut child, &said, stop)?;
            let took = self.client(client, on, &mut child, &mut watch, &said, stop)?;
            let (ended, killed) = child.end(load.timeout, Some(stop))?;
            if killed {
                let after = load.timeout.as_secs_f64();
                told.push(format!(
                    "{program} did not end within {after} s after SIGTERM, and was ended by SIGKILL"
                ));
            } else if !asked_to_end(ended.status) {
                return Err(self.failed(on, &program, ended.status, &said));
            }
            (took, ended)
        } else {
            let pid = child.pid();
            let ended = child.end_of(Some((pid, &mut watch)), stop)?;
            if !ended.status.success() {
                return Err(self.failed(on, &program, ended.status, &said));
            }
            (ended.took, ended)
        };
        let seen = looker.map(|looker| looker.end());
        told.extend(complaints(said.as_deref()));
        let report = match (report, seen) {
            (Some((place, _)), Some(seen)) => self.report(&place, seen, &program, &mut told),
            _ => None,
        };
        if let (Some(yard), Some(report)) = (&mut watch.yard, &report) {
            yard.add(report);
        }
        let (mean, most) = (watch.looks.mean(), watch.looks.most());
        let waste = watch.yard.as_ref().and_then(Yard::waste);
        Ok(Run { took, ended, mean, most, waste, report, told })
    }

    /// The library's place for its report, and the page by which it asks to be read instead.
    fn expect_report(&self, command: &mut Command) -> anyhow::Result<(PathBuf, Page)> {
        let nth = std::fs::read_dir(self.directory.path()).map_or(0, Iterator::count);
        let place = self.directory.path().join(format!("report-{nth}"));
        let page = Page::make(&place).context("cannot make a file for the report")?;
        page.give_to(command);
        command.env(REPORT_ENV, &place);
        Ok((place, page))
    }

    fn report(
        &self,
        place: &Path,
        seen: LastLook,
        program: &str,
        told: &mut Vec<String>,
    ) -> Option<Snapshot> {
        let left = std::fs::read(place).unwrap_or_default();
        let parsed = report::parse(&left).ok();
        let report = parsed.or_else(|| seen.look.and_then(Result::ok));
        match (&report, seen.program) {
            (Some(_), _) => {}
            (None, None) => told.push(format!(
                "{program} was not on Slabyard (statically linked, set-user-id, or LD_PRELOAD was \
                 taken from it): its figures are another allocator's"
            )),
            (None, Some(_)) => told.push(format!(
                "{program} ended by a signal or a system call of its own and left no report, so \
                 that nothing is known of its waste and slow paths"
            )),
        }
        report
    }

    fn wait_until_ready(
        &self,
        on: &Contender,
        server: &mut Child,
        said: &Option<PathBuf>,
        stop: &mut Stop,
    ) -> Result<(), Failure> {
        let Some(ready) = &self.load.ready else { return Ok(()) };
        let until = Instant::now() + self.load.timeout;
        loop {
            let mut command = shell(ready);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut asks = Child::start(&mut command, Leftovers::Ended)?;
            if asks.wait(until, None, stop)?.is_some_and(|e| e.status.success()) {
                return Ok(());
            }
            if let Some(ended) = server.wait(Instant::now() + RETRY, None, stop)? {
                return Err(self.failed(on, "the program, not yet ready,", ended.status, said));
            }
            if Instant::now() >= until {
                let after = self.load.timeout.as_secs_f64();
                let lines = last_lines(said.as_deref());
                return Err(anyhow!(
                    "{}, {}: `{ready}` did not succeed within {after} s: the program is not \
                     ready{lines}",
                    on.name,
                    self.round
                )
                .into());
            }
        }
    }

    /// Runs the client to its end while the server is looked at.
    fn client(
        &self,
        client: &str,
        on: &Contender,
        server: &mut Child,
        watch: &mut Watch,
        said: &Option<PathBuf>,
        stop: &mut Stop,
    ) -> Result<Duration, Failure> {
        let mut command = shell(client);
        command.stdin(Stdio::null());
        let client_said = self.redirect(&mut command, on, "-client")?;
        let mut asks = Child::start(&mut command, Leftovers::Ended)?;
        *watch = Watch::new(self.load.interval, watch.yard.take());
        let ended = asks.end_of(Some((server.pid(), watch)), stop)?;
        // A client may well succeed without the server.
        if let Some(ended) = server.wait(Instant::now(), None, stop)? {
            return Err(self.failed(on, "the program, under its client,", ended.status, said));
        }
        if !ended.status.success() {
            return Err(self.failed(on, "the client", ended.status, &client_said));
        }
        Ok(ended.took)
    }

    fn shell(
        &self,
        option: &str,
        script: Option<&str>,
        on: &Contender,
        stop: &mut Stop,
    ) -> Result<(), Failure> {
        let Some(script) = script else { return Ok(()) };
        let mut command = shell(script);
        command.stdin(Stdio::null());
        let said = self.redirect(&mut command, on, option)?;
        let mut child = Child::start(&mut command, Leftovers::Kept)?;
        let ended = child.end_of(None, stop)?;
        if ended.status.success() {
            return Ok(());
        }
        Err(self.failed(on, option, ended.status, &said))
    }

    /// Sends the output where it belongs; the file of standard error, if there is one.
    fn redirect(
        &self,
        command: &mut Command,
        on: &Contender,
        of: &str,
    ) -> anyhow::Result<Option<PathBuf>> {
        let create = |path: &Path| File::create(path).with_context(|| path.display().to_string());
        let error = match &self.load.output {
            Output::Shown => return Ok(None),
            Output::Nowhere => {
                command.stdout(Stdio::null());
                self.directory.path().join(format!("said{of}"))
            }
            Output::Files(directory) => {
                let name = format!("{}-{}{of}", on.name.replace('/', "_"), self.round);
                command.stdout(create(&directory.join(format!("{name}.out")))?);
                directory.join(format!("{name}.err"))
            }
        };
        command.stderr(create(&error)?);
        Ok(Some(error))
    }

    fn failed(
        &self,
        on: &Contender,
        what: &str,
        status: ExitStatus,
        said: &Option<PathBuf>,
    ) -> Failure {
        let lines = last_lines(said.as_deref());
        anyhow!("{}, {}: {what} ended {}{lines}", on.name, self.round, by(status)).into()
    }
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(OsStr::new(script));
    command
}

fn open(path: &Path) -> anyhow::Result<File> {
    File::open(path).with_context(|| format!("--input {}", path.display()))
}

/// True if this is an end that a server may take when it is asked to: an exit of any code, or
/// by the signal itself.
fn asked_to_end(status: ExitStatus) -> bool {
    status.code().is_some() || status.signal() == Some(Signal::SIGTERM as i32)
}

fn by(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("with exit code {code}"),
        (None, Some(signal)) => format!("by {}", signal_name(signal)),
        (None, None) => "otherwise".into(),
    }
}

/// The last lines on standard error, for the end of a message.
fn last_lines(said: Option<&Path>) -> String {
    let Some(bytes) = said.and_then(|path| std::fs::read(path).ok()) else {
        return String::new();
    };
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return ", and said nothing on standard error".into();
    }
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    let indented: Vec<String> = last.iter().map(|line| format!("\n  {}", clean(line))).collect();
    format!("; its last lines on standard error:{}", indented.concat())
}

/// What our library and the loader have to say against what was asked for.
fn complaints(said: Option<&Path>) -> Vec<String> {
    let bytes = said.and_then(|path| std::fs::read(path).ok()).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let ours = |line: &&str| line.starts_with("slabyard: ") || line.starts_with("ERROR: ld.so: ");
    let mut lines: Vec<String> = text.lines().filter(ours).map(clean).collect();
    lines.dedup();
    lines.truncate(LAST_LINES);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_message_is_told() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lines: Vec<String> = (0..30).map(|n| format!("line {n}\n\n")).collect();
        std::fs::write(file.path(), lines.concat()).unwrap();
        let told = last_lines(Some(file.path()));
        assert!(told.contains("\n  line 20\n") && told.ends_with("\n  line 29"), "{told}");
        assert!(!told.contains("line 19"), "{told}");
        std::fs::write(file.path(), "a\u{1b}[31mb\n").unwrap();
        assert!(last_lines(Some(file.path())).ends_with("\n  a\u{fffd}[31mb"));
        assert_eq!(last_lines(None), "");
    }

    #[test]
    fn what_the_loader_says_is_no_words_of_the_program() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "hello\nERROR: ld.so: object 'x'\nslabyard: SLABYARD_FRONT is ignored\n";
        std::fs::write(file.path(), text).unwrap();
        let told = complaints(Some(file.path()));
        assert_eq!(told, ["ERROR: ld.so: object 'x'", "slabyard: SLABYARD_FRONT is ignored"]);
    }
}
