//! Charts: what is drawn, against which axes, and where in the page's JSON its numbers are.
//!
//! Neighbours: [`crate::path`] finds the numbers; `assets/page.js` takes a chart as the JSON that
//! is derived here, and gives it to Chart.js.

use crate::error::Error;
use crate::path;
use serde::Serialize;
use serde_json::Value;

/// What a number of an axis counts: how ticks and tooltips write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Things, or anything without a unit: `1,024`.
    Count,
    /// `1.5 MiB`.
    Bytes,
    /// Numbers in KiB, as kernels print: `1.5 MiB`.
    Kibibytes,
    /// `1.5 ms`.
    Nanoseconds,
    /// `0.25 s`.
    Seconds,
    /// A share of 1: `25 %`.
    Share,
    /// Words, such as names of caches: the axis of bars.
    Name,
}

/// An axis: its title, and the unit of its numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    title: String,
    unit: Unit,
}

impl Axis {
    /// An axis with a title.
    pub fn new(title: impl Into<String>, unit: Unit) -> Axis {
        Axis { title: title.into(), unit }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Lines,
    Areas,
    Bars,
    Stacked,
    Histogram,
    Scatter,
}

/// Numbers that are drawn as one line, area, set of bars or set of points.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    name: String,
    x: String,
    y: String,
    labels: Option<String>,
    rows: Option<Vec<usize>>,
    connected: bool,
}

impl Series {
    /// A series whose numbers are at two [paths](crate::path), which find equally many.
    pub fn new(name: impl Into<String>, x: impl Into<String>, y: impl Into<String>) -> Series {
        let (name, x, y) = (name.into(), x.into(), y.into());
        Series { name, x, y, labels: None, rows: None, connected: false }
    }

    /// Words for each point's tooltip, at a path.
    #[must_use]
    pub fn labels(self, path: impl Into<String>) -> Series {
        Series { labels: Some(path.into()), ..self }
    }

    /// Of what the paths find only these, counted from 0, in this order.
    #[must_use]
    pub fn rows(self, rows: impl IntoIterator<Item = usize>) -> Series {
        Series { rows: Some(rows.into_iter().collect()), ..self }
    }

    /// A line through the points of a scatter chart.
    #[must_use]
    pub fn connected(self) -> Series {
        Series { connected: true, ..self }
    }

    /// Each of a path's values that is drawn.
    fn drawn<'a>(&self, path: &str, data: &'a Value) -> Result<Vec<&'a Value>, Error> {
        let found = path::find(data, path).ok_or_else(|| Error::NotFound(path.into()))?;
        let Some(rows) = &self.rows else { return Ok(found) };
        let row = |row: &usize| found.get(*row).copied();
        let rows: Option<Vec<_>> = rows.iter().map(row).collect();
        rows.ok_or_else(|| Error::NotFound(format!("{path}, in the rows that are chosen")))
    }
}

/// A chart with all that it shows.
#[derive(Clone, Debug, Serialize)]
pub struct Chart {
    title: String,
    kind: Kind,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
}

impl Chart {
    /// Lines, such as curves over time.
    pub fn lines(title: impl Into<String>, x: Axis, y: Axis) -> Chart {
        Chart::new(title, Kind::Lines, x, y)
    }

    /// Areas, one on top of the other, such as memory by place over time.
    pub fn areas(title: impl Into<String>, x: Axis, y: Axis) -> Chart {
        Chart::new(title, Kind::Areas, x, y)
    }

    /// Bars that lie, side by side for each of the names of the axis `x`. A value may be a range,
    /// `[low, high]`, whose bar is pale from one to the other.
    pub fn bars(title: impl Into<String>, x: Axis, y: Axis) -> Chart {
        Chart::new(title, Kind::Bars, x, y)
    }

    /// Bars that lie, the series of each name end to end.
    pub fn stacked_bars(title: impl Into<String>, x: Axis, y: Axis) -> Chart {
        Chart::new(title, Kind::Stacked, x, y)
    }

    /// Bars that stand on classes, such as slabs by their objects in use.
    pub fn histogram(title: impl Into<String>, x: Axis, y: Axis) -> Chart {
        Chart::new(title, Kind::Histogram, x, y)
    }

    /// Points, such as memory against work; [connected](Series::connected) series are lines.
    pub fn scatter(title: impl Into<String>, x: Axis, y: Axis) -> Chart {
        Chart::new(title, Kind::Scatter, x, y)
    }

    fn new(title: impl Into<String>, kind: Kind, x: Axis, y: Axis) -> Chart {
        Chart { title: title.into(), kind, x, y, series: Vec::new() }
    }

    /// With one more series.
    #[must_use]
    pub fn with(mut self, series: Series) -> Chart {
        self.series.push(series);
        self
    }

    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// The chart as the page's script takes it, after each series has found its numbers.
    pub(crate) fn checked(&self, data: &Value) -> Result<Value, Error> {
        for series in &self.series {
            let [x, y] = [&series.x, &series.y].map(|path| series.drawn(path, data));
            let (x, y) = (x?, y?);
            if x.len() != y.len() {
                return Err(Error::UnlikeLengths(series.x.clone(), series.y.clone()));
            }
            if let Some(labels) = &series.labels
                && series.drawn(labels, data)?.len() != x.len()
            {
                return Err(Error::UnlikeLengths(series.x.clone(), labels.clone()));
            }
            self.check_values(&series.x, &x, self.has_names())?;
            self.check_values(&series.y, &y, false)?;
        }
        Ok(serde_json::to_value(self)?)
    }

    /// True if what stands on the axis `x` are classes, by whatever words or numbers.
    fn has_names(&self) -> bool {
        matches!(self.kind, Kind::Bars | Kind::Stacked | Kind::Histogram)
    }

    fn check_values(&self, path: &str, values: &[&Value], names: bool) -> Result<(), Error> {
        let is_range = |value: &Value| {
            let ends = value.as_array().filter(|ends| self.kind == Kind::Bars && ends.len() == 2);
            ends.is_some_and(|ends| ends.iter().all(Value::is_number))
        };
        let fits = |value: &Value| match names {
            true => value.is_string() || value.is_number(),
            // What is unknown is a gap.
            false => value.is_number() || value.is_null() || is_range(value),
        };
        match values.iter().find(|value| !fits(value)) {
            Some(wrong) => Err(Error::NoNumber(path.into(), wrong.to_string())),
            None => Ok(()),
        }
    }
}
