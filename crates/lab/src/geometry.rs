//! A cache's geometry, computed from the object size in integer arithmetic, as the kernel's
//! `mm/slub.c` does.
//!
//! A kernel version named here is one whose source a rule was taken from, or one that changed the
//! rule. [`crate::rules`] holds what differs between releases and machines; `replay` creates its
//! caches from these numbers. Invariants: `objects × size + waste = 2^order pages`;
//! `min_order <= order`, except where a size is so small that the limit on objects per slab limits
//! the order.

use crate::rules::{self, Accounting, Bands, Settings};
use slabyard_kernels::orders::order_for;
use slabyard_model::cache::{Front, Planted, Rules};
use thiserror::Error;

/// The words before the objects of a sheaf, in bytes.
pub(crate) const SHEAF_HEADER: u32 = 32;

/// What a cache is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes from one object to the next (the kernel's `slab_size`).
    pub size: u32,
    /// A slab has 2^order pages.
    pub order: u8,
    /// The order that a slab falls back to where memory is short.
    pub min_order: u8,
    /// Objects in a slab.
    pub objects: u32,
    /// Free objects wanted on a CPU's partial list.
    pub cpu_partial: u32,
    /// Slabs at which such a list is full; `None` where slabs are not counted.
    pub cpu_partial_slabs: Option<u32>,
    /// Partial slabs below which a node keeps an empty one.
    pub min_partial: u32,
    /// Objects in a sheaf; 0: no sheaves.
    pub sheaf_capacity: u32,
    /// Bytes of a slab behind its last object.
    pub waste: u32,
}

/// What a cache brings with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Bytes from one object to the next.
    pub size: u32,
    /// Objects in a sheaf that its creator requests; 0: none.
    pub sheaf_capacity: u32,
    /// Checked, poisoned, traced or with red zones: nothing is parked.
    pub debug: bool,
    /// One of the two that caches are made from: they have no sheaves.
    pub boot: bool,
}

/// There are no such slabs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SizeError {
    /// Nothing to allocate.
    #[error("an object of 0 bytes has no slab; give a size of 8 bytes or more")]
    Empty,
    /// The page allocator has no such block.
    #[error(
        "an object of {size} bytes does not fit into a slab of order {order} ({pages} pages of {page_size} bytes)"
    )]
    TooLarge {
        /// The object's.
        size: u32,
        /// The highest there is.
        order: u8,
        /// As many as that order has.
        pages: u32,
        /// Bytes of one.
        page_size: u32,
    },
}

/// The geometry of a plain cache with this stride.
///
/// # Errors
/// A size of 0, or one that the highest order does not hold.
pub fn of(size: u32, settings: &Settings) -> Result<Geometry, SizeError> {
    of_cache(&Request { size, sheaf_capacity: 0, debug: false, boot: false }, settings)
}

/// The geometry of a cache that has wishes.
///
/// # Errors
/// A size of 0, or one that the highest order does not hold.
pub fn of_cache(request: &Request, settings: &Settings) -> Result<Geometry, SizeError> {
    let size = request.size;
    if size == 0 {
        return Err(SizeError::Empty);
    }
    let limit = settings.release.order_limit;
    let too_large = || SizeError::TooLarge {
        size,
        order: limit,
        pages: 1 << limit,
        page_size: settings.machine.page_size,
    };
    let sizes = Sizes { size: size.into(), page_size: settings.machine.page_size.into() };
    let order = settings.orders().of(size, settings.formula()).ok_or_else(too_large)?;
    let objects = sizes.objects(order);
    let cpu_partial = cpu_partial(request, settings);
    let counted = settings.accounting() == Accounting::Slabs;
    Ok(Geometry {
        size,
        order,
        min_order: order_for(size.into(), settings.machine.page_size),
        objects: objects as u32,
        cpu_partial,
        // Slabs are taken to be half full, and to have the order wanted
        // (b47291ef02b0, 5.16).
        cpu_partial_slabs: counted.then(|| (2 * cpu_partial).div_ceil(objects as u32)),
        min_partial: min_partial(size, settings),
        sheaf_capacity: sheaf_capacity(request, settings),
        waste: (sizes.slab_bytes(order) - objects * u64::from(size)) as u32,
    })
}

impl Geometry {
    /// Objects of a slab of the least order.
    #[must_use]
    pub fn least_objects(&self, settings: &Settings) -> u32 {
        let bytes = u64::from(settings.machine.page_size) << self.min_order;
        ((bytes / u64::from(self.size)) as u32).clamp(1, self.objects)
    }

