//! The first lines: the source, its totals, and how many caches are shown.

use super::super::app::App;
use super::super::short;
use super::look::ScreenOptions;
use super::text;
use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use slabyard_observe::fields::{self, Unit};
use slabyard_observe::snapshot::SourceKind;
use slabyard_observe::{Cache, Snapshot, Value};

/// Rows of the screen from which on the head has all its lines.
const TALL: u16 = 16;

/// How tall the head is on a screen of so many rows.
pub fn rows(screen: u16) -> u16 {
    if screen >= TALL { 4 } else { 2.min(screen) }
}

/// Draws the source and its totals above the table.
pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, look: &ScreenOptions) {
    let room = usize::from(area.width);
    let [first, second] = totals(&app.snapshot);
    let plain = |parts: &[String]| Line::raw(text::join(parts, ", ", room));
    let mut lines = vec![title(app, look, room)];
    let state = || match &app.trouble {
        Some(why) => {
            Line::styled(text::cut(&format!("last look failed: {why}"), room), look.alarm())
        }
        None => Line::raw(text::join(&caches(app), "; ", room)),
    };
    if area.height > 2 {
        lines.extend([plain(&first), plain(&second), state()]);
    } else if app.trouble.is_some() || !app.filter.is_empty() {
        lines.push(state());
    } else {
        lines.push(plain(&first));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// What is looked at, when, how often, and what a look costs.
fn title<'a>(app: &App, look: &ScreenOptions, room: usize) -> Line<'a> {
    let name = text::cut(&source(&app.snapshot), room);
    let left = room - text::width(&name);
    let mut right = Vec::new();
    let paused = if app.paused { " PAUSED " } else { "" };
    if app.paused {
        right.push(paused.to_owned());
    }
    right.push(clock(&app.snapshot, look));
    if !app.paused {
        right.push(format!("every {} s", app.interval.as_secs_f64()));
    }
    right.extend(app.snapshot.took_ns.map(|ns| format!("looked for {}", took(ns))));
    let right = text::join(&right, "  ", left.saturating_sub(2));
    let gap = " ".repeat(left - text::width(&right));
    let name = Span::styled(name, look.accent());
    let rest = right.strip_prefix(paused).unwrap_or(&right).to_owned();
    let mark = &right[..right.len() - rest.len()];
    let mark = Span::styled(mark.to_owned(), if app.paused { look.chosen() } else { Style::new() });
    Line::from(vec![name, Span::raw(gap), mark, Span::raw(rest)])
}

fn source(snapshot: &Snapshot) -> String {
    let source = &snapshot.source;
    match source.kind {
        SourceKind::Kernel => {
            format!("kernel {}", source.release.as_deref().unwrap_or("")).trim_end().into()
        }
        _ => {
            let program = source.program.as_deref().unwrap_or("");
            let pid = source.pid.map(|pid| format!("process {pid}")).unwrap_or_default();
            [program, &pid].into_iter().filter(|s| !s.is_empty()).collect::<Vec<_>>().join(", ")
        }
    }
}

fn clock(snapshot: &Snapshot, look: &ScreenOptions) -> String {
    let ms = i64::try_from(snapshot.taken_at_ms).unwrap_or(i64::MAX);
    match Timestamp::from_millisecond(ms) {
        Ok(time) => time.to_zoned(look.zone.clone()).strftime("%H:%M:%S").to_string(),
        Err(_) => short::UNKNOWN.into(),
    }
}

fn took(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    if ms < 10.0 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
}

/// Two lines of totals, in parts: the most important ones first.
fn totals(snapshot: &Snapshot) -> [Vec<String>; 2] {
    let show = |name: &str, total: &str| format!("{name} {}", short::bytes(snapshot.total(total)));
    let both = |name: &str, totals: &[&str]| {
        format!("{name} {}", short::bytes(sum(snapshot, totals).as_ref()))
    };
    if snapshot.source.kind == SourceKind::Kernel {
        let [most, share] = parked(snapshot);
        return [
            vec![show("slab", "slab"), most, share],
            vec![
                show("reclaimable", "slab_reclaimable"),
                show("unreclaimable", "slab_unreclaimable"),
                show("memory", "mem_total"),
                show("free", "mem_free"),
                show("available", "mem_available"),
            ],
        ];
    }
    [
        vec![
            show("committed", "committed"),
            both("live", &["live", "runs", "mapped"]),
            both("parked", &["parked_cpu", "parked_node", "parked_pages"]),
            both("free", &["free_partial", "free_runs"]),
            both("other", &["metadata", "padding", "in_transit"]),
        ],
        vec![
            show("resident", "resident"),
            show("returned", "returned"),
            show("live: objects", "live"),
            show("runs", "runs"),
            show("mappings", "mapped"),
        ],
    ]
}

fn sum(snapshot: &Snapshot, totals: &[&str]) -> Option<Value> {
    totals.iter().try_fold(Value::Exact(0), |sum, name| sum.plus(snapshot.total(name)?))
}

/// The most that a kernel may hide as active, in bytes, and its share of that.
fn parked(snapshot: &Snapshot) -> [String; 2] {
    let most = |name| {
        snapshot.caches.iter().try_fold(0u64, |sum, cache| {
            let objects = field(snapshot, cache, name)?.high()?;
            sum.checked_add(objects.checked_mul(cache.exact("slab_size")?)?)
        })
    };
    let (parked, active) = (most("parked"), most("objects"));
    let share = parked.zip(active.filter(|active| *active > 0)).map(|(parked, active)| {
        let share = u128::from(parked) * 10_000 / u128::from(active);
        Value::Exact(u64::try_from(share).unwrap_or(u64::MAX))
    });
    let most = format!("parked at most {}", short::bytes(parked.map(Value::Exact).as_ref()));
    let share = share.map(|share| format!("{} of active", short::value(Some(&share), Unit::Share)));
    [most, share.unwrap_or_default()]
}

fn field(snapshot: &Snapshot, cache: &Cache, name: &str) -> Option<Value> {
    fields::field(name).and_then(|field| fields::value(field, snapshot, cache))
}

/// How many caches there are, how many are shown, in what order, and what could not
/// be read.
fn caches(app: &App) -> Vec<String> {
    let all = app.snapshot.caches.len();
    let shown = app.snapshot.caches.iter().filter(|cache| app.filter.takes(cache)).count();
    let caches = if all == 1 { "cache" } else { "caches" };
    let mut parts = vec![if app.filter.is_empty() {
        format!("{all} {caches}")
    } else {
        format!("{shown} of {all} {caches}: {}", app.filter.text())
    }];
    parts.push(format!("sorted by {}", app.sort));
    if let Some(first) = app.snapshot.missing.first() {
        let more = match app.snapshot.missing.len() - 1 {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        parts.push(format!("not read: {}{more} ({})", first.what, first.why));
    }
    parts
}
