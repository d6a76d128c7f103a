//! Repairs a yard whose last call did not end: a process was killed in it, or it panicked.
//!
//! What is live is the truth ([`LiveMap`]), with the page table's heads of blocks in use and the table
//! of caches. All else is made anew, so it does not matter where the call was cut: it has happened, or
//! it has not. At most the block that it was about stays live without an owner.
//!
//! Neighbours: [`crate::pages::bare::repair`] makes pages anew, [`crate::engine::bare::repair`] caches
//! and slabs; [`super::shared`] places yards that need it.
//! Invariant: a repair that is cut short is made again by the next call.

use super::caches::{Core, Engine};
use super::planted::{self, Planted};
use super::tally::Counts;
use crate::engine::slob::Lists;
use crate::pages::bare::Kind as PageKind;
use crate::platform::bare::LiveMap;

/// Makes everything anew that a call may have left half done.
#[cold]
pub(super) fn repair<E: Engine>(core: &Core<E>, live: &LiveMap, cpu: u32) {
    if planted::is(Planted::Repair) {
        return;
    }
    core.nobody.release_all();
    core.pages.forget_places(live);
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
        core.pages.each_in_use(|page| E::adopt(core, live, cpu, page));
    }
    live.count_cut();
}

/// True if as many bits are set as there are live blocks (for `verify`).
pub(super) fn is_mapped<E: Engine>(core: &Core<E>, live: &LiveMap, counts: &Counts) -> bool {
    let mut runs = 0;
    core.pages.each_in_use(|page| {
        runs += u64::from(core.pages.entry(page).kind() == PageKind::Run);
    });
    let bits = live.count(core.pages.granules_of(0, core.pages.nr()));
    u64::from(bits) == E::live_granules(counts) + runs
}
