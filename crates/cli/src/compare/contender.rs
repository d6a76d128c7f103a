//! One contender of a comparison: an engine with its settings, a library given by its path, or the
//! C library's own malloc.
//!
//! Neighbours: [`crate::settings`] parses the keys; [`crate::run`] finds and preloads the
//! libraries, as for `slabyard run`.

use crate::failure::Failure;
use crate::run::library;
use crate::run::{PRELOAD_ENV, preload};
use crate::settings::{self, Setting};
use slabyard_abi::engines::{ENGINES, EngineName};
use slabyard_abi::report::REPORT_ENV;
use slabyard_kernels::settings::{ENGINE_OPTIONS, EngineKey, Key, engine_row, row};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The contender for whom nothing is preloaded.
pub const SYSTEM: &str = "system";

/// The word that stands for every engine and the system's allocator.
const ALL: &str = "all";

/// One of those that are compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Contender {
    /// As it was typed; of a library its file's name, where that tells it apart.
    pub name: String,
    /// The allocator that serves the program.
    pub who: ServedBy,
    settings: Vec<Setting>,
}

/// An allocator that serves a program.
#[derive(Clone, Debug, PartialEq)]
pub enum ServedBy {
    /// Nothing is preloaded.
    System,
    /// An engine of ours.
    Engine(EngineName),
    /// A library of somebody else's is preloaded.
    Library(PathBuf),
}

/// The contenders that were asked for, or all that there are.
pub fn contenders(specs: &[String]) -> Result<Vec<Contender>, Failure> {
    let specs = expanded(specs, defaults())?;
    let parsed: Result<Vec<Contender>, String> = specs.iter().map(|spec| parse(spec)).collect();
    let mut parsed = parsed.map_err(Failure::Usage)?;
    let names: Vec<String> = parsed.iter().map(|contender| contender.name.clone()).collect();
    for (at, contender) in parsed.iter_mut().enumerate() {
        // Two builds of one library, perhaps.
        if names.iter().filter(|name| **name == names[at]).count() > 1 {
            contender.name.clone_from(&specs[at]);
        }
    }
    Ok(parsed)
}

/// What was asked for, `all` standing for all that is not named beside it. Without any, all.
pub fn expanded(specs: &[String], all: Vec<String>) -> Result<Vec<String>, Failure> {
    if specs.is_empty() {
        return Ok(all);
    }
    let mut expanded: Vec<String> = Vec::new();
    for (at, spec) in specs.iter().enumerate() {
        if specs[..at].contains(spec) {
            return Err(Failure::Usage(format!("--with {spec} is there twice")));
        }
        match spec.as_str() {
            ALL => expanded.extend(all.iter().filter(|one| !specs.contains(one)).cloned()),
            _ => expanded.push(spec.clone()),
        }
    }
    Ok(expanded)
}

/// The system's malloc, each engine, and the fronts of the one that has some.
fn defaults() -> Vec<String> {
    let mut all = vec![SYSTEM.to_owned()];
    let Some(fronts) = engine_row(EngineKey::Front).kind.words() else { return all };
    for engine in EngineName::ALL {
        let name = engine.row().name;
        all.push(name.into());
        if *engine == EngineName::Slub {
            // The first is the engine as it is.
            all.extend(fronts[1..].iter().map(|front| format!("{name},front={front}")));
        }
    }
    all
}

fn parse(spec: &str) -> Result<Contender, String> {
    let mut parts = spec.split(',');
    let first = parts.next().unwrap_or_default();
    let settings: Result<Vec<Setting>, String> = parts
        .map(|part| settings::parse(part).map_err(|e| format!("--with {spec}: {e}")))
        .collect();
    let settings = settings?;
    let (name, who) = if first == SYSTEM {
        if !settings.is_empty() {
            return Err(format!("--with {spec}: the system's malloc takes no settings of ours"));
        }
        (spec.into(), ServedBy::System)
    } else if first.contains('/') {
        let path = Path::new(first);
        if !path.is_file() {
            return Err(format!("--with {spec}: no such file"));
        }
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let path = std::path::absolute(path).map_err(|e| format!("--with {spec}: {e}"))?;
        (format!("{file}{}", &spec[first.len()..]), ServedBy::Library(path))
    } else {
        let engine = EngineName::ALL.iter().copied().find(|e| e.row().name == first);
        let known: Vec<&str> = ENGINES.iter().map(|row| row.name).collect();
        let unknown = || {
            format!(
                "--with {spec}: there is no contender `{first}`: {}, {SYSTEM}, or the path of a \
                 library, such as ./libjemalloc.so",
                known.join(", ")
            )
        };
        let engine = engine.ok_or_else(unknown)?;
        // The environment is left out of a comparison.
        settings::check(engine, &settings, |_| None).map_err(|e| format!("--with {spec}: {e}"))?;
        (spec.into(), ServedBy::Engine(engine))
    };
    Ok(Contender { name, who, settings })
}

impl Contender {
    /// Its library; `None` for the system's malloc.
    pub fn library(&self) -> anyhow::Result<Option<PathBuf>> {
        match &self.who {
            ServedBy::System => Ok(None),
            ServedBy::Engine(_) => library::find(true).map(Some),
            ServedBy::Library(path) => Ok(Some(path.clone())),
        }
    }

    /// True if a report is to be expected of it.
    pub fn is_ours(&self) -> bool {
        match &self.who {
            ServedBy::System => false,
            ServedBy::Engine(_) => true,
            ServedBy::Library(path) => library::is_ours(path),
        }
    }

