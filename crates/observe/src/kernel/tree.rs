//! The files below `/sys/kernel/slab`: a directory is a cache, a symbolic link is another name of a
//! cache.
//!
//! Neighbours: [`super::names`] groups the listing into caches, [`super::attribute`] parses the
//! texts. Reading a file costs three system calls: open, read and close. A file's path is a single
//! name, relative to an open directory. The buffer holds a page, the longest text that sysfs can
//! print; the file's size is not queried.

use rustix::fs::{CWD, Mode, OFlags, openat};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Where the tree is, below a root.
pub(crate) const BELOW: &str = "sys/kernel/slab";

/// Bytes of the largest page that Linux has on the machines that we know.
const LONGEST: usize = 64 << 10;

/// The directory of caches in sysfs, open.
pub(super) struct Tree {
    path: PathBuf,
    top: OwnedFd,
}

/// What the tree holds.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Names of the directories, sorted.
    pub ids: Vec<String>,
    /// Links and the directory behind each.
    pub links: BTreeMap<String, String>,
}

/// Reads the attributes of one cache after the other.
pub(super) struct Reader {
    buffer: Vec<u8>,
}

/// The directory of a cache, open.
pub(super) struct Directory(OwnedFd);

impl Tree {
    /// # Errors
    /// What the kernel says.
    pub(super) fn open(root: &Path) -> io::Result<Tree> {
        Tree::at(root.join(BELOW))
    }

    /// The tree in a directory of any name.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn at(path: PathBuf) -> io::Result<Tree> {
        let top = openat(CWD, &path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Tree { path, top })
    }

    /// # Errors
    /// What the kernel says.
    pub(super) fn list(&self) -> io::Result<Listing> {
        let mut listing = Listing::default();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if entry.file_type()?.is_dir() {
                listing.ids.push(name);
            } else if let Ok(target) = fs::read_link(entry.path())
                && let Some(id) = target.file_name().and_then(|id| id.to_str())
            {
                listing.links.insert(name, id.to_owned());
            }
        }
        listing.ids.sort();
        Ok(listing)
    }

    /// The attributes that a cache has; none if it has gone.
    pub(super) fn attributes(&self, id: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path.join(id)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// The directory of a cache.
    ///
    /// # Errors
    /// What the kernel says: the cache may have been destroyed.
    pub(super) fn enter(&self, id: &str) -> io::Result<Directory> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Directory(openat(&self.top, id, flags, Mode::empty())?))
    }
}

impl Reader {
    pub(super) fn new() -> Reader {
        Reader { buffer: vec![0; LONGEST] }
    }

    /// The text of an attribute.
    ///
    /// # Errors
    /// What the kernel says, or that it is no text.
    pub(super) fn read(&mut self, directory: &Directory, attribute: &str) -> io::Result<&str> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(&directory.0, attribute, flags, Mode::empty())?;
        let length = rustix::io::read(&file, &mut self.buffer[..])?;
        let text = self.buffer.get(..length).unwrap_or_default();
        std::str::from_utf8(text).map_err(|_| io::Error::other("it is not text"))
    }
}
