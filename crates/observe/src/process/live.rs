//! Memory of a live process: read by `process_vm_readv`, many parts in one call, or from
//! `/proc/PID/mem` where that call is missing or filtered.
//!
//! Neither way stops the process or uses one of its threads.

use super::memory::{Fault, Memory, MemoryPart, Writable};
use super::outside::{self, Offer, StopOutcome};
use super::rouse;
use super::threads::Threads;
use crate::symbols::Loaded;
use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;
use procfs::ProcError;
use procfs::process::{MMPermissions, MMapPath, Process};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// Most parts of one call (`IOV_MAX`).
const MOST_PARTS: usize = 1024;

/// The memory of a live process.
pub(crate) struct LiveMemory {
    process: Process,
    pid: Pid,
    /// Its memory as a file, used since the first refused call.
    file: OnceLock<File>,
}

impl LiveMemory {
    pub(crate) fn new(process: Process) -> LiveMemory {
        let pid = Pid::from_raw(process.pid);
        LiveMemory { process, pid, file: OnceLock::new() }
    }

    /// The memory as a file; opened once.
    fn file(&self) -> Result<&File, Fault> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let path = format!("/proc/{}/mem", self.pid);
        let file = File::options().read(true).write(true).open(path).map_err(fault)?;
        Ok(self.file.get_or_init(|| file))
    }

    /// Files in its memory; none where that is unknown.
    pub(crate) fn loaded(&self) -> Vec<Loaded> {
        let maps = self.process.maps().map(|maps| maps.0).unwrap_or_default();
        let files = maps.into_iter().filter_map(|map| match map.pathname {
            MMapPath::Path(path) => {
                let memory = map.address.0..map.address.1;
                Some(Loaded { memory, offset: map.offset, path })
            }
            _ => None,
        });
        files.collect()
    }

    /// True where the call failed in a way that the file may do without.
    fn instead(why: Errno) -> bool {
        // A sandbox may filter the call with EPERM; the file asks the same question of
        // permission without the filter.
        matches!(why, Errno::ENOSYS | Errno::EPERM)
    }
}

impl Memory for LiveMemory {
    fn read(&self, parts: &[MemoryPart], into: &mut [u8]) -> Result<(), Fault> {
        let mut rest = into;
        for parts in parts.chunks(MOST_PARTS) {
            let bytes = parts.iter().map(|p| p.bytes).sum();
            let (now, later) = rest.split_at_mut(bytes);
            rest = later;
            if self.file.get().is_none() {
                let remote: Vec<_> = parts.iter().map(|p| remote(p.address, p.bytes)).collect();
                match process_vm_readv(self.pid, &mut [IoSliceMut::new(now)], &remote) {
                    Ok(n) if n == bytes => continue,
                    Ok(n) => return Err(Fault::Absent(address_of(parts, n))),
                    Err(why) if Self::instead(why) => {}
                    Err(why) => return Err(errno(why, parts[0].address)),
                }
            }
            let file = self.file()?;
            let mut now = now;
            for part in parts {
                let (one, others) = now.split_at_mut(part.bytes);
                now = others;
                file.read_exact_at(one, part.address).map_err(|e| at(e, part.address))?;
            }
        }
        Ok(())
    }

    fn mappings(&self) -> Result<Vec<Range<u64>>, Fault> {
        let wanted = MMPermissions::READ | MMPermissions::WRITE | MMPermissions::PRIVATE;
        let maps = self.process.maps().map_err(|why| match why {
            ProcError::PermissionDenied(_) => Fault::Denied,
            ProcError::NotFound(_) => Fault::Gone,
            ProcError::Io(why, _) => fault(why),
            other => Fault::Io(io::Error::other(other.to_string())),
        })?;
        let anonymous = maps
            .0
            .iter()
            .filter(|map| map.inode == 0 && map.perms.difference(MMPermissions::EXECUTE) == wanted);
        Ok(anonymous.map(|map| map.address.0..map.address.1).collect())
    }
}

impl Writable for LiveMemory {
    fn write(&self, addresses: &[u64], bytes: &[u8]) -> Result<(), Fault> {
        for addresses in addresses.chunks(MOST_PARTS) {
            if self.file.get().is_none() {
                let remote: Vec<_> = addresses.iter().map(|a| remote(*a, bytes.len())).collect();
                let local = vec![IoSlice::new(bytes); addresses.len()];
                match process_vm_writev(self.pid, &local, &remote) {
                    Ok(n) if n == bytes.len() * addresses.len() => continue,
                    Ok(n) => return Err(Fault::Absent(addresses[n / bytes.len().max(1)])),
                    Err(why) if Self::instead(why) => {}
                    Err(why) => return Err(errno(why, addresses[0])),
                }
            }
            let file = self.file()?;
            for address in addresses {
                file.write_all_at(bytes, *address).map_err(|e| at(e, *address))?;
            }
        }
        Ok(())
    }
}

