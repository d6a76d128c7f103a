//! Names of caches and call sites, each stored once: an event holds an index into them.
//!
//! Index 0 is always the empty name, which page events have. An index whose name was in a damaged
//! chunk yields the empty name too. No name has a control character ([`plain`]).

use crate::plain::plain;
use std::borrow::Cow;
use std::collections::HashMap;

/// Most names that a trace may have: a file that says more is damaged.
pub const MOST_NAMES: u32 = 1 << 20;

/// The index of the empty name.
pub const NO_NAME: u32 = 0;

/// An interning table. `index[names[i]] == i` for every `i` that is not empty.
#[derive(Clone, Debug)]
pub struct Names {
    names: Vec<Box<str>>,
    index: HashMap<Box<str>, u32>,
}

impl Default for Names {
    fn default() -> Names {
        Names { names: vec!["".into()], index: HashMap::from([("".into(), NO_NAME)]) }
    }
}

impl PartialEq for Names {
    fn eq(&self, other: &Names) -> bool {
        self.names == other.names
    }
}

impl Eq for Names {}

impl Names {
    /// A table of the empty name alone.
    pub fn new() -> Names {
        Names::default()
    }

    /// The name's index, a new one if need be.
    pub fn intern(&mut self, name: &str) -> u32 {
        if let Some(&index) = self.index.get(name) {
            return index;
        }
        if let Cow::Owned(plain) = plain(name) {
            return self.intern(&plain);
        }
        let index = self.names.len() as u32;
        self.names.push(name.into());
        self.index.insert(name.into(), index);
        index
    }

    /// The name of an index; empty if there is none.
    pub fn get(&self, index: u32) -> &str {
        self.names.get(index as usize).map_or("", |name| name)
    }

    /// The index of a name.
    pub fn find(&self, name: &str) -> Option<u32> {
        self.index.get(name).copied()
    }

    /// One more than the largest index.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Never: the empty name is always there.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// All indices with their names.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &str)> {
        self.names.iter().enumerate().map(|(index, name)| (index as u32, &**name))
    }

    /// Puts a name at its index, as a file has it. False if the index or the
    /// name is taken by another.
    pub(super) fn place(&mut self, index: u32, name: &str) -> bool {
        if index >= MOST_NAMES {
            return false;
        }
        let name = &*plain(name);
        if let Some(&at) = self.index.get(name) {
            return at == index;
        }
        if !self.get(index).is_empty() || index == NO_NAME {
            return false;
        }
        if self.names.len() <= index as usize {
            self.names.resize(index as usize + 1, "".into());
        }
        self.names[index as usize] = name.into();
        self.index.insert(name.into(), index);
        true
    }
}
