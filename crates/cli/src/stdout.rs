//! Standard output, whose reader may have closed it. The standard library's macros panic if the
//! reader is gone, so a lint forbids them in this crate.

use crate::failure::Failure;
use anyhow::Context;
use std::io::Write;
use std::process::ExitCode;

/// Writes to standard output.
pub fn print(page: &[u8]) -> Result<ExitCode, Failure> {
    let mut out = std::io::stdout();
    out.write_all(page).and_then(|()| out.flush()).context("standard output")?;
    Ok(ExitCode::SUCCESS)
}
