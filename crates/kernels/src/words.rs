//! Words for values: one table per type, from which values are parsed, printed, and numbered where
//! they cross a process boundary.
//!
//! Invariant: a number that `words!` decodes is the index of its word in the list that an option
//! shows, so each side decodes the numbers that the other encodes.

/// True if two words are the same: `-` and `_` are, in it.
#[must_use]
pub fn is_same(one: &[u8], other: &[u8]) -> bool {
    let plain = |letter: &u8| if *letter == b'_' { b'-' } else { *letter };
    one.iter().map(plain).eq(other.iter().map(plain))
}

/// The value of a word.
pub(crate) fn find<T: Copy>(words: &[(&str, T)], word: &str) -> Option<T> {
    words.iter().find(|row| is_same(row.0.as_bytes(), word.as_bytes())).map(|row| row.1)
}

/// The first word of a value.
pub(crate) fn name<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    words.iter().find(|row| row.1 == *value).map_or("", |row| row.0)
}

/// Gives a type its words.
macro_rules! words {
    ($type:ident: $($word:literal => $value:ident,)+) => {
        impl $type {
            /// Its words, each with its value.
            pub const WORDS: &'static [(&'static str, $type)] = &[$(($word, $type::$value)),+];
            /// The words alone: an option that takes one has its number here.
            pub const NAMES: &'static [&'static str] = &[$($word),+];

            /// The value of a word, in which `-` and `_` are the same.
            #[must_use]
            pub fn find(word: &str) -> Option<$type> {
                crate::words::find(Self::WORDS, word)
            }

            /// The value of a word's number.
            #[must_use]
            pub fn of_number(number: u64) -> Option<$type> {
                // Apart from the words, which a library need not link for it.
                const VALUES: &[$type] = &[$($type::$value),+];
                VALUES.get(usize::try_from(number).ok()?).copied()
            }
        }
    };
}

/// As `words!`, of a type whose option follows the release unless it is set.
macro_rules! words_of_releases {
    ($type:ident: $($word:literal => $value:ident,)+) => {
        words! { $type: $($word => $value,)+ }

        impl $type {
            /// The words of an option that follows the release unless it is set: number 0.
            pub const OR_RELEASE: &'static [&'static str] = &["release", $($word),+];

            /// The value of a number of [`OR_RELEASE`](Self::OR_RELEASE); `None`: the release's.
            #[must_use]
            pub fn or_release(number: u64) -> Option<$type> {
                number.checked_sub(1).and_then(Self::of_number)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::engines::{self, EngineName};
    use crate::settings::choices::*;
    use crate::{Accounting, Freezing, OrderRule, PageLists, RELEASES, Reclaim, Release};

    /// Each number that an option's word has is decoded to what the word means.
    macro_rules! decodes {
        ($type:ident) => {
            for (number, name) in (0..).zip($type::NAMES) {
                let value = $type::of_number(number);
                assert!(value.is_some() && value == $type::find(name), "{name}");
            }
            assert_eq!($type::of_number($type::NAMES.len() as u64), None);
        };
    }

    #[test]
    fn what_an_option_encodes_is_decoded_by_the_same_table() {
        decodes!(Freezing);
        decodes!(Accounting);
        decodes!(OrderRule);
        decodes!(PageLists);
        decodes!(Reclaim);
        decodes!(CpuMode);
        decodes!(OnMisuse);
        decodes!(SlubFront);
        decodes!(PlantedBug);
        decodes!(PressureDrain);
        decodes!(NodeCount);
        for (number, row) in (0..).zip(engines::ENGINES) {
            assert_eq!(EngineName::of_word(number).map(|it| it.row().name), Some(row.name));
        }
        for (number, name) in (0..).zip(Freezing::OR_RELEASE) {
            assert_eq!(Freezing::or_release(number), Freezing::find(name), "{name}");
        }
        for (number, name) in (0..).zip(Accounting::OR_RELEASE) {
            assert_eq!(Accounting::or_release(number), Accounting::find(name), "{name}");
        }
        let names = Release::with_cpu_slabs().iter().map(|release| release.name);
        assert!(names.eq(crate::CPU_SLAB_RELEASES));
    }

    #[test]
    fn a_name_is_a_word_of_its_value() {
        for release in RELEASES {
            assert_eq!(Freezing::find(release.freezing.name()), Some(release.freezing));
            assert_eq!(Accounting::find(release.accounting.name()), Some(release.accounting));
        }
        for value in Freezing::ALL {
            assert_eq!(Freezing::find(value.name()), Some(value));
        }
        for (name, value) in PageLists::WORDS {
            assert_eq!(value.name(), *name);
        }
        for (name, value) in Reclaim::WORDS {
            assert_eq!(value.name(), *name);
        }
    }

    #[test]
    fn hyphens_and_underscores_are_the_same() {
        assert!(super::is_same(b"cpu-slabs", b"cpu_slabs") && super::is_same(b"a_b-c", b"a-b_c"));
        assert!(!super::is_same(b"cpu-slabs", b"cpuslabs") && !super::is_same(b"a", b"a-"));
        assert_eq!(PageLists::find("hot_cold"), Some(PageLists::HotCold));
        assert_eq!(Freezing::find("release"), None);
    }
}
