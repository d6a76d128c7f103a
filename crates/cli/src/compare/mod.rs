//! `slabyard compare`: runs one program on several engines, fronts and libraries, or replays one
//! trace under several kernels' rules, in turn.
//!
//! [`programs`] and [`traces`] measure; [`one`] makes a single run; [`figures`] defines the
//! measures; [`table`] and [`mod@json`] print the result, [`page`] draws it. [`contender`] defines what is compared.
//! Invariants: only the result goes to standard output; a failed run ends the comparison; nothing
//! that was started outlives it.

mod child;
mod contender;
mod figures;
mod json;
mod one;
mod page;
mod programs;
mod table;
mod traces;
mod tree;
mod yard;

use crate::bars::Bars;
use crate::failure::Failure;
use crate::html::HtmlArgs;
use crate::replay::trace_args::TraceArgs;
use crate::stderr::say;
use crate::{look, stdout, typed};
use clap::ValueHint;
use contender::Counts;
use figures::{LoadComparison, MEASURES};
use one::{Load, Output};
use programs::Rounds;
use serde_json::{Value, json};
use slabyard_ask::files;
use slabyard_observe::view::cell::clean;
use std::ffi::OsString;
use std::fmt::Write;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  slabyard compare -- python3 script.py
  slabyard compare --with slub --with slub,front=cpu-slabs,release=6.1 --with system -- make
  slabyard compare --with all --with ./libjemalloc.so.2 --rounds 10 -- gcc -c file.c
  slabyard compare --ready 'redis-cli -p 7000 ping' \\
    --client 'redis-benchmark -p 7000 -q -n 200000 -t set,get' -- redis-server --port 7000
  slabyard compare load.slabtrace --with 6.1 --with 6.18 --with 7.0
  slabyard compare load.slabtrace --with 6.1 --with 6.18 --time    the replay's own time as well
  slabyard compare load.slabtrace --html releases.html
  slabyard compare load.slabtrace --json | jq '.contenders[] | {name, slabs}'";

/// `slabyard compare`.
#[derive(clap::Args)]
#[command(
    override_usage = "slabyard compare [OPTIONS] -- PROGRAM [ARG]...\n       \
                      slabyard compare [OPTIONS] TRACE",
    after_help = EXAMPLES,
    after_long_help = long_help(),
    group = clap::ArgGroup::new("load").required(true)
)]
pub struct CompareArgs {
    /// A trace of a kernel's allocations, as `slabyard replay` takes it
    #[arg(value_name = "TRACE", group = "load", value_hint = ValueHint::FilePath)]
    trace: Option<PathBuf>,
    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM [ARG]",
        last = true,
        group = "load",
        conflicts_with_all = ["start", "dump", "partial"],
        value_hint = ValueHint::CommandWithArguments
    )]
    program: Vec<OsString>,
    /// Who takes part; may be repeated, the others are held against the first. For a program
    /// ENGINE[,KEY=VALUE]..., `system`, or the path of a library; for a trace
    /// RELEASE[,KEY=VALUE]... or `tiny`; `all` is what no other --with names [default: all]
    #[arg(long = "with", value_name = "SPEC")]
    contenders: Vec<String>,
    /// Timed rounds; of a trace only with --time
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Untimed rounds before; in the last one slow paths are counted
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "trace")]
    warmup: u32,
    /// Count no slow paths, and leave out the untimed round that is for them alone
    #[arg(long, conflicts_with = "trace")]
    no_counts: bool,
    /// The program is a server: time this command, by `sh -c`, and end the program by SIGTERM
    #[arg(long, value_name = "CMD", conflicts_with = "trace")]
    client: Option<String>,
    /// The server is ready when this command succeeds; it is tried again and again
    #[arg(long, value_name = "CMD", requires = "client")]
    ready: Option<String>,
    /// Seconds to wait for --ready, and for a server's end after SIGTERM
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "10",
        value_parser = seconds,
        requires = "client"
    )]
    timeout: Duration,
    /// Run this command before each run, untimed, by `sh -c`
    #[arg(long, value_name = "CMD", conflicts_with = "trace")]
    setup: Option<String>,
    /// Run this command after each run, whatever it came to
    #[arg(long, value_name = "CMD", conflicts_with = "trace")]
    cleanup: Option<String>,
    /// The program's standard input [default: nothing]
    #[arg(long, value_name = "F", value_hint = ValueHint::FilePath, conflicts_with = "trace")]
    input: Option<PathBuf>,
    /// Show what the program prints
    #[arg(long, conflicts_with = "trace")]
    show_output: bool,
    /// Write what the program prints to files in this directory, two for each run
    #[arg(
        long,
        value_name = "DIR",
        value_hint = ValueHint::DirPath,
        conflicts_with_all = ["trace", "show_output"]
    )]
    output: Option<PathBuf>,
    /// Milliseconds between two looks at the resident memory
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=60_000),
        conflicts_with = "trace"
    )]
    interval: u64,
    /// The snapshot taken just before the trace [default: beside the trace, as for replay]
    #[arg(long, value_name = "SNAPSHOT", value_hint = ValueHint::FilePath)]
    start: Option<PathBuf>,
    /// The dump in the snapshot's file
    #[arg(long, value_name = "NAME")]
    dump: Option<String>,
    /// Take what is left of a trace that was cut off or damaged
    #[arg(long)]
    partial: bool,
    /// Of a trace: time the replay itself, which says nothing of a kernel's time
    #[arg(long, requires = "trace")]
    time: bool,
    /// For programs: every measure, with the sample of each round
    #[arg(long)]
    json: bool,
    /// A block for each measure, with bars; on a terminal this is the default
    #[arg(long, conflicts_with = "json")]
    picture: bool,
    /// A line for each contender; where no terminal is, this is the default
    #[arg(long, conflicts_with_all = ["json", "picture"])]
    table: bool,
    #[command(flatten)]
    html: HtmlArgs,
}

