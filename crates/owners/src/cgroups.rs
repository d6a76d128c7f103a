//! Names of cgroups: the number of a cgroup is the inode of its directory, below the mounts of
//! version 2 and of the memory controller of version 1.
//!
//! A cgroup that was removed has no directory: its last path is known if it was there at an earlier
//! [`Cgroups::look`], and its own name from the kernel. Of one that was removed before the watch
//! nothing in the kernel leads from an object to it: since 5.9 an object is charged by a `struct
//! obj_cgroup`, which at the removal is given the parent (`Documentation/admin-guide/cgroup-v2.rst`
//! has how many such cgroups there are, in `nr_dying_descendants`).

use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Directories that are read in one look.
const MOST: usize = 20_000;

/// Whose memory it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Cgroup {
    /// The number that the kernel gave it.
    pub id: u64,
    /// Below the mount point, as `/system.slice/nginx.service`; the last part alone of one that was
    /// removed before it was seen.
    pub path: String,
    /// The unit of systemd, or the pod of Kubernetes.
    pub unit: Option<String>,
    /// It was removed, and lives on because objects are charged to it.
    pub removed: bool,
}

impl fmt::Display for Cgroup {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.unit.as_deref().unwrap_or(&self.path);
        match self.removed {
            true => write!(out, "cgroup {name}, which was removed"),
            false => out.write_str(name),
        }
    }
}

/// Paths by number.
#[derive(Debug, Default)]
pub(crate) struct Cgroups {
    mounts: Vec<PathBuf>,
    paths: HashMap<u64, String>,
    /// Those of the last look.
    now: HashSet<u64>,
}

impl Cgroups {
    pub(crate) fn of_kernel() -> Cgroups {
        let text = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        Cgroups { mounts: mounts(&text), ..Cgroups::default() }
    }

    /// Reads the directories that there are now.
    pub(crate) fn look(&mut self) {
        self.now.clear();
        for mount in &self.mounts {
            let mut left = vec![mount.clone()];
            let mut read = 0;
            while let Some(directory) = left.pop() {
                let Ok(meta) = fs::metadata(&directory) else { continue };
                let path = directory.strip_prefix(mount).unwrap_or(Path::new(""));
                self.paths.insert(meta.ino(), format!("/{}", path.display()));
                self.now.insert(meta.ino());
                read += 1;
                if read > MOST {
                    break;
                }
                let Ok(entries) = fs::read_dir(&directory) else { continue };
                let is_directory =
                    |it: &fs::DirEntry| it.file_type().is_ok_and(|kind| kind.is_dir());
                left.extend(entries.flatten().filter(is_directory).map(|it| it.path()));
            }
        }
    }

    /// Each directory of version 2 that was there at the last look, with its path below that.
    pub(crate) fn directories(&self) -> impl Iterator<Item = (u64, &str, PathBuf)> {
        let mount = self.mounts.iter().find(|mount| mount.join("cgroup.controllers").exists());
        let now = self.paths.iter().filter(|(id, _)| self.now.contains(id));
        now.filter_map(move |(id, path)| {
            Some((*id, &**path, mount?.join(path.trim_start_matches('/'))))
        })
    }

    /// The number of the cgroup whose memory a process's allocations are charged to; 0 if it is not
    /// known.
    pub(crate) fn of_process(&self, pid: u32) -> u64 {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let directories = self
            .mounts
            .iter()
            .filter_map(|mount| Some(mount.join(of_memory(&text)?.trim_start_matches('/'))));
        let mut found = directories.filter_map(|directory| fs::metadata(directory).ok());
        found.next().map_or(0, |found| found.ino())
    }

    /// A cgroup of this number and last name, as of the last look.
    pub(crate) fn of(&self, id: u64, name: Option<&str>) -> Option<Cgroup> {
        let path = match (self.paths.get(&id), name) {
            (Some(path), _) => path.clone(),
            (None, Some(name)) if !name.is_empty() => name.to_owned(),
            _ => return None,
        };
        Some(Cgroup { id, unit: unit(&path), removed: !self.now.contains(&id), path })
    }
}

/// The path in a text as `/proc/PID/cgroup`, for each hierarchy `NUMBER:CONTROLLERS:PATH`.
fn of_memory(text: &str) -> Option<&str> {
    let parts = |line| str::split_once(line, ':')?.1.split_once(':');
    let of = |is_it: fn(&str) -> bool| {
        let mut all = text.lines().filter_map(parts);
        all.find(|(controllers, _)| is_it(controllers)).map(|(_, path)| path)
    };
    of(|controllers| controllers.split(',').any(|it| it == "memory")).or_else(|| of(str::is_empty))
}

fn mounts(text: &str) -> Vec<PathBuf> {
    let mount = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let (place, kind, options) = (words.next()?, words.next()?, words.next()?);
        let memory = kind == "cgroup" && options.split(',').any(|it| it == "memory");
        (kind == "cgroup2" || memory).then(|| PathBuf::from(place))
    };
    text.lines().filter_map(mount).collect()
}

/// The unit or pod that a path names, the innermost first.
fn unit(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').rev().collect();
    let pod = parts.iter().find(|part| {
        let part = part.trim_end_matches(".slice");
        part.starts_with("pod") || (part.starts_with("kubepods") && part.contains("-pod"))
    });
    let kinds = [".service", ".scope", ".socket", ".mount", ".timer", ".slice"];
    let unit = kinds.iter().find_map(|kind| parts.iter().find(|part| part.ends_with(kind)));
    pod.or(unit).map(|part| (*part).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_pods_are_found_in_paths() {
        let of = |path: &str| unit(path).unwrap_or_default();
        assert_eq!(of("/system.slice/nginx.service"), "nginx.service");
        assert_eq!(of("/user.slice/user-0.slice/session-1.scope"), "session-1.scope");
        assert_eq!(of("/kubepods/burstable/pod12-34/abcd"), "pod12-34");
        let pod = "kubepods-burstable-pod12_34.slice";
        assert_eq!(of(&format!("/kubepods.slice/{pod}/cri-containerd-ab.scope")), pod);
        assert_eq!(of("/"), "");
    }

    #[test]
    fn a_process_is_charged_in_the_hierarchy_with_memory() {
        assert_eq!(of_memory("3:cpu:/a\n2:memory:/b:c\n0::/d\n"), Some("/b:c"));
        assert_eq!(of_memory("3:cpu:/a\n0::/d\n"), Some("/d"));
        assert_eq!(of_memory("3:cpu:/a\n"), None);
    }

    #[test]
    fn only_mounts_with_memory_are_read() {
        let text = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                    cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
                    none /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let found = mounts(text);
        assert_eq!(found[0], Path::new("/sys/fs/cgroup/memory"));
        assert_eq!(found[1], Path::new("/sys/fs/cgroup/unified"));
        assert_eq!(found.len(), 2);
    }
}
