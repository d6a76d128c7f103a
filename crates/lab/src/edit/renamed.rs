//! Translates the indices of names in one trace into indices in another trace.

use crate::event::Event;
use crate::trace::{NO_NAME, Names};

/// From the numbers of one trace's names to those of another's.
#[derive(Default)]
pub struct NameMap(Vec<Option<u32>>);

impl NameMap {
    /// The number in `to` of the name that has `number` in `from`, or of what `other` makes of it.
    pub fn of(
        &mut self,
        number: u32,
        from: &Names,
        to: &mut Names,
        other: impl FnOnce(&str) -> String,
    ) -> u32 {
        if number == NO_NAME {
            return NO_NAME;
        }
        let at = number as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, None);
        }
        *self.0[at].get_or_insert_with(|| to.intern(&other(from.get(number))))
    }

    /// An event with the same names.
    pub fn event(&mut self, event: Event, from: &Names, to: &mut Names) -> Event {
        event.renamed(|name| self.same(name, from, to))
    }

    /// As before, the same name.
    pub fn same(&mut self, number: u32, from: &Names, to: &mut Names) -> u32 {
        self.of(number, from, to, str::to_owned)
    }
}
