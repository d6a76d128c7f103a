//! Settings: everything that people may set, from one table for all interfaces.
//!
//! Neighbours: [`table`] has the rows, [`kinds`] defines the types of rows and parses values,
//! [`choices`] has the words of options that no release determines. Libraries read the options from
//! their environment, into which `slabyard run --set` puts them after the same [`parse`]; the lab
//! applies each [`ReplayKey`] to a replay. Invariant: the table that encodes a word as the number
//! that [`parse`] returns also decodes that number.

pub mod choices;
mod kinds;
mod table;

pub use kinds::{
    Changes, MULTIPLIERS, Needs, OBJECTS, OF_ENGINE, ORDERS, Opt, ReplayValues, SHEAF_OBJECTS,
    TunableRow, ValueError, ValueKind, bytes, parse, switch,
};
pub use table::{ENGINE_OPTIONS, EngineKey, Key, OPTIONS, REPLAYED, ReplayKey, TUNABLES};

use kinds::OptionHelp;

/// A setting of modelled kernels.
pub type ReplayRow = kinds::ReplayRow<ReplayKey>;

impl Opt {
    fn shown(&self) -> &'static OptionHelp {
        let row = table::SHOWN.iter().find(|row| row.env == self.env);
        // Both are made of one row.
        row.unwrap_or(&table::SHOWN[0])
    }

    /// The key of `--set`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.shown().name
    }

    /// One line of help.
    #[must_use]
    pub fn help(&self) -> &'static str {
        self.shown().help
    }

    /// Without this it is without effect.
    #[must_use]
    pub fn needs(&self) -> Needs {
        self.shown().needs
    }
}

/// The row of an option of the library that holds all engines.
#[must_use]
pub fn engine_row(key: EngineKey) -> &'static Opt {
    &ENGINE_OPTIONS[key as usize]
}

/// The row of an option that each library has.
#[must_use]
pub fn row(key: Key) -> &'static Opt {
    &OPTIONS[key as usize]
}

/// The row of a modelled kernel's setting.
#[must_use]
pub fn replay_row(key: ReplayKey) -> &'static ReplayRow {
    &REPLAYED[key as usize]
}

impl TunableRow {
    /// One line of help. Apart from the table, which a library that does not show it carries.
    #[must_use]
    pub const fn help(&self) -> &'static str {
        table::help_of(self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> impl Iterator<Item = &'static Opt> {
        OPTIONS.iter().chain(ENGINE_OPTIONS)
    }

    /// Libraries take what the command takes, by the variable of the same name.
    #[test]
    fn each_option_has_its_variable_its_help_and_a_default_that_it_takes() {
        for option in options() {
            let rest = option.env.strip_prefix("SLABYARD_").expect("the prefix");
            assert!(
                rest.bytes().eq(option.name().bytes().map(|letter| letter.to_ascii_uppercase()))
            );
            assert!(!option.help().is_empty(), "{}", option.env);
            match option.kind {
                ValueKind::Number(low, high) if option.default != OF_ENGINE => {
                    assert!((low..=high).contains(&option.default), "{}", option.env);
                }
                ValueKind::Bytes(low, high) => assert!((low..=high).contains(&option.default)),
                ValueKind::Switch => assert!(option.default <= 1, "{}", option.env),
                _ => {}
            }
            if let Some(words) = option.kind.words() {
                assert!((option.default as usize) < words.len(), "{}", option.env);
            }
        }
        assert_eq!(row(Key::Report).name(), "report");
        assert_eq!(engine_row(EngineKey::Failslab).name(), "failslab");
    }

    /// Each word of each option, in both spellings, becomes the number that its own table decodes.
    #[test]
    fn each_word_of_an_option_is_parsed_to_its_number() {
        for option in options() {
            for (number, word) in (0..).zip(option.kind.words().unwrap_or_default()) {
                let swapped = |from: u8, to: u8| -> [u8; 32] {
                    let mut bytes = [0; 32];
                    bytes[..word.len()].copy_from_slice(word.as_bytes());
                    bytes.map(|letter| if letter == from { to } else { letter })
                };
                for spelt in [swapped(b'-', b'_'), swapped(b'_', b'-')] {
                    assert_eq!(parse(option, &spelt[..word.len()]), Ok(number), "{word}");
                }
            }
        }
        let release = engine_row(EngineKey::Release);
        let number = |text| parse(release, text);
        assert_eq!(number(b"linux-6.12.107"), number(b"6.8"));
        for text in [&b"7.1"[..], b"6", b"newest", b"\xff"] {
            assert_eq!(number(text), Err(ValueError::Malformed));
        }
    }

    #[test]
    fn a_name_is_one_row_at_each_door() {
        let is_once = |mut names: [&'static str; 64], len: usize| {
            names[..len].sort_unstable();
            names[..len].windows(2).all(|pair| pair[0] != pair[1])
        };
        let mut names = [""; 64];
        let doors: [&mut dyn Iterator<Item = &'static str>; 3] = [
            &mut options().map(Opt::name),
            &mut REPLAYED.iter().map(|row| row.name),
            &mut TUNABLES.iter().map(|row| row.name),
        ];
        for door in doors {
            let mut len = 0;
            door.for_each(|name| {
                names[len] = name;
                len += 1;
            });
            assert!(len > 0 && is_once(names, len));
        }
        for (at, row) in REPLAYED.iter().enumerate() {
            assert_eq!((row.key as usize, replay_row(row.key).name), (at, row.name));
            assert!(!row.help.is_empty());
        }
        for (at, row) in (1..).zip(TUNABLES) {
            assert_eq!(row.number, at, "{}", row.name);
            assert!(row.least < row.most && !row.help().is_empty(), "{}", row.name);
        }
    }

    #[test]
    fn bytes_have_units() {
        for (text, number) in [("60", 60), ("4M", 4 << 20), ("1k", 1024), ("2G", 2 << 30)] {
            assert_eq!(bytes(text.as_bytes()), Ok(number), "{text}");
        }
        for text in ["", "-1", "+1", "M", "1.5", "x", "99999999999G", "1T", "1kk"] {
            assert!(bytes(text.as_bytes()).is_err(), "{text}");
        }
    }
}
