//! Checks that the process id still belongs to the process that it named at the start.

use std::fs;

/// A process, told from a later one with the same id by its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pid: u32,
    /// Clock ticks since the machine's start.
    started: Option<u64>,
}

impl Target {
    /// The process that has this id now.
    pub fn new(pid: u32) -> Target {
        Target { pid, started: alive(pid) }
    }

    /// True if it ended, waited for or not.
    pub fn ended(&self) -> bool {
        let now = alive(self.pid);
        now.is_none() || now != self.started
    }
}

/// When the process started; `None` if there is none, or only what it left.
fn alive(pid: u32) -> Option<u64> {
    started(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// From `/proc/PID/stat` (proc(5)): the state is the third field, the start the 22nd.
/// The second, a name in parentheses, may hold anything.
fn started(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") { None } else { fields.nth(22 - 3 - 1)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_name_may_look_like_fields() {
        let rest = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21";
        assert_eq!(started(&format!("7 (a) Z (b) S {rest}")), Some(4711));
        assert_eq!(started(&format!("7 (a) Z {rest}")), None);
        assert_eq!(started("7 (a) S 1 2"), None);
        assert_eq!(started(""), None);
    }

    #[test]
    fn a_process_ends_before_it_is_waited_for() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let target = Target::new(child.id());
        assert!(!target.ended());
        drop(child.stdin.take());
        while !target.ended() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        child.wait().unwrap();
        assert!(target.ended());
        assert!(!Target::new(std::process::id()).ended());
    }
}
