//! Names of code that is in no file: `/tmp/perf-PID.map`, as runtimes write it for perf(1), among
//! them Python with its perf trampoline (`-X perf`). A line is the begin and the bytes of a piece of
//! code in hexadecimal, and its name.
//!
//! Invariant: the file is the target's, so its names steer no terminal and its numbers are checked.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Most bytes that are read.
const MOST: u64 = 64 << 20;

/// The names so far, by the begin of their code.
#[derive(Default)]
pub(super) struct PerfMap {
    path: PathBuf,
    names: BTreeMap<u64, (u64, String)>,
    bytes: u64,
}

impl PerfMap {
    /// That of a process.
    pub(super) fn of(pid: u32) -> PerfMap {
        let number = inner_number(pid);
        let path = PathBuf::from(format!("/proc/{pid}/root/tmp/perf-{number}.map"));
        PerfMap { path, ..PerfMap::default() }
    }

    /// Reads what the process has written so far, if it has more than before.
    pub(super) fn read(&mut self) {
        let Ok(facts) = std::fs::metadata(&self.path) else { return };
        if !facts.is_file() || facts.len() > MOST || facts.len() == self.bytes {
            return;
        }
        self.bytes = facts.len();
        if let Ok(text) = std::fs::read(&self.path) {
            self.parse(&String::from_utf8_lossy(&text));
        }
    }

    fn parse(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.splitn(3, ' ');
            let mut number =
                || u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok();
            let (Some(begin), Some(bytes)) = (number(), number()) else { continue };
            if let Some(name) = words.next() {
                let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
                self.names.insert(begin, (bytes, name.trim().chars().map(shown).collect()));
            }
        }
    }

    /// The name of the code at an address.
    pub(super) fn name(&self, address: u64) -> Option<&str> {
        let (begin, (bytes, name)) = self.names.range(..=address).next_back()?;
        (address - begin < *bytes).then_some(name)
    }
}

/// The process's number in its own namespace.
fn inner_number(pid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    line.and_then(|line| line.split_whitespace().next_back()?.parse().ok()).unwrap_or(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_named_from_its_begin_to_its_end() {
        let mut map = PerfMap::default();
        map.parse("7f00 10 py::f:/a b.py\nnonsense\n0x8000 8 g\u{1b}[2J\n9000 zz h\n");
        assert_eq!(map.name(0x7f00), Some("py::f:/a b.py"));
        assert_eq!(map.name(0x7f0f), Some("py::f:/a b.py"));
        assert_eq!((map.name(0x7f10), map.name(0x7eff), map.name(0x9000)), (None, None, None));
        assert_eq!(map.name(0x8001), Some("g\u{fffd}[2J"));
    }
}
