//! The rules and the machine that somebody asks for; what is left out stays the traced kernel's.

use crate::{Error, Listener};
use slabyard_kernels::engines::EngineName;
use slabyard_lab::rules::{Machine, NodeSet, SLAB_REMOVED, Settings, version_of};
use slabyard_lab::slab;
use slabyard_lab::snapshot::{KernelSnapshot, UnknownRules};
use slabyard_lab::trace::Source;

/// Whose rules hold, and on which machine; what is left out stays as it is.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The kernel's allocator.
    pub engine: EngineName,
    /// A version such as 6.12.
    pub release: Option<String>,
    /// Bytes of a page.
    pub page_size: Option<u32>,
    /// CPUs that are there, and may be unless `possible_cpus` says more.
    pub cpus: Option<u32>,
    /// As many as the kernel makes room for (`nr_cpu_ids`).
    pub possible_cpus: Option<u32>,
    /// Memory nodes.
    pub nodes: Option<u32>,
    /// Those of them that have no memory.
    pub memoryless: Option<NodeSet>,
    /// `KEY=VALUE`, in their order; the last one of a key counts.
    pub set: Vec<String>,
}

impl Default for Wanted {
    fn default() -> Wanted {
        Wanted {
            engine: EngineName::Slub,
            release: None,
            page_size: None,
            cpus: None,
            possible_cpus: None,
            nodes: None,
            memoryless: None,
            set: Vec::new(),
        }
    }
}

impl Wanted {
    /// A machine with what was asked for in place of what it has.
    #[must_use]
    pub fn on(&self, mut machine: Machine) -> Machine {
        machine.page_size = self.page_size.unwrap_or(machine.page_size);
        if let Some(cpus) = self.cpus {
            machine.possible_cpus = cpus;
            machine.present_cpus = cpus;
            machine.online_cpus = cpus;
        }
        machine.possible_cpus = self.possible_cpus.unwrap_or(machine.possible_cpus);
        machine.nodes = self.nodes.unwrap_or(machine.nodes);
        // Other nodes are other nodes: all have memory, but for those that are named.
        let own = if self.nodes.is_some() { NodeSet::NONE } else { machine.memoryless };
        machine.memoryless = self.memoryless.unwrap_or(own);
        machine
    }

    /// The rules of a version on a machine, then what the kernel was booted with, then what was asked
    /// for; and what to tell people of the version.
    ///
    /// # Errors
    /// [`Error::Usage`]: an unknown version, or settings that cannot be.
    pub fn settings(
        &self,
        version: &str,
        machine: Machine,
        boot: impl FnOnce(&mut Settings) -> Result<(), UnknownRules>,
    ) -> Result<(Settings, Option<String>), Error> {
        let (mut settings, note) = Settings::of_version(version, machine).map_err(Error::usage)?;
        boot(&mut settings).map_err(Error::usage)?;
        for text in setting(self.engine).into_iter().chain(self.set.iter().map(|s| &**s)) {
            settings.set(text).map_err(Error::usage)?;
        }
        settings.validate_on(self.engine).map_err(Error::usage)?;
        Ok((settings, note))
    }

    /// The snapshot's settings with what was asked for in their place, and the traced machine.
    ///
    /// # Errors
    /// As [`Wanted::settings`], and where neither trace nor snapshot tells the machine or the version.
    pub fn of_trace(
        &self,
        trace: &Source,
        snapshot: &KernelSnapshot,
        listener: &dyn Listener,
    ) -> Result<(Settings, Machine), Error> {
        // Where the snapshot is silent, the trace tells the CPUs that it saw.
        let seen = trace.header.cpus.map(|cpus| Machine::new(snapshot.page_size, cpus));
        let traced = snapshot.machine().or(seen);
        let traced = traced.ok_or_else(|| Error::usage(UnknownRules::NoCpus))?;
        let told = (!trace.header.release.is_empty()).then_some(trace.header.release.as_str());
        let version = self.release.as_deref().or(snapshot.kernel.as_deref()).or(told);
        let version = version.ok_or_else(|| Error::usage(UnknownRules::NoVersion))?;
        // A traced kernel that has no SLAB any more is no reason to refuse it.
        let is_newer = version_of(version).is_some_and(|version| version >= SLAB_REMOVED);
        let takes_last = self.engine == EngineName::Slab && self.release.is_none() && is_newer;
        let version = if takes_last { slab::last_release().name } else { version };
        let (settings, note) =
            self.settings(version, self.on(traced), |settings| snapshot.boot(settings))?;
        note.iter().for_each(|note| listener.say(note));
        Ok((settings, traced))
    }
}

/// What an engine changes of SLUB's rules, as a setting.
#[must_use]
pub fn setting(engine: EngineName) -> Option<&'static str> {
    (engine == EngineName::Tiny).then_some("tiny=1")
}
