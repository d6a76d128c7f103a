//! Collapsed stacks, as programs that draw flame graphs read them: a line a stack, its frames with
//! semicolons between them, the outermost first, and a number.

use super::{Profile, ProfileSite};
use std::io::{self, Write};

/// Writes the stacks with a number of each, if it is not 0.
///
/// # Errors
/// Those of the writer.
pub fn write(
    profile: &Profile,
    number: impl Fn(&ProfileSite) -> f64,
    out: &mut impl Write,
) -> io::Result<()> {
    for site in &profile.sites {
        let number = number(site).round();
        if number < 1.0 {
            continue;
        }
        let frames: Vec<String> =
            site.frames.iter().rev().map(|frame| word(&frame.name())).collect();
        let stack = if frames.is_empty() { "[unknown]".to_owned() } else { frames.join(";") };
        writeln!(out, "{stack} {number:.0}")?;
    }
    Ok(())
}

/// A frame without what ends one.
fn word(name: &str) -> String {
    name.replace(';', ":").replace(['\n', '\r'], " ")
}
