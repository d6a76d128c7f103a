//! Memory nodes (NUMA): the machine's own, or a declared number (like the kernel's `numa=fake`).
//!
//! With real nodes, a table holds each CPU's node, read from sysfs (sysfs-devices-node), and
//! mbind(2) requests that parts of the region be placed on their nodes. If the kernel refuses, only
//! the placement of pages changes, and the refusal is counted. CPUs are assigned to declared nodes
//! in turn. If rows are private slots, they have no CPU, so nodes are always declared, and each
//! thread belongs to one.
//!
//! Neighbour: [`super::counted`] enables nodes; a yard decides which addresses belong to each.

use super::calls::{PROT_RW, mmap};
use crate::sync::{AtomicU16, AtomicUsize, Ordering};
use crate::sys;

/// Nodes that policy knows.
pub(super) const MOST: usize = 4;
/// Nodes of a machine that sysfs is asked for.
const MOST_REAL: usize = 64;

pub(super) struct Nodes {
    /// As many as policy sees.
    nr: AtomicUsize,
    /// Address of the table of CPUs: 0 where nodes are declared.
    table: AtomicUsize,
    rows: AtomicUsize,
    refused: AtomicUsize,
}

impl Nodes {
    pub(super) const fn new() -> Self {
        Nodes {
            nr: AtomicUsize::new(1),
            table: AtomicUsize::new(0),
            rows: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
        }
    }

    /// From now on there are this many nodes, a power of two: the machine's own, if it has several
    /// and `may_be_real`.
    pub(super) fn begin(&self, nr: usize, nr_rows: usize, may_be_real: bool) {
        self.nr.store(nr, Ordering::Relaxed);
        if !may_be_real || nr == 1 || node_list().len() < 2 {
            return;
        }
        let Some(table) = mmap(2 * nr_rows, PROT_RW, 0) else { return };
        self.rows.store(nr_rows, Ordering::Relaxed);
        self.table.store(table, Ordering::Relaxed);
        for node in node_list().iter() {
            let mut buffer = [0; 1024];
            let text = sys::read_file(&path_of(node), &mut buffer).unwrap_or_default();
            each_of_list(text, |cpu| {
                if let Some(of) = self.of_cpu(cpu) {
                    of.store((node % nr) as u16, Ordering::Relaxed);
                }
            });
        }
    }

    fn of_cpu(&self, cpu: usize) -> Option<&AtomicU16> {
        let (table, rows) = (self.table.load(Ordering::Relaxed), self.rows.load(Ordering::Relaxed));
        // SAFETY: within the mapping that `begin` made, which nothing ends; access is atomic.
        (table != 0 && cpu < rows).then(|| unsafe { &*((table + 2 * cpu) as *const AtomicU16) })
    }

    pub(super) fn len(&self) -> usize {
        self.nr.load(Ordering::Relaxed)
    }

    pub(super) fn are_real(&self) -> bool {
        self.table.load(Ordering::Relaxed) != 0
    }

    pub(super) fn of_row(&self, row: usize) -> usize {
        match self.of_cpu(row) {
            Some(node) => node.load(Ordering::Relaxed).into(),
            None => row & (self.len() - 1),
        }
    }

    /// Asks for a node's pages. No contents are moved.
    pub(super) fn bind(&self, address: usize, bytes: usize, node: usize) {
        const MPOL_PREFERRED: usize = 1;
        let mask = [1usize << node];
        if !self.are_real() {
            return;
        }
        // The kernel reads one bit less than it is told.
        let arguments =
            [address, bytes, MPOL_PREFERRED, mask.as_ptr() as usize, usize::BITS as usize + 1, 0];
        // SAFETY: a part of our own reservation, whose contents stay; the mask lives meanwhile.
        let done = unsafe { sys::call(sys::MBIND, arguments) };
        if done != 0 {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Calls of [`Nodes::bind`] that the kernel refused.
    pub(super) fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }
}

/// A set of the machine's nodes.
#[derive(Clone, Copy)]
struct Set(u64);

impl Set {
    fn len(self) -> u32 {
        self.0.count_ones()
    }

    fn iter(self) -> impl Iterator<Item = usize> {
        (0..MOST_REAL).filter(move |node| self.0 >> node & 1 == 1)
    }
}

/// The machine's nodes that have memory.
fn node_list() -> Set {
    let mut buffer = [0; 256];
    let text = sys::read_file(c"/sys/devices/system/node/has_memory", &mut buffer);
    let mut set = 0;
    each_of_list(text.unwrap_or_default(), |node| {
        if node < MOST_REAL {
            set |= 1 << node;
        }
    });
    Set(set)
}

/// Calls `f` with each number of a list as `0-3,8`.
fn each_of_list(text: &[u8], mut f: impl FnMut(usize)) {
    const MOST_CPUS: usize = 1 << 16;
    for range in text.split(|c| *c == b',') {
        let digits = range.split(|c| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
        let number = |digits: &[u8]| {
            digits
                .iter()
                .fold(0usize, |n, c| n.saturating_mul(10).saturating_add((c - b'0').into()))
        };
        let mut ends = digits.map(number);
        if let Some(first) = ends.next() {
            (first..=ends.next().unwrap_or(first).min(MOST_CPUS)).for_each(&mut f);
        }
    }
}

/// The file with the CPUs of a node.
fn path_of(node: usize) -> Path {
    const BEGIN: &[u8] = b"/sys/devices/system/node/node";
    let mut path = [0; 64];
    path[..BEGIN.len()].copy_from_slice(BEGIN);
    let mut at = BEGIN.len();
    if node >= 10 {
        path[at] = b'0' + (node / 10) as u8;
        at += 1;
    }
    path[at] = b'0' + (node % 10) as u8;
    path[at + 1..at + 9].copy_from_slice(b"/cpulist");
    Path(path)
}

struct Path([u8; 64]);

impl core::ops::Deref for Path {
    type Target = core::ffi::CStr;

    fn deref(&self) -> &core::ffi::CStr {
        core::ffi::CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
