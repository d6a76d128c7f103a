use super::*;
use core::cell::Cell;

const YARDS: usize = 4;

/// The number of a yard, in the order of their starts.
struct Nth(usize);

std::thread_local! {
    static LAST: Cell<Option<usize>> = const { Cell::new(None) };
}

impl Started for Nth {
    fn platform(&self) -> &Linux {
        &SLEEP
    }

    fn adopt_foreign_rows(&self) {}

    fn drain_thread(&self) {
        let last = LAST.replace(Some(self.0));
        assert!(last.is_none_or(|last| last == self.0 + 1), "{last:?}, then {}", self.0);
    }
}

/// Who finds a yard in the list finds all that started before it.
#[test]
fn a_list_of_yards_is_whole() {
    static NODES: [Node; YARDS] = [const { Node::new() }; YARDS];
    static STARTING: [Nth; YARDS] = [Nth(0), Nth(1), Nth(2), Nth(3)];
    std::thread::scope(|scope| {
        scope.spawn(|| NODES.iter().zip(&STARTING).for_each(|(node, yard)| node.add(yard)));
        scope.spawn(|| {
            for _ in 0..40 {
                each_started(|yard| yard.drain_thread());
                assert!(LAST.take().is_none_or(|last| last == 0));
                std::thread::yield_now();
            }
        });
    });
}
