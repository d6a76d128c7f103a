//! Parses `--set KEY=VALUE`: a key is the last part of an option's environment variable, in lower
//! case (`decay_ms` is `SLABYARD_DECAY_MS`).
//!
//! Neighbour: the library also uses the table and parser of `slabyard_kernels::settings`, so that
//! both accept the same values.

use slabyard_abi::engines::EngineName;
use slabyard_kernels::settings::{
    self, ENGINE_OPTIONS, EngineKey, Key, Needs, OPTIONS, Opt, REPLAYED, ValueError, ValueKind,
    engine_row, row,
};
use slabyard_kernels::words::is_same;
use std::fmt::Write;
use thiserror::Error;

/// One option with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Variable that the library reads.
    pub env: &'static str,
    /// What to write there.
    pub value: String,
    /// True if only the library with all engines takes it.
    pub of_engines: bool,
}

/// Why a setting was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingError {
    /// No equals sign.
    #[error("expected KEY=VALUE")]
    NoValue,
    /// No such option.
    #[error("unknown key `{key}`; keys: {}", known_keys())]
    UnknownKey { key: String },
    /// The value is of another kind.
    #[error("{0}")]
    Malformed(KeyValues),
    /// The value is too small or too large.
    #[error("out of range: {0}")]
    OutOfRange(KeyValues),
}

impl Setting {
    fn option(&self) -> Option<&'static Opt> {
        options().find(|option| option.env == self.env)
    }

    /// `KEY=VALUE`, for messages and reports.
    pub fn typed(&self) -> String {
        format!("{}={}", self.option().map_or(self.env, Opt::name), self.value)
    }
}

/// A key with what it takes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{key}` takes {takes}, default {default}")]
pub struct KeyValues {
    key: &'static str,
    takes: String,
    default: String,
}

/// Reads and checks `KEY=VALUE`.
///
/// # Errors
/// [`SettingError`] says what would be taken.
pub fn parse(text: &str) -> Result<Setting, SettingError> {
    let (key, value) = text.split_once('=').ok_or(SettingError::NoValue)?;
    let unknown = || SettingError::UnknownKey { key: key.into() };
    let is_key = |option: &&Opt| is_same(option.name().as_bytes(), key.as_bytes());
    let option = options().find(is_key).ok_or_else(unknown)?;
    let takes =
        || KeyValues { key: option.name(), takes: takes(option.kind), default: default(option) };
    match settings::parse(option, value.as_bytes()) {
        Ok(_) => {
            let of_engines = ENGINE_OPTIONS.iter().any(|it| it.env == option.env);
            Ok(Setting { env: option.env, value: value.into(), of_engines })
        }
        Err(ValueError::Malformed) => Err(SettingError::Malformed(takes())),
        Err(ValueError::OutOfRange) => Err(SettingError::OutOfRange(takes())),
    }
}

/// Refuses a setting that the engine or front that serves would not look at. `given` tells what was
/// set otherwise: by another option, or in the environment.
///
/// # Errors
/// In words: the setting, and what it needs.
pub fn check(
    engine: EngineName,
    settings: &[Setting],
    given: impl Fn(&str) -> Option<String>,
) -> Result<(), String> {
    let value = |key: EngineKey| {
        let env = engine_row(key).env;
        let set = settings.iter().rev().find(|setting| setting.env == env);
        set.map(|setting| setting.value.clone()).or_else(|| given(env))
    };
    let is_slub = engine == EngineName::Slub;
    let has_cpu_slabs = value(EngineKey::Front).is_some_and(|front| front != "sheaves");
    for setting in settings {
        let (holds, what) = match setting.option().map_or(Needs::Nothing, Opt::needs) {
            Needs::Nothing => continue,
            Needs::Slab => (engine == EngineName::Slab, "--engine slab"),
            Needs::Slub => (is_slub, "--engine slub"),
            Needs::CpuSlabs => (
                is_slub && has_cpu_slabs,
                "--engine slub with the setting front=cpu-slabs or front=mixed",
            ),
            Needs::Nodes => (
                engine == EngineName::Slab || (is_slub && !has_cpu_slabs),
                "--engine slab, or slub with sheaves",
            ),
            Needs::PageLists => (
                value(EngineKey::PageLists).is_some_and(|lists| lists != "slabyard"),
                "a setting of page_lists other than slabyard",
            ),
            Needs::Pressure => (value(EngineKey::Pressure).is_some(), "--pressure"),
        };
        if !holds {
            let (typed, name) = (setting.typed(), engine.row().name);
            return Err(format!(
                "{typed} would do nothing on the engine {name} as it is set: it needs {what}"
            ));
        }
    }
    Ok(())
}

/// The options that people may set.
pub fn options() -> impl Iterator<Item = &'static Opt> {
    // These are between this command and the library, which `--engine` chooses as well.
    let ours = [row(Key::Report).env, row(Key::Engine).env];
    let all = OPTIONS.iter().chain(ENGINE_OPTIONS);
    all.filter(move |option| !ours.contains(&option.env))
}

/// Adds a line for each key of `replay --set` and `geometry --set` to a help.
pub fn add_replay_keys(text: &mut String) {
    for row in REPLAYED {
        let _ = writeln!(text, "  {}: {}\n      {}", row.name, row.values, row.help);
    }
}

