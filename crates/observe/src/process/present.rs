//! Which pages of a process are in memory and count as its own: the zero page, which the kernel
//! maps where memory is read that was never written, does not.
//!
//! `PAGEMAP_SCAN` (Linux 6.7; the kernel's `pagemap.rst`) tells them apart, the huge zero page since
//! 6.18. Older kernels have the entries of `/proc/PID/pagemap` alone, in which a page of zeros is
//! present like any other: what a reader of the process looked at counts there. (Our own reads are
//! such: where the kernel makes huge pages of its own accord, the first one of 2 MiB maps them all.)
//!
//! Neighbour: [`mod@super::residence`] asks for the pages of each use, in the order of their addresses,
//! so a look at a window answers many questions.
#![allow(unsafe_code)]

use super::memory;
use rustix::io::Errno;
use rustix::ioctl::{self, Opcode, Updater, opcode};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// A page's entry: it is present.
const PRESENT: u64 = 1 << 63;
/// Entries that are read at once.
const ENTRIES: u64 = 1 << 16;

/// What `PAGEMAP_SCAN` is asked (`struct pm_scan_arg`).
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// What it answers (`struct page_region`).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Stretch {
    start: u64,
    end: u64,
    categories: u64,
}

const SCAN: Opcode = opcode::read_write::<Scan>(b'f', 16);
const IS_PRESENT: u64 = 1 << 3;
const IS_ZERO_PAGE: u64 = 1 << 5;
/// Stretches of one scan, and how far it goes where there are fewer.
const STRETCHES: usize = 4096;
const WINDOW: u64 = 1 << 30;
/// The kernel refuses a scan beyond the addresses of processes.
const USUAL_END: u64 = (1 << 47) - (1 << 16);

/// The pages of a process.
pub(super) struct Pages {
    file: File,
    page_bytes: u64,
    /// What a window has: addresses of pages, and stretches of them that are present.
    known: Range<u64>,
    stretches: Vec<Stretch>,
    /// The kernel knows no scan: entries are read, from the first page's on.
    is_old: bool,
    first: u64,
    entries: Vec<u8>,
}

impl Pages {
    pub(super) fn open(pid: u32) -> std::io::Result<Pages> {
        Ok(Pages {
            file: File::open(format!("/proc/{pid}/pagemap"))?,
            page_bytes: rustix::param::page_size() as u64,
            known: 0..0,
            stretches: Vec::new(),
            is_old: false,
            first: 0,
            entries: Vec::new(),
        })
    }

    /// Bytes of the range's pages that are in memory; what cannot be read is not.
    pub(super) fn present(&mut self, range: &Range<u64>) -> u64 {
        let scanned = self.by_scan(range);
        if self.is_old { self.by_entries(range) } else { scanned }
    }

    fn by_scan(&mut self, range: &Range<u64>) -> u64 {
        let mut at = range.start / self.page_bytes * self.page_bytes;
        let end = range.end.checked_next_multiple_of(self.page_bytes).unwrap_or(range.end);
        let mut present = 0;
        while at < end {
            if !self.known.contains(&at) && !self.scan(at, end) {
                break;
            }
            let until = end.min(self.known.end);
            let from = self.stretches.partition_point(|it| it.end <= at);
            let within = self.stretches[from..].iter().take_while(|it| it.start < until);
            present += within.map(|it| it.end.min(until) - it.start.max(at)).sum::<u64>();
            at = until;
        }
        present
    }

