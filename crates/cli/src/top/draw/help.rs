//! The line of keys at the bottom, and the help overlay.

use super::super::app::App;
use super::super::keys::KEYS;
use super::look::ScreenOptions;
use super::text;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

/// What numbers mean, whatever their column.
const SIGNS: &[(&str, &str)] = &[
    ("-", "not known"),
    ("1..9", "between these"),
    ("~", "about: the middle of a range that is not shown"),
    ("/s", "change a second since the last look"),
    ("K M G", "1024 bytes each; k 1000 of others"),
];

/// Draws the line of keys, or the filter while it is typed.
pub fn foot(frame: &mut Frame<'_>, area: Rect, app: &App, look: &ScreenOptions) {
    let room = usize::from(area.width);
    let line = if app.typing {
        let typed = format!("filter: {}", app.filter.text());
        let rest = text::cut("_  Enter keeps it, Esc clears it", room.saturating_sub(typed.len()));
        Line::from(vec![Span::styled(text::cut(&typed, room), look.accent()), Span::raw(rest)])
    } else {
        let mut spans = Vec::new();
        let mut used = 0;
        for row in KEYS.iter().filter(|row| !row.word.is_empty()) {
            let gap = if used == 0 { "" } else { "  " };
            let word = format!(" {}", row.word);
            used += gap.len() + row.keys.len() + word.len();
            if used > room {
                break;
            }
            spans.extend([Span::raw(gap), Span::styled(row.keys, look.strong()), Span::raw(word)]);
        }
        Line::from(spans)
    };
    frame.render_widget(Paragraph::new(line), area);
}

/// Draws the help, where it is open, and keeps its first line in bounds.
pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App, look: &ScreenOptions) {
    let Some(first) = app.help else { return };
    let lines = lines(app, look, usize::from(area.width.saturating_sub(4)));
    let inside = usize::from(area.height.saturating_sub(2));
    let first = first.min(lines.len().saturating_sub(inside));
    app.help = Some(first);
    let more = if first + inside < lines.len() { " Down: more " } else { "" };
    let widest = lines.iter().map(Line::width).max().unwrap_or(0);
    let width = u16::try_from(widest + 4).unwrap_or(u16::MAX).min(area.width);
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX).min(area.height);
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    let block = Block::bordered().title(" help: ? or Esc closes it ").title_bottom(more);
    let block = block.padding(ratatui::widgets::Padding::horizontal(1));
    frame.render_widget(Clear, place);
    let shown: Vec<Line<'_>> = lines.into_iter().skip(first).take(inside).collect();
    frame.render_widget(Paragraph::new(shown).block(block), place);
}

fn lines<'a>(app: &App, look: &ScreenOptions, width: usize) -> Vec<Line<'a>> {
    let names = KEYS.iter().map(|row| row.keys).chain(app.columns.iter().map(|c| c.name));
    let room = names.map(text::width).max().unwrap_or(0);
    let row = |name: &str, help: &'static str| {
        Line::from(vec![
            Span::styled(text::left(name, room + 2), look.strong()),
            Span::raw(text::cut(help, width.saturating_sub(room + 2))),
        ])
    };
    let mut lines: Vec<Line<'a>> = KEYS.iter().map(|key| row(key.keys, key.help)).collect();
    lines.push(Line::raw(""));
    lines.extend(SIGNS.iter().map(|(sign, help)| row(sign, help)));
    lines.push(Line::raw(""));
    lines.extend(app.columns.iter().map(|column| row(column.name, column.help())));
    lines
}
