//! The fronts of `libslabyard_engines.so`: allocators that are this one library with different
//! settings.
//!
//! A front's name is words joined with `+`. The first word is `sheaves`, another engine (`slab`),
//! or the kernel release (`6.1`) whose CPU slabs the front has; further words name differences from
//! that release. The words are those of `slabyard_kernels`, so this module needs no list of its
//! own.
//!
//! Neighbours: `load`, `compare`, `programs`, `series` and `lists` accept fronts beside peers;
//! `find` checks that the library runs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use slabyard_abi::engines::ENGINES;
use slabyard_kernels::settings::{EngineKey, Key, engine_row, row};

use crate::allocators::{Allocator, Bench, KERNEL_LOADS, Setting};
use crate::find::beside_this_program;

const LIBRARY: &str = "libslabyard_engines.so";
/// The front that is no release's.
pub const SHEAVES: &str = "sheaves";
/// Sheaves over CPU slabs.
const MIXED: &str = "mixed";
/// No CPU partial lists.
const NO_LISTS: &str = "no-lists";
/// A word of some options: as the release has it. It says nothing here.
const AS_RELEASE: &str = "release";

/// Which build the fronts are of.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Engines {
    /// The library of all engines, whose fronts are measured
    /// [default: libslabyard_engines.so beside this program]
    #[arg(long, global = true, value_name = "PATH", env = "SLABYARD_BENCH_ENGINES")]
    pub engines: Option<PathBuf>,
}

/// True if a word is meant to be a front: it begins as one does.
pub fn is_meant(word: &str) -> bool {
    let first = word.split('+').next().unwrap_or_default();
    first == SHEAVES || is_engine(first) || words(EngineKey::Release).contains(&first)
}

/// The variables of a front, or why there is no such one.
pub fn settings(front: &str) -> Result<Vec<Setting>, String> {
    let set = |key, value: &str| (engine_row(key).env, value.to_owned());
    let mut parts = front.split('+');
    let first = parts.next().unwrap_or_default();
    if first == SHEAVES {
        return match parts.next() {
            None => Ok(vec![set(EngineKey::Front, SHEAVES)]),
            Some(more) => Err(format!("{front}: {more} is of CPU slabs, not of sheaves")),
        };
    }
    if is_engine(front) {
        return Ok(vec![(row(Key::Engine).env, front.to_owned())]);
    }
    if !words(EngineKey::Release).contains(&first) {
        return Err(format!("{front}: {first} is no front; {}", all_words()));
    }
    let mut settings = vec![set(EngineKey::Release, first)];
    for part in parts {
        let chosen = [EngineKey::Freezing, EngineKey::Accounting]
            .into_iter()
            .find(|&key| part != AS_RELEASE && words(key).contains(&part));
        let setting = match (chosen, part) {
            (Some(key), value) => set(key, value),
            (None, MIXED) => set(EngineKey::Front, MIXED),
            (None, NO_LISTS) => set(EngineKey::CpuPartialLists, "0"),
            (None, _) => return Err(format!("{front}: {part} is no rule; {}", all_words())),
        };
        if settings.iter().any(|(name, _)| *name == setting.0) {
            return Err(format!("{front}: {} is set twice", setting.0));
        }
        settings.push(setting);
    }
    let front = engine_row(EngineKey::Front).env;
    if !settings.iter().any(|(name, _)| *name == front) {
        settings.push(set(EngineKey::Front, "cpu-slabs"));
    }
    Ok(settings)
}

/// A word of the command line that must be a front.
pub fn front(word: &str) -> Result<String, String> {
    settings(word).map(|_| word.to_owned())
}

/// What a front may be made of.
fn all_words() -> String {
    let of =
        |key| words(key).iter().copied().filter(|word| *word != AS_RELEASE).collect::<Vec<_>>();
    let rules =
        [of(EngineKey::Freezing), of(EngineKey::Accounting), vec![MIXED, NO_LISTS]].concat();
    format!(
        "{SHEAVES}, {}, or one of {}, and behind it + {}",
        engines().collect::<Vec<_>>().join(", "),
        of(EngineKey::Release).join(" "),
        rules.join(" ")
    )
}

/// Engines beside the first one, whose fronts are the others.
fn engines() -> impl Iterator<Item = &'static str> {
    ENGINES[1..].iter().map(|engine| engine.name)
}

fn is_engine(word: &str) -> bool {
    engines().any(|engine| engine == word)
}

fn words(key: EngineKey) -> &'static [&'static str] {
    engine_row(key).kind.words().unwrap_or_default()
}

/// The fronts of these names, in their order.
pub fn allocators(bench: &Bench, engines: &Engines, names: &[String]) -> Result<Vec<Allocator>> {
    names.iter().map(|name| allocator(bench, engines, name)).collect()
}

