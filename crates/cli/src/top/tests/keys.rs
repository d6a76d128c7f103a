//! Tests what each key changes.

use super::looks;
use crate::top::app::{App, LoopAction};
use crate::top::columns::Direction;
use crate::top::pane::Pane;
use ratatui::crossterm::event::KeyCode::{self, Backspace, Char, Down, End, Enter, Esc, Home, Up};
use ratatui::crossterm::event::{KeyEvent, KeyModifiers};
use slabyard_observe::{Snapshot, Value};
use std::time::Duration;

/// Presses keys one after another; what the last one asks for.
pub fn press(app: &mut App, keys: &[KeyCode]) -> LoopAction {
    let mut next = LoopAction::Draw;
    for key in keys {
        next = app.press(KeyEvent::new(*key, KeyModifiers::NONE));
    }
    next
}

fn names(app: &App) -> Vec<&str> {
    app.shown().iter().map(|cache| cache.name.as_str()).collect()
}

fn chosen(app: &App) -> &str {
    let shown = app.shown();
    shown[app.chosen_row(&shown)].name.as_str()
}

#[test]
fn the_largest_comes_first_and_what_is_unknown_last() {
    let mut app = looks::app(looks::kernel, 2);
    assert_eq!(names(&app)[..2], ["ext4_inode_cache", "dentry"]);
    let mut look = looks::kernel(3);
    look.caches.push(slabyard_observe::Cache::new("aaa"));
    app.take(look, Duration::from_secs(3));
    assert_eq!(names(&app).last(), Some(&"aaa"));
    press(&mut app, &[Char('r')]);
    assert_eq!(names(&app)[0], "fsnotify_mark_connector");
    assert_eq!(names(&app).last(), Some(&"aaa"));
}

#[test]
fn the_order_goes_from_column_to_column_and_round() {
    let mut app = looks::app(looks::process, 2);
    press(&mut app, &[Char('s')]);
    assert_eq!((app.sort, app.direction), ("used", Direction::Down));
    press(&mut app, &[Char('<'), Char('<')]);
    assert_eq!(app.sort, "order");
    for _ in 0..app.columns.len() {
        press(&mut app, &[Char('>')]);
    }
    assert_eq!(app.sort, "order");
    while app.sort != "name" {
        press(&mut app, &[Char('>')]);
    }
    assert_eq!(app.direction, Direction::Up);
    assert_eq!(names(&app), ["malloc-16", "malloc-512", "malloc-64", "malloc-96"]);
}

#[test]
fn rates_can_be_sorted_by() {
    let mut app = looks::app(looks::process, 3);
    while app.sort != "slow/s" {
        press(&mut app, &[Char('s')]);
    }
    assert_eq!(names(&app)[..2], ["malloc-64", "malloc-512"]);
}

#[test]
fn the_chosen_cache_stays_chosen_in_another_order() {
    let mut app = looks::app(looks::process, 2);
    assert_eq!(chosen(&app), "malloc-64");
    press(&mut app, &[Down, Down]);
    let one = chosen(&app).to_owned();
    press(&mut app, &[Char('r')]);
    assert_eq!(chosen(&app), one);
    press(&mut app, &[End, Down]);
    assert_eq!(chosen(&app), *names(&app).last().unwrap());
    press(&mut app, &[Home, Up]);
    assert_eq!(chosen(&app), names(&app)[0]);
}

#[test]
fn a_page_is_what_the_screen_shows() {
    let mut app = looks::app(looks::kernel, 2);
    app.view.rows = 3;
    press(&mut app, &[KeyCode::PageDown]);
    assert_eq!(chosen(&app), names(&app)[3]);
    press(&mut app, &[KeyCode::PageDown, KeyCode::PageDown]);
    assert_eq!(chosen(&app), names(&app)[5]);
    press(&mut app, &[KeyCode::PageUp]);
    assert_eq!(chosen(&app), names(&app)[2]);
}

#[test]
fn a_filter_works_while_it_is_typed_and_esc_clears_it() {
    let mut app = looks::app(looks::kernel, 2);
    press(&mut app, &[Char('/'), Char('i'), Char('n'), Char('o')]);
    assert_eq!(names(&app), ["ext4_inode_cache", "inode_cache"]);
    // Keys are letters now.
    assert_eq!(press(&mut app, &[Char('q'), Backspace]), LoopAction::Draw);
    press(&mut app, &[Enter, Down]);
    assert_eq!(chosen(&app), "inode_cache");
    assert_eq!(press(&mut app, &[Char('q')]), LoopAction::Quit);
    press(&mut app, &[Esc]);
    assert_eq!(names(&app).len(), 6);
    press(&mut app, &[Char('/'), Char('x'), Char('x'), Esc]);
    assert!(!app.typing && app.filter.is_empty());
}

