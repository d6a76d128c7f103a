//! Draws the screen from the state, into a buffer of cells. Nothing here depends on a terminal.
//!
//! Neighbours: [`super::app`] holds the state; [`head`], [`table`], [`pane`], [`sites`] and
//! [`help`] each draw a part, in the styles of [`look`]. Invariants: what does not fit is left out as a whole or ends
//! in `…`; no fact is shown by colour alone; a screen of any size can be drawn, at least in part.

mod chart;
mod head;
mod help;
mod look;
mod pane;
mod sites;
mod table;
mod text;

pub use look::{Colour, ScreenOptions};

use super::app::App;
use super::pane::Pane;
use ratatui::Frame;
use ratatui::layout::Rect;

/// Rows of a pane beside which there is still a table.
const PANE: u16 = 11;
/// Rows of the largest pane.
const LARGEST_PANE: u16 = 20;

/// Draws the head, the table, the pane and the help into a frame.
pub fn draw(frame: &mut Frame<'_>, app: &mut App, look: &ScreenOptions) {
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
    match app.pane {
        _ if pane_rows == 0 => {}
        Pane::Sites => sites::draw(frame, below, app, look),
        _ => pane::draw(frame, below, app, look),
    }
    help::foot(frame, foot, app, look);
    help::draw(frame, body, app, look);
}

/// A pane is beside the table where both fit, else instead of it.
fn pane_rows(app: &App, body_rows: u16) -> u16 {
    match body_rows {
        _ if app.pane == Pane::Closed => 0,
        rows if rows < PANE + 5 => rows,
        rows => (rows / 2).clamp(PANE, LARGEST_PANE),
    }
}

fn split(area: Rect, below: u16) -> (Rect, Rect) {
    let above = area.height.saturating_sub(below);
    let table = Rect { height: above, ..area };
    (table, Rect { y: area.y + above, height: area.height - above, ..area })
}