impl Threads for LiveMemory {
    fn rouse(&self, thread: u32) {
        let here = rouse::thread_of(self.pid, thread);
        here.inspect(|thread| rouse::rouse(*thread));
    }

    fn serve_by_stopped(&self, offer: Offer) -> Result<StopOutcome, Fault> {
        outside::serve(self.pid, self, offer)
    }
}

fn remote(address: u64, bytes: usize) -> RemoteIoVec {
    // Out of reach on a machine of 32 bits: the system says so.
    RemoteIoVec { base: usize::try_from(address).unwrap_or(usize::MAX), len: bytes }
}

/// Address of the part that holds the byte of a number.
fn address_of(parts: &[MemoryPart], mut byte: usize) -> u64 {
    for part in parts {
        if byte < part.bytes {
            return part.address.saturating_add(byte as u64);
        }
        byte -= part.bytes;
    }
    0
}

fn errno(why: Errno, address: u64) -> Fault {
    match why {
        Errno::EPERM | Errno::EACCES => Fault::Denied,
        Errno::ESRCH => Fault::Gone,
        Errno::EFAULT => Fault::Absent(address),
        other => Fault::Io(other.into()),
    }
}

fn fault(why: io::Error) -> Fault {
    at(why, 0)
}

fn at(why: io::Error, address: u64) -> Fault {
    match why.raw_os_error().map(Errno::from_raw) {
        // The file gives EIO where no memory is.
        Some(Errno::EIO) => Fault::Absent(address),
        Some(Errno::ENOENT) => Fault::Gone,
        Some(errno_of) if errno_of != Errno::UnknownErrno => errno(errno_of, address),
        _ if why.kind() == io::ErrorKind::UnexpectedEof => Fault::Absent(address),
        _ => Fault::Io(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// This process: by calls, and by the file.
    fn both() -> [LiveMemory; 2] {
        let live = [(); 2].map(|()| LiveMemory::new(Process::myself().expect("this process")));
        live[1].file().expect("a process may open its own memory");
        live
    }

    fn part(words: &[AtomicU64]) -> MemoryPart {
        MemoryPart { address: words.as_ptr() as u64, bytes: size_of_val(words) }
    }

    #[test]
    fn parts_are_read_in_their_order_and_beyond_the_parts_of_one_call() {
        let words: Vec<AtomicU64> = (0..3000).map(AtomicU64::new).collect();
        let parts: Vec<MemoryPart> = words.chunks(1).rev().map(part).collect();
        for live in both() {
            let mut bytes = vec![0; 3000 * 8];
            live.read(&parts, &mut bytes).expect("own memory");
            let read: Vec<u64> = super::super::memory::words(&bytes).collect();
            assert!(read.iter().copied().eq((0..3000).rev()), "{:?}", live.file.get());
        }
    }

    #[test]
    fn what_is_written_is_there() {
        for live in both() {
            let words: Vec<AtomicU64> = (0..2000).map(AtomicU64::new).collect();
            let halves: Vec<u64> = words.chunks(1).map(|w| part(w).address + 4).collect();
            live.write(&halves, &7u32.to_le_bytes()).expect("own memory");
            let all = words.iter().map(|w| w.load(Ordering::Relaxed));
            assert!(all.eq((0..2000).map(|n| n | 7 << 32)), "{:?}", live.file.get());
        }
    }

    #[test]
    fn memory_that_is_not_there_is_told_with_its_address() {
        let word = [AtomicU64::new(5)];
        for live in both() {
            let parts = [part(&word), MemoryPart { address: 64, bytes: 8 }];
            let why = live.read(&parts, &mut [0; 16]).expect_err("nothing at 64");
            assert!(matches!(why, Fault::Absent(64)), "{why:?}");
            let why = live.write(&[64], &[0; 4]).expect_err("nothing at 64");
            assert!(matches!(why, Fault::Absent(64)), "{why:?}");
        }
    }

    #[test]
    fn anonymous_mappings_are_listed() {
        let live = LiveMemory::new(Process::myself().expect("this process"));
        let word = Box::new(AtomicU64::new(5));
        let address = &raw const *word as u64;
        let mappings = live.mappings().expect("own mappings");
        assert!(mappings.iter().any(|map| map.contains(&address)), "the heap is one of them");
        let code = memory_of_code as *const () as u64;
        assert!(!mappings.iter().any(|map| map.contains(&code)), "a program's code is none");
    }

    fn memory_of_code() {}
}
