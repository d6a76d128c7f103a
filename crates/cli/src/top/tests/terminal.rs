//! The loop on a pseudo-terminal: the terminal is restored in every case. What a person does at a
//! terminal is tested in the command's own tests.

use super::looks;
use crate::top::app::Start;
use crate::top::columns::Column;
use crate::top::draw::{Colour, ScreenOptions};
use crate::top::filter::Filter;
use crate::top::live::{self, Sample, Taken};
use crate::top::pane::Pane;
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::termios::{LocalFlags, Termios, tcgetattr};
use std::fs::File;
use std::io::{IsTerminal, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
const SHOW_CURSOR: &str = "\x1b[?25h";

/// Not a test of its own: the process that the test below starts on its terminal.
#[test]
#[ignore = "a helper that the test of a panic starts"]
fn a_panic_on_the_screen() {
    if !std::io::stdin().is_terminal() {
        println!("skipped: it wants the terminal of the test of a panic");
        return;
    }
    let start = Start {
        interval: Duration::from_millis(100),
        sort: Column::named("bytes").unwrap(),
        filter: Filter::default(),
        pane: Pane::Closed,
    };
    let look = ScreenOptions { zone: jiff::tz::TimeZone::UTC, colour: Colour::Yes };
    let mut looks = 0;
    let _ = live::run(start, looks::process(0), &look, |_| {
        looks += 1;
        assert!(looks < 3, "planted in look {looks}");
        let (snapshot, at) = (looks::process(looks), Duration::from_secs(looks));
        Sample::Taken(Box::new(Taken { snapshot, at, activity: None }))
    });
}

#[test]
fn a_panic_gives_the_terminal_back_and_its_message_is_seen() {
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let OpenptyResult { master, slave } = openpty(Some(&size), None).unwrap();
    let before = tcgetattr(&slave).unwrap();
    assert!(before.local_flags.contains(LocalFlags::ICANON | LocalFlags::ECHO));
    let end = || Stdio::from(slave.try_clone().unwrap());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "top::tests::terminal::a_panic_on_the_screen"])
        .args(["--ignored", "--nocapture"])
        .stdin(end())
        .stdout(end())
        .stderr(end())
        .spawn()
        .unwrap();
    // Read all the time: a full terminal would stop the process.
    let reader = std::thread::spawn(move || {
        let mut seen = Vec::new();
        // Its end is an error: nobody is left at the other side.
        let _ = File::from(master).read_to_end(&mut seen);
        seen
    });
    let status = child.wait().unwrap();
    assert!(!status.success());
    let after = tcgetattr(&slave).unwrap();
    assert_eq!(flags(&before), flags(&after));

    drop(slave);
    let seen = reader.join().unwrap();
    let seen = String::from_utf8_lossy(&seen);
    let at = |what: &str| seen.find(what).unwrap_or_else(|| panic!("no {what:?} in {seen:?}"));
    assert!(at(ENTER) < at("malloc-64"), "{seen:?}");
    assert!(at("malloc-64") < at(LEAVE), "{seen:?}");
    assert!(at(LEAVE) < at("planted in look 3"), "{seen:?}");
    assert!(at(LEAVE) < at(SHOW_CURSOR), "{seen:?}");
    assert_eq!(seen.matches(ENTER).count(), 1);
}

fn flags(t: &Termios) -> impl PartialEq + std::fmt::Debug + use<> {
    (t.input_flags, t.output_flags, t.control_flags, t.local_flags, t.control_chars)
}
