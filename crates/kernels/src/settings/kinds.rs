//! The kinds of settings and of their values, and how values are parsed.
//!
//! Key types: [`Opt`] is an option of a library, whose values are numbers; [`ReplayRow`] is a
//! setting of a modelled kernel; [`TunableRow`] can be set while a process runs. Neighbour:
//! [`super::table`] consists of such rows.

use crate::engines::EngineName;
use crate::words::is_same;
use core::fmt;
use core::ops::RangeInclusive;

/// Orders of slabs that can be set.
pub const ORDERS: RangeInclusive<u32> = 0..=10;
/// Objects that a slab can be asked to hold: the kernel counts them in 15 bits.
pub const OBJECTS: RangeInclusive<u32> = 1..=32767;
/// Objects for each doubling of the CPUs.
pub const MULTIPLIERS: RangeInclusive<u32> = 1..=64;
/// Most objects in a sheaf.
pub const SHEAF_OBJECTS: u64 = 1022;

/// How the text of a value is read.
#[derive(Clone, Copy, Debug)]
pub enum ValueKind {
    /// A decimal number between the two bounds, both included.
    Number(u64, u64),
    /// Bytes: a number with an optional suffix K, M or G (powers of 1024).
    Bytes(u64, u64),
    /// `0` or `1`.
    Switch,
    /// A word of this list, in which `-` and `_` are the same; the number is its index.
    Word(&'static [&'static str]),
    /// One of these releases, or a later version that follows one: the function knows its number.
    Release(&'static [&'static str], fn(&str) -> Option<u64>),
    /// Any text; the option is for the library's own use.
    Text,
}

impl ValueKind {
    /// The words that it names, if it does.
    #[must_use]
    pub fn words(self) -> Option<&'static [&'static str]> {
        match self {
            ValueKind::Word(words) | ValueKind::Release(words, _) => Some(words),
            _ => None,
        }
    }
}

/// The default of a number that the engine chooses.
pub const OF_ENGINE: u64 = u64::MAX;

/// A row of [`OPTIONS`](super::OPTIONS) or [`ENGINE_OPTIONS`](super::ENGINE_OPTIONS).
pub struct Opt {
    /// Variable: `SLABYARD_` and the name in capitals.
    pub env: &'static str,
    /// How its text is read.
    pub kind: ValueKind,
    /// Value when it is not set (an index for words).
    pub default: u64,
}

/// What a setting needs, so that it is not without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// It always takes effect.
    Nothing,
    /// The engine slab.
    Slab,
    /// The engine slub.
    Slub,
    /// The engine slub, with CPU slabs alone or below sheaves.
    CpuSlabs,
    /// An engine that can have several memory nodes.
    Nodes,
    /// A kernel's lists of free pages.
    PageLists,
    /// A watch of memory pressure.
    Pressure,
}

/// What people are shown of an option, apart from it: a library does not link it.
pub(super) struct OptionHelp {
    pub(super) env: &'static str,
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) needs: Needs,
}

/// A setting of modelled kernels.
pub struct ReplayRow<K> {
    /// By which the lab finds its use.
    pub key: K,
    /// As typed.
    pub name: &'static str,
    /// Values that it has, which help and messages show.
    pub values: ReplayValues,
    /// One line of help.
    pub help: &'static str,
    /// The kernel's allocators that have it.
    pub engines: &'static [EngineName],
    /// Decides whether `geometry` takes it, or a replay alone.
    pub changes: Changes,
}

/// What a setting of modelled kernels changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// A cache's geometry, or its limits: what `geometry` shows.
    Geometry,
    /// What calls do: a replay alone shows it.
    Calls,
}

