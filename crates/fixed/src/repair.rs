//! Repairs a yard whose last call was cut short: a process was killed during it, or it panicked.
//!
//! Always correct are the live map ([`LiveMap`]), the page-table heads of blocks in use, and the
//! table of caches. Everything else is rebuilt from these, so it does not matter where the call was
//! cut: the call took effect, or it did not. At worst, the call's block stays live without an
//! owner.
//!
//! Neighbours: [`crate::pages`] rebuilds pages, [`crate::engine`] caches and slabs; `shared` sets
//! up yards that need this. Invariant: a repair that is cut short is repeated by the next call.

use crate::caches::{Core, FixedEngine};
use crate::live_map::LiveMap;
use crate::pages::PageKind;
use crate::planted::{self, Planted};
use crate::tally::Counts;
use slabyard::engine::slob::Lists;

/// Makes everything anew that a call may have left half done.
#[cold]
pub fn repair<E: FixedEngine>(core: &Core<E>, live: &LiveMap, cpu: u32) {
    if planted::is(Planted::Repair) {
        return;
    }
    core.nobody.release_all();
    core.pages.table().forget_places(live);
    core.keep_places(live);
    if !planted::is(Planted::Pages) {
        core.pages.repair(live);
    }
    if !planted::is(Planted::Tables) {
        core.pages.repair_tables(live);
    }
    if !planted::is(Planted::Caches) {
        core.repair_table(cpu);
    }
    if !planted::is(Planted::Lists) {
        core.lists.set(Lists::NEW);
    }
    if !planted::is(Planted::Slabs) {
        core.pages.table().each_in_use(|page| E::adopt(core, live, cpu, page));
    }
    live.count_cut();
}

/// True if as many bits are set as there are live blocks (for `verify`).
pub fn is_mapped<E: FixedEngine>(core: &Core<E>, live: &LiveMap, counts: &Counts) -> bool {
    let mut runs = 0;
    core.pages.table().each_in_use(|page| {
        runs += u64::from(core.pages.table().entry(page).kind() == PageKind::Run);
    });
    let bits = live.count(core.pages.table().granules_of(0, core.pages.table().nr()));
    u64::from(bits) == E::live_granules(counts) + runs
}
