//! The points of a sweep: which trace and which changes each has, its name and id, and which of them
//! cannot be.
//!
//! Neighbours: [`crate::axis`] reads the axes; `super::run` replays the points. Invariants: nothing is
//! replayed here; the order of points is that of the files, then of the axes, the last one fastest; two
//! plans with one digest have the same points.

use super::columns::{self, Column, Value};
use super::row::Row;
use super::shard::Shard;
use crate::answer::{Answer, Answerer};
use crate::axis::{self, Axis, Changes};
use crate::files;
use crate::load::{self, Loaded, TraceFile};
use crate::question::{self, Question};
use crate::{Error, Listener, Silent, Wanted};
use anyhow::{Context, anyhow};
use slabyard_lab::replay::contend::COSTS;
use std::fs;
use std::path::{Path, PathBuf};
use twox_hash::{XxHash3_64, XxHash3_128};

/// What is asked for, as it is typed.
#[derive(Clone, Debug, Default)]
pub struct SweepRequest {
    /// Traces, each of which is replayed at every point; `-` is none.
    pub files: Vec<PathBuf>,
    /// Axes, such as `max_order=0..3`.
    pub vary: Vec<String>,
    /// What holds for all points: `page=64k,cpus=16`; empty: nothing.
    pub machine: String,
    /// Points that cannot be become rows that say why; else they are an error.
    pub keeps_impossible: bool,
}

/// All points of a sweep.
#[derive(Debug)]
pub struct Plan {
    /// What is asked for, in lines: the text of which [`Plan::digest`] is.
    pub text: String,
    /// Digest of the text.
    pub digest: String,
    /// In the order of their numbers.
    pub points: Vec<Point>,
    /// Of its table.
    pub columns: Vec<Column>,
    /// The traces.
    pub inputs: Vec<Input>,
    pub(super) base: Question,
    machine: String,
}

/// A trace of a sweep.
#[derive(Clone, Debug)]
pub struct Input {
    /// The path as it was typed.
    pub file: PathBuf,
    /// The last part of the path.
    pub name: String,
    /// Of its bytes, and of those of the snapshot beside it.
    pub digest: String,
}

/// One replay of a sweep.
#[derive(Clone, Debug)]
pub struct Point {
    /// Index of its trace.
    pub input: usize,
    /// Keys and values, in the order of the axes.
    pub changes: Changes,
    /// The trace and the changes, as people name it.
    pub name: String,
    /// The same in each sweep that has this point.
    pub id: String,
    /// Why it cannot be.
    pub impossible: Option<String>,
}

/// Plans a sweep: reads all files, and finds out which points cannot be.
///
/// # Errors
/// [`Error::Usage`]: an unknown key, an empty or repeated axis, too many points, a file twice, or a
/// point that cannot be, which is named; [`Error::Cannot`]: a file that cannot be read.
pub fn plan(asked: &SweepRequest, listener: &dyn Listener) -> Result<Plan, Error> {
    let machine = question::machine(&asked.machine)?;
    let base = Question::default().with(&machine)?;
    let axes = axes(&asked.vary, &machine)?;
    let product = axis::product(&axes)?;
    if product.len() * asked.files.len() > axis::MOST_POINTS {
        let text = format!(
            "{} files at {} combinations are more than {} points, each a replay; vary less",
            asked.files.len(),
            product.len(),
            axis::MOST_POINTS
        );
        return Err(Error::Usage(text));
    }
    if asked.files.is_empty() {
        return Err(Error::Usage("a sweep needs the files of one trace or more".into()));
    }
    // Values that no trace could have are found before a long one is read.
    product.iter().try_for_each(|changes| base.with(changes).map(drop))?;
    let machine = match machine.is_empty() {
        true => String::new(),
        false => axis::name(&machine).replace('+', ","),
    };
    let mut plan = Plan {
        text: String::new(),
        digest: String::new(),
        points: Vec::new(),
        columns: columns::all(axes.iter().map(|axis| Column {
            name: axis.key.clone(),
            kind: columns::kind_of(axis.values.iter().map(String::as_str)),
        })),
        inputs: Vec::new(),
        base,
        machine,
    };
    for file in &asked.files {
        plan.take(file, &product, asked.keeps_impossible, listener)?;
    }
    plan.text = plan.text_of(&axes);
    plan.digest = format!("{:032x}", XxHash3_128::oneshot(plan.text.as_bytes()));
    Ok(plan)
}

