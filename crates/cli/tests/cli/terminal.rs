//! The command on a terminal: the report's appearance, and keys that send signals.

use crate::stage::Stage;
use nix::libc;
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

const INTERRUPT: u8 = 3;

/// A command whose controlling terminal is ours to type on.
struct Terminal {
    child: Child,
    screen: File,
    seen: String,
}

impl Terminal {
    fn start(command: Command) -> Terminal {
        Terminal::of_width(80, command)
    }

    fn of_width(columns: u16, mut command: Command) -> Terminal {
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let OpenptyResult { master, slave } = openpty(&size, None).unwrap();
        let take = || {
            nix::unistd::setsid()?;
            // SAFETY: no memory is involved; standard input is the terminal.
            match unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) } {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        };
        // SAFETY: two system calls between fork and exec; no allocation.
        unsafe { command.pre_exec(take) };
        command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap());
        let child = command.stderr(slave).env("TERM", "xterm").spawn().unwrap();
        // `command` ends here and closes our copies of the terminal's other
        // end, so that the screen ends with the program.
        Terminal { child, screen: File::from(master), seen: String::new() }
    }

    /// Reads until the text appears.
    fn wait_for(&mut self, text: &str) {
        while !self.seen.contains(text) {
            assert!(self.read(), "no {text:?} in {:?}", self.seen);
        }
    }

    fn press(&mut self, key: u8) {
        self.screen.write_all(&[key]).unwrap();
    }

    /// The whole screen and the exit code.
    fn end(mut self) -> (String, Option<i32>) {
        while self.read() {}
        (self.seen, self.child.wait().unwrap().code())
    }

    /// False at the end, which a terminal tells by an error.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 512];
        let n = self.screen.read(&mut bytes).unwrap_or(0);
        self.seen += &String::from_utf8_lossy(&bytes[..n]);
        n > 0
    }
}

#[test]
fn a_terminal_gets_units_and_colours_and_no_color_is_honoured() {
    let Some(stage) = Stage::new() else { return };
    let seen = |no_color: &str| {
        let mut command = stage.slabyard();
        command.args(["run", "--", "true"]).env("NO_COLOR", no_color);
        let (seen, code) = Terminal::start(command).end();
        assert_eq!(code, Some(0), "{seen}");
        assert!(seen.contains("8.0 KiB") && seen.contains("50.0%"), "{seen}");
        seen
    };
    assert!(seen("").contains("\x1b[1mname"));
    assert!(!seen("1").contains('\x1b'));
}

#[test]
fn the_interrupt_key_reaches_the_program_once() {
    let Some(stage) = Stage::new() else { return };
    let mut command = stage.slabyard();
    let script = "trap 'n=$((n + 1)); echo n=$n' INT; echo ready; \
                  read _; read _; read _; exit 5";
    command.args(["run", "--", "sh", "-c", script]);
    let mut terminal = Terminal::start(command);
    terminal.wait_for("ready");
    // We look at the signal only when the program is done with it: two that
    // come together would be one to the program.
    let run = Pid::from_raw(terminal.child.id().cast_signed());
    kill(run, Signal::SIGSTOP).unwrap();
    terminal.press(INTERRUPT);
    terminal.press(b'\n');
    terminal.wait_for("n=1");
    kill(run, Signal::SIGCONT).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    terminal.press(b'\n');
    terminal.press(b'\n');
    let (seen, code) = terminal.end();
    assert!(!seen.contains("n=2"), "{seen}");
    assert_eq!(code, Some(5));
}

#[test]
fn a_program_that_stops_itself_stops_us_in_the_foreground() {
    let Some(stage) = Stage::new() else { return };
    let mut command = stage.slabyard();
    command.args(["run", "--report", "none", "--", "sh", "-c"]);
    command.arg("echo ready; kill -STOP $$; echo on; exit 5");
    let mut terminal = Terminal::start(command);
    terminal.wait_for("ready");
    let run = Pid::from_raw(terminal.child.id().cast_signed());
    let state = waitpid(run, Some(WaitPidFlag::WUNTRACED)).unwrap();
    assert_eq!(state, WaitStatus::Stopped(run, Signal::SIGSTOP));
    kill(run, Signal::SIGCONT).unwrap();
    let (seen, code) = terminal.end();
    assert!(seen.contains("on"), "{seen}");
    assert_eq!(code, Some(5));
}

