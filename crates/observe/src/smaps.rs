//! Reads the text of `/proc/PID/smaps` (proc_pid_smaps(5)): each mapping of a process, and how much
//! of it is in memory.
//!
//! Neighbours: `process::resident` sums mappings by their owner; other crates classify them
//! further. Invariant: a text in which resident bytes cannot be read is refused as
//! a whole.

use std::io;
use std::ops::Range;

/// One mapping of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Its addresses.
    pub range: Range<u64>,
    /// Readable, writable, executable, and private or shared, as `rw-p`.
    pub mode: String,
    /// The file's inode; 0 without a file.
    pub inode: u64,
    /// The file, or a name in brackets; empty for a mapping without a name.
    pub name: String,
    /// Bytes of it that are in memory.
    pub resident: u64,
    /// Of these, bytes that no file has.
    pub anonymous: u64,
    /// Bytes that are swapped out.
    pub swapped: u64,
}

impl Mapping {
    /// The first line of a mapping; `None` for another line.
    fn begin(line: &str) -> Option<Mapping> {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        // Mode, offset, device, inode; a name may have blanks.
        let mut words = rest.splitn(5, ' ');
        let mode = words.next()?.to_owned();
        let inode = words.nth(2).and_then(|inode| inode.parse().ok()).unwrap_or(0);
        let name = words.next().unwrap_or_default().trim().to_owned();
        let range = address(start)?..address(end)?;
        Some(Mapping { range, mode, inode, name, ..Mapping::default() })
    }

    /// Bytes of its addresses.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }

    /// True if it and a range have an address in common.
    #[must_use]
    pub fn meets(&self, other: &Range<u64>) -> bool {
        other.start < self.range.end && self.range.start < other.end
    }
}

/// Each mapping of any process, on Slabyard or not, with its resident bytes.
///
/// # Errors
/// The process has ended, or may not be looked at.
pub fn of_process(pid: u32) -> io::Result<Vec<Mapping>> {
    let text = std::fs::read(format!("/proc/{pid}/smaps"))?;
    let none = || io::Error::new(io::ErrorKind::NotFound, "it has no memory of its own");
    parse(&String::from_utf8_lossy(&text)).ok_or_else(none)
}

/// All mappings of a text; `None` if it is no such text.
#[must_use]
pub fn parse(text: &str) -> Option<Vec<Mapping>> {
    let mut all: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        let kib = |rest: &str| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok();
        if let Some(rest) = line.strip_prefix("Rss:") {
            all.last_mut()?.resident = kib(rest)? << 10;
        } else if let Some(rest) = line.strip_prefix("Anonymous:") {
            all.last_mut()?.anonymous = kib(rest).unwrap_or(0) << 10;
        } else if let Some(rest) = line.strip_prefix("Swap:") {
            all.last_mut()?.swapped = kib(rest).unwrap_or(0) << 10;
        } else if let Some(mapping) = Mapping::begin(line) {
            all.push(mapping);
        }
    }
    (!all.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
55d0c4a00000-55d0c4a10000 r-xp 00000000 fe:00 1234       /usr/bin/a program
Size:                 64 kB
Rss:                  40 kB
Anonymous:             8 kB
Swap:                  4 kB
VmFlags: rd ex mr mw me sd
7f0000000000-7f0000100000 rw-p 00000000 00:00 0 
Rss:                 512 kB
";

    #[test]
    fn each_mapping_has_its_addresses_its_name_and_its_bytes() {
        let all = parse(TEXT).expect("smaps");
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].name.as_str(), all[0].mode.as_str()), ("/usr/bin/a program", "r-xp"));
        assert_eq!((all[0].inode, all[0].bytes()), (1234, 64 << 10));
        assert_eq!(
            (all[0].resident, all[0].anonymous, all[0].swapped),
            (40 << 10, 8 << 10, 4 << 10)
        );
        assert_eq!((all[1].name.as_str(), all[1].inode, all[1].resident), ("", 0, 512 << 10));
        assert!(all[1].meets(&(0x7f00_000f_ffff..0x7f00_0010_0000)));
        assert!(!all[1].meets(&(0x7f00_0010_0000..0x7f00_0010_0001)));
    }

    #[test]
    fn what_is_no_smaps_is_refused() {
        for text in ["", "Rss: 5 kB\n", "55d0-55d1 r-xp 0 0 0 x\nRss: many kB\n"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
