//! Formats names of caches for messages.

use crate::handles;
use core::fmt;
use slabyard::cache::classes::{CLASSES, ROWS};

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