fn axes(vary: &[String], machine: &Changes) -> Result<Vec<Axis>, Error> {
    if vary.is_empty() {
        let text = "a sweep varies something: give an axis, such as max_order=0..3";
        return Err(Error::Usage(text.into()));
    }
    let mut axes = Vec::new();
    for text in vary {
        let mut axis = Axis::parse(text)?;
        axis.key = question::canonical(&axis.key).to_owned();
        if machine.iter().any(|(key, _)| *key == axis.key) {
            let text = format!("{} is varied and set for all points: do one of both", axis.key);
            return Err(Error::Usage(text));
        }
        axes.push(axis);
    }
    Ok(axes)
}

impl Plan {
    /// Adds the points of one trace.
    fn take(
        &mut self,
        file: &Path,
        product: &[Changes],
        keeps_impossible: bool,
        listener: &dyn Listener,
    ) -> Result<(), Error> {
        if files::is_stdin(file) {
            let text = "a sweep reads its traces more than once: give files, not standard input";
            return Err(Error::Usage(text.into()));
        }
        let name = file.file_name().ok_or_else(|| anyhow!("{} is no file", file.display()))?;
        let name = name.to_string_lossy().into_owned();
        let loaded = load_file(file, listener)?;
        let digest = digest(file, &loaded.start)?;
        for other in &self.inputs {
            let (a, b) = (other.file.display(), file.display());
            if other.digest == digest {
                return Err(Error::Usage(format!("{a} and {b} are the same trace: give it once")));
            }
            if other.name == name {
                let text = format!("{a} and {b} have one name, which names points: rename one");
                return Err(Error::Usage(text));
            }
        }
        listener.stage(&format!("looking at the points of {name}"));
        let mut answerer = Answerer::new(&loaded, COSTS, &Silent)?;
        let input = self.inputs.len();
        for changes in product {
            let point_name = format!("{name}:{}", axis::name(changes));
            let impossible = match answerer.check(&self.base, changes) {
                Ok(()) => None,
                Err(Error::Usage(why)) if keeps_impossible => Some(why),
                Err(Error::Usage(why)) => {
                    listener.clear();
                    return Err(Error::Usage(format!("{point_name}: {why}")));
                }
                Err(other) => return Err(other),
            };
            let id = format!("{}\n{digest}\n{}\n{}", version(), self.machine, axis::name(changes));
            self.points.push(Point {
                input,
                changes: changes.clone(),
                name: point_name,
                id: format!("{:016x}", XxHash3_64::oneshot(id.as_bytes())),
                impossible,
            });
        }
        listener.clear();
        self.inputs.push(Input { file: file.to_owned(), name, digest });
        Ok(())
    }

    fn text_of(&self, axes: &[Axis]) -> String {
        let mut lines = vec![version()];
        lines.extend(self.inputs.iter().map(|file| format!("file {} {}", file.name, file.digest)));
        if !self.machine.is_empty() {
            lines.push(format!("machine {}", self.machine));
        }
        for axis in axes {
            let apart = if axis.values.iter().any(|v| v.contains(':')) { "/" } else { "," };
            lines.push(format!("vary {}={}", axis.key, axis.values.join(apart)));
        }
        lines.join("\n")
    }

    /// Numbers of the points of a shard.
    pub fn of_shard(&self, shard: Shard) -> impl Iterator<Item = usize> + use<> {
        (shard.nth - 1..self.points.len()).step_by(shard.of)
    }

