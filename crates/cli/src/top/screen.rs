//! The terminal: switched to full-screen drawing, and restored whatever happens.
//!
//! Neighbours: [`super::live`] enters and leaves this mode; [`super::events`] reads keys and
//! signals meanwhile. Invariant: [`leave`], which dropping a [`Screen`] and a panic of any thread
//! also call, restores the terminal's state from before [`Screen::enter`]. The terminal is changed
//! only from the foreground: the kernel stops a process that changes it from the background, and
//! SIGTERM would then not end the process.

use nix::unistd::{getpgrp, tcgetpgrp};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::{cursor, execute, terminal};
use std::io::{self, Stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// True while the terminal is ours. A panic's hook has no other way to know.
static OURS: AtomicBool = AtomicBool::new(false);

/// The terminal, as long as it is ours.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal: raw mode, and the screen that leaves the shell's as it was.
    pub fn enter() -> io::Result<Screen> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let print = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                // First, or the message would vanish with the screen.
                leave();
                print(panic);
            }));
        });
        take()?;
        match Terminal::new(CrosstermBackend::new(io::stdout())) {
            Ok(terminal) => Ok(Screen { terminal }),
            Err(error) => {
                leave();
                Err(error)
            }
        }
    }

    /// Takes the terminal again, after others had it.
    pub fn enter_again(&mut self) -> io::Result<()> {
        // A stop that cannot be caught (SIGSTOP) left it as it was, and the shell
        // changed what it wanted: from the begin.
        leave();
        take()?;
        // A terminal that remembers nothing draws everything. It is not asked to
        // clear itself: that asks where the cursor is, and the answer comes as keys.
        execute!(io::stdout(), terminal::Clear(terminal::ClearType::All))?;
        self.terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(())
    }

    /// Draws a picture over the last one.
    pub fn draw(&mut self, picture: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(picture).map(|_| ())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// True if the terminal is our group's. One that does not control us asks nobody whose it is.
pub fn in_foreground() -> bool {
    tcgetpgrp(io::stdin()).map_or(true, |group| group == getpgrp())
}

/// Gives the terminal back, if it is ours. Nobody is left to read of errors.
pub fn leave() {
    if OURS.swap(false, Ordering::SeqCst) {
        let _ = execute!(io::stdout(), terminal::LeaveAlternateScreen, cursor::Show);
        let _ = terminal::disable_raw_mode();
    }
}

fn take() -> io::Result<()> {
    OURS.store(true, Ordering::SeqCst);
    let taken = terminal::enable_raw_mode()
        .and_then(|()| execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide));
    if taken.is_err() {
        leave();
    }
    taken
}
