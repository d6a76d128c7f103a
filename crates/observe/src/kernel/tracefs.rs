//! The kernel's tracing directory (a mounted tracefs, or one mounted for this process alone), and
//! our own instance in it.
//!
//! An instance has its own buffers, clock and switches, so it disturbs no other tracing
//! (`Documentation/trace/ftrace.rst`, "Instances"). It outlives the process that created it:
//! [`sweep`] removes instances whose creators have exited, which [`is_ours`] recognises by the name
//! `slabyard-PID-START`, where START is the start time in `/proc/PID/stat`. The same holds of
//! probes, whose group has this name.
//!
//! Neighbours: `slabyard-lab` records each event by it, and `slabyard-owners` follows a sample.

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why it cannot be used.
#[derive(Debug, Error)]
pub enum Error {
    /// The kernel has none.
    #[error("this kernel has no tracefs (CONFIG_TRACING is off): {0}")]
    NoTracefs(io::Error),
    /// It refuses to be read, written or made.
    #[error("{path}: {error}")]
    File {
        /// As it was opened.
        path: PathBuf,
        /// What the kernel says.
        error: io::Error,
    },
}

impl Error {
    fn at(path: impl Into<PathBuf>, error: io::Error) -> Error {
        Error::File { path: path.into(), error }
    }
}

const PREFIX: &str = "slabyard-";
/// The file of all probes.
pub const PROBES: &str = "kprobe_events";

/// A tracefs that can be used.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    /// Holds a mount that nobody else sees.
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    /// The one that is mounted, or a mount that ends with this process.
    ///
    /// # Errors
    /// The kernel has none, or does not let us.
    pub fn open() -> Result<Tracefs, Error> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        if let Some(root) = mounted(&mounts) {
            return Ok(Tracefs { root, _mount: None });
        }
        let mount = mount().map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => Error::at("mount of tracefs", error),
            _ => Error::NoTracefs(error),
        })?;
        let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Ok(Tracefs { root, _mount: Some(mount) })
    }

    /// A directory in the place of one.
    #[must_use]
    pub fn at(root: &Path) -> Tracefs {
        Tracefs { root: root.into(), _mount: None }
    }

    /// Its directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// True if it has an instance of that name.
    #[must_use]
    pub fn has(&self, instance: &str) -> bool {
        self.instances().join(instance).exists()
    }

    fn instances(&self) -> PathBuf {
        self.root.join("instances")
    }
}

/// The mount point of a tracefs, the OS's own before those of others.
fn mounted(mountinfo: &str) -> Option<PathBuf> {
    let points = mountinfo.lines().filter_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (mount.next()?, mount.next()?);
        (root == "/" && kind.starts_with("tracefs ") && !point.contains('\\')).then_some(point)
    });
    let points: Vec<&str> = points.collect();
    let usual = points.iter().find(|point| **point == "/sys/kernel/tracing");
    usual.or(points.first()).map(PathBuf::from)
}

fn mount() -> io::Result<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

/// Buffers, clock and switches of our own. Removed when dropped.
#[derive(Debug)]
pub struct TraceInstance {
    path: PathBuf,
}

impl TraceInstance {
    /// Makes one for this process.
    ///
    /// # Errors
    /// The kernel does not let us.
    pub fn create(tracefs: &Tracefs) -> Result<TraceInstance, Error> {
        let path = tracefs.instances().join(name());
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(Error::at(path, error))
            }
            _ => Ok(TraceInstance { path }),
        }
    }

    /// A file of it.
    #[must_use]
    pub fn join(&self, file: &str) -> PathBuf {
        self.path.join(file)
    }

    /// Reads a file of it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn read(&self, file: &str) -> Result<String, Error> {
        let path = self.join(file);
        read(&path).map_err(|error| Error::at(path, error))
    }

    /// Writes to a file of it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set(&self, file: &str, value: &str) -> Result<(), Error> {
        let path = self.join(file);
        fs::write(&path, value).map_err(|error| Error::at(path, error))
    }
}

impl Drop for TraceInstance {
    fn drop(&mut self) {
        let _ = self.set("tracing_on", "0");
        let _ = fs::remove_dir(&self.path);
    }
}