    /// Scans a window that begins here; false if its first page is still unknown after it.
    fn scan(&mut self, start: u64, wanted: u64) -> bool {
        if self.is_old {
            return false;
        }
        self.known = 0..0;
        self.stretches.clear();
        self.stretches.resize(STRETCHES, Stretch::default());
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            start,
            end: (start.saturating_add(WINDOW)).min(wanted.max(USUAL_END)),
            vec: self.stretches.as_mut_ptr() as u64,
            vec_len: STRETCHES as u64,
            category_inverted: IS_ZERO_PAGE,
            category_mask: IS_PRESENT | IS_ZERO_PAGE,
            return_mask: IS_PRESENT,
            ..Scan::default()
        };
        // SAFETY: the kernel reads `Scan`, and writes to it and to at most `vec_len` stretches.
        let done = unsafe { ioctl::ioctl(&self.file, Updater::<SCAN, Scan>::new(&mut scan)) };
        if let Err(why) = done {
            self.is_old = why == Errno::NOTTY;
            return false;
        }
        let nr = self.stretches.partition_point(|it| it.end > 0);
        self.stretches.truncate(nr);
        self.known = start..scan.walk_end;
        scan.walk_end > start
    }

    /// The same by the entries, with pages of zeros.
    fn by_entries(&mut self, range: &Range<u64>) -> u64 {
        let (mut page, end) = (range.start / self.page_bytes, range.end.div_ceil(self.page_bytes));
        let mut present = 0;
        while page < end {
            let known = self.first..self.first + self.entries.len() as u64 / 8;
            if !known.contains(&page) && !self.read(page) {
                break;
            }
            let until = end.min(self.first + self.entries.len() as u64 / 8);
            let at = |page: u64| (page - self.first) as usize * 8;
            let entries = memory::words(&self.entries[at(page)..at(until)]);
            present += entries.filter(|entry| entry & PRESENT != 0).count() as u64;
            page = until;
        }
        present * self.page_bytes
    }

    fn read(&mut self, page: u64) -> bool {
        self.first = page;
        self.entries.resize(ENTRIES as usize * 8, 0);
        let read = self.file.read_at(&mut self.entries, page * 8).unwrap_or(0);
        self.entries.truncate(read / 8 * 8);
        !self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    const MIB: usize = 1 << 20;

    #[test]
    fn pages_that_were_touched_are_present_and_others_are_not() {
        let mut block: Vec<u8> = Vec::with_capacity(64 * MIB);
        let start = block.as_ptr() as u64;
        block.resize(8 * MIB, 1);
        let range = |from: usize, to: usize| start + from as u64..start + to as u64;
        for is_old in [false, true] {
            let mut pages = Pages::open(std::process::id()).expect("our own pages");
            pages.is_old = is_old;
            let page = pages.page_bytes;
            let touched = pages.present(&range(0, 8 * MIB));
            assert!((8 * MIB as u64..=8 * MIB as u64 + page).contains(&touched), "{touched}");
            // A huge page may reach behind what was touched.
            assert_eq!(pages.present(&range(12 * MIB, 64 * MIB)), 0);
            // What is known of the window holds for parts of it, in any order.
            let parts = (0..8).rev().map(|nth| pages.present(&range(nth * MIB, (nth + 1) * MIB)));
            let parts: u64 = parts.sum();
            assert!((touched..=touched + 8 * page).contains(&parts), "{parts} of {touched}");
        }
    }

    #[test]
    fn what_was_read_and_never_written_is_not_in_memory() {
        // Of the system, so that it was never written.
        let block = vec![0u8; 64 * MIB];
        let sum: u64 = block[8 * MIB..16 * MIB].iter().step_by(1024).map(|it| u64::from(*it)).sum();
        black_box(sum);
        let start = block.as_ptr() as u64 + 8 * MIB as u64;
        let range = start..start + 8 * MIB as u64;
        let mut pages = Pages::open(std::process::id()).expect("our own pages");
        // They are there, and are nobody's.
        assert!(pages.by_entries(&range) >= 8 * MIB as u64);
        let present = pages.by_scan(&range);
        if pages.is_old {
            return eprintln!("not run: this kernel knows no PAGEMAP_SCAN");
        }
        assert_eq!(present, 0);
    }

    #[test]
    fn what_cannot_be_read_is_not_present() {
        let mut pages = Pages::open(std::process::id()).expect("our own pages");
        let on_stack = &raw const pages as u64;
        for beyond in [u64::MAX - 8192..u64::MAX, u64::MAX..u64::MAX, 1 << 63..(1 << 63) + 4096] {
            assert_eq!(pages.present(&beyond), 0, "{beyond:x?}");
        }
        // What can be read is read after it as before, by the same means.
        assert!(pages.present(&(on_stack..on_stack + 8)) > 0);
        assert_eq!(pages.is_old, pages.known.is_empty());
    }

    #[test]
    fn more_stretches_than_one_scan_tells_are_all_counted() {
        let mut block = vec![0u8; 64 * MIB];
        let page = rustix::param::page_size();
        let pages_of_block = 64 * MIB / page;
        (0..pages_of_block).step_by(2).for_each(|nth| block[nth * page] = 1);
        let range = block.as_ptr() as u64..block.as_ptr() as u64 + 64 * MIB as u64;
        let mut pages = Pages::open(std::process::id()).expect("our own pages");
        let counted = pages.by_entries(&range);
        let present = pages.present(&range);
        assert!(counted >= 32 * MIB as u64 && present == counted, "{present} of {counted}");
    }
}