#[test]
fn the_report_follows_a_program_that_survived_the_interrupt_key() {
    let Some(stage) = Stage::new() else { return };
    let mut command = stage.slabyard();
    command.args(["run", "--"]).arg(stage.program()).arg("trap : INT; echo ready; read _; exit 5");
    let mut terminal = Terminal::start(command);
    terminal.wait_for("ready");
    terminal.press(INTERRUPT);
    terminal.press(b'\n');
    let (seen, code) = terminal.end();
    assert!(seen.contains("committed"), "{seen}");
    assert_eq!(code, Some(5));
}

#[test]
fn the_interrupt_key_ends_us_as_it_ends_the_program() {
    use std::os::unix::process::ExitStatusExt;
    let Some(stage) = Stage::new() else { return };
    let mut command = stage.slabyard();
    command.args(["run", "--", "sh", "-c", "echo ready; exec sleep 60"]);
    let mut terminal = Terminal::start(command);
    terminal.wait_for("ready");
    terminal.press(INTERRUPT);
    terminal.wait_for("no report: sh");
    let status = terminal.child.wait().unwrap();
    assert_eq!(status.signal(), Some(2), "{status}");
    assert!(stage.is_clean());
}

#[test]
fn the_report_of_a_program_that_the_interrupt_key_ends_is_of_a_look_before() {
    use std::os::unix::process::ExitStatusExt;
    if Stage::new().is_none() {
        return;
    }
    let program = crate::stage::holds().expect("it was compiled");
    // A busy machine may come to its first look late.
    for wait in [1, 3, 9, 27] {
        let mut command = Command::new(crate::stage::SLABYARD);
        command.env("SLABYARD_LIB", crate::stage::real_library()).env_remove("LD_PRELOAD");
        command.args(["run", "--"]).arg(program);
        let mut terminal = Terminal::start(command);
        terminal.wait_for("ready");
        std::thread::sleep(Duration::from_secs(wait));
        terminal.press(INTERRUPT);
        while terminal.read() {}
        let (seen, status) = (&terminal.seen, terminal.child.wait().unwrap());
        assert_eq!(status.signal(), Some(2), "{status}");
        if seen.contains("committed") {
            assert!(seen.contains("was ended by SIGINT: the report is of a look "), "{seen}");
            return;
        }
        assert!(seen.contains("no report: "), "{seen}");
    }
    panic!("no look was taken");
}

#[test]
fn a_list_on_a_terminal_has_units_and_fits_its_width() {
    let (_directory, path) = crate::looking::saved();
    let mut command = Command::new(crate::stage::SLABYARD);
    command.arg("list").arg(&path).env_remove("NO_COLOR");
    let (seen, code) = Terminal::start(command).end();
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("80.0 KiB") && seen.contains("\x1b[1mname"), "{seen}");
    assert!(seen.contains("left out for want of width: objs_per_slab"), "{seen}");
}

#[test]
fn a_comparison_on_a_terminal_is_a_picture_that_fits() {
    let Some(stage) = Stage::new() else { return };
    let script = "case $SLABYARD_ENGINE in tiny) sleep 0.5 ;; esac";
    let seen = |columns: u16, no_color: &str| {
        let mut command = stage.slabyard();
        command.env("NO_COLOR", no_color).env("LC_ALL", "C.UTF-8");
        command.args(["compare", "--rounds", "1", "--no-counts", "--warmup", "0"]);
        command.args(["--with", "slub", "--with", "tiny", "--", "sh", "-c", script]);
        let (seen, code) = Terminal::of_width(columns, command).end();
        assert_eq!(code, Some(0), "{seen}");
        assert!(seen.contains("round 1") && seen.contains("tiny"), "progress: {seen:?}");
        // What is behind the progress, which clears its line.
        seen.rsplit("\x1b[2K").next().unwrap().to_owned()
    };
    let tiny = seen(80, "1");
    assert!(tiny.contains('█') && !tiny.contains('\x1b'), "{tiny:?}");
    assert!(seen(80, "").contains("\x1b[31m█"), "the slower one is red");
    let narrow = seen(26, "1");
    assert!(narrow.contains("\ntiny"), "{narrow}");
    // The head and the legend are words, which a terminal may break.
    let figures = narrow.lines().filter(|l| l.starts_with("slub ") || l.starts_with("tiny "));
    assert!(figures.clone().count() >= 4, "{narrow}");
    assert!(figures.into_iter().all(|line| line.trim_end().chars().count() <= 26), "{narrow}");
}
