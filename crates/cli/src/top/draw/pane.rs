//! The pane of the selected cache: geometry, tunables, where its objects are, how full its partial
//! slabs are, and a chart over time.

use super::super::app::App;
use super::super::short;
use super::chart::{self, ValueHistory};
use super::look::ScreenOptions;
use super::text;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use slabyard_observe::fields::{self, FieldKind, Unit};
use slabyard_observe::{Cache, Snapshot, Value};

/// Columns of the words, where there is room for a chart beside them.
const WORDS: u16 = 48;
/// Columns of the narrowest chart.
const CHART: u16 = 24;

/// Where objects may be, and slabs.
const PLACES: &[&str] = &["live", "parked_cpu", "parked_node", "in_transit", "free_partial"];
const SLABS: &[&str] = &["slabs", "full", "partial", "empty"];

/// Draws the pane of the chosen cache: its numbers, its places, its past.
pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, look: &ScreenOptions) {
    let shown = app.shown();
    let Some(cache) = shown.get(app.chosen_row(&shown)) else { return };
    let title = Rect { height: 1.min(area.height), ..area };
    frame.render_widget(Paragraph::new(heading(cache, area.width, look)), title);
    let inside = Rect { y: area.y + title.height, height: area.height - title.height, ..area };
    let beside = inside.width >= WORDS + CHART;
    let words_width = if beside { WORDS.max(inside.width / 2) } else { inside.width };
    let rest = usize::from(inside.height);
    let words = words(&app.snapshot, cache, usize::from(words_width).saturating_sub(2), look);
    let used = u16::try_from(words.len().min(rest)).unwrap_or(u16::MAX);
    frame.render_widget(Paragraph::new(words), Rect { width: words_width, ..inside });
    let charts = if beside {
        Rect { x: inside.x + words_width, width: inside.width - words_width, ..inside }
    } else {
        Rect { y: inside.y + used, height: inside.height - used, ..inside }
    };
    past(frame, charts, app, cache, look);
}

fn heading<'a>(cache: &Cache, width: u16, look: &ScreenOptions) -> Line<'a> {
    let others: Vec<&str> = cache.names().skip(1).collect();
    let others = match others.len() {
        0 => String::new(),
        1 | 2 => format!(", also {}", others.join(", ")),
        n => format!(", also {} and {} more", others[..2].join(", "), n - 2),
    };
    let room = usize::from(width);
    let text = text::cut(&format!("── {}{others} ", cache.name), room);
    let rule = "─".repeat(room - text::width(&text));
    Line::styled(text + &rule, look.accent())
}

fn words<'a>(
    snapshot: &Snapshot,
    cache: &Cache,
    room: usize,
    look: &ScreenOptions,
) -> Vec<Line<'a>> {
    let [geometry, tunables, slabs] =
        [geometry(snapshot, cache), tunables(snapshot, cache), slabs(snapshot, cache)]
            .map(|parts| text::wrap(&parts, ", ", room));
    let facts = geometry.into_iter().chain(tunables).chain(slabs).map(Line::raw);
    facts.chain(places(snapshot, cache, room, look)).collect()
}

fn show(snapshot: &Snapshot, cache: &Cache, name: &str) -> Option<String> {
    let field = fields::field(name)?;
    let value = fields::value(field, snapshot, cache)?;
    Some(match (field.unit, &value) {
        // A size in full: 192 is not 0.19K.
        (Unit::Bytes, Value::Exact(n)) if *n < 1 << 20 => n.to_string(),
        _ => short::value(Some(&value), field.unit),
    })
}

fn geometry(snapshot: &Snapshot, cache: &Cache) -> Vec<String> {
    let part = |before: &str, name: &str, behind: &str| {
        show(snapshot, cache, name).map(|value| format!("{before}{value}{behind}"))
    };
    let parts = [
        part("size ", "object_size", ""),
        part("stride ", "slab_size", ""),
        part("order ", "order", ""),
        part("", "objs_per_slab", " a slab"),
    ];
    parts.into_iter().flatten().collect()
}

/// The tunables that are other than a flag, and are known.
fn tunables(snapshot: &Snapshot, cache: &Cache) -> Vec<String> {
    let tunables =
        fields::FIELDS.iter().filter(|f| f.kind == FieldKind::Tunable && f.unit != Unit::Flag);
    tunables
        .filter_map(|f| Some(format!("{} {}", f.name, show(snapshot, cache, f.name)?)))
        .collect()
}

fn slabs(snapshot: &Snapshot, cache: &Cache) -> Vec<String> {
    SLABS
        .iter()
        .filter_map(|name| Some(format!("{name} {}", show(snapshot, cache, name)?)))
        .collect()
}

