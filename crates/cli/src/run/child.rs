//! Runs the program as our child process: starts it, waits for it, and stops or ends as it does.
//!
//! The program stays in our process group, so the terminal's signals reach it directly. A signal
//! sent only to us is passed on:
//!
//! ```text
//! signal from           reaches the program   we
//! the terminal          by itself             do nothing: the last look is recent
//! another process       not                   pass it on; look first if it ends the program
//! the program           it sent it            do nothing
//! ```
//!
//! When the program is stopped, we stop ourselves by the same signal, so that the shell takes the
//! terminal back; the shell's SIGCONT wakes us and is passed on. If someone sends SIGSTOP to the
//! program's own id, they will send SIGCONT there too, which would not wake us. So we stop with the
//! program only if it is in the terminal's foreground.

use super::last_look::{LastLook, LastLookThread, Page};
use super::signals::{self, Origin, Signals};
use super::watching::{TimedLook, Watching};
use crate::failure::{Failure, signal_name};
use anyhow::Context;
use nix::libc;
use slabyard_observe::process::{self, Error};
use slabyard_observe::{ReadScope, Snapshot};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It ended by itself, with this code.
    Exit(u8),
    /// It was killed.
    Signal(i32),
}

impl Ending {
    /// Ends this process in the same way. Nothing of ours may be left to do.
    pub fn leave(self) -> ExitCode {
        match self {
            Ending::Exit(code) => ExitCode::from(code),
            Ending::Signal(signal) => {
                signals::die_by(signal);
                // Still here: the system refused. Say it as a shell would.
                ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))
            }
        }
    }

    /// Name of the signal that ended it.
    pub fn signal(self) -> Option<String> {
        let Ending::Signal(signal) = self else { return None };
        Some(signal_name(signal))
    }

    fn of(status: ExitStatus) -> Option<Ending> {
        // The system keeps 8 bits of the code.
        let code = status.code().map(|code| Ending::Exit((code & 0xff) as u8));
        code.or_else(|| status.signal().map(Ending::Signal))
    }
}

/// The program's end, and what was seen of it.
pub struct End {
    pub ending: Ending,
    /// What the program was called when it ended: it may have begun another one.
    pub name: String,
    /// What it showed before, if a report was wanted.
    pub seen: Option<LastLook>,
    /// The last look that was taken before a signal was passed on.
    pub before_signal: Option<Result<Snapshot, Error>>,
    /// The last look that was taken in the terminal's foreground.
    pub watched: Option<TimedLook>,
}

/// Starts the program and returns at its end. Before it is looked at by the page, if there
/// is one. `started` gets its number, and no thread that it makes gets a signal.
pub fn run(
    command: &mut Command,
    page: Option<Page>,
    started: impl FnOnce(u32),
) -> Result<End, Failure> {
    let signals = Signals::hold().context("cannot hold signals back")?;
    signals.release_in(command);
    let child = command
        .spawn()
        .map_err(|error| Failure::Start { program: command.get_program().to_owned(), error })?;
    let pid = i32::try_from(child.id()).context("process id")?;
    // After the signals were held, so that the thread gets none.
    let looker = page.map(|page| page.listen(child.id()));
    started(child.id());
    let mut before_signal = None;
    // A look takes milliseconds, in which the program goes on: what it does with the signal then is
    // what it would have done.
    let look = |signal| {
        if page.is_some() && signals::would_end(pid, signal) {
            before_signal = Some(process::sample(child.id(), ReadScope::default()));
        }
    };
    let mut watching = page.map(|_| Watching::new(child.id()));
    let ended = watch(pid, &signals, look, watching.as_mut());
    let (ending, name) = ended.context("cannot wait for the program")?;
    let seen = looker.map(LastLookThread::end);
    signals.release().context("cannot release signals")?;
    let watched = watching.and_then(Watching::end);
    Ok(End { ending, name, seen, before_signal, watched })
}

fn watch(
    pid: i32,
    signals: &Signals,
    mut look: impl FnMut(i32),
    mut watching: Option<&mut Watching>,
) -> io::Result<(Ending, String)> {
    loop {
        let next = signals.next_within(watching.as_ref().map(|watching| watching.pause()))?;
        let Some((signal, origin)) = next else {
            watching.iter_mut().for_each(|watching| watching.look());
            continue;
        };
        match origin {
            Origin::Child => {
                // While it is there.
                let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
                if let Some(ending) = follow(pid, signals)? {
                    let name = name.unwrap_or_default();
                    return Ok((ending, name.replace(|c: char| c.is_control(), "")));
                }
            }
            Origin::Process(sender) if sender != pid => {
                look(signal);
                signals::send(pid, signal);
            }
            Origin::Process(_) | Origin::Kernel => {}
        }
    }
}

/// Takes every change of the child's state; the last one counts, as a child
/// that was continued meanwhile must not stop us.
fn follow(pid: i32, signals: &Signals) -> io::Result<Option<Ending>> {
    let mut stopped = None;
    while let Some(status) = signals::changed(pid)? {
        if let Some(ending) = Ending::of(status) {
            return Ok(Some(ending));
        }
        stopped = status.stopped_signal();
    }
    match stopped {
        None => {}
        Some(libc::SIGSTOP) if !signals::in_foreground() => {}
        Some(signal) => signals.stop_by(signal)?,
    }
    Ok(None)
}
