//! The kinds of per-CPU page lists, one row each; the limits that follow for a zone; and how a
//! tuned kind adapts to refills and frees.
//!
//! Neighbour: `slabyard_page_lists::policy` allocates and frees by these limits.
//!
//! Sources: "hot-n-cold pages" as announced for 2.5.45 (M. Bligh and A. Morton, October 2002); the
//! merge of the two lists (2.6.25), whose batch and high `/proc/zoneinfo` showed as 31 and 186; the
//! tuned lists of 6.18, whose batch and bounds `/proc/zoneinfo` shows; the minimum that is kept
//! free, from the kernel's documentation of its `vm` settings. The lists of 6.18: refills double
//! while nothing is freed, and are scaled down by the order; each refill, and each free that finds
//! the list full, raises the list's limit; consecutive frees give back more.

use super::PageLists;

/// Memory that lists are in front of: a zone of a kernel, or a yard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// All that it manages, free or not.
    pub pages: u64,
    /// Pages of its low watermark.
    pub low_pages: u64,
    /// CPUs that share it.
    pub cpus: u64,
    /// Those of the machine: 4096, 16384 or 65536.
    pub page_bytes: u64,
}

impl Zone {
    /// A zone that is the whole of a machine's memory, with the kernel's watermark: the least that
    /// is kept free is four times the root of its KiB, within 128 KiB and 256 MiB; the low
    /// watermark is a quarter, or a thousandth of the zone, above it.
    #[must_use]
    pub fn of(bytes: u64, page_bytes: u64, cpus: u64) -> Self {
        let pages = bytes / page_bytes;
        let min_kib = (16 * (bytes >> 10)).isqrt().clamp(128, 256 << 10);
        let min = (min_kib << 10) / page_bytes;
        let low_pages = min + (min / 4).max(pages / 1000);
        Zone { pages, low_pages, cpus: cpus.max(1), page_bytes }
    }
}

/// How much a refill takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Batch {
    /// One run, which is handed out at once; a full list sends the newcomer to the buddy.
    One,
    /// A quarter of a thousandth of the zone, at most of this many bytes.
    Quarter(u64),
    /// As many, and half as many again, rounded down to one less than a power of two.
    PowerLess1(u64),
}

/// When a list is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum High {
    Bytes(u64),
    Batches(u32),
    /// Between the share of the low watermark and that of an eighth of the zone.
    Tuned,
}

/// Where cold pages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cold {
    /// As others.
    AsHot,
    /// To the one list's tail, and from there.
    Tail,
    /// A list of their own, of this many batches at most.
    OwnList(u32),
}

struct Row {
    kind: PageLists,
    /// Orders (in pages) that have a list.
    orders: u32,
    batch: Batch,
    /// A list of this many batches or fewer is refilled.
    low: u32,
    high: High,
    cold: Cold,
}

const ROWS: [Row; 5] = [
    Row {
        kind: PageLists::Slabyard,
        orders: LISTED_ORDERS,
        batch: Batch::One,
        low: 0,
        high: High::Bytes(LIST_BYTES as u64),
        cold: Cold::AsHot,
    },
    Row {
        kind: PageLists::HotCold,
        orders: 1,
        batch: Batch::Quarter(256 << 10),
        low: 2,
        high: High::Batches(6),
        cold: Cold::OwnList(2),
    },
    Row {
        kind: PageLists::Merged,
        orders: 1,
        batch: Batch::PowerLess1(512 << 10),
        low: 0,
        high: High::Batches(6),
        cold: Cold::Tail,
    },
    Row {
        kind: PageLists::Today,
        orders: 4,
        batch: Batch::PowerLess1(1 << 20),
        low: 0,
        high: High::Tuned,
        cold: Cold::AsHot,
    },
    Row {
        kind: PageLists::None,
        orders: 0,
        batch: Batch::One,
        low: 0,
        high: High::Batches(0),
        cold: Cold::AsHot,
    },
];

/// The row of a kind.
fn row_of(kind: PageLists) -> &'static Row {
    &ROWS[kind as usize]
}

// A kind's number is its row's.
const _: () = {
    let mut nth = 0;
    while nth < ROWS.len() {
        assert!(ROWS[nth].kind as usize == nth);
        nth += 1;
    }
};

/// A kind of lists with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whose numbers these are.
    pub kind: PageLists,
    /// Orders that have a list.
    pub orders: u32,
    /// Runs of a refill and of a give-back, before they are scaled.
    pub batch: u32,
    /// A list of this many runs or fewer is refilled.
    pub low: u32,
    /// A list of pages of order 0 is full with this many: of a tuned one the least.
    pub high: u32,
    /// Pages with which a tuned list is full at most.
    pub high_max: u32,
    /// Refills hand out what they take, and full lists send newcomers back.
    pub is_direct: bool,
    /// The lists learn how many pages they may hold.
    pub is_tuned: bool,
    /// Where cold pages go.
    pub cold: Cold,
    page_bytes: u64,
}

