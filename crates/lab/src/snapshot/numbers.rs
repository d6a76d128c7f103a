//! Builds a cache from its numbers, whichever source they come from: a dump's attributes (`parse`)
//! or a file of `slabyard snapshot kernel` (`saved`).

use super::{Cache, CpuPartial, Error};

/// A cache from the numbers that a source has by the kernel's names; `remedy` follows what is
/// said of one that is missing.
pub(super) fn cache_of(
    id: &str,
    big: impl Fn(&str) -> Option<u64>,
    slabs_cpu_partial: Option<CpuPartial>,
    remedy: &str,
) -> Result<Cache, Error> {
    let bad = |key: &str| Error::Shape(format!("cache `{id}`: `{key}` is missing or bad{remedy}"));
    let small = |key: &str| big(key).and_then(|n| u32::try_from(n).ok());
    let flag = |key: &str| big(key).map(|n| n != 0);
    let needed = |key: &str| small(key).filter(|n| *n > 0).ok_or_else(|| bad(key));
    let order = small("order").and_then(|n| u8::try_from(n).ok()).filter(|o| *o <= 10);
    let debug = ["sanity_checks", "red_zone", "poison", "store_user", "trace"].map(flag);
    Ok(Cache {
        id: id.into(),
        object_size: small("object_size"),
        slab_size: needed("slab_size")?,
        align: small("align"),
        objs_per_slab: needed("objs_per_slab")?,
        order: order.ok_or_else(|| bad("order"))?,
        cpu_partial: small("cpu_partial"),
        min_partial: small("min_partial"),
        reclaim_account: flag("reclaim_account"),
        destroy_by_rcu: flag("destroy_by_rcu"),
        cache_dma: flag("cache_dma"),
        debug: debug.into_iter().flatten().reduce(|a, b| a || b),
        slabs: big("slabs"),
        objects: big("objects"),
        total_objects: big("total_objects"),
        partial: big("partial"),
        objects_partial: big("objects_partial"),
        cpu_slabs: big("cpu_slabs"),
        slabs_cpu_partial,
        sheaf_capacity: small("sheaf_capacity"),
    })
}
