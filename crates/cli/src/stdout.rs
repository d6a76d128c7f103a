//! Standard output and standard error, whose readers may have gone. The macros of the standard library
//! panic then, which is why a lint refuses them in this crate.

use crate::failure::Failure;
use anyhow::Context;
use std::io::Write;
use std::process::ExitCode;

/// Writes to standard error as it is, for people. One that is gone is no reason to fail.
pub fn tell(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Writes to standard output.
pub fn print(page: &[u8]) -> Result<ExitCode, Failure> {
    let mut out = std::io::stdout();
    out.write_all(page).and_then(|()| out.flush()).context("standard output")?;
    Ok(ExitCode::SUCCESS)
}