    /// True if its library takes the option: another one of ours would complain of it.
    fn can_count(&self) -> bool {
        match &self.who {
            ServedBy::System => false,
            ServedBy::Engine(_) => true,
            ServedBy::Library(path) => library::holds_all_engines(path),
        }
    }

    /// Its settings, as they are typed.
    pub fn set(&self) -> Vec<String> {
        self.settings.iter().map(Setting::typed).collect()
    }

    /// Has the program run on it. What an engine is told comes from here alone: a variable
    /// that somebody left in the environment would make all contenders one.
    pub fn serve(&self, command: &mut Command, counts: Counts) -> anyhow::Result<()> {
        let given = std::env::var_os(PRELOAD_ENV);
        match self.library()? {
            Some(library) => {
                command.env(PRELOAD_ENV, preload(&library, given.as_deref())?);
            }
            None => match without_ours(given.as_deref()) {
                Some(others) => drop(command.env(PRELOAD_ENV, others)),
                None => drop(command.env_remove(PRELOAD_ENV)),
            },
        }
        let chosen = [row(Key::Engine).env, REPORT_ENV].into_iter();
        for variable in chosen.chain(ENGINE_OPTIONS.iter().map(|option| option.env)) {
            command.env_remove(variable);
        }
        if let ServedBy::Engine(engine) = self.who {
            command.env(row(Key::Engine).env, engine.row().name);
        }
        if counts == Counts::Kept && self.can_count() {
            command.env(engine_row(EngineKey::Count).env, "1");
        }
        for setting in &self.settings {
            command.env(setting.env, &setting.value);
        }
        Ok(())
    }
}

/// Whether slow paths are counted, which costs time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// Slow paths are counted.
    Kept,
    /// Slow paths are not counted, as in a run that is timed.
    Off,
}

/// What else is preloaded; `None` if nothing is.
fn without_ours(given: Option<&std::ffi::OsStr>) -> Option<OsString> {
    let given = given?.to_string_lossy().into_owned();
    let others: Vec<&str> = given
        .split([' ', ':'])
        .filter(|path| !path.is_empty() && !library::is_ours(Path::new(path)))
        .collect();
    (!others.is_empty()).then(|| others.join(":").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(specs: &[&str]) -> String {
        let specs: Vec<String> = specs.iter().map(|s| (*s).into()).collect();
        contenders(&specs).unwrap_err().to_string()
    }

    #[test]
    fn all_engines_and_fronts_are_there_by_themselves() {
        let names: Vec<String> = contenders(&[]).unwrap().into_iter().map(|c| c.name).collect();
        let begin = ["system", "slub", "slub,front=cpu-slabs", "slub,front=mixed", "tiny"];
        assert_eq!(names[..begin.len()], begin);
        for engine in ENGINES {
            assert!(names.iter().any(|name| name == engine.name), "{}", engine.name);
        }
    }

    #[test]
    fn all_is_what_is_not_named_beside_it() {
        let all = || ["a", "b", "c"].map(String::from).to_vec();
        let expand = |specs: &[&str]| {
            let specs: Vec<String> = specs.iter().map(|spec| (*spec).into()).collect();
            expanded(&specs, all()).unwrap().join(" ")
        };
        assert_eq!(expand(&[]), "a b c");
        assert_eq!(expand(&["c", "all", "d"]), "c a b d");
        assert_eq!(expand(&["d"]), "d");
    }

    #[test]
    fn settings_follow_the_engine() {
        let spec = "slub,front=cpu-slabs,release=6.1".to_owned();
        let [contender] = contenders(&[spec]).unwrap().try_into().unwrap();
        assert_eq!(contender.set(), ["front=cpu-slabs", "release=6.1"]);
    }

    #[test]
    fn what_is_no_contender_is_refused_with_those_that_there_are() {
        for (specs, says) in [
            (&["slup"][..], "no contender `slup`: slub, tiny"),
            (&["slub,front=sheafs"], "`front` takes one of sheaves, cpu-slabs, mixed"),
            (&["slub,fronts=1"], "unknown key `fronts`"),
            (&["slub,"], "KEY=VALUE"),
            (&[""], "no contender ``"),
            (&["system,decay_ms=1"], "takes no settings"),
            (&["slub,reclaim=2.4"], "needs --engine slab"),
            (&["./absent.so"], "no such file"),
            (&["slub", "tiny", "slub"], "--with slub is there twice"),
        ] {
            let error = refused(specs);
            assert!(error.contains(says), "{specs:?}: {error}");
        }
    }

    #[test]
    fn two_builds_of_a_library_are_told_apart_by_their_paths() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        for name in ["old", "new"] {
            std::fs::create_dir(path(name)).unwrap();
            std::fs::write(path(&format!("{name}/lib.so")), "").unwrap();
        }
        let specs = [path("old/lib.so"), path("new/lib.so")];
        let names: Vec<_> = contenders(&specs).unwrap().into_iter().map(|c| c.name).collect();
        assert_eq!(names, specs);
        assert_eq!(contenders(&specs[..1]).unwrap()[0].name, "lib.so");
    }

    #[test]
    fn the_system_keeps_what_else_is_preloaded() {
        let others = |given: &str| without_ours(Some(given.as_ref()));
        assert_eq!(others("/x/libslabyard_malloc.so"), None);
        assert_eq!(others("a.so:/x/libslabyard_engines.so b.so"), Some("a.so:b.so".into()));
    }
}
