//! Finds the directory of the process's memory cgroup from `mountinfo` and `cgroup` of proc(5).
//!
//! Neighbours: `slabyard_abi::pressure` parses the lines, [`super::sources`] opens files in the
//! directory.

use super::files::{self, O_RDONLY, Path};
use core::fmt::Write;
use slabyard_abi::pressure::{mounted, own_path};

/// The process's cgroup with memory.
pub(super) struct Cgroup {
    pub(super) version: u8,
    path: Path,
}

impl Cgroup {
    pub(super) fn open(&self, name: &str, flags: i32) -> Option<i32> {
        self.path.with(name)?.open(flags)
    }

    /// Of version 2 if it has memory there, else of version 1. `process` is the process's
    /// directory in proc(5).
    pub(super) fn find(process: &str) -> Option<Cgroup> {
        let second = Cgroup::find_version(process, 2);
        let has_memory = |it: &Cgroup| match it.open("memory.current", O_RDONLY) {
            Some(fd) => {
                files::close(fd);
                true
            }
            None => false,
        };
        second.filter(has_memory).or_else(|| Cgroup::find_version(process, 1))
    }

    pub(super) fn find_version(process: &str, version: u8) -> Option<Cgroup> {
        let mut found = Cgroup { version, path: Path::new() };
        let mut file = Path::new();
        file.write_str(process).ok()?;
        // Where the hierarchy is mounted, and which part of it.
        let (mut root, mut is_mounted) = (Path::new(), false);
        files::each_line(&file.with("mountinfo")?, |line| {
            if !is_mounted && let Some((part, place)) = mounted(line, version) {
                is_mounted = found.path.push_unescaped(place) && root.push_unescaped(part);
            }
        });
        if !is_mounted {
            return None;
        }
        let mut fits = false;
        files::each_line(&file.with("cgroup")?, |line| {
            if let Some(own) = own_path(line, version) {
                let within = match root.text() {
                    b"/" => Some(own),
                    root => own.strip_prefix(root).filter(|it| matches!(it, [] | [b'/', ..])),
                };
                // Outside of what is mounted: the mount is a namespace's own root.
                fits = found.path.push(within.filter(|it| *it != b"/").unwrap_or_default());
            }
        });
        fits.then_some(found)
    }
}
