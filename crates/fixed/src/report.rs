//! Text reports of a yard on fixed memory, in the kernel's format: free blocks as in
//! `/proc/buddyinfo`, and the report of a failed page allocation.

use crate::board::Board;
use crate::caches::FixedEngine;
use crate::pages::MOST_ORDER;
use crate::tally::Counts;
use crate::yard::Yard;
use core::fmt;

/// Free blocks of each order, and the bytes of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buddy {
    /// Free blocks.
    pub blocks: [u32; MOST_ORDER as usize + 1],
    /// To print blocks in KiB by.
    pub page_bytes: usize,
}

impl fmt::Display for Buddy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Node 0, zone   Normal ")?;
        self.blocks.iter().try_for_each(|blocks| write!(f, " {blocks:>6}"))
    }
}

/// What a kernel prints where it has no pages for a request.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// Requested bytes.
    pub bytes: usize,
    /// What the yard has.
    pub counts: Counts,
    /// What is free.
    pub buddy: Buddy,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { bytes, counts, buddy } = self;
        let kib = |pages: u32| pages as usize * buddy.page_bytes / 1024;
        writeln!(f, "allocation of length {bytes} failed")?;
        writeln!(
            f,
            "slab_unreclaimable:{} runs:{} tables:{} free:{}",
            counts.slab_pages, counts.run_pages, counts.meta_pages, counts.free
        )?;
        write!(f, "Normal free:{}kB managed:{}kB\nNormal:", kib(counts.free), kib(counts.managed))?;
        for (order, blocks) in buddy.blocks.iter().enumerate() {
            write!(f, " {blocks}*{}kB", kib(1 << order))?;
        }
        writeln!(f, " = {}kB", kib(counts.free))
    }
}

impl<B: Board, E: FixedEngine> Yard<B, E> {
    /// What is free.
    pub fn buddy(&self) -> Buddy {
        let blocks = self.enter(|core, _| core.pages.buddy.blocks());
        Buddy { blocks, page_bytes: B::PAGE_BYTES }
    }

    /// The report of a request that failed.
    ///
    /// # Errors
    /// As [`Yard::verify`].
    pub fn failure(&self, bytes: usize) -> Result<Failure, &'static str> {
        Ok(Failure { bytes, counts: self.verify()?, buddy: self.buddy() })
    }
}
