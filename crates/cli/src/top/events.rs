//! The events that the main loop handles: keys, resizes, signals. Two threads wait for keys and for
//! signals, and send them to one channel, so that the loop waits in one place for all events and
//! for its next sample.

use super::screen::in_foreground;
use nix::sys::signal::{SigSet, Signal};
use ratatui::crossterm::event::{self, Event as TerminalEvent, KeyEvent, KeyEventKind};
use signal_hook::consts::signal::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// What wakes the loop of `top`.
#[derive(Debug)]
pub enum Event {
    /// A key was pressed.
    Key(KeyEvent),
    /// The screen has another size.
    Size,
    /// A signal that ends us.
    End(i32),
    /// We are to stop.
    Stop,
    /// We were stopped, and go on.
    Continue,
    /// The terminal cannot be read any more.
    Closed(io::Error),
}

/// Between two looks at whose terminal it is.
pub const A_WHILE: Duration = Duration::from_millis(100);

/// The signals, caught from [`Events::catch`] on, and what comes after them.
pub struct Events {
    events: Receiver<Event>,
    keys: Sender<Event>,
}

impl Events {
    /// Catches signals from now on.
    pub fn catch() -> io::Result<Events> {
        // For the moment between a look at whose terminal it is and its use: a process that
        // these stop is ended by no SIGTERM. The threads inherit it.
        let stops: SigSet = [Signal::SIGTTIN, Signal::SIGTTOU].into_iter().collect();
        stops.thread_block()?;
        let (signals_to, events) = channel();
        let keys = signals_to.clone();
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGCONT])?;
        thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in signals.forever() {
                let event = match signal {
                    SIGTSTP => Event::Stop,
                    SIGCONT => Event::Continue,
                    signal => Event::End(signal),
                };
                if signals_to.send(event).is_err() {
                    return;
                }
            }
        })?;
        Ok(Events { events, keys })
    }

    /// Reads keys from now on: when the terminal is in the mode for it.
    pub fn read_keys(&self) -> io::Result<()> {
        let keys = self.keys.clone();
        thread::Builder::new().name("keys".into()).spawn(move || {
            loop {
                // What is typed meanwhile is the shell's.
                if !in_foreground() {
                    thread::sleep(A_WHILE);
                    continue;
                }
                let read =
                    event::poll(A_WHILE).and_then(|there| there.then(event::read).transpose());
                let event = match read {
                    Ok(None) => continue,
                    Ok(Some(event)) => Ok(event),
                    Err(_) if !in_foreground() => continue,
                    Err(error) => Err(error),
                };
                let event = match event {
                    Ok(TerminalEvent::Key(key)) if key.kind != KeyEventKind::Release => {
                        Event::Key(key)
                    }
                    Ok(TerminalEvent::Resize(..)) => Event::Size,
                    Ok(_) => continue,
                    Err(error) => {
                        let _ = keys.send(Event::Closed(error));
                        return;
                    }
                };
                if keys.send(event).is_err() {
                    return;
                }
            }
        })?;
        Ok(())
    }

    /// The next event, if there is one within the time.
    pub fn next(&self, within: Option<Duration>) -> Option<Event> {
        match within {
            None => self.events.recv().ok(),
            // It can only be late: a sender is in `self`, so it is connected.
            Some(time) => self.events.recv_timeout(time).ok(),
        }
    }
}
