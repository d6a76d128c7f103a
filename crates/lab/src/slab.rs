//! A cache's geometry as the kernel's `mm/slab.c` computed it until its removal in 6.8: order,
//! objects per slab, place of the free list, colours, and array limits.
//!
//! A slab's free list is an array of indices, one for each object: one byte per index on 4 KiB
//! pages, two on larger ones. If the array fits, and free objects need not keep their contents (no
//! constructor, not SLAB_TYPESAFE_BY_RCU), it is stored in the last free object, which is then
//! allocated last. Otherwise it is a separate object, if that saves memory, or else is stored at
//! the slab's end.
//!
//! Sources: J. Bonwick, "The Slab Allocator" (USENIX 1994), on colours and off-slab lists;
//! `/proc/slabinfo` of Linux 6.1, whose every cache matches these formulas (`tests/slab.rs`).
//! [`crate::geometry`] does the same for SLUB; the engine computes the array limits
//! ([`slabyard::engine::array_cache::Limits`]). Invariant: `objects × size + the list's bytes in
//! the slab + waste = 2^order pages`.

use crate::geometry::SizeError;
use crate::rules::{Machine, RELEASES, Release, SLAB_REMOVED, Settings};
use slabyard::engine::array_cache::{Choice, Limits};

/// The smallest object where an index is a byte: then no slab has more than 255.
const LEAST_SIZE: u32 = 16;
/// The highest order of the page allocator.
const ORDER_LIMIT: u8 = 10;
/// A slab of a low order may waste so much: one part of this.
const WASTE_PART: u32 = 8;
/// Machines with more memory may use an order above 0 (`slab_max_order`).
const SMALL_MACHINE: u64 = 32 << 20;
/// Size classes: the least is 32 bytes.
const LEAST_CLASS: u32 = 32;

/// The newest release that had it, among those that changed something.
#[must_use]
pub fn last_release() -> &'static Release {
    RELEASES.iter().rfind(|release| release.version < SLAB_REMOVED).unwrap_or(&RELEASES[0])
}

/// What a cache brings with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Bytes that users see.
    pub object_size: u32,
    /// Bytes from one object to the next, before the least size is applied.
    pub size: u32,
    /// Objects begin at multiples of it.
    pub align: u32,
    /// Free objects keep their contents: they have a constructor, or readers may still look at
    /// them (type-safe by RCU).
    pub keeps_contents: bool,
    /// Its pages count as reclaimable.
    pub reclaimable: bool,
}

impl Request {
    /// A plain cache of objects of so many bytes.
    #[must_use]
    pub fn of(size: u32) -> Request {
        let request = Request { object_size: size, size, align: 8, ..Request::NONE };
        Request { size: size.next_multiple_of(8), ..request }
    }

    const NONE: Request =
        Request { object_size: 0, size: 0, align: 0, keeps_contents: false, reclaimable: false };
}

/// Where a slab's list of free objects is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// In a free object of the slab.
    InObject,
    /// In an object of a size class.
    OffSlab,
    /// At the slab's end.
    OnSlab,
}

impl Index {
    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Index::InObject => "in an object",
            Index::OffSlab => "off the slab",
            Index::OnSlab => "on the slab",
        }
    }
}

/// What a machine and its boot parameters decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Bytes of a page.
    pub page_size: u32,
    /// The order at and above which any waste is accepted (`slab_max_order`).
    pub max_order: u8,
    /// CPUs that could ever be there.
    pub possible_cpus: u32,
    /// Those that run, of one node: its limit of free objects follows from them.
    pub node_cpus: u32,
    /// Bytes of a cache line.
    pub line: u32,
    /// What becomes of free slabs, and whether CPUs have arrays.
    pub choice: Choice,
}

impl Rules {
    /// The machine, the policy, and the order where a user set one.
    #[must_use]
    pub fn of_settings(settings: &Settings) -> Rules {
        let rules = Rules { choice: settings.slab.choice, ..Rules::of(&settings.machine) };
        Rules { max_order: settings.typed_max_order().unwrap_or(rules.max_order), ..rules }
    }

    /// Those of a machine that nobody changed.
    #[must_use]
    pub fn of(machine: &Machine) -> Rules {
        Rules {
            page_size: machine.page_size,
            max_order: u8::from(machine.memory_bytes > SMALL_MACHINE),
            possible_cpus: machine.possible_cpus,
            node_cpus: machine.online_cpus.div_ceil(machine.nodes.max(1)),
            line: 64,
            choice: Choice::default(),
        }
    }

    /// Of an entry in the list of free objects: 1 with pages of 4 KiB or less, else 2.
    #[must_use]
    pub const fn index_bytes(&self) -> u32 {
        if self.page_size >> 8 <= 16 { 1 } else { 2 }
    }