/// The front of this name, which a program was seen to run on.
pub fn allocator(bench: &Bench, engines: &Engines, name: &str) -> Result<Allocator> {
    let settings = match settings(name) {
        Ok(settings) => settings,
        Err(why) => bail!("{why}"),
    };
    let library = match &engines.engines {
        Some(path) => path.clone(),
        None => beside_this_program(LIBRARY)?,
    };
    let library = std::fs::canonicalize(&library).with_context(|| {
        format!(
            "{}: build it with `cargo build --release -p slabyard-engines`, or name it with \
             --engines",
            library.display()
        )
    })?;
    // As long as the process: an allocator's name is mostly a constant.
    let built = bench.checked(name.to_owned().leak(), Some(library))?;
    let front = Allocator { settings, ..built };
    check(&front, &bench.program(KERNEL_LOADS))?;
    Ok(front)
}

/// Fails unless the library accepts the settings of a front: those that it does not accept it names
/// on standard error, and uses its defaults.
fn check(allocator: &Allocator, program: &Path) -> Result<()> {
    let out = allocator.command(program).arg("--list").output().context("the program of loads")?;
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success() && said.is_empty(), "{}: {}", allocator.name, said.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(front: &str) -> String {
        let settings = settings(front).unwrap();
        let words = settings.iter().map(|(name, value)| format!("{name}={value}"));
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_of_a_front_are_settings() {
        assert_eq!(named("sheaves"), "SLABYARD_FRONT=sheaves");
        for engine in ["tiny", "slab", "slob"] {
            assert_eq!(named(engine), format!("SLABYARD_ENGINE={engine}"));
        }
        assert_eq!(named("6.1"), "SLABYARD_RELEASE=6.1 SLABYARD_FRONT=cpu-slabs");
        assert_eq!(named("6.18+mixed"), "SLABYARD_RELEASE=6.18 SLABYARD_FRONT=mixed");
        let all = named("5.9+patch-3+exact+no-lists");
        let rules = "SLABYARD_FREEZING=patch-3 SLABYARD_ACCOUNTING=exact \
                     SLABYARD_CPU_PARTIAL_LISTS=0";
        assert_eq!(all, format!("SLABYARD_RELEASE=5.9 {rules} SLABYARD_FRONT=cpu-slabs"));
    }

    #[test]
    fn what_is_no_front_is_refused_with_the_words_that_there_are() {
        for (front, says) in [
            ("6.2", "6.2 is no front; sheaves, tiny, slab, slob, or one of 5.9 5.16 6.1"),
            ("6.1+lazy", "lazy is no rule; "),
            ("6.1+release", "release is no rule"),
            ("6.1+eager+delayed", "SLABYARD_FREEZING is set twice"),
            ("6.1+", " is no rule"),
            ("slub", "slub is no front; "),
            ("slab+exact", "slab is no front; "),
            ("sheaves+exact", "exact is of CPU slabs"),
        ] {
            let error = settings(front).unwrap_err();
            assert!(error.contains(says), "{front}: {error}");
            assert_eq!(super::front(front).unwrap_err(), error);
        }
    }

    #[test]
    fn a_word_is_meant_as_a_front_by_its_begin() {
        assert!(is_meant("sheaves") && is_meant("6.18+nothing") && is_meant("sheaves+exact"));
        assert!(!is_meant("mimalloc") && !is_meant("./6.1/lib.so") && !is_meant("6"));
    }

    /// mimalloc stands in for the library: no crate here may build another one.
    #[test]
    fn fronts_are_one_library_with_settings() {
        let bench = Bench::open(Some(Path::new("mimalloc"))).unwrap();
        let engines = Engines { engines: Some(bench.program("libmimalloc.so")) };
        let names = ["6.1+eager", "sheaves"].map(str::to_owned);
        let found = allocators(&bench, &engines, &names).unwrap();
        assert_eq!(found[1].name, "sheaves");
        assert_eq!(found[0].preload, found[1].preload);
        assert!(found[0].environment().any(|of| of == ("SLABYARD_FREEZING", "eager")));
        let nowhere = Engines { engines: Some("/nowhere.so".into()) };
        let error = format!("{:#}", allocators(&bench, &nowhere, &names).err().unwrap());
        assert!(error.contains("/nowhere.so") && error.contains("--engines"), "{error}");
        let wrong = allocators(&bench, &engines, &["7.0".to_owned()]).err().unwrap();
        assert!(wrong.to_string().contains("7.0 is no front"), "{wrong}");
        assert!(allocators(&bench, &nowhere, &[]).unwrap().is_empty());
    }

    #[test]
    fn a_library_that_complains_of_its_settings_is_refused() {
        let bench = Bench::open(Some(Path::new("mimalloc"))).unwrap();
        let glibc = bench.allocators.last().unwrap();
        check(glibc, &bench.program("kernel")).unwrap();
        // The loader warns of what it cannot preload, as the library does of a setting.
        let complaining = Allocator { preload: Some("/nowhere.so".into()), ..glibc.clone() };
        let error = check(&complaining, &bench.program("kernel")).unwrap_err().to_string();
        assert!(error.contains("/nowhere.so"), "{error}");
    }
}
