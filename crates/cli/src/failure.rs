//! Why the command fails, and with which exit code.
//!
//! Exit codes: 2 for usage errors, as in clap; 3 for other failures; 126 or 127 if a program could
//! not be started; 128 plus a signal's number if that signal stopped the command, as in a shell.

use std::ffi::OsString;
use std::io;
use thiserror::Error;

/// Why the command failed.
#[derive(Debug, Error)]
pub enum Failure {
    /// Arguments that do not go together.
    #[error("{0}")]
    Usage(String),
    /// The program does not start.
    #[error("{}: {error}", program.display())]
    Start {
        /// As it was typed.
        program: OsString,
        /// What the system says.
        error: io::Error,
    },
    /// A signal asked us to stop.
    #[error("stopped by {}; what was running was ended", signal_name(*.0))]
    Stopped(i32),
    /// A signal ended the wait for a process's answer.
    #[error("stopped by {}; the request was taken back, and nothing waits in the process", signal_name(*.0))]
    Withdrawn(i32),
    /// Anything else, with its context.
    #[error(transparent)]
    Cannot(#[from] anyhow::Error),
}

impl From<slabyard_ask::Error> for Failure {
    fn from(error: slabyard_ask::Error) -> Failure {
        match error {
            slabyard_ask::Error::Usage(text) => Failure::Usage(text),
            slabyard_ask::Error::Cannot(error) => Failure::Cannot(error),
        }
    }
}

impl Failure {
    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Start { error, .. } if error.kind() == io::ErrorKind::NotFound => 127,
            Failure::Start { .. } => 126,
            // As a shell says it.
            Failure::Stopped(signal) | Failure::Withdrawn(signal) => {
                u8::try_from(128 + signal).unwrap_or(u8::MAX)
            }
            Failure::Cannot(_) if self.is_broken_pipe() => 0,
            Failure::Cannot(_) => 3,
        }
    }

    /// True if `slabyard explain` may know the message: what was typed wrongly says what is right.
    pub fn has_code(&self) -> bool {
        matches!(self, Failure::Cannot(_) | Failure::Withdrawn(_))
    }

    /// True if our reader went away, which is success.
    pub fn is_broken_pipe(&self) -> bool {
        let Failure::Cannot(error) = self else {
            return false;
        };
        let io = error.chain().find_map(|e| e.downcast_ref::<io::Error>());
        io.is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// As people know it.
pub fn signal_name(signal: i32) -> String {
    let known = nix::sys::signal::Signal::try_from(signal);
    known.map_or_else(|_| format!("signal {signal}"), |signal| signal.as_str().to_owned())
}
