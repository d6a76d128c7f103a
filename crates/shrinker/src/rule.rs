//! Computes how many objects a shrinker is asked to scan, by the kernel's arithmetic of 2002 or of
//! today.
//!
//! Neighbour: [`super`] calls the shrinkers and counts. Sources: the kernel's commits b65bbded39
//! (2.5.39: one ratio for pages and objects), 71419dc7e0 (2.5.43: seeks and a batch of 32;
//! d08b03c56d made it 128), and `mm/shrinker.c` of 6.x. All sums saturate, as an application's
//! counts may be anything.

/// Seeks that an object costs to make again, where nobody says otherwise.
pub const DEFAULT_SEEKS: u32 = 2;
/// Objects of a batch today.
pub const BATCH: u64 = 128;
/// Objects above which the kernels of 2002 called a shrinker.
pub const BATCH_2002: u64 = 32;

/// Which arithmetic, with what it needs to know of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Objects are scanned at the rate of pages.
    Ratio {
        /// Pages, active and inactive ones.
        pages: u64,
        /// Of these, pages scanned.
        scanned: u64,
        /// Of these, mapped ones, which count twice.
        mapped: u64,
        /// By which the ratio is multiplied, to scan less (the patch's `ratio *= 3`).
        times: u64,
    },
    /// Work adds up until it is worth a call.
    Seeks {
        /// Pages scanned.
        scanned: u64,
        /// Pages that could be.
        lru_pages: u64,
        /// Work above which there is a call.
        batch: u64,
    },
    /// By priority (12 is the least pressure, 0 the most), in batches, with what was not done left
    /// for later.
    Priority(u8),
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Objects to request.
    pub total: u64,
    /// Most of one call.
    pub batch: u64,
    /// What adds to the work of later, less what is scanned now.
    pub backlog: u64,
    /// Objects that can be freed.
    pub freeable: u64,
    /// True if a part of a batch is left for later, unless it is all that can be freed.
    pub in_batches: bool,
}

/// `pages / (scanned + mapped + 1) + 1`.
#[must_use]
pub fn ratio(pages: u64, scanned: u64, mapped: u64) -> u64 {
    pages / scanned.saturating_add(mapped).saturating_add(1) + 1
}

/// `scanned * seeks * entries / (lru_pages + 1)`.
#[must_use]
pub fn seeks_work(scanned: u64, seeks: u32, entries: u64, lru_pages: u64) -> u64 {
    let work =
        u128::from(scanned).saturating_mul(u128::from(seeks)).saturating_mul(u128::from(entries));
    u64::try_from(work / (u128::from(lru_pages) + 1)).unwrap_or(u64::MAX)
}

/// `(freeable >> priority) * 4 / seeks`; half of them where seeks are 0.
#[must_use]
pub fn delta(freeable: u64, priority: u8, seeks: u32) -> u64 {
    if seeks == 0 {
        return freeable / 2;
    }
    let shifted = freeable.checked_shr(priority.into()).unwrap_or(0);
    shifted.saturating_mul(4) / u64::from(seeks)
}

impl Rule {
    /// What a shrinker has to scan if it counts this many objects, costs this many seeks, takes
    /// this many at once (0: the rule's own number) and has this many left from before.
    #[must_use]
    pub fn demand(self, freeable: u64, seeks: u32, batch: u64, deferred: u64) -> Demand {
        let whole = |total, backlog| Demand {
            total,
            batch: u64::MAX,
            backlog,
            freeable,
            in_batches: false,
        };
        match self {
            Rule::Ratio { pages, scanned, mapped, times } => {
                let ratio = ratio(pages, scanned, mapped).saturating_mul(times.max(1));
                let total = freeable / ratio;
                whole(total, total)
            }
            Rule::Seeks { scanned, lru_pages, batch } => {
                let work = seeks_work(scanned, seeks, freeable, lru_pages);
                let work = work.saturating_add(deferred);
                // More than twice what there is was never worth keeping.
                let work = work.min(freeable.saturating_mul(2));
                whole(if work > batch { work } else { 0 }, work)
            }
            Rule::Priority(priority) => {
                let delta = delta(freeable, priority, seeks);
                let total = deferred.checked_shr(priority.into()).unwrap_or(0);
                let total = total.saturating_add(delta).min(freeable.saturating_mul(2));
                Demand {
                    total,
                    batch: if batch == 0 { BATCH } else { batch },
                    backlog: deferred.saturating_add(delta),
                    freeable,
                    in_batches: true,
                }
            }
        }
    }
}

