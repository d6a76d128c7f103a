//! Waits for the end of a recording: the command's exit, a signal, a time limit, or a full file.

use crate::failure::Failure;
use anyhow::Context;
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::iterator::exfiltrator::origin::Origin;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at how far it came.
const LOOK: Duration = Duration::from_millis(200);

enum ProgressEvent {
    Signal(Origin),
    Ended(io::Result<ExitStatus>),
}

/// The end of a command, and the signals that end a recording before it.
pub struct CommandWait {
    news: Receiver<ProgressEvent>,
    to: Sender<ProgressEvent>,
    command: Option<u32>,
    stopped: u32,
}

/// How the recording stands.
pub enum RecordingState {
    /// The command goes on.
    Goes,
    /// The command has ended.
    Ended(ExitStatus),
    /// A signal asked for the recording's end.
    Stopped,
}

/// Why the recording ended, and how the command did.
#[derive(Default)]
pub struct RecordingEnd {
    /// The command's end, if it came to one.
    pub command: Option<ExitStatus>,
}

impl CommandWait {
    /// Takes signals from now on.
    pub fn new() -> Result<CommandWait, Failure> {
        let mut signals = SignalsInfo::<WithOrigin>::new([SIGINT, SIGTERM, SIGHUP])
            .context("cannot take signals")?;
        let (to, news) = channel();
        let tell = to.clone();
        thread::spawn(move || {
            for signal in &mut signals {
                if tell.send(ProgressEvent::Signal(signal)).is_err() {
                    break;
                }
            }
        });
        Ok(CommandWait { news, to, command: None, stopped: 0 })
    }

    /// Starts a command, if there is one.
    pub fn start(&mut self, words: &[OsString]) -> Result<(), Failure> {
        let Some((program, rest)) = words.split_first() else { return Ok(()) };
        self.spawn(Command::new(program).args(rest))?;
        Ok(())
    }

    /// Starts a command; its process.
    pub fn spawn(&mut self, command: &mut Command) -> Result<u32, Failure> {
        let child = command.spawn();
        let program = command.get_program().to_owned();
        let mut child = child.map_err(|error| Failure::Start { program, error })?;
        let pid = child.id();
        self.command = Some(pid);
        let to = self.to.clone();
        thread::spawn(move || {
            let _ = to.send(ProgressEvent::Ended(child.wait()));
        });
        Ok(pid)
    }

    /// Takes what has come, without waiting.
    pub fn look(&mut self) -> Result<RecordingState, Failure> {
        match self.news.try_recv() {
            Ok(ProgressEvent::Ended(status)) => {
                self.command = None;
                Ok(RecordingState::Ended(status.context("cannot wait for the command")?))
            }
            Ok(ProgressEvent::Signal(signal)) if self.pass_on(&signal) => {
                Ok(RecordingState::Stopped)
            }
            _ => Ok(RecordingState::Goes),
        }
    }

    /// Waits; calls `look` now and then, which tells if it is over.
    pub fn wait(
        &mut self,
        duration: Option<Duration>,
        mut look: impl FnMut() -> bool,
    ) -> Result<RecordingEnd, Failure> {
        let end = duration.map(|duration| Instant::now() + duration);
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(RecordingEnd::default());
            }
            match self.news.recv_timeout(left.map_or(LOOK, |left| left.min(LOOK))) {
                Ok(ProgressEvent::Ended(status)) => {
                    self.command = None;
                    let status = status.context("cannot wait for the command")?;
                    return Ok(RecordingEnd { command: Some(status) });
                }
                Ok(ProgressEvent::Signal(signal)) => {
                    if self.pass_on(&signal) {
                        return Ok(RecordingEnd::default());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(RecordingEnd::default()),
            }
            if look() {
                return Ok(RecordingEnd::default());
            }
        }
    }

    /// Waits for a command that was not recorded to its end.
    pub fn command(&mut self) -> Result<Option<ExitStatus>, Failure> {
        let mut ended = RecordingEnd::default();
        while self.command.is_some() {
            ended = self.wait(None, || false)?;
        }
        Ok(ended.command)
    }

    /// True if the signal ends the recording: there is no command that ends it, or it is not the
    /// first.
    fn pass_on(&mut self, origin: &Origin) -> bool {
        self.stopped += 1;
        let Some(command) = self.command else { return true };
        // What the terminal sends has reached the command by itself; only processes have ids.
        if let Some(sender) = &origin.process
            && let (Ok(signal), Ok(pid)) = (Signal::try_from(origin.signal), i32::try_from(command))
            && sender.pid != pid
        {
            let _ = signal::kill(Pid::from_raw(pid), signal);
        }
        self.stopped > 1
    }
}

/// The exit code of a command, as a shell says it.
pub fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}
