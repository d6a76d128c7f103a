//! A question: rules, a machine and what else a run of a load depends on, changed key by key.
//!
//! Neighbours: [`crate::axis`] reads the values that a key takes; [`crate::answer`] answers.
//! [`MACHINE_KEYS`] is the one table of keys that are no settings of `slabyard replay --set`.

use crate::axis::{Axis, Changes};
use crate::sizes::{memory_size, size};
use crate::{Error, Wanted};
use slabyard_kernels::engines::{ENGINES, EngineName};

/// What a load is run with.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Whose rules, on which machine.
    pub wanted: Wanted,
    /// Copies of each task of the trace, with objects of their own, beside the task itself.
    pub more_tasks: u32,
    /// Bytes of the machine's memory, if they have an end.
    pub memory: Option<u64>,
}

/// A key that is no setting of the rules.
pub struct MachineKey {
    /// As it is typed.
    pub name: &'static str,
    /// Another name of it.
    pub alias: &'static str,
    /// What it takes.
    pub values: &'static str,
    /// What it changes.
    pub help: &'static str,
    put: fn(&mut Question, &str) -> Option<()>,
}

/// Keys of the machine and of the run; the keys of `slabyard replay --set` come beside them.
pub static MACHINE_KEYS: [MachineKey; 8] = [
    MachineKey {
        name: "release",
        alias: "kernel",
        values: "a kernel's version such as 6.12",
        help: "the kernel whose rules hold",
        put: |question, value| {
            question.wanted.release = Some(value.to_owned());
            Some(())
        },
    },
    MachineKey {
        name: "engine",
        alias: "allocator",
        values: "slub, slab or tiny",
        help: "the kernel's allocator",
        put: |question, value| {
            let at = ENGINES.iter().position(|row| row.name == value)?;
            question.wanted.engine =
                Some(EngineName::ALL[at]).filter(|engine| *engine != EngineName::Slob)?;
            Some(())
        },
    },
    MachineKey {
        name: "page",
        alias: "page_size",
        values: "4k to 64k",
        help: "bytes of a page",
        put: |question, value| {
            question.wanted.page_size = Some(size(value).ok()?);
            Some(())
        },
    },
    MachineKey {
        name: "cpus",
        alias: "online",
        values: "a number",
        help: "CPUs that are there, and may be unless possible says more",
        put: |question, value| {
            question.wanted.cpus = Some(value.parse().ok()?);
            Some(())
        },
    },
    MachineKey {
        name: "possible",
        alias: "possible_cpus",
        values: "a number",
        help: "CPUs that may ever be there (nr_cpu_ids)",
        put: |question, value| {
            question.wanted.possible_cpus = Some(value.parse().ok()?);
            Some(())
        },
    },
    MachineKey {
        name: "nodes",
        alias: "numa",
        values: "a number",
        help: "memory nodes, among which the CPUs are shared out",
        put: |question, value| {
            question.wanted.nodes = Some(value.parse().ok()?);
            Some(())
        },
    },
    MachineKey {
        name: "memory",
        alias: "ram",
        values: "bytes such as 64M",
        help: "memory of the machine, out of which slabs and the trace's other pages come",
        put: |question, value| {
            question.memory = Some(memory_size(value).ok()?);
            Some(())
        },
    },
    MachineKey {
        name: "tasks",
        alias: "times",
        values: "a number from 1 to 10000, such as 8x",
        help: "how many tasks there are for each of the trace, with objects of their own",
        put: |question, value| {
            let times = value.strip_suffix('x').unwrap_or(value).parse::<u32>().ok()?;
            question.more_tasks = Some(times).filter(|times| (1..=10_000).contains(times))? - 1;
            Some(())
        },
    },
];

impl Question {
    /// Changes one key.
    ///
    /// # Errors
    /// [`Error::Usage`] for a value that a key of the machine does not take. What a setting takes is
    /// found out when the rules are made of it: [`Wanted::settings`] names unknown keys.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Error> {
        let Some(row) = MACHINE_KEYS.iter().find(|row| row.name == key || row.alias == key) else {
            self.wanted.set.push(format!("{key}={value}"));
            return Ok(());
        };
        (row.put)(self, value).ok_or_else(|| refused(row.name, value, row.values))
    }

    /// The same with changes.
    ///
    /// # Errors
    /// As [`Question::set`].
    pub fn with(&self, changes: &Changes) -> Result<Question, Error> {
        let mut question = self.clone();
        changes.iter().try_for_each(|(key, value)| question.set(key, value))?;
        Ok(question)
    }

    /// How many tasks there are for each of the trace.
    #[must_use]
    pub fn tasks(&self) -> u32 {
        self.more_tasks + 1
    }
}

