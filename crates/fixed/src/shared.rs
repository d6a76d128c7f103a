//! Yards in memory shared by processes, each of which may be killed at any instruction.
//!
//! ```text
//! shared memory   | yard: lock, lists, live map's state | live map | entries | ... | page | page | ...
//! ```
//!
//! Neighbours: [`Robust`] is the board; the next call after a death runs [`crate::repair`].

use crate::board::Board;
use crate::caches::{FixedEngine, Settings};
use crate::live_map::LiveMap;
use crate::pages::TooSmall;
use crate::robust::{Robust, map_shared};
use crate::yard::Yard;

impl<const PAGE_BYTES: usize, const CPUS: usize, E: FixedEngine> Yard<Robust<PAGE_BYTES, CPUS>, E> {
    /// A yard in new memory of this many bytes, which this process shares with those that it forks
    /// after this, and they with theirs. It exists until the last of them ends.
    ///
    /// ```
    /// use slabyard_fixed::{Robust, Settings, Slub, Yard};
    ///
    /// let zone = Yard::<Robust, Slub>::share(1 << 20, Settings::DEFAULT)?;
    /// let block = zone.malloc(100).expect("there is room");
    /// // Children of `fork` find it at the same address, and allocate from the same yard.
    /// // SAFETY: it was not freed before, and nobody uses it.
    /// assert!(unsafe { zone.mfree(block) });
    /// # Ok::<(), slabyard_fixed::TooSmall>(())
    /// ```
    ///
    /// # Errors
    /// [`TooSmall`] if it has no room for the tables and a page, or the kernel refuses the memory.
    pub fn share(bytes: usize, settings: Settings) -> Result<&'static Self, TooSmall> {
        let at = map_shared(bytes).ok_or(TooSmall)?;
        // SAFETY: new, shared with children alone, and never unmapped.
        unsafe { Self::place(at, bytes, settings) }
    }

    /// As [`Yard::share`], in memory that exists already: the yard is at its start.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// The bytes are readable and writable as long as the yard is used, and nobody else uses them.
    /// Each process that uses the yard has them mapped at this address, shared, and runs the same
    /// program. No process but this one uses the yard before this returns.
    pub unsafe fn place(
        at: *mut u8,
        bytes: usize,
        settings: Settings,
    ) -> Result<&'static Self, TooSmall> {
        let skipped = at.align_offset(align_of::<Self>());
        let behind = skipped.checked_add(size_of::<Self>()).ok_or(TooSmall)?;
        let left = bytes.checked_sub(behind).ok_or(TooSmall)?;
        // SAFETY: the caller's promise; it fits, and is aligned.
        let yard: &'static Self = unsafe {
            let yard = at.add(skipped).cast::<Self>();
            yard.write(Yard::with(Robust::new(), settings));
            &*yard
        };
        if !yard.board.begin() {
            return Err(TooSmall);
        }
        // SAFETY: as above; what lies behind the yard is nobody's.
        unsafe { yard.init_at(at.add(behind), left) }?;
        Ok(yard)
    }

    /// Calls that were cut short so far, by a death or a panic: the yard was repaired as often, and
    /// has lost at most as many blocks.
    pub fn cut_calls(&self) -> u32 {
        self.enter(|_, _| self.board.live_map().map_or(0, LiveMap::cut_calls))
    }
}
