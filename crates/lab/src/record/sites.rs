//! Names a process's call sites by file and offset in it, as in `libc.so.6+0x8a3f1`: the name is
//! the same in each run although addresses are random.

use crate::trace::{NO_NAME, Names};
use std::fs;

/// Ranges of a process's memory, and the names of its call sites by their slot.
pub struct Sites {
    pid: u32,
    mappings: Vec<Mapping>,
    names: Vec<u32>,
}

struct Mapping {
    from: u64,
    to: u64,
    offset: u64,
    file: Box<str>,
}

/// The name of all sites that found no slot.
const MORE: &str = "other call sites";

impl Sites {
    pub fn new(pid: u32) -> Sites {
        Sites { pid, mappings: Vec::new(), names: Vec::new() }
    }

    /// The name of the site of a slot.
    #[inline]
    pub fn name(&self, slot: u16) -> u32 {
        self.names.get(usize::from(slot)).copied().unwrap_or(NO_NAME)
    }

    /// Names those of a table that have no name yet, by the mappings that the process has now.
    pub fn learn(&mut self, table: impl Iterator<Item = u64>, names: &mut Names) {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
        let mappings = parse(&maps);
        // One that has ended has none: what it had is nearer.
        if !mappings.is_empty() {
            self.mappings = mappings;
        }
        self.named(table, names);
    }

    fn named(&mut self, table: impl Iterator<Item = u64>, names: &mut Names) {
        for (slot, site) in table.enumerate() {
            if self.names.len() == slot {
                self.names.push(NO_NAME);
            }
            if slot == 0 {
                self.names[slot] = names.intern(MORE);
            } else if site != 0 && self.names[slot] == NO_NAME {
                self.names[slot] = names.intern(&self.name_of(site));
            }
        }
    }

    fn name_of(&self, site: u64) -> String {
        match self.find(site) {
            Some(mapping) => {
                format!("{}+{:#x}", mapping.file, site - mapping.from + mapping.offset)
            }
            None => format!("{site:#x}"),
        }
    }

    fn find(&self, site: u64) -> Option<&Mapping> {
        self.mappings.iter().find(|mapping| (mapping.from..mapping.to).contains(&site))
    }
}

/// Files of `/proc/PID/maps`, with code or without.
fn parse(maps: &str) -> Vec<Mapping> {
    let mapping = |line: &str| {
        let mut words = line.split_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let (_, offset) = (words.next()?, words.next()?);
        let path = words.nth(2)?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let file = path.rsplit('/').next()?.into();
        Some(Mapping { from: hex(from)?, to: hex(to)?, offset: hex(offset)?, file })
    };
    maps.lines().filter_map(mapping).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_told_by_its_place_in_a_file() {
        let maps = "7f00000-7f10000 r-xp 00002000 fe:00 32  /usr/lib/libc.so.6\n\
                    7f20000-7f30000 rw-p 00000000 00:00 0 \n";
        let mappings = parse(maps);
        let mut sites = Sites { mappings, ..Sites::new(u32::MAX) };
        let mut names = Names::new();
        sites.learn([0, 0x7f0_0123, 0, 9].into_iter(), &mut names);
        // A slot is named once.
        sites.learn([0, 0x7f0_0123, 0x7f0_0124, 8].into_iter(), &mut names);
        let told: Vec<_> = (0..5).map(|slot| names.get(sites.name(slot))).collect();
        assert_eq!(told, [MORE, "libc.so.6+0x2123", "libc.so.6+0x2124", "0x9", ""]);
    }
}