    /// What the engine needs to know of a cache of this geometry.
    #[must_use]
    pub fn rules(&self, settings: &Settings) -> Rules {
        Rules {
            objects: self.objects,
            min_partial: self.min_partial,
            cpu_partial: self.cpu_partial,
            cpu_partial_slabs: self.cpu_partial_slabs.unwrap_or(0),
            cpu_partial_lists: settings.has_cpu_partial_lists(),
            freezing: settings.freezing(),
            accounting: settings.accounting(),
            front: match settings.front() {
                _ if settings.tiny => Front::Nothing,
                rules::Front::SheavesOnRequest if self.sheaf_capacity > 0 => {
                    Front::SheavesOverCpuSlabs
                }
                rules::Front::CpuSlabs | rules::Front::SheavesOnRequest => Front::CpuSlabs,
                rules::Front::Sheaves => Front::Sheaves,
            },
            sheaf_capacity: self.sheaf_capacity,
            remote_ratio: 1024,
            planted: Planted::None,
        }
    }

    /// Bytes that a slab whose objects are charged to control groups takes beside itself: a vector of
    /// a word for each object, as a size class holds it; 0 where it lies in the slab.
    #[must_use]
    pub fn obj_ext(&self, settings: &Settings) -> u32 {
        let bytes = 8 * self.objects;
        if settings.release.obj_ext_in_slab && self.waste >= bytes {
            return 0;
        }
        let classes = kmalloc_sizes(settings.machine.page_size);
        classes.into_iter().find(|class| *class >= bytes).unwrap_or(bytes)
    }

    /// Bytes of a slab on pages of `page_size` bytes.
    #[must_use]
    pub fn slab_bytes(&self, page_size: u32) -> u64 {
        u64::from(page_size) << self.order
    }
}

/// The kernel's kmalloc size classes that are caches: 8 bytes to two pages.
#[must_use]
pub fn kmalloc_sizes(page_size: u32) -> Vec<u32> {
    let powers = (3..=page_size.ilog2() + 1).map(|shift| 1 << shift);
    let mut sizes: Vec<u32> = powers.chain([96, 192]).collect();
    sizes.sort_unstable();
    sizes
}

/// An object's size and a page's, and what follows from these two.
struct Sizes {
    size: u64,
    page_size: u64,
}

impl Sizes {
    fn slab_bytes(&self, order: u8) -> u64 {
        self.page_size << order
    }

    fn objects(&self, order: u8) -> u64 {
        self.slab_bytes(order) / self.size
    }

    /// The number of the band that the size is in.
    fn band(&self, bands: Bands) -> u32 {
        let limits = [256, 1024, self.page_size];
        bands[limits.iter().filter(|limit| self.size >= **limit).count()]
    }
}

/// Set in sysfs as `cpu_partial`; no kernel since 7.0 has it.
fn cpu_partial(request: &Request, settings: &Settings) -> u32 {
    if !settings.has_cpu_partial_lists() || request.debug {
        return 0;
    }
    let sizes = Sizes { size: request.size.into(), page_size: settings.machine.page_size.into() };
    let kernel = settings.release.cpu_partial.map_or(0, |bands| sizes.band(bands));
    settings.cpu_partial.of(request.size).unwrap_or(kernel)
}

/// Half the logarithm of the size, within limits; SLUB_TINY (6.2) keeps nothing.
fn min_partial(size: u32, settings: &Settings) -> u32 {
    let (low, high) = settings.release.min_partial;
    let kernel = if settings.tiny { 0 } else { (size.ilog2() / 2).clamp(low, high) };
    settings.min_partial.of(size).unwrap_or(kernel)
}

/// What was set. Else 6.18: what is requested; from 7.0: what the size's band gives, rounded up to
/// what the sheaf's own size class holds, and at least what is requested.
fn sheaf_capacity(request: &Request, settings: &Settings) -> u32 {
    let has_sheaves = match settings.front() {
        rules::Front::CpuSlabs => false,
        rules::Front::SheavesOnRequest => request.sheaf_capacity > 0,
        rules::Front::Sheaves => true,
    };
    if !has_sheaves || settings.tiny || request.debug || request.boot {
        return 0;
    }
    if let Some(capacity) = settings.sheaf_capacity.of(request.size) {
        return capacity;
    }
    let sizes = Sizes { size: request.size.into(), page_size: settings.machine.page_size.into() };
    let by_size = settings.release.sheaf_objects.map_or(0, |bands| {
        let bytes = SHEAF_HEADER + 8 * sizes.band(bands);
        let classes = kmalloc_sizes(settings.machine.page_size);
        let class = classes.into_iter().find(|class| *class >= bytes).unwrap_or(bytes);
        (class - SHEAF_HEADER) / 8
    });
    by_size.max(request.sheaf_capacity)
}
