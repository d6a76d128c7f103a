//! The main loop: sample, draw, wait for a key or for the next sample's time.
//!
//! Neighbours: [`super::app`] holds the state, [`super::screen`] sets up the terminal,
//! [`super::events`] delivers keys and signals.

use super::app::{App, LoopAction, Start};
use super::draw::{ScreenOptions, draw};
use super::events::{A_WHILE, Event, Events};
use super::pane::{Pane, Want};
use super::screen::{self, Screen};
use crate::stderr::say;
use nix::unistd::{Pid, getpid, getsid};
use signal_hook::consts::signal::SIGTSTP;
use signal_hook::low_level::emulate_default_handler;
use slabyard_observe::Snapshot;
use slabyard_owners::Activity;
use std::io;
use std::time::{Duration, Instant};

/// What one look gave.
pub enum Sample {
    /// The source was sampled.
    Taken(Box<Taken>),
    /// It could not be sampled this time, and why.
    Failed(String),
    /// The process has ended.
    Gone,
    /// There is no later look in the timeline.
    Over,
}

/// A source as it was sampled.
pub struct Taken {
    /// Its caches.
    pub snapshot: Snapshot,
    /// The time since the first look.
    pub at: Duration,
    /// What was counted since the last look, if it was wanted, or why it was not.
    pub activity: Option<Result<Activity, String>>,
}

/// Why the loop ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The user ended it.
    Quit,
    /// There is nothing to look at any more.
    Gone,
    /// A signal asked for it.
    Signal(i32),
}

/// Shows a source until the end. The terminal is given back when this returns.
pub fn run(
    start: Start,
    first: Snapshot,
    look: &ScreenOptions,
    mut sample: impl FnMut(Want) -> Sample,
) -> io::Result<End> {
    let mut app = App::new(start, first);
    // Before the terminal is taken: a signal then must not leave it taken.
    let events = Events::catch()?;
    if let Some(end) = until_foreground(&events) {
        return Ok(end);
    }
    let mut screen = Screen::enter()?;
    events.read_keys()?;
    let mut due = Instant::now() + app.interval;
    if app.pane == Pane::Sites {
        // What is counted begins at the first look.
        due = Instant::now();
    }
    loop {
        if !screen::in_foreground() {
            if let Some(end) = until_foreground(&events) {
                return Ok(end);
            }
            screen.enter_again()?;
        }
        if !app.paused && due <= Instant::now() {
            match sample(app.want()) {
                Sample::Taken(taken) => {
                    app.take(taken.snapshot, taken.at);
                    app.count(taken.activity);
                }
                Sample::Failed(why) => app.trouble = Some(why),
                Sample::Gone => return Ok(End::Gone),
                Sample::Over => app.paused = true,
            }
            // From now on, not from when it was due: looks that take longer than
            // the interval do not pile up.
            due = Instant::now() + app.interval;
        }
        screen.draw(|frame| draw(frame, &mut app, look))?;
        let mut wait = (!app.paused).then(|| due.saturating_duration_since(Instant::now()));
        // All that is there, before the next picture.
        while let Some(event) = events.next(wait) {
            match event {
                Event::Key(key) => match app.press(key) {
                    LoopAction::Draw => due = due.min(Instant::now() + app.interval),
                    LoopAction::Look => due = Instant::now(),
                    LoopAction::Quit => return Ok(End::Quit),
                    LoopAction::Suspend => suspend()?,
                },
                Event::Size => app.view.widths.clear(),
                Event::End(signal) => return Ok(End::Signal(signal)),
                Event::Stop => suspend()?,
                Event::Continue => {
                    if let Some(end) = until_foreground(&events) {
                        return Ok(end);
                    }
                    screen.enter_again()?;
                }
                Event::Closed(error) => return Err(error),
            }
            wait = Some(Duration::ZERO);
        }
    }
}

/// Waits in the background, without being stopped, until a shell gives us its terminal or a signal ends us.
fn until_foreground(events: &Events) -> Option<End> {
    if screen::in_foreground() {
        return None;
    }
    say("top is in the background: `fg` shows it, SIGTERM ends it");
    while !screen::in_foreground() {
        if let Some(Event::End(signal)) = events.next(Some(A_WHILE)) {
            return Some(End::Signal(signal));
        }
    }
    None
}

/// Gives the terminal back and stops. When we go on, SIGCONT takes it again.
fn suspend() -> io::Result<()> {
    // Who leads the session has no shell that could let it go on.
    if getsid(None::<Pid>).is_ok_and(|leader| leader == getpid()) {
        return Ok(());
    }
    screen::leave();
    emulate_default_handler(SIGTSTP)
}