/// What a setting of modelled kernels takes; shown in words.
pub enum ReplayValues {
    /// A number, and what such a one is called.
    Number(&'static str, RangeInclusive<u32>),
    /// The same, or what the kernel computes.
    AutoOr(RangeInclusive<u32>),
    /// `0` or `1`.
    Switch,
    /// A number for all caches, or some for caches by their size.
    BySize,
    /// Words of a type, with the kernels that have each.
    Words(&'static str),
}

impl fmt::Display for ReplayValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayValues::Number(what, bounds) => {
                write!(f, "{what} from {} to {}", bounds.start(), bounds.end())
            }
            ReplayValues::AutoOr(bounds) => {
                write!(f, "`auto`, or a number from {} to {}", bounds.start(), bounds.end())
            }
            ReplayValues::Switch => f.write_str("0 or 1"),
            ReplayValues::BySize => f.write_str(
                "`kernel`, a number for all caches, or pairs SIZE:NUMBER (from that size on; `page` is a size)",
            ),
            ReplayValues::Words(words) => f.write_str(words),
        }
    }
}

impl<K> ReplayRow<K> {
    /// The number that a text is, within the bounds.
    #[must_use]
    pub fn number(&self, text: &str) -> Option<u32> {
        let (ReplayValues::Number(_, bounds) | ReplayValues::AutoOr(bounds)) = &self.values else {
            return None;
        };
        text.parse().ok().filter(|number| bounds.contains(number))
    }
}

/// `0` or `1`.
#[must_use]
pub fn switch(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// One tunable of a cache or of a yard.
#[derive(Clone, Copy)]
pub struct TunableRow {
    /// Its number in a request.
    pub number: u64,
    /// Name, as the command takes it.
    pub name: &'static str,
    /// Least value.
    pub least: u64,
    /// Largest value.
    pub most: u64,
    /// True if it is the yard's and not a cache's.
    pub of_yard: bool,
}

/// Why a value was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueError {
    /// Not of the option's kind.
    Malformed,
    /// Outside of the option's bounds.
    OutOfRange,
}

/// Parses a value for an option: a number, or the index of a word.
///
/// # Errors
/// [`ValueError`] says why the text does not fit.
///
/// ```
/// use slabyard_kernels::settings::{Key, parse, row};
/// assert_eq!(parse(row(Key::Reserve), b"64M"), Ok(64 << 20));
/// assert!(parse(row(Key::DecayMs), b"soon").is_err());
/// ```
pub fn parse(opt: &Opt, text: &[u8]) -> Result<u64, ValueError> {
    match opt.kind {
        ValueKind::Number(low, high) => within(number(text)?, low, high),
        ValueKind::Bytes(low, high) => within(bytes(text)?, low, high),
        ValueKind::Switch => within(number(text)?, 0, 1),
        ValueKind::Word(words) => words
            .iter()
            .position(|w| is_same(w.as_bytes(), text))
            .map(|i| i as u64)
            .ok_or(ValueError::Malformed),
        ValueKind::Release(_, number_of) => {
            core::str::from_utf8(text).ok().and_then(number_of).ok_or(ValueError::Malformed)
        }
        ValueKind::Text => Ok(0),
    }
}

/// Bytes: a number, and K, M or G for powers of 1024.
///
/// # Errors
/// What is no such text, or more than 64 bits hold.
pub fn bytes(text: &[u8]) -> Result<u64, ValueError> {
    let (digits, shift) = match text.last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    number(digits)?.checked_mul(1 << shift).ok_or(ValueError::OutOfRange)
}

fn within(n: u64, low: u64, high: u64) -> Result<u64, ValueError> {
    if (low..=high).contains(&n) { Ok(n) } else { Err(ValueError::OutOfRange) }
}

fn number(text: &[u8]) -> Result<u64, ValueError> {
    if text.is_empty() {
        return Err(ValueError::Malformed);
    }
    text.iter().try_fold(0u64, |n, c| match c {
        b'0'..=b'9' => n
            .checked_mul(10)
            .and_then(|n| n.checked_add(u64::from(c - b'0')))
            .ok_or(ValueError::OutOfRange),
        _ => Err(ValueError::Malformed),
    })
}
