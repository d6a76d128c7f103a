//! Call sites of a process by the file that they are in and their place there: `libc.so.6+0x8a3f1`,
//! which stays the same where the system loads programs at random.

use std::collections::HashMap;
use std::fs;

/// Ranges of a process's memory, and numbers of the sites seen, by ring.
pub struct Sites {
    pid: u32,
    mappings: Vec<Mapping>,
    numbers: HashMap<u64, Box<str>>,
    rings: HashMap<usize, OfRing>,
}

struct Mapping {
    from: u64,
    to: u64,
    offset: u64,
    file: Box<str>,
}

#[derive(Default)]
struct OfRing {
    numbers: HashMap<u64, u32>,
    new: Vec<Box<str>>,
}

impl Sites {
    pub fn new(pid: u32) -> Sites {
        Sites { pid, mappings: Vec::new(), numbers: HashMap::new(), rings: HashMap::new() }
    }

    /// The number of a site among the names of a ring, from 1 on.
    pub fn number(&mut self, ring: usize, site: u64) -> u32 {
        if let Some(number) = self.rings.get(&ring).and_then(|ring| ring.numbers.get(&site)) {
            return *number;
        }
        let name = match self.numbers.get(&site) {
            Some(name) => name.clone(),
            None => {
                let name = self.name(site);
                self.numbers.insert(site, name.clone());
                name
            }
        };
        let ring = self.rings.entry(ring).or_default();
        let number = ring.numbers.len() as u32 + 1;
        ring.numbers.insert(site, number);
        ring.new.push(name);
        number
    }

    /// Names of a ring that are new since they were asked for last.
    pub fn new_names(&mut self, ring: usize) -> Vec<Box<str>> {
        self.rings.get_mut(&ring).map(|ring| std::mem::take(&mut ring.new)).unwrap_or_default()
    }

    fn name(&mut self, site: u64) -> Box<str> {
        if self.find(site).is_none() {
            // A library that was loaded since.
            let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
            let mappings = parse(&maps);
            if !mappings.is_empty() {
                self.mappings = mappings;
            }
        }
        match self.find(site) {
            Some(mapping) => {
                format!("{}+{:#x}", mapping.file, site - mapping.from + mapping.offset).into()
            }
            None => format!("{site:#x}").into(),
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
        assert_eq!(
            (sites.number(0, 0x7f0_0123), sites.number(0, 9), sites.number(0, 9)),
            (1, 2, 2)
        );
        assert_eq!(sites.number(1, 9), 1);
        assert_eq!(sites.new_names(0), ["libc.so.6+0x2123".into(), "0x9".into()]);
        assert_eq!((sites.new_names(0).len(), sites.new_names(1).len()), (0, 1));
    }
}
