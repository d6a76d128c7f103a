//! Debugging of caches: the flags, one row each, and the rules that assign flags to caches, in the
//! syntax of the kernel's `slab_debug=`.
//!
//! ```text
//! rules   block ; block ; ...
//! block   FLAGS                     for all caches that no block names
//!         FLAGS , NAME , NAME ...   for these; a name may end in *
//! ```
//!
//! The first block that names a cache applies to it; if none does, the last block without names
//! applies. A block without flags means [`DebugFlags::DEFAULT`], and `-` for none. Neighbours:
//! `slabyard run --slab-debug` and the option `SLABYARD_DEBUG` accept these rules; a cache's
//! settings contain flags.

/// Which debugging a cache has: a set of flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebugFlags(u8);

/// A flag of `--slab-debug` and of a cache, with its letter as in the kernel's `slab_debug`.
pub struct FlagRow {
    /// An ASCII capital; users may type the small one, too.
    pub letter: u8,
    /// The flag alone.
    pub flag: DebugFlags,
    /// One line of help.
    pub help: &'static str,
}

macro_rules! flags {
    ($($bit:literal $letter:literal $name:ident: $help:literal;)*) => {
        impl DebugFlags {
            $(#[doc = $help] pub const $name: DebugFlags = DebugFlags(1 << $bit);)*
        }

        /// All flags.
        pub static FLAGS: &[FlagRow] =
            &[$(FlagRow { letter: $letter, flag: DebugFlags::$name, help: $help },)*];
    };
}

flags! {
    0 b'F' CHECK: "consistency checks: of the pointer at each free, of the whole free object at each allocation";
    1 b'Z' RED_ZONE: "red zones in front of each object, and behind it from the requested size on";
    2 b'P' POISON: "poison in free objects, which is checked before they are handed out, and in new ones";
    3 b'U' TRACK: "the last allocation and free of each object: stack, thread, CPU, time";
    4 b'T' TRACE: "each allocation and free is printed";
    5 b'A' FAIL: "allocations fail by the rule of SLABYARD_FAILSLAB";
    6 b'O' LOW_ORDER: "no red zones, poison or tracking where an object would not fit the slab it has without";
}

impl DebugFlags {
    /// A cache without checks.
    pub const NONE: DebugFlags = DebugFlags(0);
    /// What a block without flags means.
    pub const DEFAULT: DebugFlags = DebugFlags(0b1111);
    /// Those that need room beside an object.
    pub const ROOM: DebugFlags = DebugFlags(0b1110);

    /// True without flags.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if it has one of these.
    #[inline]
    #[must_use]
    pub const fn has(self, other: DebugFlags) -> bool {
        self.0 & other.0 != 0
    }

    /// All flags of both.
    #[must_use]
    pub const fn with(self, other: DebugFlags) -> DebugFlags {
        DebugFlags(self.0 | other.0)
    }

    /// The flags that `other` does not have.
    #[must_use]
    pub const fn without(self, other: DebugFlags) -> DebugFlags {
        DebugFlags(self.0 & !other.0)
    }

    /// As debug layouts and the readable region store them: the n-th row of [`FLAGS`] is bit n.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The flags of bits.
    #[must_use]
    pub const fn of(bits: u8) -> DebugFlags {
        DebugFlags(bits)
    }
}

/// The longest rules.
pub const LONGEST: usize = 512;

/// The flags that rules give a cache of this name. Letters that are none are left out: see
/// [`check`].
///
/// ```
/// use slabyard_abi::debug::{DebugFlags, flags_for};
/// let of = |name| flags_for(b"P;FZ,malloc-6*,dentry;-,malloc-64", name);
/// assert_eq!(of(b"malloc-64"), DebugFlags::CHECK.with(DebugFlags::RED_ZONE));
/// assert_eq!(of(b"malloc-32"), DebugFlags::POISON);
/// assert_eq!(flags_for(b"", b"dentry"), DebugFlags::DEFAULT);
/// assert!(flags_for(b"-", b"dentry").is_empty());
/// ```
#[must_use]
pub fn flags_for(rules: &[u8], name: &[u8]) -> DebugFlags {
    let mut of_others = DebugFlags::NONE;
    for block in rules.split(|byte| *byte == b';') {
        let mut parts = block.split(|byte| *byte == b',');
        let flags = flags_of(parts.next().unwrap_or_default());
        let mut has_names = false;
        for pattern in parts {
            has_names = true;
            if matches(pattern, name) {
                return flags;
            }
        }
        if !(has_names || block.is_empty() && rules.len() > 1) {
            of_others = flags;
        }
    }
    of_others
}

fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_last() {
        Some((b'*', begin)) => name.starts_with(begin),
        _ => pattern == name && !name.is_empty(),
    }
}

