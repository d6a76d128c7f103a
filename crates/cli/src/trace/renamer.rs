//! Renames caches in a publishable copy of a trace.

use slabyard_lab::prepare::{TREE_NODES, naming};
use std::cell::RefCell;
use std::collections::HashMap;

/// Names of caches, each replaced by one with its number.
#[derive(Default)]
pub struct Renamer(RefCell<HashMap<String, String>>);

impl Renamer {
    /// The new name of a cache.
    pub fn name(&self, name: &str) -> String {
        if stays(name) {
            return name.into();
        }
        let mut known = self.0.borrow_mut();
        let next = known.len() + 1;
        known.entry(name.into()).or_insert_with(|| format!("cache-{next:04}")).clone()
    }
}

/// True for what rules go by.
fn stays(name: &str) -> bool {
    // `:A-0000192` is what the kernel calls a merged cache: sizes and flags.
    let is_kmalloc = name.contains("kmalloc-") || naming::is_of_bucket(name);
    is_kmalloc || name.starts_with(':') || name == TREE_NODES
}