/// A row for each place that the source tells of: objects, bytes, share.
fn places<'a>(
    snapshot: &Snapshot,
    cache: &Cache,
    room: usize,
    look: &ScreenOptions,
) -> Vec<Line<'a>> {
    let get = |name| fields::field(name).and_then(|f| fields::value(f, snapshot, cache));
    let all = get("bytes").and_then(|bytes| bytes.high()).filter(|bytes| *bytes > 0);
    let stride = cache.exact("slab_size");
    let row = |[place, objects, bytes, share]: [&str; 4]| {
        let cells = [(objects, 11), (bytes, 13), (share, 9)].map(|(s, room)| text::right(s, room));
        let mut line = text::left(place, 12);
        // Where it is narrow, whole columns go.
        for cell in cells {
            if text::width(&line) + text::width(&cell) <= room {
                line += &cell;
            }
        }
        line
    };
    let mut lines = vec![Line::styled(row(["place", "objects", "bytes", "share"]), look.strong())];
    for (name, objects) in PLACES.iter().filter_map(|name| Some((name, get(name)?))) {
        let bytes = stride.and_then(|stride| objects.times(stride));
        let share = bytes.as_ref().zip(all).and_then(|(bytes, all)| {
            let (low, high) = bytes.bounds()?;
            let part = |n: u64| u64::try_from(u128::from(n) * 10_000 / u128::from(all)).ok();
            Some(Value::between(part(low)?, part(high)?))
        });
        lines.push(Line::raw(row([
            name,
            &short::value(Some(&objects), Unit::Objects),
            &short::bytes(bytes.as_ref()),
            &short::value(share.as_ref(), Unit::Share),
        ])));
    }
    lines
}

/// The charts of live objects and bytes, and how full partial slabs are.
fn past(frame: &mut Frame<'_>, area: Rect, app: &App, cache: &Cache, look: &ScreenOptions) {
    let partial = fullness(cache, usize::from(area.width));
    let below = if partial.is_some() && area.height > 1 { 1 } else { 0 };
    let half = (area.height - below) / 2;
    let looks = || app.history.looks(&cache.name);
    let live = ValueHistory {
        name: "live",
        unit: Unit::Objects,
        looks: looks().filter_map(|l| Some((l.at, l.live.as_ref()?))).collect(),
    };
    let bytes = ValueHistory {
        name: "bytes",
        unit: Unit::Bytes,
        looks: looks().filter_map(|l| Some((l.at, l.bytes.as_ref()?))).collect(),
    };
    chart::draw(frame, Rect { height: half, ..area }, &live, look);
    chart::draw(frame, Rect { y: area.y + half, height: half, ..area }, &bytes, look);
    if let Some(line) = partial.filter(|_| below > 0) {
        let place = Rect { y: area.y + area.height - below, height: below, ..area };
        frame.render_widget(Paragraph::new(line), place);
    }
}

/// Partial slabs by tenths in use, and how many one object keeps; `None` where the
/// source does not tell, or there are none.
fn fullness(cache: &Cache, room: usize) -> Option<String> {
    let slabs = cache.fullness.as_deref().filter(|slabs| !slabs.is_empty())?;
    let objects = cache.exact("objs_per_slab").filter(|objects| *objects > 0)?;
    let mut tenths = [0u64; 10];
    for (inuse, number) in slabs {
        let tenth = usize::try_from(u64::from(*inuse) * 10 / objects).unwrap_or(9).min(9);
        tenths[tenth] = tenths[tenth].saturating_add(*number);
    }
    let pinned = slabs.iter().find(|(inuse, _)| *inuse == 1).map_or(0, |(_, number)| *number);
    let bars = chart::bars(&tenths);
    let long = format!("partial slabs in use 0%[{bars}]100%, just 1: {pinned}");
    let short = format!("in use [{bars}], just 1: {pinned}");
    Some(if text::width(&long) <= room { long } else { text::cut(&short, room) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_are_told_apart_by_tenths_and_those_of_one_object_counted() {
        let mut cache = Cache::new("malloc-64");
        assert_eq!(fullness(&cache, 80), None);
        cache.fullness = Some(vec![(0, 1), (1, 3), (32, 2), (63, 4)]);
        assert_eq!(fullness(&cache, 80), None);
        cache.set("objs_per_slab", 64);
        let long = fullness(&cache, 80).unwrap();
        assert_eq!(long, "partial slabs in use 0%[█····▄···█]100%, just 1: 3");
        assert_eq!(fullness(&cache, 40).unwrap(), "in use [█····▄···█], just 1: 3");
        cache.fullness = Some(Vec::new());
        assert_eq!(fullness(&cache, 80), None);
    }
}
