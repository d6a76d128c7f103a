//! The picture: state in, cells out. Nothing here knows a terminal.
//!
//! Neighbours: [`super::app`] is what is drawn; [`head`], [`table`], [`pane`] and
//! [`help`] draw a part each.
//! Invariants: what does not fit is left out as a whole or ends in `…`; nothing is
//! told by colour alone; any size can be drawn, if only in part.

mod chart;
mod head;
mod help;
mod pane;
mod table;
mod text;

use super::app::App;
use jiff::tz::TimeZone;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// Rows from which on the head has all its lines.
const TALL: u16 = 16;
/// Rows of a pane beside which there is still a table.
const PANE: u16 = 11;
/// Rows of the largest pane.
const LARGEST_PANE: u16 = 20;

/// How it looks.
pub struct Look {
    /// The zone of the time of day.
    pub zone: TimeZone,
    /// Whether there are colours.
    pub colour: Colour,
}

/// Whether there are colours; weight and inversion are there without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// With colours.
    Yes,
    /// Without.
    No,
}

impl Look {
    fn strong(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    fn chosen(&self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    fn accent(&self) -> Style {
        self.coloured(Color::Cyan)
    }

    fn alarm(&self) -> Style {
        self.coloured(Color::Red)
    }

    fn coloured(&self, colour: Color) -> Style {
        match self.colour {
            Colour::Yes => self.strong().fg(colour),
            Colour::No => self.strong(),
        }
    }
}

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, app: &mut App, look: &Look) {
    let area = frame.area();
    let (head_rows, foot_rows) = (head::rows(area.height), 1.min(area.height));
    let body_rows = area.height.saturating_sub(head_rows + foot_rows);
    let head = Rect { height: head_rows, ..area };
    let body = Rect { y: area.y + head_rows, height: body_rows, ..area };
    let foot = Rect { y: body.y + body_rows, height: foot_rows, ..area };

    head::draw(frame, head, app, look);
    let pane_rows = pane_rows(app, body_rows);
    let (above, below) = split(body, pane_rows);
    table::draw(frame, above, app, look);
    if pane_rows > 0 {
        pane::draw(frame, below, app, look);
    }
    help::foot(frame, foot, app, look);
    help::draw(frame, body, app, look);
}

/// A pane is beside the table where both fit, else instead of it.
fn pane_rows(app: &App, body_rows: u16) -> u16 {
    match body_rows {
        _ if !app.pane => 0,
        rows if rows < PANE + 5 => rows,
        rows => (rows / 2).clamp(PANE, LARGEST_PANE),
    }
}

fn split(area: Rect, below: u16) -> (Rect, Rect) {
    let above = area.height.saturating_sub(below);
    let table = Rect { height: above, ..area };
    (table, Rect { y: area.y + above, height: area.height - above, ..area })
}