/// What an option takes, in words.
pub fn takes(kind: ValueKind) -> String {
    match kind {
        ValueKind::Number(low, high) => format!("a number from {low} to {high}"),
        ValueKind::Bytes(low, high) => format!("bytes from {} to {}", short(low), short(high)),
        ValueKind::Switch => "0 or 1".into(),
        ValueKind::Word(words) | ValueKind::Release(words, _) => {
            format!("one of {}", words.join(", "))
        }
        ValueKind::Text => "any text".into(),
    }
}

fn default(option: &Opt) -> String {
    match option.kind {
        ValueKind::Word(words) | ValueKind::Release(words, _) => {
            words[option.default as usize].into()
        }
        ValueKind::Bytes(..) => short(option.default),
        _ if option.default == settings::OF_ENGINE => "the engine's own".into(),
        _ => option.default.to_string(),
    }
}

fn known_keys() -> String {
    options().map(Opt::name).collect::<Vec<_>>().join(", ")
}

/// Bytes as the parser takes them, with the largest suffix that fits exactly.
fn short(bytes: u64) -> String {
    let suffix = [(30, "G"), (20, "M"), (10, "K")];
    let fits = suffix.iter().find(|(shift, _)| bytes != 0 && bytes.trailing_zeros() >= *shift);
    fits.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_becomes_its_variable() {
        for (text, env, value, of_engines) in [
            ("decay_ms=100", "SLABYARD_DECAY_MS", "100", false),
            ("reserve=64M", "SLABYARD_RESERVE", "64M", false),
            ("release=6.1", "SLABYARD_RELEASE", "6.1", true),
            // As `replay --set` has it.
            ("front=cpu_slabs", "SLABYARD_FRONT", "cpu_slabs", true),
            ("page-lists=hot_cold", "SLABYARD_PAGE_LISTS", "hot_cold", true),
            ("release=linux-6.12", "SLABYARD_RELEASE", "linux-6.12", true),
        ] {
            assert_eq!(parse(text), Ok(Setting { env, value: value.into(), of_engines }));
        }
    }

    #[test]
    fn a_setting_of_an_engine_that_does_not_serve_is_refused() {
        let refused = |engine, texts: &[&str], given: Option<&str>| {
            let settings: Vec<Setting> = texts.iter().map(|text| parse(text).unwrap()).collect();
            check(engine, &settings, |env| {
                let (name, value) = given?.split_once('=')?;
                (env == name).then(|| value.to_owned())
            })
            .err()
        };
        let (slub, slab, tiny) = (EngineName::Slub, EngineName::Slab, EngineName::Tiny);
        for (engine, texts, says) in [
            (slub, &["reclaim=2.4"][..], "--engine slab"),
            (tiny, &["arrays=0"], "--engine slab"),
            (slub, &["alien_cache=0"], "--engine slab"),
            (slub, &["release=6.1"], "front=cpu-slabs"),
            (slub, &["front=sheaves", "freezing=eager"], "front=cpu-slabs"),
            (slab, &["front=cpu-slabs", "release=6.1"], "--engine slub"),
            (slub, &["front=cpu-slabs", "nodes=2"], "slub with sheaves"),
            (slub, &["zone=64M"], "page_lists"),
            (slub, &["pressure_drain=empties"], "--pressure"),
        ] {
            let text = refused(engine, texts, None).unwrap_or_else(|| panic!("{texts:?}"));
            assert!(text.contains(says), "{text}");
        }
        for (engine, texts, given) in [
            (slab, &["reclaim=2.4", "arrays=0", "nodes=2"][..], None),
            (slub, &["release=6.1", "front=cpu-slabs"], None),
            (slub, &["release=6.1"], Some("SLABYARD_FRONT=mixed")),
            (slub, &["count=1", "decay_ms=1", "nodes=2", "remote_node_defrag_ratio=1"], None),
            (tiny, &["zone=64M", "page_lists=today"], None),
            (slub, &["pressure_drain=empties"], Some("SLABYARD_PRESSURE=psi")),
        ] {
            assert_eq!(refused(engine, texts, given), None, "{texts:?}");
        }
    }

    #[test]
    fn an_unknown_key_lists_the_keys() {
        let text = parse("decay=1").unwrap_err().to_string();
        assert!(text.starts_with("unknown key `decay`; keys: "), "{text}");
        for option in options() {
            assert!(text.contains(option.name()), "{text}");
        }
        for ours in ["report=x", "engine=slub"] {
            assert!(parse(ours).is_err(), "{ours} is not for people to set");
        }
    }

    #[test]
    fn a_bad_value_says_what_would_be_taken() {
        let text = |setting| parse(setting).unwrap_err().to_string();
        assert_eq!(
            text("decay_ms=soon"),
            "`decay_ms` takes a number from 0 to 3600000, default 250"
        );
        assert!(text("decay_ms=3600001").starts_with("out of range: "));
        assert!(text("reserve=1M").contains("bytes from 16M to 16384G"), "{}", text("reserve=1M"));
        assert!(text("mode=x").contains("one of auto, "), "{}", text("mode=x"));
        assert!(text("verify_at_exit=2").contains("0 or 1"));
        let ratio = text("remote_node_defrag_ratio=101");
        assert!(ratio.ends_with("from 0 to 100, default the engine's own"), "{ratio}");
        assert_eq!(text("decay_ms"), "expected KEY=VALUE");
    }

    #[test]
    fn bytes_are_said_as_the_parser_takes_them() {
        for (bytes, text) in [(0, "0"), (1000, "1000"), (1 << 10, "1K"), (3 << 30, "3G")] {
            assert_eq!(short(bytes), text);
        }
    }
}
