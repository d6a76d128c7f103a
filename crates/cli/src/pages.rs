//! Completions and manual pages for an installation, generated from the same definitions as the
//! help.

use crate::args::{Args, CompletionsArgs, ManArgs};
use crate::failure::Failure;
use crate::stdout::print;
use anyhow::Context;
use clap::CommandFactory;
use std::process::ExitCode;

/// Prints the completions for a shell.
pub fn completions(args: &CompletionsArgs) -> Result<ExitCode, Failure> {
    let mut page = Vec::new();
    // Into memory first: the generator panics where its writer fails.
    clap_complete::generate(args.shell, &mut Args::command(), "slabyard", &mut page);
    print(&page)
}

/// Prints the first page, or writes all of them into a directory.
pub fn man(args: &ManArgs) -> Result<ExitCode, Failure> {
    let Some(directory) = &args.directory else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Args::command()).render(&mut page).context("manual page")?;
        return print(&page);
    };
    clap_mangen::generate_to(Args::command(), directory)
        .with_context(|| format!("cannot write manual pages to {}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}
