//! What is worked out when it is first asked for, and kept under a key.

use super::basis::RowError;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Results by their keys; a failure is not kept.
pub(super) struct Once<K, V>(RefCell<BTreeMap<K, Rc<V>>>);

impl<K, V> Default for Once<K, V> {
    fn default() -> Once<K, V> {
        Once(RefCell::default())
    }
}

impl<K: Ord, V> Once<K, V> {
    /// The result of a key, which may need results of other keys to be made.
    pub(super) fn get(
        &self,
        key: K,
        make: impl FnOnce() -> Result<V, RowError>,
    ) -> Result<Rc<V>, RowError> {
        let known = self.0.borrow().get(&key).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let made = Rc::new(make()?);
        self.0.borrow_mut().insert(key, made.clone());
        Ok(made)
    }
}
