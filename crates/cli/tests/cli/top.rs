//! `top` in a real terminal (tmux): what it shows, and that it restores the terminal.

use crate::skipped::skip;
use crate::stage::{SLABYARD, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A machine that is busy may take its time; nothing waits for this long otherwise.
const PATIENCE: Duration = Duration::from_secs(120);

/// A shell in a terminal of its own.
struct Terminal {
    server: String,
    directory: TempDir,
}

impl Terminal {
    /// `None`, said aloud, without tmux.
    fn open(width: u32, height: u32) -> Option<Terminal> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let server = format!("slabyard-test-{}-{number}", std::process::id());
        let directory = TempDir::new().unwrap();
        let mut tmux = Command::new("tmux");
        tmux.args(["-L", &server, "-f", "/dev/null", "-u", "new-session", "-d"])
            .args(["-x", &width.to_string(), "-y", &height.to_string()])
            .arg("-c")
            .arg(directory.path())
            .args(["-e", "ENV=", "-e", "NO_COLOR=", "exec sh"])
            .env_remove("TMUX");
        let started = match tmux.output() {
            Ok(output) => output,
            Err(error) => {
                skip(&format!("tmux: {error}"));
                return None;
            }
        };
        assert!(started.status.success(), "{}", text(&started.stderr));
        let terminal = Terminal { server, directory };
        // A root's shell may not take it from its surroundings. What is typed does not
        // hold what is waited for.
        terminal.line("PS1='ready''> '");
        terminal.wait_for("ready>");
        Some(terminal)
    }

    fn tmux(&self, args: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        let output = tmux.args(["-L", &self.server]).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout).to_owned()
    }

    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn line(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.press(&["Enter"]);
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// The screen as soon as it holds the text.
    fn wait_for(&self, wanted: &str) -> String {
        self.wait_until(wanted, |screen| screen.contains(wanted))
    }

    /// The screen as soon as it is as wanted.
    fn wait_until(&self, wanted: &str, is_so: impl Fn(&str) -> bool) -> String {
        let begin = Instant::now();
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            assert!(begin.elapsed() < PATIENCE, "no {wanted:?} in\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the screen is the full one, or the shell's and what is typed as well:
    /// whoever leaves the screen still reads keys for a moment.
    fn wait_for_screen(&self, which: Screen) {
        let wanted = if which == Screen::Full { "1 slabyard" } else { "0 sh" };
        let asked = ["display-message", "-p", "#{alternate_on} #{pane_current_command}"];
        let begin = Instant::now();
        while self.tmux(&asked).trim() != wanted {
            assert!(begin.elapsed() < PATIENCE, "not {which:?}:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs a line in the shell to its end; what it wrote into `out`.
    fn ask(&self, line: &str) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mark = format!("asked-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.line(&format!("{line} >out; echo {mark} >done"));
        let begin = Instant::now();
        while std::fs::read_to_string(self.path("done")).unwrap_or_default().trim() != mark {
            assert!(begin.elapsed() < PATIENCE, "no end of {line}:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(20));
        }
        std::fs::read_to_string(self.path("out")).unwrap()
    }

    /// `slabyard top` on the full screen; its process.
    fn top(&self, args: &str) -> Pid {
        self.line(&format!("sh -c 'echo $$ >pid; exec {SLABYARD} top {args}'"));
        self.wait_for_screen(Screen::Full);
        self.wait_for("q quit");
        let pid = std::fs::read_to_string(self.path("pid")).unwrap();
        Pid::from_raw(pid.trim().parse().unwrap())
    }

    /// The shell's screen is back, and the code that it saw.
    fn code(&self) -> String {
        self.wait_for_screen(Screen::Shell);
        self.ask("echo $?").trim().to_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let mut tmux = Command::new("tmux");
        let _ = tmux.args(["-L", &self.server, "kill-server"]).output();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Screen {
    Full,
    Shell,
}

/// False, said aloud, where the kernel tells us nothing of its slabs.
pub fn has_kernel() -> bool {
    let reads = std::fs::read("/proc/slabinfo").is_ok();
    if !reads {
        skip("/proc/slabinfo cannot be read");
    }
    reads
}

/// A terminal on a machine whose kernel tells of its slabs.
fn before_a_kernel(width: u32, height: u32) -> Option<Terminal> {
    if has_kernel() { Terminal::open(width, height) } else { None }
}

/// A program on the allocator, where its library lies beside the command.
pub struct Program(pub Child);

impl Program {
    pub fn start() -> Option<Program> {
        let library = Path::new(SLABYARD).with_file_name("libslabyard_malloc.so");
        if !library.exists() {
            skip("no libslabyard_malloc.so beside the command: cargo build makes it");
            return None;
        }
        // Without `slabyard run` between, so that its id is ours to know. The shell
        // allocates as it starts; `read` lets it wait.
        let child = Command::new("sh")
            .args(["-c", "read line"])
            .env("LD_PRELOAD", library)
            .env("SLABYARD_OBSERVABLE", "1")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        Some(Program(child))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn slabyard(args: &[&str]) -> Output {
    Command::new(SLABYARD).args(args).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn what_cannot_be_shown_live_is_said_with_the_command_that_shows_it() {
    for (args, part) in [
        (&["top"][..], "`slabyard list`"),
        (&["top", "Cargo.toml"], "`slabyard list Cargo.toml`"),
        (&["top", "--interval", "0.01"], "0.1"),
        (&["top", "--interval", "soon"], "seconds"),
        (&["top", "--sort", "colour"], "no such field"),
        (&["top", "1", "--sites"], "`slabyard profile PID`"),
        (&["top", "--sites"], "`slabyard doctor kernel --watch 10`"),
    ] {
        let output = slabyard(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        assert!(text(&output.stderr).contains(part), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_process_that_is_not_there_never_gets_a_screen() {
    let Some(terminal) = Terminal::open(80, 24) else { return };
    // Above what the kernel gives (proc(5), pid_max).
    terminal.line(&format!("{SLABYARD} top 999999999"));
    terminal.wait_for("slabyard: ");
    assert_eq!(terminal.code(), "3");
}

#[test]
fn a_kernels_call_sites_are_shown_or_why_not() {
    let Some(terminal) = before_a_kernel(120, 40) else { return };
    terminal.top("--sites --interval 0.5 --budget 20");
    let screen = terminal.wait_for("── call sites");
    assert!(screen.contains("allocs/s") && screen.contains("frees/s"), "{screen}");
    // This test's own terminal makes the kernel allocate: soon, not at each look.
    let told = |screen: &str| screen.contains("(process ") || screen.contains("BPF programs");
    let screen = terminal.wait_until("who allocates", told);
    if screen.contains("BPF programs") {
        eprintln!("skipped: {screen}");
    } else {
        assert!(screen.contains("of one CPU, budget 20 %"), "{screen}");
    }
}

#[test]
fn keys_do_what_the_screen_says() {
    let Some(terminal) = before_a_kernel(80, 24) else { return };
    let before = terminal.ask("stty -a");
    terminal.top("--interval 0.2");
    let screen = terminal.wait_for("sorted by bytes");
    let first = screen.lines().next().unwrap();
    assert!(first.starts_with("kernel ") && first.contains("every 0.2 s"), "{screen}");
    for part in ["slab ", "parked at most ", "name", "▼bytes", "used", "objects/s", "? help"] {
        assert!(screen.contains(part), "no {part:?} in\n{screen}");
    }
    let name = |row: &str| row[1..].split_whitespace().next().unwrap().to_owned();
    let chosen = |screen: &str| screen.lines().find(|line| line.starts_with('>')).map(name);
    let one = chosen(&screen).unwrap();
    terminal.press(&["Down", "Down", "Enter"]);
    let screen = terminal.wait_for("place ");
    let other = chosen(&screen).unwrap();
    assert_ne!(one, other);
    // A long name is cut off in the table.
    assert!(screen.contains(&format!("── {}", other.trim_end_matches('…'))), "{screen}");
    terminal.press(&["Enter", "/"]);
    terminal.wait_for("filter: ");
    terminal.press(&["k", "m", "*", "Enter"]);
    let screen = terminal.wait_for("caches: km*");
    let names: Vec<String> =
        screen.lines().skip(5).take_while(|line| !line.trim().is_empty()).map(name).collect();
    let shown = names.iter().filter(|name| name.starts_with("km"));
    assert!(shown.count() > 3, "{screen}");
    terminal.press(&["s"]);
    terminal.wait_for("sorted by used");
    terminal.press(&["?"]);
    terminal.wait_for("help: ? or Esc closes it");
    terminal.press(&["Escape"]);
    // A key right behind it would be one with Alt.
    terminal.wait_until("no help", |screen| !screen.contains("help: ? or Esc"));
    terminal.press(&["Space"]);
    terminal.wait_for("PAUSED");
    terminal.press(&["q"]);
    assert_eq!(terminal.code(), "0");
    assert_eq!(terminal.ask("stty -a"), before);
    assert!(!terminal.screen().contains("q quit"));
}

#[test]
fn the_picture_follows_the_size() {
    let Some(terminal) = before_a_kernel(80, 24) else { return };
    terminal.top("--interval 0.2");
    for (width, height) in [("120", "40"), ("40", "10"), ("20", "3"), ("80", "24")] {
        terminal.tmux(&["resize-window", "-x", width, "-y", height]);
        let rows: usize = height.parse().unwrap();
        terminal.wait_until(&format!("{width}x{height}"), |screen| {
            let lines: Vec<&str> = screen.lines().collect();
            let foot = lines.get(rows - 1).copied().unwrap_or_default();
            foot.starts_with("q quit") && lines[0].starts_with("kernel")
        });
    }
    terminal.press(&["C-c"]);
    assert_eq!(terminal.code(), "0");
}

#[test]
fn without_colours_there_are_none() {
    let Some(terminal) = before_a_kernel(80, 24) else { return };
    // 39 and 49 are no colours, but those that the terminal has anyway.
    let colours =
        |screen: &str| (30..=38).chain(40..=48).any(|n| screen.contains(&format!("\x1b[{n}")));
    terminal.top("--interval 0.2");
    assert!(colours(&terminal.tmux(&["capture-pane", "-p", "-e"])));
    terminal.press(&["q"]);
    assert_eq!(terminal.code(), "0");
    terminal.ask("export NO_COLOR=1; echo");
    terminal.top("--interval 0.2");
    let screen = terminal.tmux(&["capture-pane", "-p", "-e"]);
    assert!(!colours(&screen), "{screen:?}");
}

#[test]
fn signals_that_end_it_give_the_terminal_back_first() {
    let Some(terminal) = before_a_kernel(80, 24) else { return };
    let before = terminal.ask("stty -a");
    for (signal, code) in
        [(Signal::SIGTERM, "143"), (Signal::SIGINT, "130"), (Signal::SIGHUP, "129")]
    {
        let top = terminal.top("--interval 0.2");
        kill(top, signal).unwrap();
        assert_eq!(terminal.code(), code, "{signal}");
        assert_eq!(terminal.ask("stty -a"), before, "{signal}");
    }
}

#[test]
fn in_the_background_it_waits_and_ends_by_a_signal() {
    let Some(terminal) = before_a_kernel(80, 24) else { return };
    let before = terminal.ask("stty -a");
    terminal.line(&format!("{SLABYARD} top --interval 0.2 & echo $! >pid"));
    terminal.wait_for("in the background");
    let pid = std::fs::read_to_string(terminal.path("pid")).unwrap();
    let pid = Pid::from_raw(pid.trim().parse().unwrap());
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    assert!(!stat.contains(") T "), "{stat}");
    kill(pid, Signal::SIGTERM).unwrap();
    assert_eq!(terminal.ask(&format!("wait {pid}; echo $?")).trim(), "143");
    assert_eq!(terminal.ask("stty -a"), before);
    terminal.line("clear");
    terminal.wait_until("an empty screen", |screen| !screen.contains("background"));
    // The shell that takes it to the foreground sees it.
    terminal.line(&format!("{SLABYARD} top --interval 0.2 &"));
    terminal.wait_for("in the background");
    terminal.line("fg");
    terminal.wait_for_screen(Screen::Full);
    terminal.wait_for("q quit");
    terminal.press(&["q"]);
    assert_eq!(terminal.code(), "0");
    assert_eq!(terminal.ask("stty -a"), before);
}

#[test]
fn stopped_it_gives_the_terminal_back_and_continued_it_takes_it_again() {
    let Some(terminal) = before_a_kernel(80, 24) else { return };
    let before = terminal.ask("stty -a");
    let top = terminal.top("--interval 0.2");
    let stops: [&dyn Fn(); 2] =
        [&|| terminal.press(&["C-z"]), &|| kill(top, Signal::SIGTSTP).unwrap()];
    for stop in stops {
        stop();
        terminal.wait_for_screen(Screen::Shell);
        assert_eq!(terminal.ask("stty -a"), before);
        let stat = std::fs::read_to_string(format!("/proc/{top}/stat")).unwrap();
        assert!(stat.contains(") T "), "{stat}");
        terminal.line("fg");
        terminal.wait_for_screen(Screen::Full);
        terminal.wait_for("q quit");
        // It reads keys again.
        let help = "help: ? or Esc closes it";
        terminal.press(&["?"]);
        terminal.wait_for(help);
        // What it has not read when it stops, the shell reads.
        terminal.press(&["?"]);
        terminal.wait_until("end of the help", |screen| !screen.contains(help));
    }
    terminal.press(&["q"]);
    assert_eq!(terminal.code(), "0");
    assert_eq!(terminal.ask("stty -a"), before);
}

#[test]
fn a_stop_that_cannot_be_caught_is_survived() {
    let Some(terminal) = before_a_kernel(80, 24) else { return };
    let before = terminal.ask("stty -a");
    let top = terminal.top("--interval 0.2");
    kill(top, Signal::SIGSTOP).unwrap();
    // Nobody gave the terminal back: the shell writes on our screen, and no return
    // becomes a newline.
    terminal.wait_for("ready>");
    terminal.press(&["f", "g", "C-j"]);
    terminal.wait_until("a whole picture", |screen| {
        screen.starts_with("kernel ") && !screen.contains("ready>")
    });
    terminal.press(&["q"]);
    assert_eq!(terminal.code(), "0");
    assert_eq!(terminal.ask("stty -a"), before);
}

#[test]
fn a_process_is_shown_until_it_ends() {
    let Some(program) = Program::start() else { return };
    let Some(terminal) = Terminal::open(80, 24) else { return };
    let before = terminal.ask("stty -a");
    let pid = program.0.id();
    terminal.top(&format!("{pid} --interval 0.2"));
    let screen = terminal.wait_for("malloc-");
    for part in [&format!("process {pid}")[..], "committed ", "resident ", "live/s"] {
        assert!(screen.contains(part), "no {part:?} in\n{screen}");
    }
    drop(program);
    terminal.wait_for(&format!("slabyard: process {pid} ended"));
    assert_eq!(terminal.code(), "0");
    assert_eq!(terminal.ask("stty -a"), before);
}

#[test]
fn a_timeline_is_shown_again_and_stops_at_its_last_look() {
    let Some(terminal) = before_a_kernel(100, 30) else { return };
    let file = terminal.path("day.timeline");
    let name = file.to_str().unwrap();
    let written = slabyard(&["watch", "-o", name, "--interval", "0.1", "--looks", "3"]);
    assert!(written.status.success(), "{}", text(&written.stderr));
    terminal.top(&format!("--replay {name} --interval 0.1"));
    terminal.wait_for("PAUSED");
    terminal.wait_for("kmalloc-");
    terminal.press(&["q"]);
    assert_eq!(terminal.code(), "0");
}