/// Reads a file of tracefs in large pieces: some give nothing to a second `read`.
///
/// # Errors
/// What the kernel says, or that it is no text.
pub fn read(path: &Path) -> io::Result<String> {
    let mut file = fs::File::open(path)?;
    let (mut text, mut piece) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut piece)? {
            0 => break,
            n => text.extend_from_slice(&piece[..n]),
        }
    }
    String::from_utf8(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The name of this process's instance.
#[must_use]
pub fn name() -> String {
    let pid = std::process::id();
    format!("{PREFIX}{pid}-{}", started(pid).unwrap_or(0))
}

/// When a process started, in ticks since boot.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything.
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

/// True for the name of an instance of any slabyard.
#[must_use]
pub fn is_ours(name: &str) -> bool {
    process_of(name).is_some()
}

fn process_of(name: &str) -> Option<(u32, u64)> {
    let (pid, start) = name.strip_prefix(PREFIX)?.split_once('-')?;
    Some((pid.parse().ok()?, start.parse().ok()?))
}

/// Removes the instances of recorders that were killed; returns their names. One that is in use is
/// not removed by the kernel.
///
/// # Errors
/// The kernel does not let us.
pub fn sweep(tracefs: &Tracefs) -> Result<Vec<String>, Error> {
    let directory = tracefs.instances();
    let entries = fs::read_dir(&directory).map_err(|error| Error::at(&directory, error))?;
    let mut removed = Vec::new();
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if is_gone(&name) && remove(tracefs, &name) {
            removed.push(name);
        }
    }
    let probes = read(&tracefs.root().join(PROBES)).unwrap_or_default();
    let groups: BTreeSet<&str> = probes.lines().filter_map(group_in).collect();
    for instance in groups.into_iter().map(|group| group.replace('_', "-")) {
        if is_gone(&instance) {
            remove_probes(tracefs, &instance);
        }
    }
    Ok(removed)
}

/// True for the name of an instance whose recorder has ended.
fn is_gone(instance: &str) -> bool {
    process_of(instance).is_some_and(|(pid, start)| started(pid) != Some(start))
}

/// The group of the probes of an instance.
#[must_use]
pub fn group_of(instance: &str) -> String {
    instance.replace('-', "_")
}

/// The group in a line of the file of all probes: `p:GROUP/EVENT FUNCTION ...`.
fn group_in(line: &str) -> Option<&str> {
    Some(line.split_once(':')?.1.split_once('/')?.0)
}

/// Removes the probes of an instance, which is gone: the kernel keeps those that are in use.
pub fn remove_probes(tracefs: &Tracefs, instance: &str) {
    let path = tracefs.root().join(PROBES);
    let probes = read(&path).unwrap_or_default();
    let group = group_of(instance);
    let Ok(mut file) = OpenOptions::new().append(true).open(path) else { return };
    for line in probes.lines().filter(|line| group_in(line) == Some(&group)) {
        let event = line.split([':', ' ']).nth(1).unwrap_or_default();
        let _ = file.write_all(format!("-:{event}\n").as_bytes());
    }
}

/// Removes an instance by its name; false if it is not there or in use.
pub fn remove(tracefs: &Tracefs, name: &str) -> bool {
    let path = tracefs.instances().join(name);
    let _ = fs::write(path.join("tracing_on"), "0");
    fs::remove_dir(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mounted_tracefs_is_found_and_the_usual_one_first() {
        let line = |point: &str| format!("31 25 0:12 / {point} rw,relatime - tracefs tracefs rw\n");
        let text =
            line("/mnt/t") + &line("/sys/kernel/tracing") + "1 2 0:1 / /proc rw - proc p rw\n";
        assert_eq!(mounted(&text), Some("/sys/kernel/tracing".into()));
        assert_eq!(mounted(&line("/mnt/t")), Some("/mnt/t".into()));
        assert_eq!(mounted("1 2 0:1 / /proc rw - proc p rw\n"), None);
    }

    #[test]
    fn an_instance_is_known_by_its_maker() {
        let (pid, start) = process_of(&name()).unwrap();
        assert_eq!((pid, Some(start)), (std::process::id(), started(pid)));
        let probe = format!("p:{}/kfree_rcu kvfree_call_rcu ptr=ptr:x64", group_of(&name()));
        let group = group_in(&probe).unwrap();
        assert_eq!(process_of(&group.replace('_', "-")), Some((pid, start)));
        assert_eq!(group_in("p vfs_read"), None);
        assert!(!is_ours("foo") && !is_ours("slabyard-x-1") && !is_ours("slabyard-12"));
    }
}
