//! Long work for Python: on a thread of its own, while the caller's thread has released the
//! interpreter's lock, passes progress on, and looks for signals.
//!
//! Invariants: the worker touches nothing of Python; when the caller gives up, because of Ctrl-C or of
//! an exception of its progress function, the worker is asked to stop, and its result is dropped.

use crate::error::{Note, raised};
use pyo3::prelude::*;
use slabyard_ask::{Error, Listener};
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// How often signals are looked for.
const TICK: Duration = Duration::from_millis(50);
/// As a process's first thread has.
const STACK: usize = 8 << 20;

/// What a worker tells the thread that waits for it.
enum Told {
    Stage(String),
    Done(usize, usize),
    Note(String),
}

/// The worker's side.
pub struct Watch {
    told: Sender<Told>,
    stopped: Arc<AtomicBool>,
}

impl Watch {
    /// An error if nobody waits for the result any more.
    pub fn go_on(&self) -> Result<(), Error> {
        match self.is_stopped() {
            true => Err(Error::Cannot(anyhow::anyhow!("stopped"))),
            false => Ok(()),
        }
    }
}

impl Listener for Watch {
    fn stage(&self, what: &str) {
        let _ = self.told.send(Told::Stage(what.to_owned()));
    }

    fn clear(&self) {}

    fn say(&self, text: &str) {
        let _ = self.told.send(Told::Note(text.to_owned()));
    }

    fn done(&self, done: usize, all: usize) {
        let _ = self.told.send(Told::Done(done, all));
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// Stops the worker when the caller goes.
struct StopAtEnd(Arc<AtomicBool>);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Works, with the interpreter's lock released. `progress` is a function of a stage's name, of what is
/// done of it and of how much there is, both 0 where that is not known; or `True` for a bar.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Watch) -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    let bar = Bar::of(py, progress)?;
    let (sender, mut told) = mpsc::channel();
    let stopped = Arc::new(AtomicBool::new(false));
    let watch = Watch { told: sender, stopped: Arc::clone(&stopped) };
    let _stop = StopAtEnd(stopped);
    let worker = thread::Builder::new()
        .name("slabyard".into())
        .stack_size(STACK)
        // The watch goes with the work, and with it the channel.
        .spawn(move || work(&watch))?;
    let (mut stage, mut notes) = (String::new(), Vec::new());
    loop {
        let received;
        (received, told) = py.detach(move || (told.recv_timeout(TICK), told));
        match received {
            Ok(Told::Stage(what)) => {
                stage = what;
                bar.show(&stage, 0, 0)?;
            }
            Ok(Told::Done(done, all)) => bar.show(&stage, done, all)?,
            Ok(Told::Note(text)) => notes.push(text),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        py.check_signals()?;
    }
    let result = py.detach(|| worker.join());
    drop(bar);
    for note in &notes {
        warn(py, note)?;
    }
    // A panic becomes an exception in the caller's thread.
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(raised)
}

/// Warns of what the command would say on standard error, where the package was called: Python says the
/// same of one line once.
fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    let text = CString::new(text.replace('\0', " "))?;
    PyErr::warn(py, &py.get_type::<Note>(), &text, own_frames(py)? + 1)
}

/// How many functions of the package's Python files are between its caller and here.
fn own_frames(py: Python<'_>) -> PyResult<i32> {
    let mut frame = py.import("sys")?.call_method0("_getframe")?;
    let mut own = 0;
    while !frame.is_none() {
        let package = frame.getattr("f_globals")?.call_method1("get", ("__package__",))?;
        if !package.eq("slabyard")? {
            break;
        }
        own += 1;
        frame = frame.getattr("f_back")?;
    }
    Ok(own)
}

/// Who is told how far the work is.
struct Bar<'py>(Option<Bound<'py, PyAny>>);

impl<'py> Bar<'py> {
    fn of(py: Python<'py>, progress: Option<&Bound<'py, PyAny>>) -> PyResult<Bar<'py>> {
        let Some(progress) = progress.filter(|asked| !asked.is_none()) else {
            return Ok(Bar(None));
        };
        Ok(Bar(match progress.extract::<bool>() {
            Ok(false) => None,
            Ok(true) => Some(py.import("slabyard._progress")?.getattr("Bar")?.call0()?),
            Err(_) => Some(progress.clone()),
        }))
    }

    fn show(&self, stage: &str, done: usize, all: usize) -> PyResult<()> {
        self.0.as_ref().map_or(Ok(()), |show| show.call1((stage, done, all)).map(drop))
    }
}

impl Drop for Bar<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.0
            && let Ok(close) = bar.getattr("close")
        {
            let _ = close.call0();
        }
    }
}
