//! The kernel's setting of transparent huge pages, changed temporarily.
//!
//! `prctl(PR_SET_THP_DISABLE)` is no substitute: it can only forbid huge pages, and the question
//! here is what a program occupies where the kernel's setting is `always`.

use std::fs;

use anyhow::{Context, Result};

const FILE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// The setting in force.
pub fn current() -> Result<String> {
    let text = fs::read_to_string(FILE).context(FILE)?;
    chosen(&text).with_context(|| format!("{FILE}: {text:?}"))
}

/// The word in brackets.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// A setting; dropping this restores the former one.
pub struct Setting {
    former: Option<String>,
}

impl Setting {
    /// Sets `word`, or says why it cannot.
    pub fn set(word: &str) -> Result<Self> {
        let former = current()?;
        if former == word {
            return Ok(Self { former: None });
        }
        fs::write(FILE, word).context(FILE)?;
        Ok(Self { former: Some(former) })
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        if let Some(word) = &self.former
            && let Err(error) = fs::write(FILE, word)
        {
            eprintln!("slabyard-bench: {FILE} could not be set back to {word}: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_in_brackets_is_chosen() {
        assert_eq!(chosen("always [madvise] never\n").as_deref(), Some("madvise"));
        assert_eq!(chosen("always madvise never\n"), None);
    }
}
