//! The reasons why a recording cannot start or cannot be written, and what to do about each.

use crate::failure::Failure;
use anyhow::anyhow;
use slabyard_lab::record::Error;
use std::path::Path;

/// A kernel that does not let itself be recorded, and what it needs.
pub fn refused(error: Error) -> Failure {
    match error {
        Error::NotAllowed { .. } => {
            anyhow!(error).context("recording a kernel takes root: sudo slabyard record ...").into()
        }
        error => anyhow!(error).context("cannot record the kernel").into(),
    }
}

/// The same, with the whole command as root would type it.
pub fn refused_to_user(error: Error) -> Failure {
    match error {
        Error::NotAllowed { .. } => anyhow!(error).context(as_root()).into(),
        error => refused(error),
    }
}

/// A snapshot that could not be taken for want of rights is wanting them for the recording.
pub fn of_first_sample(failure: Failure) -> Failure {
    match failure {
        Failure::Cannot(error) if !nix::unistd::geteuid().is_root() => {
            error.context(as_root()).into()
        }
        failure => failure,
    }
}

fn as_root() -> String {
    let words: Vec<String> = std::env::args().skip(1).map(quoted).collect();
    format!("recording a kernel takes root: sudo slabyard {}", words.join(" "))
}

fn quoted(word: String) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word;
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// In front of the reason.
pub fn cannot_write(output: &Path) -> String {
    format!("cannot write {}", output.display())
}

/// A failure while the file was finished.
pub fn in_file(output: &Path, failure: Failure) -> Failure {
    match failure {
        Failure::Cannot(error) => error.context(cannot_write(output)).into(),
        failure => failure,
    }
}

/// The file could not be written while it was recorded.
pub fn written(output: &Path, error: slabyard_lab::trace::Error) -> Failure {
    anyhow!(error)
        .context(format!(
            "{} was written to here only; what is in it can be used with --partial. Make room, or \
             keep the file small with --max-size",
            output.display()
        ))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_offered_as_a_shell_takes_it() {
        assert_eq!(quoted("-j8".into()), "-j8");
        assert_eq!(quoted("it's".into()), "'it'\\''s'");
        assert_eq!(quoted(String::new()), "''");
    }
}
