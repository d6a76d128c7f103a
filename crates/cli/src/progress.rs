//! Shows on a terminal how many runs of many are done, and the time left.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::Duration;

/// A line on standard error; gone when this is.
#[derive(Clone)]
pub struct Progress(ProgressBar);

impl Progress {
    /// For so many runs; `shown` says that the program writes to the terminal itself.
    pub fn new(runs: usize, shown: bool) -> Progress {
        if shown || !io::stderr().is_terminal() {
            return Progress(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(Some(runs as u64), ProgressDrawTarget::stderr());
        let template = "{prefix} [{bar:20}] {pos}/{len}, {eta} left: {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(500));
        Progress(bar)
    }

    /// Shows which contender runs in which round.
    pub fn begin(&self, round: &str, contender: &str) {
        self.0.set_prefix(round.to_owned());
        self.0.set_message(contender.to_owned());
    }

    /// Counts runs that were done before, which say nothing of the time left.
    pub fn done_before(&self, runs: usize) {
        self.0.set_position(runs as u64);
        self.0.reset_eta();
    }

    /// Counts a run that ended.
    pub fn end(&self) {
        self.0.inc(1);
    }

    /// Takes the line away.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
