//! Draws a small chart of one number over time, and a histogram in tenths.

use super::super::short;
use super::look::{Colour, ScreenOptions};
use super::text;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, Paragraph};
use slabyard_observe::Value;
use slabyard_observe::fields::Unit;
use std::time::Duration;

/// The values of one number over time.
pub struct ValueHistory<'a> {
    /// Name of the field, as the title has it.
    pub name: &'a str,
    pub unit: Unit,
    /// The value at each time since the first look.
    pub looks: Vec<(Duration, &'a Value)>,
}

/// Draws a title and, below it, the curve: both ends of ranges, from the least
/// value to the largest.
pub fn draw(frame: &mut Frame<'_>, area: Rect, past: &ValueHistory<'_>, look: &ScreenOptions) {
    let last = past.looks.last().map(|(_, value)| *value);
    let span = match (past.looks.first(), past.looks.last()) {
        (Some((first, _)), Some((last, _))) => last.saturating_sub(*first),
        _ => Duration::ZERO,
    };
    let room = usize::from(area.width);
    let now = short::value(last, past.unit);
    let title = Line::from(vec![
        Span::styled(past.name.to_owned(), look.strong()),
        Span::raw(text::cut(
            &format!(" {now}, over {} s", span.as_secs()),
            room.saturating_sub(past.name.len()),
        )),
    ]);
    let top = Rect { height: 1.min(area.height), ..area };
    frame.render_widget(Paragraph::new(title), top);
    let below = Rect { y: area.y + top.height, height: area.height - top.height, ..area };
    if below.height == 0 || below.width < 12 {
        return;
    }
    curve(frame, below, past, span, look);
}

fn curve(
    frame: &mut Frame<'_>,
    area: Rect,
    past: &ValueHistory<'_>,
    span: Duration,
    look: &ScreenOptions,
) {
    let Some((begin, _)) = past.looks.first() else { return };
    let ends = |end: fn(&Value) -> Option<u64>| -> Vec<(f64, u64)> {
        let time = |at: &Duration| at.saturating_sub(*begin).as_secs_f64();
        past.looks.iter().filter_map(|(at, value)| Some((time(at), end(value)?))).collect()
    };
    let (lows, highs) = (ends(Value::low), ends(Value::high));
    let least = lows.iter().map(|(_, n)| *n).min().unwrap_or(0);
    let most = highs.iter().map(|(_, n)| *n).max().unwrap_or(0);
    let points = |ends: &[(f64, u64)]| -> Vec<(f64, f64)> {
        ends.iter().map(|(at, n)| (*at, *n as f64)).collect()
    };
    let (lower, upper) = (points(&lows), points(&highs));
    let style = if look.colour == Colour::Yes { look.accent() } else { Style::new() };
    let set = |data| {
        Dataset::default()
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(style)
            .data(data)
    };
    // One value all the time is a line in the middle.
    let (floor, ceiling) = match (least as f64, most as f64) {
        (a, b) if a == b => (a - 1.0, b + 1.0),
        bounds => bounds,
    };
    let labels = if least == most {
        vec![String::new(), exact(least, past.unit), String::new()]
    } else {
        vec![exact(least, past.unit), exact(most, past.unit)]
    };
    let width = labels.iter().map(|label| text::width(label)).max().unwrap_or(0).max(6);
    let labels = labels.iter().map(|label| text::right(label, width));
    let chart = Chart::new(vec![set(&lower), set(&upper)])
        .x_axis(Axis::default().bounds([0.0, span.as_secs_f64().max(1.0)]))
        .y_axis(Axis::default().bounds([floor, ceiling]).labels(labels.map(Line::raw)))
        .legend_position(None);
    frame.render_widget(chart, area);
}

fn exact(n: u64, unit: Unit) -> String {
    short::value(Some(&Value::Exact(n)), unit)
}

/// A bar for each number, `·` for none: the largest is full.
pub fn bars(numbers: &[u64]) -> String {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = numbers.iter().copied().max().unwrap_or(0).max(1);
    let bar = |n: &u64| match n {
        0 => '·',
        n => {
            let step = u128::from(*n) * 8 / u128::from(most);
            STEPS[usize::try_from(step).unwrap_or(8).clamp(1, 8) - 1]
        }
    };
    numbers.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_tell_none_from_few() {
        assert_eq!(bars(&[0, 1, 50, 100]), "·▁▄█");
        assert_eq!(bars(&[0, 0]), "··");
        assert_eq!(bars(&[u64::MAX]), "█");
    }
}
