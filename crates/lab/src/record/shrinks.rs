//! Notes which caches other processes shrink during a recording: a shrink flushes what CPUs and
//! nodes hold, and leaves no `kmem` event.
//!
//! A process shrinks a cache by writing to the file `shrink` in sysfs, and the kernel notifies
//! those who watch this file (`inotify(7)`). A thread dates each notification, to a fraction of a
//! millisecond. Invariants: each shrink is returned once, in order; lost notifications are counted.
//! Shrinks of caches created later, and shrinks that a driver requests inside the kernel, are not
//! noticed.

use super::reader;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::time::Timespec;
use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// Where the kernel shows its caches.
pub const CACHES: &str = "/sys/kernel/slab";
/// So long the thread sleeps at most, and its end is waited for.
const LOOK_NS: i64 = 50_000_000;
/// A shell's `>` truncates the file and then writes to it, which the kernel tells as two changes.
const TWICE_NS: u64 = 1_000_000;

/// A cache was shrunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shrink {
    /// When, on the clock of the events.
    pub time: u64,
    /// The cache: its directory in sysfs.
    pub cache: String,
}

/// Watches for shrinks, until it is dropped.
pub struct Shrinks {
    told: Receiver<Shrink>,
    stop: Arc<AtomicBool>,
    lost: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread has.
struct Watcher {
    queue: OwnedFd,
    caches: HashMap<i32, String>,
    to: Sender<Shrink>,
    lost: Arc<AtomicU64>,
}

impl Shrinks {
    /// Watches all caches from now on.
    ///
    /// # Errors
    /// The kernel does not show its caches, or lets this process not watch them.
    pub fn watch() -> io::Result<Shrinks> {
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let mut caches = HashMap::new();
        for entry in std::fs::read_dir(CACHES)?.flatten() {
            // Other names of a cache are links.
            if let (true, Ok(cache)) =
                (entry.file_type()?.is_dir(), entry.file_name().into_string())
            {
                let file = Path::new(CACHES).join(&cache).join("shrink");
                match inotify::add_watch(&queue, &file, WatchFlags::MODIFY) {
                    Ok(number) => drop(caches.insert(number, cache)),
                    // It has ended meanwhile.
                    Err(rustix::io::Errno::NOENT) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        let (to, told) = channel();
        let (stop, lost) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let watcher = Watcher { queue, caches, to, lost: lost.clone() };
        let until = stop.clone();
        let thread = Some(thread::spawn(move || watcher.run(&until)));
        Ok(Shrinks { told, stop, lost, thread })
    }

    /// Those since this was called last.
    pub fn take(&self) -> impl Iterator<Item = Shrink> {
        self.told.try_iter()
    }

    /// How often the kernel had no room for more of them.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Shrinks {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Watcher {
    fn run(self, stop: &AtomicBool) {
        super::favour();
        let mut buffer = [MaybeUninit::uninit(); 1 << 14];
        let mut last: Option<(i32, u64)> = None;
        while !stop.load(Ordering::Acquire) {
            let wait = Timespec { tv_sec: 0, tv_nsec: LOOK_NS };
            let _ = poll(&mut [PollFd::new(&self.queue, PollFlags::IN)], Some(&wait));
            let time = reader::now();
            let mut changes = inotify::Reader::new(&self.queue, &mut buffer);
            while let Ok(change) = changes.next() {
                let number = change.wd();
                if change.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                }
                let is_again =
                    last.is_some_and(|(of, at)| of == number && time < at.saturating_add(TWICE_NS));
                last = Some((number, time));
                if let Some(cache) = self.caches.get(&number).filter(|_| !is_again) {
                    let _ = self.to.send(Shrink { time, cache: cache.clone() });
                }
            }
        }
    }
}
