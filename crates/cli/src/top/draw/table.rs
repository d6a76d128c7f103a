//! The table of caches: as many columns as fit, with the selected row marked.

use super::super::app::{App, View};
use super::super::columns::{Column, Direction, EXTRA, WIDEST};
use super::look::ScreenOptions;
use super::text;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// A name is not cut below that for a column.
const NAME: usize = 14;
/// Most spaces between columns.
const WIDEST_GAP: usize = 3;

/// Draws the table and keeps in the view what it needed.
pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App, look: &ScreenOptions) {
    let shown = app.shown();
    let cells: Vec<Vec<String>> = shown
        .iter()
        .map(|cache| {
            let cell = |column: &Column| column.cell(&app.snapshot, &app.history, cache);
            app.columns.iter().map(cell).collect()
        })
        .collect();
    let chosen = app.chosen_row(&shown);
    let rows = usize::from(area.height.saturating_sub(1));
    let view = seen(&app.view, &app.columns, &cells);
    let first = first_row(app.view.first_row, chosen, rows, cells.len());
    app.view = View { first_row: first, rows, widths: view };

    let widths: Vec<usize> =
        app.columns.iter().map(|c| app.view.widths.get(c.name).copied().unwrap_or(0)).collect();
    let plan = plan(&app.columns, &widths, app.sort, usize::from(area.width));
    let mut lines = vec![heading(app, &plan, look)];
    if cells.is_empty() {
        lines.push(Line::raw(" no cache matches: Esc clears the filter"));
    }
    for (row, cells) in cells.iter().enumerate().skip(first).take(rows) {
        let is_chosen = row == chosen;
        let mut line = String::from(if is_chosen { ">" } else { " " });
        for (nth, (column, width)) in plan.columns.iter().enumerate() {
            line += &" ".repeat(if nth == 0 { 0 } else { plan.gap });
            line += &match app.columns[*column].is_words() {
                true => text::left(&cells[*column], *width),
                false => text::right(&cells[*column], *width),
            };
        }
        let line = text::left(&line, usize::from(area.width));
        lines.push(Line::styled(line, if is_chosen { look.chosen() } else { Style::new() }));
    }
    lines.truncate(usize::from(area.height));
    frame.render_widget(Paragraph::new(lines), area);
}

/// Widths that were needed up to now.
fn seen(
    view: &View,
    columns: &[Column],
    cells: &[Vec<String>],
) -> std::collections::HashMap<&'static str, usize> {
    let mut widths = view.widths.clone();
    for (nth, column) in columns.iter().enumerate() {
        let width = widths.entry(column.name).or_insert(column.name.len());
        let longest = cells.iter().filter_map(|row| row.get(nth)).map(|c| text::width(c)).max();
        *width = (*width).max(longest.unwrap_or(0)).min(WIDEST);
    }
    widths
}

/// The first row to show, so that the chosen one is among them and as little moves
/// as can be.
fn first_row(before: usize, chosen: usize, rows: usize, all: usize) -> usize {
    let latest = all.saturating_sub(rows);
    let first = before.min(latest).min(chosen);
    if rows > 0 && chosen >= first + rows { chosen + 1 - rows } else { first }
}

/// Columns with their widths, and spaces between them.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    columns: Vec<(usize, usize)>,
    gap: usize,
}

/// Leaves out columns until the rest fits, names cut if need be; then gives what is
/// left to the names, then to the gaps.
fn plan(columns: &[Column], widths: &[usize], sort: &str, room: usize) -> Plan {
    let room = room.saturating_sub(1);
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    let name = widths.first().copied().unwrap_or(0);
    loop {
        let others: usize = kept.iter().skip(1).map(|nth| widths[*nth] + 1).sum();
        let has_extra = kept.iter().any(|nth| columns[*nth].rank >= EXTRA);
        let least = if has_extra { name } else { name.min(NAME) };
        // Of equal rank the last one goes first.
        let goes = kept
            .iter()
            .enumerate()
            .filter(|(_, nth)| columns[**nth].rank > 0 && columns[**nth].name != sort)
            .max_by_key(|(_, nth)| columns[**nth].rank);
        match goes {
            Some((at, _)) if others + least > room => {
                kept.remove(at);
            }
            _ => {
                let name = name.min(room.saturating_sub(others));
                let spare = room.saturating_sub(others + name);
                let gap = 1 + (spare / kept.len().max(1)).min(WIDEST_GAP - 1);
                let width = |nth: usize| if nth == 0 { name } else { widths[nth] };
                return Plan { columns: kept.iter().map(|n| (*n, width(*n))).collect(), gap };
            }
        }
    }
}

/// The columns' names; an arrow at the one that is sorted by, in the gap before a
/// number and behind a word.
fn heading<'a>(app: &App, plan: &Plan, look: &ScreenOptions) -> Line<'a> {
    let arrow = match app.direction {
        Direction::Up => "▲",
        Direction::Down => "▼",
    };
    let mut spans = vec![Span::raw(" ")];
    for (nth, (at, width)) in plan.columns.iter().enumerate() {
        let column = &app.columns[*at];
        let gap = if nth == 0 { 0 } else { plan.gap };
        let sorted = column.name == app.sort;
        let text = match (sorted, column.is_words()) {
            (false, true) => " ".repeat(gap) + &text::left(column.name, *width),
            (false, false) => text::right(column.name, gap + width),
            (true, true) => {
                " ".repeat(gap) + &text::left(&format!("{}{arrow}", column.name), *width)
            }
            (true, false) => text::right(&format!("{arrow}{}", column.name), gap + width),
        };
        spans.push(Span::styled(text, if sorted { look.accent() } else { look.strong() }));
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(names: &[&str]) -> Vec<Column> {
        names.iter().map(|name| Column::named(name).unwrap()).collect()
    }

    #[test]
    fn columns_go_by_rank_and_the_sorted_one_stays() {
        let columns = columns(&["name", "live", "slabs", "bytes", "used"]);
        let widths = [20, 8, 5, 6, 5];
        let names = |sort, room| {
            let plan = plan(&columns, &widths, sort, room);
            plan.columns.iter().map(|(nth, _)| columns[*nth].name).collect::<Vec<_>>()
        };
        assert_eq!(names("bytes", 80), ["name", "live", "slabs", "bytes", "used"]);
        assert_eq!(names("bytes", 40), ["name", "live", "bytes", "used"]);
        assert_eq!(names("slabs", 35), ["name", "slabs", "bytes"]);
        assert_eq!(names("bytes", 3), ["name", "bytes"]);
    }

    #[test]
    fn names_are_cut_before_a_column_goes_but_not_for_an_extra_one() {
        let columns = columns(&["name", "bytes", "partial"]);
        let plan = |room| plan(&columns, &[30, 6, 7], "bytes", room);
        assert_eq!(plan(46).columns, [(0, 30), (1, 6), (2, 7)]);
        assert_eq!(plan(45).columns, [(0, 30), (1, 6)]);
        assert_eq!(plan(30).columns, [(0, 22), (1, 6)]);
        assert_eq!(plan(80).gap, 3);
    }

    #[test]
    fn the_chosen_row_is_shown_and_the_table_moves_little() {
        assert_eq!(first_row(0, 5, 10, 100), 0);
        assert_eq!(first_row(0, 10, 10, 100), 1);
        assert_eq!(first_row(50, 52, 10, 100), 50);
        assert_eq!(first_row(50, 7, 10, 100), 7);
        assert_eq!(first_row(50, 3, 10, 4), 0);
        assert_eq!(first_row(0, 3, 0, 4), 0);
    }
}
