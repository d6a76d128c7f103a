//! The last read of the program's memory: if the program ends without `exit`, its library requests
//! this read and waits for it, through the page that `abi::ending` describes. This command reads
//! the memory from outside, like `slabyard list PID`.
//!
//! Invariants: a thread of ours answers the request, so that the program does not wait for our
//! other work; whatever the program writes into the page, at worst it loses its report.
#![allow(unsafe_code)]

use nix::libc;
use slabyard_abi::ending::{ASKED, BYTES, EndPage, IDLE, SUFFIX};
use slabyard_observe::process::{self, Error};
use slabyard_observe::{ReadScope, Snapshot};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const BETWEEN_WAKES: Duration = Duration::from_micros(200);

/// The page, mapped until this process ends.
#[derive(Clone, Copy)]
pub struct Page(&'static EndPage);

/// The last look at a program before it ended.
pub struct LastLook {
    /// The last look; `None`: nobody asked for one.
    pub look: Option<Result<Snapshot, Error>>,
    /// Name of the last program that was on Slabyard; `None`: there was none.
    pub program: Option<String>,
}

/// A look that waits to be asked for.
pub struct LastLookThread {
    page: Page,
    done: &'static AtomicBool,
    thread: JoinHandle<Option<(u32, Result<Snapshot, Error>)>>,
}

impl Page {
    /// Makes the page beside the report at `place`.
    pub fn make(place: &Path) -> io::Result<Page> {
        let mut path = OsString::from(place);
        path.push(SUFFIX);
        let mut file = File::options().read(true).write(true).create_new(true).open(path)?;
        // Written, so that no touch of it finds a full file system.
        file.write_all(&[0; BYTES])?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file that is as long, which stays until the end.
        let page = unsafe {
            let (fd, shared) = (file.as_raw_fd(), libc::MAP_SHARED);
            let at = libc::mmap(ptr::null_mut(), BYTES, protection, shared, fd, 0);
            if at == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            &*at.cast::<EndPage>()
        };
        page.reader.store(std::process::id(), Ordering::Relaxed);
        Ok(Page(page))
    }

    /// Makes the program that the command starts the page's owner.
    pub fn give_to(self, command: &mut Command) {
        let own = move || {
            self.0.owner.store(std::process::id(), Ordering::Relaxed);
            Ok(())
        };
        // SAFETY: runs between fork and exec: a system call, and a store into memory that
        // is shared.
        unsafe { command.pre_exec(own) };
    }

    /// Waits to be asked for a look at the process, with the signals held that are held
    /// here.
    pub fn listen(self, pid: u32) -> LastLookThread {
        let done: &AtomicBool = Box::leak(Box::default());
        let thread = thread::spawn(move || {
            let mut last = None;
            while !done.load(Ordering::SeqCst) {
                match self.0.state.load(Ordering::SeqCst) {
                    ASKED => {
                        let begun = self.0.begun.load(Ordering::Relaxed);
                        last = Some((begun, process::sample(pid, ReadScope::default())));
                        self.0.state.store(IDLE, Ordering::SeqCst);
                        wake(&self.0.state);
                    }
                    other => wait(&self.0.state, other),
                }
            }
            last
        });
        LastLookThread { page: self, done, thread }
    }
}

impl LastLookThread {
    /// Listens no more: the process has ended.
    pub fn end(self) -> LastLook {
        self.done.store(true, Ordering::SeqCst);
        // Again and again: the thread may have looked before, and begin to wait after it was woken. Of
        // the page's words none says that it must not, because others write them.
        while !self.thread.is_finished() {
            wake(&self.page.0.state);
            thread::sleep(BETWEEN_WAKES);
        }
        let begun = self.page.0.begun.load(Ordering::Relaxed);
        let look = self.thread.join().unwrap_or_default();
        // An earlier program's is nobody's.
        let look = look.filter(|(of, _)| *of == begun).map(|(_, look)| look);
        let name = self.page.0.name();
        let text = String::from_utf8_lossy(&name).replace(|c: char| c.is_control(), "");
        LastLook { look, program: (begun != 0).then_some(text) }
    }
}

fn wake(word: &AtomicU32) {
    // SAFETY: a word that lives, and no other memory.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

fn wait(word: &AtomicU32, value: u32) {
    let forever = ptr::null::<libc::timespec>();
    // SAFETY: a word that lives, and no other memory.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, forever) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// One that looked whether it is done just before it was told to, and waits just after.
    #[test]
    fn a_listener_that_waits_too_late_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let page = Page::make(&folder.path().join("report")).expect("a page");
        let done: &AtomicBool = Box::leak(Box::default());
        let late = thread::spawn(move || {
            while !done.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
            thread::sleep(Duration::from_millis(20));
            wait(&page.0.state, page.0.state.load(Ordering::SeqCst));
            None
        });
        let (ended, has_ended) = mpsc::channel();
        let listener = LastLookThread { page, done, thread: late };
        thread::spawn(move || ended.send(listener.end().look.is_none()));
        assert!(has_ended.recv_timeout(Duration::from_secs(60)).expect("it ends"));
    }
}