#[test]
fn nothing_shown_is_nothing_chosen() {
    let mut app = looks::app(looks::kernel, 2);
    press(&mut app, &[Char('/'), Char('!'), Enter, Down, Up, End, Enter]);
    assert!(names(&app).is_empty() && app.chosen.is_none());
}

#[test]
fn ctrl_c_quits_even_while_a_filter_is_typed() {
    let mut app = looks::app(looks::kernel, 2);
    press(&mut app, &[Char('/')]);
    let control = |c| KeyEvent::new(Char(c), KeyModifiers::CONTROL);
    assert_eq!(app.press(control('z')), LoopAction::Suspend);
    assert_eq!(app.press(control('c')), LoopAction::Quit);
}

#[test]
fn esc_closes_the_help_then_the_filter_then_the_pane() {
    let mut app = looks::app(looks::kernel, 2);
    press(&mut app, &[Enter, Char('/'), Char('d'), Enter, Char('?')]);
    press(&mut app, &[Esc]);
    assert!(app.help.is_none() && !app.filter.is_empty() && app.pane == Pane::Cache);
    press(&mut app, &[Esc]);
    assert!(app.filter.is_empty() && app.pane == Pane::Cache);
    press(&mut app, &[Esc]);
    assert_eq!(app.pane, Pane::Closed);
}

#[test]
fn under_the_help_nothing_changes() {
    let mut app = looks::app(looks::kernel, 2);
    press(&mut app, &[Char('?'), Char('r'), Char('s'), Down, Enter, Char(' ')]);
    assert_eq!((app.sort, app.direction), ("bytes", Direction::Down));
    assert!(app.pane == Pane::Closed && !app.paused && app.chosen.is_none());
    assert_eq!(press(&mut app, &[Char('q')]), LoopAction::Quit);
}

#[test]
fn an_open_pane_wants_more_and_wants_it_now() {
    let mut app = looks::app(looks::process, 2);
    assert!(!app.want().scope.all);
    assert_eq!(press(&mut app, &[Enter]), LoopAction::Look);
    assert!(app.want().scope.all);
    assert_eq!(press(&mut app, &[Enter]), LoopAction::Draw);
}

#[test]
fn a_pause_ends_with_a_look() {
    let mut app = looks::app(looks::process, 2);
    assert_eq!(press(&mut app, &[Char(' ')]), LoopAction::Draw);
    assert!(app.paused);
    assert_eq!(press(&mut app, &[Char(' ')]), LoopAction::Look);
}

#[test]
fn the_interval_has_steps_and_bounds() {
    let mut app = looks::app(looks::process, 2);
    press(&mut app, &[Char('+')]);
    assert_eq!(app.interval, Duration::from_secs(2));
    for _ in 0..20 {
        press(&mut app, &[Char('-')]);
    }
    assert_eq!(app.interval, Duration::from_millis(100));
    for _ in 0..20 {
        press(&mut app, &[Char('+')]);
    }
    assert_eq!(app.interval, Duration::from_secs(60));
    app.interval = Duration::from_millis(700);
    press(&mut app, &[Char('-')]);
    assert_eq!(app.interval, Duration::from_millis(500));
}

#[test]
fn a_failed_look_is_forgotten_with_the_next_good_one() {
    let mut app = looks::app(looks::process, 2);
    app.trouble = Some("no".into());
    assert_eq!(names(&app).len(), 4);
    app.take(looks::process(4), Duration::from_secs(4));
    assert_eq!(app.trouble, None);
}

#[test]
fn caches_may_come_and_go() {
    let mut app = looks::app(looks::process, 2);
    press(&mut app, &[Down]);
    let mut fewer: Snapshot = looks::process(3);
    fewer.caches.truncate(1);
    fewer.caches[0].set("live", Value::Exact(1));
    app.take(fewer, Duration::from_secs(3));
    assert_eq!(chosen(&app), "malloc-16");
}

#[test]
fn call_sites_bring_their_columns_and_take_them_away() {
    let mut app = looks::app(looks::kernel, 2);
    let has = |app: &App| app.columns.iter().any(|column| column.name == "allocs/s");
    assert!(!has(&app));
    assert_eq!(press(&mut app, &[Char('w')]), LoopAction::Look);
    assert!(has(&app) && app.want().pane == Pane::Sites && !app.want().scope.all);
    app.count(Some(Ok(looks::activity())));
    while app.sort != "allocs/s" {
        press(&mut app, &[Char('s')]);
    }
    // Of a merged cache under its first name; what was not counted is last.
    assert_eq!(names(&app)[..2], ["kmalloc-64", "dentry"]);
    press(&mut app, &[Char('r')]);
    assert_eq!(names(&app)[..2], ["dentry", "kmalloc-64"]);
    // The other pane stands in its place, and the column stays, because it is sorted by.
    press(&mut app, &[Enter]);
    assert!(app.pane == Pane::Cache && has(&app) && app.activity.is_none());
    assert_eq!(press(&mut app, &[Enter]), LoopAction::Draw);
    assert_eq!(app.pane, Pane::Closed);
}