fn flags_of(letters: &[u8]) -> DebugFlags {
    if letters.is_empty() {
        return DebugFlags::DEFAULT;
    }
    letters.iter().filter_map(|letter| flag(*letter)).fold(DebugFlags::NONE, DebugFlags::with)
}

fn flag(letter: u8) -> Option<DebugFlags> {
    let row = FLAGS.iter().find(|row| row.letter == letter.to_ascii_uppercase());
    row.map(|row| row.flag)
}

/// Why rules are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// This letter is no flag.
    Letter(u8),
    /// A name with `*` before its end.
    Star,
    /// More than [`LONGEST`] bytes.
    Long,
}

impl core::fmt::Display for RuleError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            RuleError::Letter(letter) => {
                let letter = char::from(*letter);
                write!(f, "`{letter}` is no flag; write FZPUTAO, or - for none, before the names")
            }
            RuleError::Star => write!(f, "a name may have `*` at its end alone"),
            RuleError::Long => write!(f, "write at most {LONGEST} bytes"),
        }
    }
}

impl core::error::Error for RuleError {}

/// Checks rules.
///
/// # Errors
/// What is wrong with them.
pub fn check(rules: &[u8]) -> Result<(), RuleError> {
    if rules.len() > LONGEST {
        return Err(RuleError::Long);
    }
    for block in rules.split(|byte| *byte == b';') {
        let mut parts = block.split(|byte| *byte == b',');
        let letters = parts.next().unwrap_or_default();
        let is_none = letters == b"-";
        let wrong = letters.iter().find(|letter| flag(**letter).is_none());
        if let Some(letter) = wrong.filter(|_| !is_none) {
            return Err(RuleError::Letter(*letter));
        }
        for name in parts {
            if name.iter().rev().skip(1).any(|byte| *byte == b'*') {
                return Err(RuleError::Star);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rules: &str, name: &str) -> String {
        let flags = flags_for(rules.as_bytes(), name.as_bytes());
        FLAGS.iter().filter(|row| flags.has(row.flag)).map(|row| char::from(row.letter)).collect()
    }

    extern crate std;
    use std::string::String;

    #[test]
    fn the_first_block_that_names_a_cache_counts_and_else_the_last_without_names() {
        for (rules, name, flags) in [
            ("", "a", "FZPU"),
            ("FZ", "a", "FZ"),
            ("fz", "a", "FZ"),
            ("FZ,a", "a", "FZ"),
            ("FZ,a", "ab", ""),
            ("FZ,a*", "ab", "FZ"),
            ("FZ,*", "ab", "FZ"),
            (",a", "a", "FZPU"),
            (",a", "b", ""),
            ("F;Z", "a", "Z"),
            ("F,a;Z,a;P", "a", "F"),
            ("F,b;Z,b,a;P", "a", "Z"),
            ("F,b;Z,b,a;P", "c", "P"),
            ("P;-,a", "a", ""),
            ("P;-,a", "b", "P"),
            ("-", "a", ""),
            ("FZPUTAO", "a", "FZPUTAO"),
            ("F,", "", ""),
            ("F;", "a", "F"),
        ] {
            assert_eq!(of(rules, name), flags, "{rules:?} for {name:?}");
            assert_eq!(check(rules.as_bytes()), Ok(()), "{rules:?}");
        }
    }

    #[test]
    fn wrong_rules_are_told() {
        assert_eq!(check(b"FX"), Err(RuleError::Letter(b'X')));
        assert_eq!(check(b"malloc-64"), Err(RuleError::Letter(b'm')));
        assert_eq!(check(b"F-"), Err(RuleError::Letter(b'-')));
        assert_eq!(check(b"F,mal*loc"), Err(RuleError::Star));
        assert_eq!(check(&[b'F'; LONGEST + 1]), Err(RuleError::Long));
    }
}
