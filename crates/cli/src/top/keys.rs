//! The keys: one table, from which each key's action, the line at the bottom of the screen and the
//! help are generated.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// End the command.
    Quit,
    /// Show or hide the help.
    Help,
    /// Choose the cache above.
    Up,
    /// Choose the cache below.
    Down,
    /// Choose the cache a page above.
    PageUp,
    /// Choose the cache a page below.
    PageDown,
    /// Choose the first cache.
    First,
    /// Choose the last cache.
    Last,
    /// Show or hide the pane of the chosen cache.
    Pane,
    /// Show or hide the call sites.
    Sites,
    /// Begin to type a filter.
    Filter,
    /// Sort by the next column.
    SortNext,
    /// Sort by the column before.
    SortBefore,
    /// Sort the other way.
    Reverse,
    /// Stop looking, or go on.
    Pause,
    /// Look less often.
    Slower,
    /// Look more often.
    Faster,
    /// Close what is open: help, filter, pane.
    Back,
    /// Back to the shell, to return by `fg`.
    Suspend,
}

/// One line of help: keys that belong together.
pub struct Row {
    /// As they are shown.
    pub keys: &'static str,
    /// In one word, for the line at the foot; empty for what is not shown there.
    pub word: &'static str,
    /// A line of the page that `?` opens.
    pub help: &'static str,
    codes: &'static [(KeyCode, Action)],
    /// True if Ctrl must be held.
    control: bool,
}

const fn row(
    keys: &'static str,
    word: &'static str,
    help: &'static str,
    codes: &'static [(KeyCode, Action)],
) -> Row {
    Row { keys, word, help, codes, control: false }
}

const fn control(
    keys: &'static str,
    help: &'static str,
    codes: &'static [(KeyCode, Action)],
) -> Row {
    Row { keys, word: "", help, codes, control: true }
}

use Action as A;
use KeyCode as K;

/// Every key. Those at the foot of the screen stand in the order in which they stay
/// where it is narrow.
pub static KEYS: &[Row] = &[
    row("q", "quit", "quit", &[(K::Char('q'), A::Quit)]),
    row(
        "?",
        "help",
        "this help",
        &[(K::Char('?'), A::Help), (K::Char('h'), A::Help), (K::F(1), A::Help)],
    ),
    row("Enter", "pane", "show or hide the pane of the chosen cache", &[(K::Enter, A::Pane)]),
    row(
        "/",
        "filter",
        "show only caches whose name holds a text or matches a*b?[cd]",
        &[(K::Char('/'), A::Filter)],
    ),
    row(
        "s",
        "sort",
        "sort by the next column; also >, back by <",
        &[
            (K::Char('s'), A::SortNext),
            (K::Char('>'), A::SortNext),
            (K::Char('<'), A::SortBefore),
            (K::Char('S'), A::SortBefore),
        ],
    ),
    row("r", "reverse", "sort the other way", &[(K::Char('r'), A::Reverse)]),
    row("Space", "pause", "stop looking, or go on", &[(K::Char(' '), A::Pause)]),
    row(
        "+ -",
        "time",
        "look less often, more often",
        &[
            (K::Char('+'), A::Slower),
            (K::Char('='), A::Slower),
            (K::Char('-'), A::Faster),
            (K::Char('_'), A::Faster),
        ],
    ),
    row(
        "w",
        "who allocates",
        "show or hide a kernel's call sites with their rates; counting them costs CPU time",
        &[(K::Char('w'), A::Sites)],
    ),
    row(
        "Up Down",
        "",
        "choose a cache; also k and j",
        &[(K::Up, A::Up), (K::Char('k'), A::Up), (K::Down, A::Down), (K::Char('j'), A::Down)],
    ),
    row(
        "PgUp PgDn",
        "",
        "a page up, a page down",
        &[(K::PageUp, A::PageUp), (K::PageDown, A::PageDown)],
    ),
    row(
        "Home End",
        "",
        "the first cache, the last; also g and G",
        &[
            (K::Home, A::First),
            (K::Char('g'), A::First),
            (K::End, A::Last),
            (K::Char('G'), A::Last),
        ],
    ),
    row("Esc", "", "close the help, clear the filter, close the pane", &[(K::Esc, A::Back)]),
    control("Ctrl-C", "quit", &[(K::Char('c'), A::Quit)]),
    control("Ctrl-Z", "back to the shell; `fg` returns", &[(K::Char('z'), A::Suspend)]),
];

/// What a key does.
pub fn action(key: KeyEvent) -> Option<Action> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let rows = KEYS.iter().filter(|row| row.control == control);
    let mut codes = rows.flat_map(|row| row.codes);
    codes.find(|(code, _)| *code == key.code).map(|(_, action)| *action)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_key_does_one_thing() {
        let mut seen = HashSet::new();
        for row in KEYS {
            assert!(!row.keys.is_empty() && !row.help.is_empty());
            for (code, _) in row.codes {
                assert!(seen.insert((row.control, *code)), "{code:?}");
            }
        }
    }

    #[test]
    fn control_makes_another_key() {
        let press = |c, modifiers| action(KeyEvent::new(KeyCode::Char(c), modifiers));
        assert_eq!(press('q', KeyModifiers::NONE), Some(Action::Quit));
        assert_eq!(press('q', KeyModifiers::CONTROL), None);
        assert_eq!(press('c', KeyModifiers::CONTROL), Some(Action::Quit));
        assert_eq!(press('c', KeyModifiers::NONE), None);
        assert_eq!(press('G', KeyModifiers::SHIFT), Some(Action::Last));
    }
}