/// Runs the program or the trace by each contender in turns, and prints the table.
pub fn run(args: &CompareArgs) -> Result<ExitCode, Failure> {
    args.html.look_before([&args.trace, &args.start, &args.input].into_iter().flatten())?;
    let before = machine();
    let (heading, load, sets, compared, doubtful) = match &args.trace {
        Some(file) => {
            if !files::is_stdin(file) && !file.exists() {
                let name = file.display();
                let text = format!("{name}: no such trace; a program stands behind `--`");
                return Err(anyhow::anyhow!(text).into());
            }
            let rounds = args.time.then_some(args.rounds);
            let traced = traces::compare(&args.trace_args(file), &args.contenders, rounds)?;
            let heading = traces::heading(&traced.load)?;
            (heading, traced.load, traced.sets, traced.compared, traced.doubtful)
        }
        None => {
            let contenders = contender::contenders(&args.contenders)?;
            let (load, rounds) = (args.load(), args.rounds());
            let compared = programs::compare(&load, &contenders, rounds)?;
            let sets = contenders.iter().map(contender::Contender::set).collect();
            (args.heading(), args.shown(), sets, compared, false)
        }
    };
    let after = machine();
    let machine = json!({ "at_start": before, "at_end": after });
    let json = json::text(load, machine, &sets, &compared)?;
    args.html.write(|| Ok(page::of(&args.name(), &heading, &args.legend(), &compared, &json)))?;
    let text = if args.json { json } else { args.text(&heading, &before, &after, &compared) };
    // What is doubtful stands in the result, which may be in a file that nobody looks at now.
    let is_seen = !args.json && std::io::stdout().is_terminal();
    for finding in compared.findings.iter().filter(|_| !is_seen) {
        say(finding);
    }
    stdout::print(text.as_bytes())?;
    Ok(ExitCode::from(u8::from(doubtful || !compared.findings.is_empty())))
}

impl CompareArgs {
    fn trace_args(&self, file: &Path) -> TraceArgs {
        TraceArgs {
            file: file.to_owned(),
            start: self.start.clone(),
            dump: self.dump.clone(),
            no_lists: false,
            partial: self.partial,
        }
    }

    fn rounds(&self) -> Rounds {
        let counts = if self.no_counts { Counts::Off } else { Counts::Kept };
        Rounds { timed: self.rounds, warmup: self.warmup, counts }
    }

    fn load(&self) -> Load {
        let output = match (&self.output, self.show_output) {
            (Some(directory), _) => Output::Files(directory.clone()),
            (None, true) => Output::Shown,
            (None, false) => Output::Nowhere,
        };
        Load {
            program: self.program.clone(),
            client: self.client.clone(),
            ready: self.ready.clone(),
            setup: self.setup.clone(),
            cleanup: self.cleanup.clone(),
            input: self.input.clone(),
            output,
            interval: Duration::from_millis(self.interval),
            timeout: self.timeout,
        }
    }

    /// The load in a word or two: the trace's file or the program.
    fn name(&self) -> String {
        match &self.trace {
            Some(file) => clean(&self.trace_args(file).name()),
            None => typed::command(&self.program),
        }
    }

    fn heading(&self) -> String {
        let client = self.client.as_ref().map(|client| format!("\nclient: {}", clean(client)));
        typed::command(&self.program) + &client.unwrap_or_default()
    }

