//! Which engine serves caches that do not ask for one, and what else is chosen before the yard begins.
//!
//! Neighbours: [`crate::start`] calls it before the yard begins; [`crate::names`] names caches.

use crate::aliases;
use crate::fork::AROUND;
use crate::handles;
use crate::names::Name;
use crate::options::Options;
use crate::state::{ON_LIMIT, YARD};
use slabyard_abi::engines::EngineName;
use slabyard_abi::options::Key;

/// Chooses the engine of caches that do not ask for one, and the name of the classes.
pub(crate) fn choose(options: &Options) {
    crate::tools::begin();
    let engine = EngineName::ALL[options.get(Key::Engine) as usize];
    let is_usual = engine == EngineName::Slub;
    let keeps_none = is_usual && crate::tools::looks_for_pointers();
    YARD.choose(if keeps_none { EngineName::Tiny } else { engine });
    crate::debug::choose();
    ON_LIMIT.set(handles::choose_slots);
    AROUND.set([handles::before_fork, handles::after_fork]);
    handles::set_merging(options.get(Key::Merge) == 1);
}

/// Names the classes, before others see the yard, and shows where merged caches' names are.
pub(crate) fn name_classes() {
    if handles::merges() {
        aliases::publish();
    }
    YARD.caches().classes().iter().enumerate().for_each(|(class, it)| it.rename(Name(class)));
}
