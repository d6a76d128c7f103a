//! The reasons why a kernel could not be read or changed, and what to do about each.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// What went wrong.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum Error {
    #[error(
        "this kernel shows no slab memory: /proc/slabinfo: {slabinfo}; /sys/kernel/slab: {sysfs}; \
         run as root, with procfs and sysfs mounted, on a kernel with SLUB"
    )]
    Nothing {
        /// Why there is no slabinfo.
        slabinfo: String,
        /// Why there is no sysfs.
        sysfs: String,
    },
    /// No cache of this name.
    #[error("the kernel has no cache `{cache}`{}; `slabyard list kernel` names them", hint(.like))]
    UnknownCache {
        cache: String,
        /// Names that are like it.
        like: Vec<String>,
    },
    /// No attribute of this name, or one that the kernel does not let anybody set.
    #[error("`{key}` {why}; what can be set in this kernel: {}", .settable.join(", "))]
    NotSettable {
        key: String,
        why: &'static str,
        /// Attributes that can be set.
        settable: Vec<String>,
    },
    /// The kernel says no to a value.
    #[error("the kernel refuses {key}={value} for `{cache}`: {why}")]
    Refused { cache: String, key: String, value: String, why: String },
    /// A file of the kernel.
    #[error("{path}: {}", why(.error))]
    File {
        path: PathBuf,
        /// What the kernel says.
        error: io::Error,
    },
}

fn hint(like: &[String]) -> String {
    if like.is_empty() { String::new() } else { format!(" (is it {}?)", like.join(" or ")) }
}

/// What the kernel says, and what to do.
pub(super) fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "permission denied; run as root".into(),
        io::ErrorKind::NotFound => "it is not there".into(),
        io::ErrorKind::ReadOnlyFilesystem => {
            "it is mounted read-only here; try outside of the container".into()
        }
        _ => {
            let text = error.to_string();
            text.split(" (os error").next().unwrap_or_default().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_refusal_of_the_system_says_what_to_do() {
        let why = |errno: Errno| why(&errno.into());
        assert_eq!(why(Errno::ACCESS), "permission denied; run as root");
        assert_eq!(why(Errno::PERM), "permission denied; run as root");
        assert!(why(Errno::ROFS).contains("read-only"));
        assert_eq!(why(Errno::NOENT), "it is not there");
        assert_eq!(why(Errno::NODEV), "No such device");
    }
}
