//! An installed program with its input, and the command that runs it.
//!
//! Neighbours: `list`, and the modules of programs with clients, prepare it; the suite `programs`
//! runs it.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::allocators::Bench;

/// An installed program.
pub struct Prepared {
    /// What it is started through, if not as who we are.
    pub as_user: Vec<OsString>,
    pub executable: PathBuf,
    pub args: Vec<OsString>,
    pub settings: Vec<(&'static str, OsString)>,
    /// What it writes beside its standard output.
    pub output: Option<PathBuf>,
    /// Who talks to it, if it is a server: what that says is the output.
    pub client: Option<fn(&Prepared, &Bench) -> Result<String>>,
}

impl Prepared {
    /// Runs `executable` with `args`.
    pub fn new<A: Into<OsString>>(executable: PathBuf, args: impl IntoIterator<Item = A>) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self {
            as_user: Vec::new(),
            executable,
            args,
            settings: Vec::new(),
            output: None,
            client: None,
        }
    }

    /// With a variable of its environment.
    pub fn setting(mut self, name: &'static str, value: &str) -> Self {
        self.settings.push((name, value.into()));
        self
    }

    /// With the file that it writes, and the switch before it.
    pub fn output(mut self, switch: &str, path: PathBuf) -> Self {
        let mut argument = OsString::from(switch);
        if switch.ends_with('=') {
            argument.push(&path);
            self.args.push(argument);
        } else {
            self.args.extend([argument, path.clone().into()]);
        }
        self.output = Some(path);
        self
    }
}

/// A program of the search path.
pub fn installed(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|directory| directory.join(name));
    found.into_iter().find(|path| path.is_file()).with_context(|| format!("no {name} in PATH"))
}