impl Rules {
    /// The numbers of a kind in front of a zone, where a list has room for this many runs.
    #[must_use]
    pub fn new(kind: PageLists, zone: &Zone, room: u32) -> Self {
        let row = row_of(kind);
        let share = |most: u64| (zone.pages >> 10).min(most / zone.page_bytes) / 4;
        let batch = match row.batch {
            Batch::One => 1,
            Batch::Quarter(most) => share(most).max(1),
            Batch::PowerLess1(most) => {
                let pages = share(most).max(1);
                ((1 << (pages + pages / 2).ilog2()) - 1).max(1)
            }
        } as u32;
        let of_cpu = |pages: u64| {
            let pages = (pages / zone.cpus).max(4 * u64::from(batch));
            u32::try_from(pages).unwrap_or(u32::MAX).min(room)
        };
        let (high, high_max) = match row.high {
            High::Bytes(bytes) => ((bytes / zone.page_bytes).max(1) as u32, 0),
            High::Batches(n) => (n * batch, 0),
            High::Tuned => (of_cpu(zone.low_pages), of_cpu(zone.pages / 8)),
        };
        Rules {
            kind,
            orders: row.orders,
            batch,
            low: row.low * batch,
            high,
            high_max: high_max.max(high),
            is_direct: row.batch == Batch::One,
            is_tuned: row.high == High::Tuned,
            cold: row.cold,
            page_bytes: zone.page_bytes,
        }
    }

    /// Most runs that a list may hold.
    #[must_use]
    pub fn capacity(&self, list: List) -> u32 {
        match list {
            List::Cold => self.cold_high(),
            // One more: a tuned list is looked at once the newcomer is on it.
            List::Of(order) if self.is_tuned => (self.high_max >> order).max(1) + 1,
            List::Of(order) if self.is_direct => {
                ((LIST_BYTES as u64 / (self.page_bytes << order)) as u32).max(1)
            }
            List::Of(_) => self.high,
        }
    }

    /// True if cold pages have a list of their own.
    #[must_use]
    pub fn has_cold_lists(&self) -> bool {
        matches!(self.cold, Cold::OwnList(_))
    }

    fn cold_high(&self) -> u32 {
        match self.cold {
            Cold::OwnList(batches) => batches * self.batch,
            _ => 0,
        }
    }

    /// A list of fewer runs is not refilled yet.
    #[must_use]
    pub fn low_of(&self, list: List) -> u32 {
        if list == List::Cold { 0 } else { self.low }
    }

    /// The list of runs of an order; `None` if they have none.
    #[must_use]
    pub fn list_of(&self, order: u32, warmth: Warmth) -> Option<List> {
        if order >= self.orders {
            return None;
        }
        Some(if self.has_cold_lists() && warmth == Warmth::Cold {
            List::Cold
        } else {
            List::Of(order)
        })
    }
}

/// Whether a CPU's caches may hold a page's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmth {
    /// It was used just now, or will be.
    Hot,
    /// It was not, and will not be.
    Cold,
}

/// One of a CPU's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Of runs of 2^order pages.
    Of(u32),
    /// Of cold pages.
    Cold,
}

impl List {
    /// The order of its runs, in pages.
    #[must_use]
    pub fn order(self) -> u32 {
        match self {
            List::Of(order) => order,
            List::Cold => 0,
        }
    }
}

/// A list of a yard holds at most this many bytes, but at least one run.
pub const LIST_BYTES: usize = 128 << 10;

/// Orders (in granules) that have a list in a yard.
pub const LISTED_ORDERS: u32 = 8;

/// A refill doubles so often at most.
const MOST_DOUBLINGS: u32 = 5;

/// What a CPU's lists of a tuned kind have learnt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Pages with which they are full.
    pub high: u32,
    /// Pages freed lately and not allocated again.
    pub free_count: u32,
    /// How often the refill doubled.
    pub doublings: u32,
}

impl Rules {
    /// Of a tuned kind, while lists hold `count` pages: runs of a refill of an order, and what is
    /// learnt by it.
    #[must_use]
    pub fn tuned_refill(&self, tuning: Tuning, order: u32, count: u32) -> (u32, Tuning) {
        let mut new = tuning;
        let mut batch = if order == 0 { self.batch << tuning.doublings } else { self.batch };
        let high = tuning.high.clamp(self.high, self.high_max);
        new.high = (high + batch).min(self.high_max);
        if order == 0 {
            let most = new.high.saturating_sub(count + self.batch).max(self.batch);
            if batch <= most && new.doublings < MOST_DOUBLINGS {
                new.doublings += 1;
            }
            batch = batch.min(most);
        }
        (if batch > 1 { (batch >> order).max(2) } else { batch }, new)
    }

    /// Of a tuned kind, as a run of an order was put on a list and lists hold `count` pages: pages
    /// to give back, and what is learnt by it.
    #[must_use]
    pub fn tuned_free(&self, tuning: Tuning, order: u32, count: u32) -> (u32, Tuning) {
        let mut new = Tuning { doublings: tuning.doublings >> 1, ..tuning };
        if new.free_count < self.batch << MOST_DOUBLINGS {
            new.free_count += 1 << order;
        }
        let high = tuning.high.clamp(self.high, self.high_max);
        new.high = high;
        if count < high {
            return (0, new);
        }
        new.high = high.max(new.free_count + self.batch).min(self.high_max);
        let most = high.saturating_sub(self.batch).max(self.batch);
        (new.free_count.clamp(self.batch, most), new)
    }
}