    /// What was run, in JSON.
    fn shown(&self) -> Value {
        let program: Vec<_> = self.program.iter().map(|word| word.to_string_lossy()).collect();
        json!({
            "kind": "program",
            "program": program,
            "client": self.client,
            "ready": self.ready,
            "setup": self.setup,
            "cleanup": self.cleanup,
            "rounds": self.rounds,
            "untimed_rounds": self.rounds().untimed(),
            "interval_ms": self.interval,
        })
    }

    fn text(
        &self,
        heading: &str,
        before: &Value,
        after: &Value,
        compared: &LoadComparison,
    ) -> String {
        let out = std::io::stdout();
        let style = look::style(&out);
        let mut text = format!("{heading}\n");
        let load = |of: &Value| of["load"].as_f64().map_or("-".into(), |load| format!("{load:.2}"));
        if self.trace.is_none() || self.time {
            let _ = writeln!(
                text,
                "{} CPUs, Linux {}, load average {} before and {} after; contenders in turns, rounds: {}",
                before["cpus"],
                before["kernel"].as_str().unwrap_or("-"),
                load(before),
                load(after),
                self.rounds,
            );
        }
        // Before anybody compares what does not compare.
        for told in &compared.notes {
            let _ = writeln!(text, "! {told}");
        }
        text.push('\n');
        if self.picture || (out.is_terminal() && !self.table) {
            table::picture(&mut text, compared, style, Bars::of_terminal());
        } else {
            table::write(&mut text, compared, style);
        }
        let _ = writeln!(text, "\n{}", self.legend());
        for told in &compared.findings {
            let _ = writeln!(text, "! {told}");
        }
        text
    }

    fn legend(&self) -> String {
        let first = "medians; spread: of the middle half; ratio: median over rounds of a \
                     contender to the first";
        match &self.trace {
            Some(_) => format!(
                "{first}; unlike machines have none\n\
                 peak, mean, waste (peak less the most that was live): bytes of slabs, by the model; error: \
                 how far off peaks above the start were on such machines{}",
                if self.time { "; time: of the replay, not of a kernel" } else { "" }
            ),
            None => format!(
                "{first}\nmemory: resident; mean of the process tree, by statm each {} ms\n\
                 waste (most held less most live) to failed: of a run more that counts and is not timed; `-` is unknown",
                self.interval
            ),
        }
    }
}

/// What else the figures depend on.
fn machine() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let load: Option<f64> =
        read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok());
    json!({
        "cpus": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "load": load,
    })
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|s| (0.0..=86_400.0).contains(s));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "expected seconds, such as 2.5".into())
}

const WORDS: &str = "\
Contenders take turns, another one first in each round. Time is measured without counting;
slow paths, list locks, exchanges and waste are of the last untimed round, in which engines
count them (SLABYARD_COUNT=1). `system` has nothing of ours preloaded: its malloc is the C
library's, or the one that the program was linked with. A library is named by a path with a
slash in it, and may be another allocator's or another build of ours: what it does not report
is unknown.

The program's standard input is empty, and its output goes nowhere; of a program that fails
the last lines on standard error are told, and the comparison ends. What it leaves running in
its process group is ended. With --client it is a server: its processor time and peak are of
its whole life, its mean memory of the time of the client.
Waste and counts are of the process that is started, as the last program that it was: what it
starts as children is not among them (time, processor time and resident memory are of all).";

fn long_help() -> String {
    let mut text = format!("{EXAMPLES}\n\n{WORDS}\n\nMeasures, by their keys in JSON:\n");
    for measure in MEASURES {
        let of = match (measure.of_programs, measure.of_traces) {
            (true, false) => "programs: ",
            (false, true) => "traces: ",
            _ => "",
        };
        let _ = writeln!(text, "  {}: {of}{}", measure.key, measure.help);
    }
    text.push_str(
        "\nWith --json: {\"load\", \"machine\", \"contenders\", \"findings\", \"notes\"}; a contender has \
         name, set, counters and each measure as {\"median\", \"spread\", \"ratio\", \"samples\"}; null \
         is unknown.\n\n\
         Exit codes: 0 done; 1 done, but the library of a contender did not serve the program, a \
         server did not end by SIGTERM, or a trace is doubtful: a line says which; 2 usage, or no \
         such contender; 3 it cannot be done, or the program failed; 126 and 127 the program \
         cannot be started; 128 and a signal's number: stopped by it.",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_measure() {
        let help = long_help();
        for measure in MEASURES {
            assert!(help.contains(&format!("\n  {}: ", measure.key)), "{}", measure.key);
        }
    }

    #[test]
    fn seconds_are_read() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["", "-1", "x", "1e99", "NaN"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
