//! Names of caches in reports, and which engine serves those that do not ask for one.
//!
//! Neighbours: [`crate::start`] calls it before the yard begins; [`crate::misuse`] names caches.

use crate::fork::AROUND;
use crate::handles;
use crate::options::Options;
use crate::state::{ON_LIMIT, YARD};
use core::fmt;
use slabyard::cache::classes::{CLASSES, ROWS};
use slabyard_abi::engines::EngineName;
use slabyard_abi::options::Key;

/// Chooses the engine of caches that do not ask for one, and the name of the classes.
pub(crate) fn choose(options: &Options) {
    YARD.choose(EngineName::ALL[options.get(Key::Engine) as usize]);
    crate::debug::choose();
    ON_LIMIT.set(handles::choose_slots);
    AROUND.set([handles::before_fork, handles::after_fork]);
    handles::set_merging(options.get(Key::Merge) == 1);
}

/// Names the classes, before others see the yard.
pub(crate) fn name_classes() {
    YARD.caches().classes().iter().enumerate().for_each(|(class, it)| it.rename(Name(class)));
}

/// The name of the cache of a number: classes serve kmalloc here.
pub(crate) struct Name(pub usize);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < CLASSES {
            return write!(f, "kmalloc-{}", ROWS[self.0].0);
        }
        match handles::of_number(self.0) {
            Some(handle) => f.write_str(handle.name()),
            None => f.write_str("(destroyed)"),
        }
    }
}
