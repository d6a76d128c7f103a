//! The checker of a yard: each page has exactly one use, and each engine's equations hold.

use crate::caches::{Core, FixedEngine};
use crate::pages::PageKind;
use crate::tally::{Counts, Tally};

pub fn verify<E: FixedEngine>(core: &Core<E>, cpu: u32) -> Result<Counts, &'static str> {
    let pages = &core.pages;
    let mut tally = Tally::default();
    let (mut free, mut meta, mut slab_pages, mut at) = (0, 0, 0, 0);
    while at < pages.table().nr() {
        let entry = pages.table().entry(at);
        let (kind, order) = (entry.kind(), entry.order());
        let block = match kind {
            PageKind::Reserved => 1,
            PageKind::Inside => return Err("a page is inside of no block"),
            _ => 1 << order,
        };
        match kind {
            PageKind::Free => free += block,
            PageKind::Run => tally.counts.run_pages += block,
            PageKind::Meta => meta += block,
            PageKind::Reserved | PageKind::Inside => {}
            _ => slab_pages += block,
        }
        at += block;
    }
    let mut result = Ok(());
    core.each_cache(|_, cache| {
        if result.is_ok() {
            result = E::verify(core, cpu, cache, &mut tally);
        }
    });
    result?;
    E::verify_blocks(core, &mut tally)?;
    let counts = &mut tally.counts;
    (counts.managed, counts.free, counts.meta_pages) = (pages.buddy.managed(), free, meta);
    if free != pages.buddy.pages() {
        return Err("other pages are free than the buddy counts");
    }
    if meta != pages.meta_pages() {
        return Err("there are other pages of tables than are counted");
    }
    if slab_pages != counts.slab_pages {
        return Err("a slab belongs to no cache");
    }
    let sum = free + meta + slab_pages + counts.run_pages;
    if sum != counts.managed { Err("pages are lost") } else { Ok(*counts) }
}
