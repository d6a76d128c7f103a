//! `slabyard run`: runs a program on the allocator, as if it had been started directly, and prints
//! a report after its end.
//!
//! This command does not trace the program: a traced set-user-id program does not get its
//! privileges, no debugger can attach, each signal goes through the tracer, and containers forbid
//! tracing. Nor does it intercept exec: it would report a shell's numbers as those of the program
//! that replaces the shell.
//!
//! Key types: [`report::Report`], [`signals::Signals`], [`Ending`]. Invariants: the program's input
//! and output are passed through unchanged; its exit code or signal becomes ours; we leave nothing
//! behind.

pub mod args;
mod carried;
mod child;
pub mod last_look;
pub mod library;
mod report;
mod signals;
mod watching;

pub use child::Ending;

use crate::failure::Failure;
use crate::profile::attend::Attended;
use crate::settings;
use anyhow::bail;
use args::{ReportForm, RunArgs};
use report::Report;
use slabyard_abi::engines::EngineName;
use slabyard_abi::report::REPORT_ENV;
use slabyard_ask::files::DASH;
use slabyard_kernels::settings::{EngineKey, Key, engine_row, row};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

/// What the loader preloads.
pub const PRELOAD_ENV: &str = "LD_PRELOAD";

/// Runs the program to its end and reports.
pub fn run(args: &RunArgs) -> Result<Ending, Failure> {
    if args.report == ReportForm::None && args.report_file.is_some() {
        return Err(Failure::Usage("--report none leaves nothing for --report-file".into()));
    }
    if args.report_file.as_deref() == Some(Path::new(DASH)) {
        let text = "standard output is the program's; leave --report-file out for standard error, \
                    or give it the name of a file";
        return Err(Failure::Usage(text.into()));
    }
    check_settings(args)?;
    let library = library::find(needs_engines(args))?;
    let report = Report::prepare(args)?;
    let mut command = command(args, &library)?;
    match &report {
        Some(report) => {
            report.page().give_to(&mut command);
            command.env(REPORT_ENV, report.place())
        }
        None => command.env_remove(REPORT_ENV),
    };
    let mut attended = None;
    let end = child::run(&mut command, report.as_ref().map(Report::page), |pid| {
        attended = args.profile.as_ref().map(|_| Attended::begin(pid, profile_rate(args)));
    })?;
    if let (Some(attended), Some(path)) = (attended, &args.profile) {
        attended.end(path);
    }
    let ending = end.ending;
    if let Some(report) = report.filter(|_| args.report != ReportForm::None) {
        report.show(&args.program[0], end);
    }
    Ok(ending)
}

/// Refuses what the engine that serves would not look at. A library that is named may be any.
fn check_settings(args: &RunArgs) -> Result<(), Failure> {
    let engine = args.engine.unwrap_or(EngineName::Slub);
    let pressure = engine_row(EngineKey::Pressure).env;
    let given = |env: &str| match &args.pressure {
        Some(watch) if env == pressure => Some(watch.clone()),
        _ => std::env::var(env).ok(),
    };
    settings::check(engine, &args.settings, given)
        .map_err(|why| Failure::Usage(format!("--set {why}")))
}

/// True if the program needs the library that holds all engines.
fn needs_engines(args: &RunArgs) -> bool {
    args.engine.is_some()
        || args.pressure.is_some()
        || args.slab_debug.is_some()
        || args.settings.iter().any(|setting| setting.of_engines)
}

fn command(args: &RunArgs, library: &Path) -> Result<Command, Failure> {
    let mut command = Command::new(&args.program[0]);
    command.args(&args.program[1..]);
    command.env(PRELOAD_ENV, preload(library, std::env::var_os(PRELOAD_ENV).as_deref())?);
    for setting in &args.settings {
        command.env(setting.env, &setting.value);
    }
    if let Some(engine) = args.engine {
        command.env(row(Key::Engine).env, engine.row().name);
    }
    if args.observable {
        command.env(row(Key::Observable).env, "1");
    }
    if let Some(pressure) = &args.pressure {
        command.env(engine_row(EngineKey::Pressure).env, pressure);
    }
    if let Some(rules) = &args.slab_debug {
        command.env(engine_row(EngineKey::Debug).env, rules);
    }
    if args.profile.is_some() {
        command.env(row(Key::Profile).env, profile_rate(args).to_string());
    }
    if args.helper {
        command.env(row(Key::Helper).env, "1");
    }
    Ok(command)
}

/// The mean bytes between samples: what `--set profile=` says, or the usual.
fn profile_rate(args: &RunArgs) -> u64 {
    let is_it = |setting: &&settings::Setting| setting.env == row(Key::Profile).env;
    let set = args.settings.iter().rev().find(is_it);
    let set = set.and_then(|set| slabyard_kernels::settings::bytes(set.value.as_bytes()).ok());
    set.filter(|rate| *rate != 0).unwrap_or(slabyard_abi::profile::RATE)
}

/// Our library in front of those that are preloaded already; of ours it alone, because a
/// second one would make a yard that serves nobody.
pub fn preload(library: &Path, existing: Option<&OsStr>) -> anyhow::Result<OsString> {
    // The dynamic loader parts names at both, and has no way to quote them.
    let separator = |byte: &u8| matches!(byte, b' ' | b':');
    let library = library.as_os_str();
    if library.as_bytes().iter().any(separator) {
        bail!(
            "{}: a path with a space or colon cannot be preloaded; \
             move the library, or name another path of it in SLABYARD_LIB",
            library.display()
        );
    }
    let mut all = library.to_owned();
    for other in existing.unwrap_or_default().as_bytes().split(separator) {
        let other = OsStr::from_bytes(other);
        if !other.is_empty() && other != library && !library::is_ours(Path::new(other)) {
            all.push(":");
            all.push(other);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_comes_first_and_once() {
        let all = |existing: &str| preload(Path::new("/l.so"), Some(existing.as_ref())).unwrap();
        assert_eq!(preload(Path::new("/l.so"), None).unwrap(), "/l.so");
        assert_eq!(all(""), "/l.so");
        assert_eq!(all("a.so b.so"), "/l.so:a.so:b.so");
        assert_eq!(all("a.so:/l.so"), "/l.so:a.so");
        assert_eq!(all("/x/libslabyard_malloc.so:a.so:libslabyard_engines.so"), "/l.so:a.so");
    }

    #[test]
    fn a_path_that_the_loader_would_part_is_refused() {
        for path in ["/a b/l.so", "/a:b/l.so"] {
            let text = preload(Path::new(path), None).unwrap_err().to_string();
            assert!(text.starts_with(path), "{text}");
        }
    }
}
