//! The state of the screen, and how keys change it: state alone, without a terminal.
//!
//! Neighbours: [`super::draw`] draws it, [`super::live`] feeds it with samples and keys.
//! Invariants: the selected cache is stored by name, so that it stays selected when the order
//! changes; until a user selects one, the first cache is selected.

use super::columns::{Column, Direction};
use super::filter::Filter;
use super::history::History;
use super::keys::{self, Action};
use super::pane::{Pane, Want};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use slabyard_observe::source::ReadScope;
use slabyard_observe::{Cache, Snapshot};
use slabyard_owners::Activity;
use std::time::Duration;

/// Shortest time between two looks.
pub const SHORTEST: Duration = Duration::from_millis(100);
/// The longest time between two looks.
pub const LONGEST: Duration = Duration::from_secs(3600);

/// What `+` and `-` choose from, in milliseconds.
const INTERVALS_MS: &[u64] = &[100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000];

/// How it is to begin.
pub struct Start {
    /// Time between two looks.
    pub interval: Duration,
    /// What `--sort` says; without it bytes.
    pub sort: Column,
    /// Which caches to show.
    pub filter: Filter,
    /// The pane that is open.
    pub pane: Pane,
}

/// What the loop must do after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopAction {
    /// Draw the picture anew.
    Draw,
    /// Look again at once: something else is wanted.
    Look,
    /// End the command.
    Quit,
    /// Go to the background.
    Suspend,
}

/// All that is shown.
pub struct App {
    /// The source as it was last looked at.
    pub snapshot: Snapshot,
    /// The looks before that one, for rates and charts.
    pub history: History,
    /// Why the last look failed, where it did.
    pub trouble: Option<String>,
    /// The columns of the table, from the left.
    pub columns: Vec<Column>,
    /// Name of the column that is sorted by.
    pub sort: &'static str,
    /// Whether the largest come first.
    pub direction: Direction,
    /// Which caches are shown.
    pub filter: Filter,
    /// True while the filter is being typed.
    pub typing: bool,
    /// The cache that was chosen.
    pub chosen: Option<String>,
    /// What is shown below the table.
    pub pane: Pane,
    /// What was counted at the last look, if call sites were shown, or why it was not.
    pub activity: Option<Result<Activity, String>>,
    /// First line of the help that is shown; `None` if it is closed.
    pub help: Option<usize>,
    /// True if nobody looks.
    pub paused: bool,
    /// Time between two looks.
    pub interval: Duration,
    /// What the drawing keeps from one picture to the next.
    pub view: View,
}

/// What depends on the size of the screen.
#[derive(Default)]
pub struct View {
    /// First row of the table that is shown.
    pub first_row: usize,
    /// Rows that are shown.
    pub rows: usize,
    /// Widths that cells needed so far, by column's name: columns that only grow
    /// keep the picture calm.
    pub widths: std::collections::HashMap<&'static str, usize>,
}

impl App {
    /// Begins with a first look.
    pub fn new(start: Start, snapshot: Snapshot) -> App {
        let mut history = History::default();
        history.add(&snapshot, Duration::ZERO);
        App {
            columns: Column::of(&snapshot, start.sort, start.pane),
            sort: start.sort.name,
            direction: Direction::of(&start.sort),
            snapshot,
            history,
            trouble: None,
            filter: start.filter,
            typing: false,
            chosen: None,
            pane: start.pane,
            activity: None,
            help: None,
            paused: false,
            interval: start.interval,
            view: View::default(),
        }
    }

    /// What to look at. How full partial slabs are is told without each of them.
    pub fn want(&self) -> Want {
        let scope = ReadScope { all: self.pane == Pane::Cache, slabs: false };
        Want { scope, pane: self.pane }
    }

    /// Takes a look.
    pub fn take(&mut self, snapshot: Snapshot, at: Duration) {
        self.history.add(&snapshot, at);
        self.snapshot = snapshot;
        self.trouble = None;
    }

    /// Takes what was counted meanwhile.
    pub fn count(&mut self, activity: Option<Result<Activity, String>>) {
        let counted = activity.as_ref().and_then(|activity| activity.as_ref().ok());
        self.history.count(&self.snapshot, counted);
        self.activity = activity;
    }

    /// The caches that are shown, in their order.
    pub fn shown(&self) -> Vec<&Cache> {
        let sort = self.sort_column();
        let key = |cache| sort.map(|column| column.key(&self.snapshot, &self.history, cache));
        let caches = self.snapshot.caches.iter().filter(|cache| self.filter.takes(cache));
        let mut keyed: Vec<_> = caches.map(|cache| (key(cache), cache)).collect();
        keyed.sort_by(|(a, x), (b, y)| {
            let order = match (a, b) {
                (Some(a), Some(b)) => a.compare(b, self.direction),
                _ => std::cmp::Ordering::Equal,
            };
            order.then_with(|| x.name.cmp(&y.name))
        });
        keyed.into_iter().map(|(_, cache)| cache).collect()
    }

