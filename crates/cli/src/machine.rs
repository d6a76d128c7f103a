//! The options that describe a modelled machine and its rules, for every command that models one.

use slabyard_ask::Wanted;
use slabyard_ask::question::{MACHINE_KEYS, MachineKey};
use slabyard_ask::sizes::size;
use slabyard_kernels::engines::EngineName;
use std::fmt::Write;

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
    /// The same, as the lab is asked.
    pub fn wanted(&self) -> Wanted {
        Wanted {
            engine: self.engine.of_kernels(),
            release: self.release.clone(),
            page_size: self.machine.page_size,
            cpus: self.machine.cpus,
            possible_cpus: self.machine.possible_cpus,
            set: self.set.clone(),
            ..Wanted::default()
        }
    }
}

/// Adds a line for each key of `ask` and `sweep` that is no rule to a help.
pub fn add_machine_keys(text: &mut String) {
    for key in &MACHINE_KEYS {
        let MachineKey { name, alias, values, help, .. } = key;
        let _ = writeln!(text, "  {name} (or {alias}): {values}\n      {help}");
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