    /// Reads a trace of the sweep, which must be as it was when the sweep was planned.
    ///
    /// # Errors
    /// Where it cannot be read, or is another one now.
    pub fn load(&self, input: usize, listener: &dyn Listener) -> Result<Loaded, Error> {
        let Input { file, digest: was, .. } = &self.inputs[input];
        let loaded = load_file(file, listener)?;
        if digest(file, &loaded.start)? != *was {
            return Err(anyhow!("{} changed while the sweep ran", file.display()).into());
        }
        Ok(loaded)
    }

    /// The row of a point that was answered.
    #[must_use]
    pub fn row(&self, nth: usize, answer: &Answer) -> Row {
        let mut cells = self.head(nth);
        cells.extend(columns::measures(answer));
        cells.push(Value::Unknown);
        Row::of_cells(cells)
    }

    /// The row of a point that cannot be; `None` if it can.
    #[must_use]
    pub fn impossible_row(&self, nth: usize) -> Option<Row> {
        let why = self.points[nth].impossible.as_ref()?;
        let mut cells = self.head(nth);
        cells.extend(columns::MEASURES.iter().map(|_| Value::Unknown));
        cells.push(columns::words(why));
        Some(Row::of_cells(cells))
    }

    /// The row of a line that [`Row::line`] made, if it is of this sweep and whole.
    ///
    /// # Errors
    /// [`Error::Cannot`] says what is wrong with it.
    pub fn row_of_line(&self, line: &str) -> Result<Row, Error> {
        let row = Row::parse(line, &self.columns).map_err(|wrong| anyhow!("a row: {wrong}"))?;
        if self.has(&row) { Ok(row) } else { Err(anyhow!("a row of another sweep").into()) }
    }

    /// True for a row of this sweep.
    #[must_use]
    pub fn has(&self, row: &Row) -> bool {
        row.point() < self.points.len() && row.cells().starts_with(&self.head(row.point()))
    }

    fn head(&self, nth: usize) -> Vec<Value> {
        let point = &self.points[nth];
        let input = &self.inputs[point.input];
        let mut cells = vec![
            Value::Whole(nth as u64),
            Value::Whole(self.points.len() as u64),
            Value::Words(self.digest.clone()),
            Value::Words(point.id.clone()),
            columns::words(&point.name),
            columns::words(&input.name),
            Value::Words(input.digest.clone()),
            columns::words(&self.machine),
        ];
        let axes = &self.columns[columns::HEAD.len()..];
        let values = point.changes.iter().zip(axes);
        cells.extend(values.map(|((_, value), column)| {
            Value::parse(value, column.kind).unwrap_or(Value::Unknown)
        }));
        cells
    }
}

fn version() -> String {
    format!("slabyard {}, table 1", env!("CARGO_PKG_VERSION"))
}

/// How a sweep reads a trace.
pub(super) fn trace_file(file: &Path) -> TraceFile {
    TraceFile { file: file.to_owned(), ..TraceFile::default() }
}

fn load_file(file: &Path, listener: &dyn Listener) -> Result<Loaded, Error> {
    load::load(&trace_file(file), &Wanted::default(), listener).map_err(|error| match error {
        Error::Usage(text) => Error::Usage(format!("{}: {text}", file.display())),
        Error::Cannot(error) => Error::Cannot(error.context(format!("{}", file.display()))),
    })
}

/// Of a trace and the snapshot with which it begins.
fn digest(file: &Path, start: &Path) -> Result<String, Error> {
    let mut hash = XxHash3_128::new();
    for path in [Some(file), Some(start).filter(|start| *start != file)].into_iter().flatten() {
        let mut from = fs::File::open(path).with_context(|| format!("{}", path.display()))?;
        let mut bytes = vec![0; 1 << 16];
        loop {
            let read = std::io::Read::read(&mut from, &mut bytes);
            let read = read.with_context(|| format!("{}", path.display()))?;
            if read == 0 {
                break;
            }
            hash.write(&bytes[..read]);
        }
    }
    Ok(format!("{:032x}", hash.finish_128()))
}
