//! The engines, one row each: their names and their numbers. The option `SLABYARD_ENGINE` and
//! `slabyard run --engine` accept the names; the readable region and the report of a process
//! contain the number.

/// What a user chooses an engine by, and what help says of it.
pub struct EngineRow {
    /// The word of `--engine` and of reports.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
}

macro_rules! engines {
    ($($item:ident $name:literal: $help:literal;)*) => {
        /// An engine.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum EngineName { $(#[doc = $help] $item,)* }

        impl EngineName {
            /// Each of them, in the order of [`ENGINES`].
            pub const ALL: &[EngineName] = &[$(EngineName::$item,)*];
        }

        /// All engines; the first is the default.
        pub static ENGINES: &[EngineRow] = &[$(EngineRow { name: $name, help: $help },)*];

        /// The names, for the option.
        pub(crate) const NAMES: &[&str] = &[$($name,)*];
    };
}

engines! {
    Slub "slub": "sheaves of free objects for each CPU, and barns, in front of slabs";
    Tiny "tiny": "SLUB_TINY: slabs of two pages and their partial list, with nothing for each CPU: slow";
    Slab "slab": "an array of free objects for each CPU, and a shared one, in front of slabs";
    Slob "slob": "blocks of any size in single pages, by first fit under one lock: small, and slow";
}

impl EngineName {
    /// The engine of a word's number, as the option has it.
    #[must_use]
    pub fn of_word(number: u64) -> Option<EngineName> {
        EngineName::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// The engine of a number.
    #[must_use]
    pub fn of(number: u64) -> Option<EngineName> {
        EngineName::ALL.iter().copied().find(|engine| engine.number() == number)
    }

    /// Its number: not 0, which means that a word says nothing.
    #[must_use]
    pub const fn number(self) -> u64 {
        self as u64 + 1
    }

    /// The row of [`ENGINES`] that help and reports take name and text from.
    #[must_use]
    pub fn row(self) -> &'static EngineRow {
        &ENGINES[self as usize]
    }
}
