//! When the steps of each cache begin, if the recorder read its lists.
//!
//! [`super::super::known`] reads them; [`super::Walk`] leaves out what events show before.

use super::super::input::CacheNumber;
use std::sync::Arc;

/// When the steps of each cache begin: what events tell of it until then is in the [lists that were
/// read](super::super::known) there.
#[derive(Clone, Debug, Default)]
pub(crate) struct CacheStarts {
    /// Of each cache; empty if all begin with the trace.
    pub(crate) times: Arc<[Option<u64>]>,
    /// Slabs on lists then, with their first frames: they are known before an event shows them.
    pub(crate) listed: Arc<[(CacheNumber, u64)]>,
}

impl CacheStarts {
    pub(super) fn is_before(&self, cache: CacheNumber, time: u64) -> bool {
        let begin = self.times.get(cache as usize).copied().flatten();
        begin.is_some_and(|begin| time <= begin)
    }
}
