//! Shows on a terminal what the command is doing.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::Duration;

/// A line on standard error; gone when this is.
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

    /// Counts a run that ended.
    pub fn end(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