    /// Row of the chosen cache among those that are shown.
    pub fn chosen_row(&self, shown: &[&Cache]) -> usize {
        let chosen = self.chosen.as_deref();
        shown.iter().position(|cache| Some(cache.name.as_str()) == chosen).unwrap_or(0)
    }

    /// The column whose heading is marked.
    pub fn sort_column(&self) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == self.sort)
    }

    /// Does what a key means; says what the caller has to do.
    pub fn press(&mut self, key: KeyEvent) -> LoopAction {
        if self.typing && !key.modifiers.contains(KeyModifiers::CONTROL) {
            self.type_filter(key.code);
            return LoopAction::Draw;
        }
        let Some(action) = keys::action(key) else { return LoopAction::Draw };
        match action {
            Action::Quit => return LoopAction::Quit,
            Action::Suspend => return LoopAction::Suspend,
            Action::Help => self.help = self.help.is_none().then_some(0),
            Action::Back => self.back(),
            // The help covers the rest.
            _ if self.help.is_some() => self.scroll_help(action),
            Action::Pane => return self.toggle(Pane::Cache),
            Action::Sites => return self.toggle(Pane::Sites),
            Action::Filter => self.typing = true,
            Action::SortNext => self.sort_by(1),
            Action::SortBefore => self.sort_by(self.columns.len().saturating_sub(1)),
            Action::Reverse => self.direction = self.direction.reversed(),
            Action::Pause => {
                self.paused = !self.paused;
                return if self.paused { LoopAction::Draw } else { LoopAction::Look };
            }
            Action::Slower => self.interval = next_interval(self.interval, Direction::Up),
            Action::Faster => self.interval = next_interval(self.interval, Direction::Down),
            Action::Up => self.choose(|row, _| row.saturating_sub(1)),
            Action::Down => self.choose(|row, _| row + 1),
            Action::PageUp => self.choose(usize::saturating_sub),
            Action::PageDown => self.choose(|row, page| row + page),
            Action::First => self.choose(|_, _| 0),
            Action::Last => self.choose(|_, _| usize::MAX),
        }
        LoopAction::Draw
    }

    fn back(&mut self) {
        if self.help.is_some() {
            self.help = None;
        } else if !self.filter.is_empty() {
            self.filter = Filter::default();
        } else {
            self.open(Pane::Closed);
        }
    }

    fn toggle(&mut self, pane: Pane) -> LoopAction {
        self.open(if self.pane == pane { Pane::Closed } else { pane });
        let looks = self.pane != Pane::Closed && !self.paused;
        if looks { LoopAction::Look } else { LoopAction::Draw }
    }

    /// Opens a pane, and shows the columns that are counted with it.
    fn open(&mut self, pane: Pane) {
        self.pane = pane;
        self.activity = None;
        self.history.count(&self.snapshot, None);
        if let Some(sort) = Column::named(self.sort) {
            self.columns = Column::of(&self.snapshot, sort, pane);
        }
    }

    fn scroll_help(&mut self, action: Action) {
        let page = self.view.rows.max(1);
        self.help = self.help.map(|line| match action {
            Action::Up => line.saturating_sub(1),
            Action::Down => line + 1,
            Action::PageUp => line.saturating_sub(page),
            Action::PageDown => line + page,
            _ => line,
        });
    }

    fn type_filter(&mut self, code: KeyCode) {
        let mut text = self.filter.text().to_owned();
        match code {
            KeyCode::Char(c) => text.push(c),
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Enter => {
                self.typing = false;
                return;
            }
            KeyCode::Esc => {
                self.typing = false;
                text.clear();
            }
            _ => return,
        }
        self.filter = Filter::new(&text);
    }

    fn sort_by(&mut self, steps: usize) {
        let at = self.columns.iter().position(|column| column.name == self.sort).unwrap_or(0);
        if let Some(column) = self.columns.get((at + steps) % self.columns.len().max(1)) {
            self.sort = column.name;
            self.direction = Direction::of(column);
        }
    }

    /// Chooses by row and page.
    fn choose(&mut self, to: impl Fn(usize, usize) -> usize) {
        let shown = self.shown();
        let row = to(self.chosen_row(&shown), self.view.rows.max(1));
        let last = shown.len().saturating_sub(1);
        self.chosen = shown.get(row.min(last)).map(|cache| cache.name.clone());
    }
}

fn next_interval(now: Duration, direction: Direction) -> Duration {
    let mut steps = INTERVALS_MS.iter().map(|ms| Duration::from_millis(*ms));
    let next = match direction {
        Direction::Up => steps.find(|step| *step > now),
        Direction::Down => steps.rfind(|step| *step < now),
    };
    next.unwrap_or(now)
}