    /// What an index can count.
    #[must_use]
    pub const fn most_objects(&self) -> u32 {
        (1 << (8 * self.index_bytes())) - 1
    }

    /// The size class that holds so many bytes.
    fn class(&self, bytes: u32) -> u32 {
        let found = kmalloc_sizes(self.page_size).into_iter().find(|class| *class >= bytes);
        found.unwrap_or_else(|| bytes.next_multiple_of(self.page_size).next_power_of_two())
    }
}

/// The size classes that are caches: 32 bytes to two pages.
#[must_use]
pub fn kmalloc_sizes(page_size: u32) -> Vec<u32> {
    let mut sizes = crate::geometry::kmalloc_sizes(page_size);
    sizes.retain(|size| *size >= LEAST_CLASS);
    sizes
}

/// What a cache is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes from one object to the next.
    pub size: u32,
    /// A slab has 2^order pages.
    pub order: u8,
    /// As many as fit beside their list.
    pub objects: u32,
    /// Where the list of free objects is stored.
    pub index: Index,
    /// Bytes of a slab that nothing uses, but colours.
    pub waste: u32,
    /// Bytes from one colour to the next, and how many colours there are: the first objects of
    /// successive slabs are this far apart, in turn.
    pub colour_offset: u32,
    /// Colours; with 0 or 1, all slabs start at the same offset.
    pub colours: u32,
    /// What arrays hold.
    pub limits: Limits,
    /// Free objects that a node may have before free slabs are discarded.
    pub free_limit: u32,
}

/// The geometry of a cache.
///
/// # Errors
/// A size of 0, or one that the highest order does not hold.
pub fn of(request: &Request, rules: &Rules) -> Result<Geometry, SizeError> {
    if request.size == 0 {
        return Err(SizeError::Empty);
    }
    let least = if rules.index_bytes() == 1 { LEAST_SIZE } else { 0 };
    let size = request.size.max(least).next_multiple_of(request.align.max(8));
    let slab = Slab { size, object_size: request.object_size.max(least), request, rules };
    let found = slab.in_object().or_else(|| slab.off_slab()).or_else(|| slab.on_slab());
    let Some((index, Fit { order, objects, left })) = found else {
        let (order, page_size) = (ORDER_LIMIT, rules.page_size);
        return Err(SizeError::TooLarge { size, order, pages: 1 << order, page_size });
    };
    let limits = rules.choice.limits(size, rules.page_size, rules.possible_cpus);
    let colour_offset = rules.line.max(request.align);
    Ok(Geometry {
        size,
        order,
        objects,
        index,
        waste: left,
        colour_offset,
        colours: left / colour_offset,
        limits,
        free_limit: (1 + rules.node_cpus) * limits.batchcount + objects,
    })
}

/// How objects fit into a slab.
#[derive(Clone, Copy)]
struct Fit {
    order: u8,
    objects: u32,
    /// Bytes that are left.
    left: u32,
}

struct Slab<'a> {
    size: u32,
    object_size: u32,
    request: &'a Request,
    rules: &'a Rules,
}

impl Slab<'_> {
    fn in_object(&self) -> Option<(Index, Fit)> {
        let fit = self.fit(0, |_| true).filter(|_| !self.request.keeps_contents)?;
        let list = fit.objects * self.rules.index_bytes();
        (list <= self.object_size).then_some((Index::InObject, fit))
    }

    fn off_slab(&self) -> Option<(Index, Fit)> {
        // The size classes themselves have theirs in an object or on the slab.
        let list = |objects: u32| objects * self.rules.index_bytes();
        let saves = |objects: u32| self.rules.class(list(objects)) <= self.size / 2;
        let fit = self.fit(0, saves)?;
        (fit.left < list(fit.objects)).then_some((Index::OffSlab, fit))
    }

    fn on_slab(&self) -> Option<(Index, Fit)> {
        self.fit(self.rules.index_bytes(), |_| true).map(|fit| (Index::OnSlab, fit))
    }

    /// The lowest order that wastes little enough; of the orders that hold any object, the last one
    /// before there are too many objects. Each object takes `more` bytes beside its own.
    fn fit(&self, more: u32, may: impl Fn(u32) -> bool) -> Option<Fit> {
        let mut best = None;
        for order in 0..=ORDER_LIMIT {
            let bytes = self.rules.page_size << order;
            let objects = bytes / (self.size + more);
            if objects == 0 {
                continue;
            }
            if objects > self.rules.most_objects() {
                break;
            }
            if !may(objects) {
                continue;
            }
            let left = bytes % (self.size + more);
            best = Some(Fit { order, objects, left });
            let is_thrifty = left * WASTE_PART <= bytes;
            if self.request.reclaimable || order >= self.rules.max_order || is_thrifty {
                break;
            }
        }
        best
    }
}
