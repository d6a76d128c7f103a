//! The pane of call sites: who allocates from the caches that are shown, how much a second, and what
//! counting costs.

use super::super::app::App;
use super::super::short;
use super::look::ScreenOptions;
use super::text;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use slabyard_observe::fields::Unit;
use slabyard_owners::{Activity, Losses, who};
use std::collections::HashSet;

/// Columns of a rate.
const RATE: usize = 9;
/// Columns of the cache and of the site, on a screen narrower than [`WIDE`] and on others; who
/// allocates has the rest.
const WORDS: [[usize; 2]; 2] = [[13, 17], [18, 26]];
const WIDE: usize = 100;

/// Draws what was counted, or why nothing was.
pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, look: &ScreenOptions) {
    let room = usize::from(area.width);
    let rule = |text: &str| {
        let text = text::cut(&format!("── {text} "), room);
        Line::styled(text.clone() + &"─".repeat(room - text::width(&text)), look.accent())
    };
    let mut lines = match &app.activity {
        None => vec![rule("call sites"), Line::raw(" counting begins")],
        Some(Err(why)) => {
            let words: Vec<String> = why.split(' ').map(str::to_owned).collect();
            let lines = text::wrap(&words, " ", room).into_iter().map(Line::raw);
            std::iter::once(rule("call sites")).chain(lines).collect()
        }
        Some(Ok(activity)) => {
            let heading =
                row(["allocs/s", "frees/s", "bytes/s", "cache", "call site", "who"], room);
            let mut lines = vec![rule(&cost(activity, room)), Line::styled(heading, look.strong())];
            lines.extend(sites(app, activity, room));
            lines
        }
    };
    lines.truncate(usize::from(area.height));
    frame.render_widget(Paragraph::new(lines), area);
}

fn row([allocations, frees, bytes, cache, site, who]: [&str; 6], room: usize) -> String {
    let rates = [allocations, frees, bytes].map(|rate| text::right(rate, RATE)).concat();
    let [cache_room, site_room] = WORDS[usize::from(room >= WIDE)];
    let cache = text::left(cache, cache_room);
    let words = format!("{rates} {cache} {} {who}", text::left(site, site_room));
    text::cut(&words, room)
}

/// Those of the caches that are shown.
fn sites<'a>(app: &App, activity: &Activity, room: usize) -> Vec<Line<'a>> {
    let shown = app.shown();
    let shown: HashSet<&str> = shown.iter().flat_map(|cache| cache.names()).collect();
    let sites =
        activity.sites.iter().filter(|site| app.filter.is_empty() || shown.contains(&*site.cache));
    let lines: Vec<Line<'a>> = sites
        .map(|site| {
            let rate = |count, unit| short::a_second(activity.a_second(count), unit);
            Line::raw(row(
                [
                    &rate(site.allocations, Unit::Count),
                    &rate(site.frees, Unit::Count),
                    &rate(site.bytes, Unit::Bytes),
                    &site.cache,
                    &site.site,
                    &who(&site.process, site.cgroup.as_ref()),
                ],
                room,
            ))
        })
        .collect();
    match lines.is_empty() {
        true => vec![Line::raw(" nobody allocated since the last look")],
        false => lines,
    }
}

/// How much of it is seen, and what that costs.
fn cost(activity: &Activity, room: usize) -> String {
    let mut parts = vec!["call sites".to_owned()];
    parts.extend(activity.cost.map(|cost| {
        let percent = |share: f64| share * 100.0;
        format!("{:.2} % of one CPU, budget {} %", percent(cost.cpu_share), percent(cost.budget))
    }));
    parts.push(match activity.one_in {
        1 => "every allocation followed".into(),
        n => format!("one allocation in {n} followed"),
    });
    if activity.counted < 0.95 {
        parts.push(format!("counted in {:.1} % of the time", activity.counted * 100.0));
    }
    let Losses { missed, owners, .. } = activity.lost;
    if missed + owners > 0 {
        parts.push(format!("{} lost", missed + owners));
    }
    text::join(&parts, ", ", room.saturating_sub(4))
}
