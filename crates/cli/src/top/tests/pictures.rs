//! Screens at three sizes, compared with files. `SLABYARD_BLESS=1` rewrites the files.

use super::keys::press;
use super::looks;
use crate::top::app::App;
use crate::top::draw::{Colour, ScreenOptions, draw};
use jiff::tz::TimeZone;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::crossterm::event::KeyCode::{Char, Down, Enter};
use ratatui::style::Color;
use std::path::Path;

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (40, 10)];

fn picture(app: &mut App, (width, height): (u16, u16), colour: Colour) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let look = ScreenOptions { zone: TimeZone::UTC, colour };
    terminal.draw(|frame| draw(frame, app, &look)).unwrap();
    terminal.backend().buffer().clone()
}

/// The characters, without colours and weights.
fn text(buffer: &Buffer) -> String {
    let rows = buffer.content().chunks(usize::from(buffer.area.width));
    rows.map(|row| {
        let line: String = row.iter().map(Cell::symbol).collect();
        line.trim_end().to_owned() + "\n"
    })
    .collect()
}

fn compare(name: &str, make: impl Fn() -> App) {
    for (width, height) in SIZES {
        let found = text(&picture(&mut make(), (width, height), Colour::Yes));
        let file = format!("src/top/tests/pictures/{name}-{width}x{height}.txt");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&file);
        if std::env::var_os("SLABYARD_BLESS").is_some() {
            std::fs::write(&path, &found).unwrap();
        }
        let wanted = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(found, wanted, "{file}: SLABYARD_BLESS=1 writes it anew");
    }
}

#[test]
fn a_kernel() {
    compare("kernel", || looks::app(looks::kernel, 20));
}

#[test]
fn a_kernel_that_tells_a_user_little() {
    compare("kernel-user", || looks::app(looks::kernel_to_a_user, 20));
}

#[test]
fn a_process() {
    compare("process", || looks::app(looks::process, 20));
}

#[test]
fn a_pane_of_a_kernels_cache() {
    compare("kernel-pane", || {
        let mut app = looks::app(looks::kernel, 20);
        press(&mut app, &[Down, Enter]);
        app
    });
}

#[test]
fn a_pane_of_a_process_cache() {
    compare("process-pane", || {
        let mut app = looks::app(looks::process, 60);
        press(&mut app, &[Enter]);
        app
    });
}

#[test]
fn a_kernels_call_sites() {
    compare("kernel-sites", || looks::with_sites(looks::app(looks::kernel, 20)));
}

#[test]
fn a_filter_being_typed_while_nothing_moves() {
    compare("filter", || {
        let mut app = looks::app(looks::kernel, 2);
        press(&mut app, &[Char(' '), Char('/'), Char('k'), Char('m'), Char('*')]);
        app
    });
}

#[test]
fn the_help() {
    compare("help", || {
        let mut app = looks::app(looks::process, 2);
        press(&mut app, &[Char('?')]);
        app
    });
}

#[test]
fn a_look_that_failed_leaves_the_numbers_and_says_so() {
    compare("trouble", || {
        let mut app = looks::app(looks::process, 3);
        let why = "process 4711 may not be read: run it by `slabyard run --observable`";
        app.trouble = Some(why.into());
        app
    });
}

#[test]
fn every_size_can_be_drawn() {
    for keys in [&[][..], &[Enter], &[Char('w')], &[Char('?')], &[Char('/')]] {
        for look in [looks::kernel, looks::process] {
            let mut app = looks::app(look, 3);
            press(&mut app, keys);
            for width in (0..=20).chain([40, 79, 200]) {
                for height in 0..=24 {
                    picture(&mut app, (width, height), Colour::Yes);
                }
            }
        }
    }
}

#[test]
fn colours_say_nothing_that_the_rest_does_not() {
    let draw = |colour| {
        let mut app = looks::app(looks::process, 30);
        press(&mut app, &[Enter]);
        app.trouble = Some("gone".into());
        picture(&mut app, (80, 24), colour)
    };
    let (with, without) = (draw(Colour::Yes), draw(Colour::No));
    assert_eq!(text(&with), text(&without));
    let coloured = |b: &Buffer| b.content().iter().any(|cell| cell.fg != Color::Reset);
    assert!(coloured(&with) && !coloured(&without));
    // What has a colour has a weight as well, but for the curves: those are seen.
    let braille = '\u{2800}'..='\u{28ff}';
    let is_curve = |cell: &Cell| cell.symbol().starts_with(|c| braille.contains(&c));
    let coloured = with.content().iter().filter(|cell| cell.fg != Color::Reset);
    for cell in coloured.filter(|cell| !is_curve(cell)) {
        assert!(cell.modifier.contains(ratatui::style::Modifier::BOLD), "{cell:?}");
    }
}
