//! Run-time options: one row each, from which the parser, the warnings, the
//! command's `--set` and the manual are made.

use crate::engines;

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A decimal number between the two bounds, both included.
    Number(u64, u64),
    /// Bytes: a number with an optional suffix K, M or G (powers of 1024).
    Bytes(u64, u64),
    /// `0` or `1`.
    Switch,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any text; the option is for the library's own use.
    Text,
}

/// One option.
pub struct Opt {
    /// Variable: `SLABYARD_` and the key in capitals.
    pub env: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Value when it is not set (an index for words).
    pub default: u64,
    /// One line of help.
    pub help: &'static str,
}

/// Index of each option in [`OPTIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Key {
    /// How CPUs are told apart.
    Mode,
    /// Time until free pages go back.
    DecayMs,
    /// Address space reserved.
    Reserve,
    /// What happens after misuse was reported.
    OnError,
    /// So many frees are checked closely.
    CheckFrees,
    /// Check the whole yard at exit.
    VerifyAtExit,
    /// Others may look at the process.
    Observable,
    /// A thread gives pages back while the program makes no calls.
    Helper,
    /// Which engine serves the process.
    Engine,
    /// Where the report goes.
    Report,
}

/// All options.
pub static OPTIONS: &[Opt] = &[
    Opt {
        env: "SLABYARD_MODE",
        kind: Kind::Word(&["auto", "rseq", "own-rseq", "slots"]),
        default: 0,
        help: "how CPUs are told apart: the C library's rseq, our own, or a private slot for each thread",
    },
    Opt {
        env: "SLABYARD_DECAY_MS",
        kind: Kind::Number(0, 3_600_000),
        default: 250,
        help: "milliseconds after which free pages go back to the system",
    },
    Opt {
        env: "SLABYARD_RESERVE",
        kind: Kind::Bytes(16 << 20, 1 << 44),
        default: 1 << 40,
        help: "address space to reserve; nothing is reserved where it is limited",
    },
    Opt {
        env: "SLABYARD_ON_ERROR",
        kind: Kind::Word(&["auto", "abort", "report"]),
        default: 0,
        help: "after misuse was reported: abort, or go on as if the call was not made; auto goes on after a wrong size only",
    },
    Opt {
        env: "SLABYARD_CHECK_FREES",
        kind: Kind::Number(0, u32::MAX as u64),
        default: 32,
        help: "the first so many frees are checked for double frees and interior pointers at once; 4294967295: all",
    },
    Opt {
        env: "SLABYARD_VERIFY_AT_EXIT",
        kind: Kind::Switch,
        default: 0,
        help: "check the whole yard when the process ends",
    },
    Opt {
        env: "SLABYARD_OBSERVABLE",
        kind: Kind::Switch,
        default: 0,
        help: "let any process of the same user look at this one, where Yama forbids it",
    },
    Opt {
        env: "SLABYARD_HELPER",
        kind: Kind::Switch,
        default: 0,
        help: "a thread of ours gives free pages back while the program makes no calls",
    },
    Opt {
        env: "SLABYARD_ENGINE",
        kind: Kind::Word(engines::NAMES),
        default: 0,
        help: "the engine, in the library that holds all of them (set by `slabyard run --engine`)",
    },
    Opt {
        env: "SLABYARD_REPORT",
        kind: Kind::Text,
        default: 0,
        help: "file for the report at the end (set by `slabyard run`)",
    },
];

/// The option's row.
#[must_use]
pub fn row(key: Key) -> &'static Opt {
    &OPTIONS[key as usize]
}

/// Why a value was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Not of the option's kind.
    Malformed,
    /// Outside of the option's bounds.
    OutOfRange,
}

/// Parses a value for an option: a number, or the index of a word.
///
/// # Errors
/// [`Refused`] says why the text does not fit.
///
/// ```
/// use slabyard_abi::options::{Key, parse, row};
/// assert_eq!(parse(row(Key::Reserve), b"64M"), Ok(64 << 20));
/// assert!(parse(row(Key::DecayMs), b"soon").is_err());
/// ```
pub fn parse(opt: &Opt, text: &[u8]) -> Result<u64, Refused> {
    match opt.kind {
        Kind::Number(low, high) => within(number(text)?, low, high),
        Kind::Bytes(low, high) => {
            let (digits, shift) = match text.last() {
                Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
                Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
                Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
                _ => (text, 0),
            };
            let n = number(digits)?.checked_mul(1 << shift).ok_or(Refused::OutOfRange)?;
            within(n, low, high)
        }
        Kind::Switch => within(number(text)?, 0, 1),
        Kind::Word(words) => words
            .iter()
            .position(|w| w.as_bytes() == text)
            .map(|i| i as u64)
            .ok_or(Refused::Malformed),
        Kind::Text => Ok(0),
    }
}

fn within(n: u64, low: u64, high: u64) -> Result<u64, Refused> {
    if (low..=high).contains(&n) { Ok(n) } else { Err(Refused::OutOfRange) }
}

fn number(text: &[u8]) -> Result<u64, Refused> {
    if text.is_empty() {
        return Err(Refused::Malformed);
    }
    text.iter().try_fold(0u64, |n, c| match c {
        b'0'..=b'9' => n
            .checked_mul(10)
            .and_then(|n| n.checked_add(u64::from(c - b'0')))
            .ok_or(Refused::OutOfRange),
        _ => Err(Refused::Malformed),
    })
}