/// What holds for all rows, as it is typed: `page=64k,cpus=16`; nothing in an empty text. A value may
/// have commas where no key follows.
///
/// # Errors
/// [`Error::Usage`]: a key has no value, or several; or it stands twice.
pub fn machine(text: &str) -> Result<Changes, Error> {
    let mut changes = Changes::new();
    for pair in pairs(text) {
        let axis = Axis::parse(&pair).ok();
        let one =
            axis.and_then(|axis| Some((axis.key, <[String; 1]>::try_from(axis.values).ok()?)));
        let Some((key, [value])) = one else {
            return Err(Error::Usage(format!(
                "machine {pair}: expected KEY=VALUE with one value, such as page=64k; vary a key that \
                 has several"
            )));
        };
        let key = canonical(&key).to_owned();
        if changes.iter().any(|(before, _)| *before == key) {
            return Err(Error::Usage(format!("machine {text}: {key} stands twice")));
        }
        changes.push((key, value));
    }
    Ok(changes)
}

/// The pairs of a text, with the commas of their values.
fn pairs(text: &str) -> Vec<String> {
    let mut pairs: Vec<String> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
        match pairs.last_mut().filter(|_| !part.contains('=')) {
            Some(last) => *last = format!("{last},{part}"),
            None => pairs.push(part.to_owned()),
        }
    }
    pairs
}

/// The name of a key that has two.
#[must_use]
pub(crate) fn canonical(key: &str) -> &str {
    let row = MACHINE_KEYS.iter().find(|row| row.alias == key);
    row.map_or(key, |row| row.name)
}

fn refused(key: &str, value: &str, takes: &str) -> Error {
    Error::Usage(format!("{key}={value}: {key} takes {takes}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_machine_and_of_the_rules_find_their_place() {
        let mut question = Question::default();
        for (key, value) in [
            ("page", "64k"),
            ("cpus", "16"),
            ("possible_cpus", "512"),
            ("memory", "8M"),
            ("engine", "tiny"),
            ("release", "7.3"),
            ("tasks", "4x"),
            ("max_order", "1"),
        ] {
            question.set(key, value).unwrap_or_else(|error| panic!("{error}"));
        }
        assert_eq!(question.wanted.page_size, Some(65536));
        assert_eq!(question.wanted.possible_cpus, Some(512));
        assert_eq!((question.memory, question.tasks()), (Some(8 << 20), 4));
        assert_eq!(question.wanted.engine, EngineName::Tiny);
        assert_eq!(question.wanted.set, ["max_order=1"]);
    }

    #[test]
    fn a_value_that_a_key_does_not_take_says_what_it_takes() {
        for (key, value) in
            [("page", "x"), ("cpus", "-1"), ("engine", "slob"), ("tasks", "0"), ("memory", "0")]
        {
            let error = Question::default().set(key, value).expect_err(key).to_string();
            assert!(error.contains(" takes "), "{error}");
        }
    }

    #[test]
    fn the_machine_is_read_by_keys() {
        let read = |text: &str| machine(text).map(|all| crate::axis::name(&all));
        assert_eq!(read("page_size=64k, cpus=16").ok().as_deref(), Some("page=64k+cpus=16"));
        assert_eq!(
            read("cpu_partial=8192:1,4096:2,cpus=4").ok().as_deref(),
            Some("cpu_partial=8192:1,4096:2+cpus=4")
        );
        assert_eq!(read(" ").ok().as_deref(), Some("base"));
        let set = machine("cpus=2,possible=8").and_then(|all| Question::default().with(&all));
        assert_eq!(set.expect("a machine").wanted.possible_cpus, Some(8));
        for text in
            ["page", "page=", "page=4k,16", "cpus=1,2", "cpus=2..3", "cpus=1,online=2", ",cpus=1"]
        {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
