//! OpenMetrics text: the largest caches and the totals, as a bounded number of series.
//!
//! A cache has `slabyard_cache_bytes`, `slabyard_cache_parked_objects` (an upper bound) and, twice,
//! `slabyard_cache_live_objects`, with the labels `bound="low"` and `bound="high"`. Both bounds are
//! always printed, so that no series appears or disappears as a value becomes exact or inexact.
//! Totals are `slabyard_NAME_bytes`; totals that may be ranges have both bounds too. So K caches
//! yield 4 K series, and each total one or two. Where slow paths are counted,
//! `slabyard_slow_path_events_total` adds one series for each counter of `crate::fields`, with the
//! label `event`: the sum over all caches. Invariant: an unknown number yields no series.

use super::pick::CacheFilter;
use super::show::counts;
use crate::fields::{self, FIELDS, FieldKind, TOTALS, Unit, field};
use crate::snapshot::{Cache, Snapshot};
use crate::value::Value;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit as SeriesUnit};
use std::fmt;
use std::io::{self, Write};

/// What the text is, for those who transfer it.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Writes the series of the `top` largest caches and of the totals, to `# EOF`.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut dyn Write, snapshot: &Snapshot, top: usize) -> io::Result<()> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Series { rows: rows(snapshot, top) }));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).map_err(io::Error::other)?;
    out.write_all(text.as_bytes())
}

/// How a value becomes series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SeriesKind {
    /// One: the value, of a range the high end.
    High,
    /// Two, with the label `bound`.
    Both,
}

/// One family: a name without its unit, and its series.
#[derive(Debug)]
struct Row {
    name: String,
    help: String,
    unit: Option<&'static str>,
    /// A counter, or else a gauge.
    grows: bool,
    series: Vec<(Vec<(&'static str, String)>, u64)>,
}

/// Fields of a cache that are exported.
const OF_CACHE: &[(&str, SeriesKind)] =
    &[("live", SeriesKind::Both), ("parked", SeriesKind::High), ("bytes", SeriesKind::High)];

/// Totals that may be ranges.
const RANGES: &[&str] = &["live", "in_transit"];

/// Parts of what is resident that are small: what the others leave.
const SMALL: &[&str] = &["resident_stack", "resident_brk"];
/// Totals that say how things are set, which need no history.
const SETTINGS: &[&str] = &["mode", "nr_cpus", "engine", "decay_ms", "node_limit"];

fn rows(snapshot: &Snapshot, top: usize) -> Vec<Row> {
    let pick = CacheFilter { top: Some(top), ..CacheFilter::by_bytes() };
    let caches = pick.caches(snapshot).caches;
    let mut rows = Vec::new();
    for (name, ends) in OF_CACHE {
        let Some(field) = field(name) else { continue };
        let help = match ends {
            SeriesKind::High if *name == "parked" => format!("{}, at most", field.help),
            _ => field.help.into(),
        };
        let mut row = Row::of(&format!("cache_{name}"), &help, field.unit);
        for cache in &caches {
            let value = fields::value(field, snapshot, cache);
            let labels = vec![("cache", cache.name.clone())];
            row.push(&labels, value.as_ref(), *ends);
        }
        rows.push(row);
    }
    let is_left_out = |name| SETTINGS.contains(&name) || SMALL.contains(&name);
    for total in TOTALS.iter().filter(|t| !is_left_out(t.name)) {
        let mut row = Row::of(total.name, total.help, total.unit);
        let ends = if RANGES.contains(&total.name) { SeriesKind::Both } else { SeriesKind::High };
        row.push(&[], snapshot.total(total.name), ends);
        rows.push(row);
    }
    let mut row = Row::of("caches", "caches that the source has", Unit::Count);
    let caches = u64::try_from(snapshot.caches.len()).unwrap_or(u64::MAX);
    row.push(&[], Some(&caches.into()), SeriesKind::High);
    rows.push(row);
    rows.extend(counts::sum(snapshot).map(|all| events(&all)));
    rows.retain(|row| !row.series.is_empty());
    rows
}

/// What all caches counted together.
fn events(all: &Cache) -> Row {
    let help = "what slow paths of all caches did";
    let mut row = Row { grows: true, ..Row::of("slow_path_events", help, Unit::Count) };
    for field in FIELDS.iter().filter(|field| field.kind == FieldKind::Counter) {
        row.push(&[("event", field.name.into())], all.value(field.name), SeriesKind::High);
    }
    row
}

impl Row {
    fn of(name: &str, help: &str, unit: Unit) -> Row {
        let unit = match unit {
            Unit::Bytes => Some("bytes"),
            Unit::Objects => Some("objects"),
            Unit::Slabs => Some("slabs"),
            _ => None,
        };
        // A unit that is the name already is not said twice: `cache_bytes`.
        let name = unit.and_then(|u| name.strip_suffix(u)?.strip_suffix('_')).unwrap_or(name);
        Row {
            name: format!("slabyard_{name}"),
            help: help.into(),
            unit,
            grows: false,
            series: Vec::new(),
        }
    }

    fn push(&mut self, labels: &[(&'static str, String)], value: Option<&Value>, ends: SeriesKind) {
        let Some((low, high)) = value.and_then(Value::bounds) else { return };
        if ends == SeriesKind::High {
            return self.series.push((labels.to_vec(), high));
        }
        for (bound, n) in [("low", low), ("high", high)] {
            let bound = ("bound", bound.to_owned());
            self.series.push((labels.iter().cloned().chain([bound]).collect(), n));
        }
    }
}

#[derive(Debug)]
struct Series {
    rows: Vec<Row>,
}

impl Collector for Series {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for row in &self.rows {
            let unit = row.unit.map(|unit| SeriesUnit::Other(unit.into()));
            let mut family = encoder.encode_descriptor(
                &row.name,
                &row.help,
                unit.as_ref(),
                if row.grows { MetricType::Counter } else { MetricType::Gauge },
            )?;
            for (labels, value) in &row.series {
                if row.grows {
                    ConstCounter::new(*value).encode(family.encode_family(labels)?)?;
                    continue;
                }
                let value = ConstGauge::new(*value);
                // An empty set of labels would be written as `{}`.
                if labels.is_empty() {
                    value.encode(family)?;
                    break;
                }
                value.encode(family.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}
