//! The options that describe a modelled machine and its rules, for every command that models one, and
//! the parser of sizes.

use crate::failure::Failure;
use slabyard_kernels::engines::EngineName;
use slabyard_kernels::settings::bytes;
use slabyard_lab::rules::{Machine, Settings};
use slabyard_lab::snapshot::UnknownRules;

/// A kernel's allocator, whose rules hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// `mm/slub.c`
    #[default]
    Slub,
    /// `mm/slab.c`, to 6.7
    Slab,
    /// `mm/slob.c`, to 6.3
    Slob,
    /// SLUB_TINY, from 6.2 on
    Tiny,
}

impl Engine {
    /// The name, as it is typed.
    pub const fn name(self) -> &'static str {
        match self {
            Engine::Slub => "slub",
            Engine::Slab => "slab",
            Engine::Slob => "slob",
            Engine::Tiny => "tiny",
        }
    }

    /// As the table of settings knows it.
    pub const fn of_kernels(self) -> EngineName {
        match self {
            Engine::Slub => EngineName::Slub,
            Engine::Slab => EngineName::Slab,
            Engine::Slob => EngineName::Slob,
            Engine::Tiny => EngineName::Tiny,
        }
    }

    /// What it changes of SLUB's rules, as `--set` takes it.
    pub const fn setting(self) -> Option<&'static str> {
        match self {
            Engine::Tiny => Some("tiny=1"),
            Engine::Slub | Engine::Slab | Engine::Slob => None,
        }
    }
}

/// Whose rules hold, and on which machine; what is left out stays as it is.
#[derive(Default, clap::Args)]
pub struct RulesArgs {
    /// The kernel's allocator whose rules hold
    #[arg(long, value_enum, default_value = "slub")]
    pub engine: Engine,
    /// The kernel whose rules hold: a version such as 6.12 [default: the one that the trace or the
    /// snapshot is of, else the running one]
    #[arg(long, value_name = "R")]
    pub release: Option<String>,
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Change a rule; may be repeated, the last one counts
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

impl RulesArgs {
    /// The rules of a version on a machine, then what the kernel was booted with, then what was typed;
    /// and what to tell people of the version.
    pub fn settings(
        &self,
        version: &str,
        machine: Machine,
        boot: impl FnOnce(&mut Settings) -> Result<(), UnknownRules>,
    ) -> Result<(Settings, Option<String>), Failure> {
        let usage = |error: &dyn ToString| Failure::Usage(error.to_string());
        let (mut settings, note) =
            Settings::of_version(version, machine).map_err(|error| usage(&error))?;
        boot(&mut settings).map_err(|error| usage(&error))?;
        for text in self.engine.setting().into_iter().chain(self.set.iter().map(|s| &**s)) {
            settings.set(text).map_err(|error| usage(&error))?;
        }
        settings.validate_on(self.engine.of_kernels()).map_err(|error| usage(&error))?;
        Ok((settings, note))
    }
}

/// A machine's parts; what is left out stays as it is.
#[derive(Default, clap::Args)]
pub struct MachineArgs {
    /// Bytes of a page, 4k to 64k
    #[arg(long, value_name = "S", value_parser = size)]
    page_size: Option<u32>,
    /// CPUs that are there
    #[arg(long, value_name = "N")]
    pub cpus: Option<u32>,
    /// CPUs that may ever be there [default: --cpus, if that is given]
    #[arg(long, value_name = "N")]
    pub possible_cpus: Option<u32>,
}

impl MachineArgs {
    /// A machine with what was typed in place of what it has.
    pub fn on(&self, mut machine: Machine) -> Machine {
        if let Some(page_size) = self.page_size {
            machine.page_size = page_size;
        }
        if let Some(cpus) = self.cpus {
            machine.possible_cpus = cpus;
            machine.present_cpus = cpus;
            machine.online_cpus = cpus;
        }
        if let Some(possible) = self.possible_cpus {
            machine.possible_cpus = possible;
        }
        machine
    }
}

/// Bytes of an object or a page: `192`, `4k`, `64K`, `1M`.
pub fn size(text: &str) -> Result<u32, String> {
    let size = bytes(text.as_bytes()).ok().and_then(|size| u32::try_from(size).ok());
    size.ok_or_else(|| "expected bytes, such as 192, 4k or 1M".into())
}

/// Bytes of a memory or a file: `65536`, `512K`, `40M`, `2G`.
pub fn memory_size(text: &str) -> Result<u64, String> {
    let size = bytes(text.as_bytes()).ok().filter(|size| *size > 0);
    size.ok_or_else(|| "expected bytes, such as 512K, 40M or 2G".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, want) in [("192", Some(192)), ("4k", Some(4096)), ("64K", Some(65536))] {
            assert_eq!(size(text).ok(), want, "{text}");
        }
        for text in ["", "k", "-1", "+1", "4kk", "4.5k", "4096M", "1e3", "ü"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_of_memory_are_read_with_their_units() {
        for (text, bytes) in [("1", Some(1)), ("40M", Some(40 << 20)), ("2g", Some(2 << 30))] {
            assert_eq!(memory_size(text).ok(), bytes, "{text}");
        }
        for text in ["", "0", "M", "-1", "+1", "1.5G", "99999999999G"] {
            assert!(memory_size(text).is_err(), "{text}");
        }
    }
}