impl Demand {
    /// Objects to request in the next call, when this many were scanned; 0: no more calls.
    #[must_use]
    pub fn next(&self, scanned: u64) -> u64 {
        let left = self.total.saturating_sub(scanned);
        let worth = left >= self.batch || left >= self.freeable;
        if self.in_batches && !worth { 0 } else { left.min(self.batch) }
    }

    /// What is left for later, when this many were scanned.
    #[must_use]
    pub fn left(&self, scanned: u64) -> u64 {
        self.backlog.saturating_sub(scanned).min(self.freeable.saturating_mul(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calls of one pass, where each is served.
    fn calls(demand: Demand) -> (Vec<u64>, u64) {
        let (mut scanned, mut all) = (0, Vec::new());
        while let n @ 1.. = demand.next(scanned) {
            all.push(n);
            scanned += n;
        }
        (all, demand.left(scanned))
    }

    #[test]
    fn the_ratio_of_2002_scans_objects_at_the_rate_of_pages() {
        assert_eq!(ratio(1000, 0, 0), 1001);
        assert_eq!(ratio(1000, 99, 0), 11);
        assert_eq!(ratio(1000, 99, 100), 6);
        assert_eq!(ratio(0, 0, 0), 1, "without pages everything is scanned");
        let rule = |times| Rule::Ratio { pages: 1000, scanned: 99, mapped: 100, times };
        assert_eq!(rule(1).demand(600, 2, 0, 0).total, 100);
        assert_eq!(rule(3).demand(600, 2, 0, 0).total, 33, "ratio 18");
        assert_eq!(calls(rule(1).demand(600, 2, 0, 0)), (vec![100], 0));
    }

    #[test]
    fn seeks_of_2002_add_up_until_the_batch_is_passed() {
        assert_eq!(seeks_work(32, 2, 1000, 999), 64);
        assert_eq!(seeks_work(u64::MAX, u32::MAX, u64::MAX, 0), u64::MAX);
        let rule = |batch| Rule::Seeks { scanned: 16, lru_pages: 999, batch };
        // 16 * 2 * 1000 / 1000 = 32, which is not above the first batch.
        assert_eq!(calls(rule(BATCH_2002).demand(1000, 2, 0, 0)), (vec![], 32));
        assert_eq!(calls(rule(BATCH_2002).demand(1000, 2, 0, 32)), (vec![64], 0));
        // The later one is passed by the fifth.
        assert_eq!(calls(rule(BATCH).demand(1000, 2, 0, 96)), (vec![], 128));
        assert_eq!(calls(rule(BATCH).demand(1000, 2, 0, 128)), (vec![160], 0));
    }

    #[test]
    fn todays_delta_is_four_times_the_shifted_count_by_seeks() {
        assert_eq!(delta(4096, 12, 2), 2);
        assert_eq!(delta(4096, 0, 2), 8192);
        assert_eq!(delta(4095, 12, 2), 0);
        assert_eq!(delta(4096, 4, 8), 128);
        assert_eq!(delta(4096, 12, 0), 2048, "no seeks: half, whatever the priority");
        assert_eq!(delta(4096, 200, 2), 0);
    }

    #[test]
    fn todays_total_is_capped_at_twice_the_count_and_goes_in_batches() {
        let demand = |freeable, priority, deferred| {
            Rule::Priority(priority).demand(freeable, DEFAULT_SEEKS, 0, deferred)
        };
        // 1000 >> 2 = 250, * 4 / 2 = 500: three batches, and 116 for later.
        assert_eq!(calls(demand(1000, 2, 0)), (vec![128, 128, 128], 116));
        // What was left counts, shifted: 116 >> 2 = 29, 529 in all: four batches; 17 of them
        // and the 87 that the shift hid are left.
        assert_eq!(calls(demand(1000, 2, 116)), (vec![128; 4], 104));
        // Below a batch, but all there is.
        assert_eq!(calls(demand(50, 0, 0)), (vec![100], 0));
        // The cap: 2000 of 1000, though 10_000 are left; of these no more than twice 1000 stay.
        assert_eq!(demand(1000, 0, 10_000).total, 2000);
        assert_eq!(demand(1000, 0, 10_000).left(2000 - 2000 % 128), 2000);
        // Little pressure on few objects: nothing now, nothing later.
        assert_eq!(calls(demand(1000, 12, 0)), (vec![], 0));
    }

    #[test]
    fn a_batch_of_its_own_is_kept() {
        let demand = Rule::Priority(0).demand(100, 2, 1000, 0);
        assert_eq!(calls(demand), (vec![200], 0), "all there is, in one call");
        let demand = Rule::Priority(1).demand(100, 2, 30, 0);
        assert_eq!(calls(demand), (vec![30, 30, 30], 10));
    }
}
