//! What a process's resident memory is used for: the allocator, files, stacks, another heap.
//!
//! `/proc/PID/smaps` has the resident part of each mapping (proc_pid_smaps(5)); the yard's header
//! says which mappings are the yard's. Large blocks in mappings of their own count as other memory,
//! because from outside they look like the program's mappings. Invariant: the parts add up to the
//! resident bytes of all mappings in smaps.

use super::front::Front;
use crate::smaps::Mapping;
use slabyard_abi::region::GRANULE;
use std::ops::Range;

/// Resident bytes of a process, by what they belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resident {
    /// Of yards: slabs, page runs, tables.
    pub(crate) allocator: u64,
    /// Of files: the program, libraries, what it maps.
    pub(crate) files: u64,
    /// Of the main thread's stack.
    pub(crate) stack: u64,
    /// Behind the program's data (`brk`): the C library's own malloc, if somebody uses it.
    pub(crate) brk: u64,
    /// Of all other mappings.
    pub(crate) other: u64,
}

impl Resident {
    /// Under the names of totals.
    pub(crate) fn totals(self) -> [(&'static str, u64); 5] {
        [
            ("resident_allocator", self.allocator),
            ("resident_files", self.files),
            ("resident_stack", self.stack),
            ("resident_brk", self.brk),
            ("resident_other", self.other),
        ]
    }

    /// Sums mappings; `ours` are addresses in mappings of yards.
    pub(crate) fn of(mappings: &[Mapping], ours: &[Range<u64>]) -> Resident {
        let mut sum = Resident::default();
        for mapping in mappings {
            let part = match mapping.name.as_str() {
                _ if ours.iter().any(|range| mapping.meets(range)) => &mut sum.allocator,
                "[stack]" => &mut sum.stack,
                "[heap]" => &mut sum.brk,
                "" => &mut sum.other,
                // Of the kernel, or named by the program (PR_SET_VMA_ANON_NAME).
                name if name.starts_with('[') => &mut sum.other,
                _ => &mut sum.files,
            };
            *part += mapping.resident;
        }
        sum
    }
}

/// Addresses in each mapping of a yard.
pub(crate) fn of_yard(front: &Front) -> Vec<Range<u64>> {
    let region =
        front.region..front.region.saturating_add(front.granules.saturating_mul(GRANULE as u64));
    let tables = [front.at, front.descriptors, front.caches, front.rows, front.gate];
    let tables = tables.into_iter().map(|at| at..at.saturating_add(1));
    std::iter::once(region).chain(tables).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smaps;

    const SMAPS: &str = "\
55d0c4a00000-55d0c4a10000 r-xp 00000000 fe:00 1234       /usr/bin/a program
Size:                 64 kB
Rss:                  40 kB
Pss:                  10 kB
55d0c5000000-55d0c5100000 rw-p 00000000 00:00 0          [heap]
Rss:                 100 kB
VmFlags: rd wr mr mw me ac
7f0000000000-7f0000100000 rw-p 00000000 00:00 0 
Rss:                 512 kB
7f1000000000-7f1000100000 rw-p 00000000 00:00 0 
Rss:                   8 kB
7f2000000000-7f2000001000 rw-p 00000000 00:00 0          [anon:threads]
Rss:                   4 kB
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0          [stack]
Rss:                  16 kB
";

    #[test]
    fn each_mapping_has_one_owner() {
        let inside = 0x7f00_0008_0000u64;
        let ours = std::iter::once(inside..inside + 1).collect::<Vec<_>>();
        let told = Resident::of(&smaps::parse(SMAPS).expect("smaps"), &ours);
        let kib = |n: u64| n << 10;
        let want = Resident {
            allocator: kib(512),
            files: kib(40),
            stack: kib(16),
            brk: kib(100),
            other: kib(12),
        };
        assert_eq!(told, want);
        let sum: u64 = told.totals().iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(sum, kib(40 + 100 + 512 + 8 + 4 + 16));
    }
}
