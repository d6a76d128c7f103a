//! Tests of the words of the readable region.

use slabyard_abi::region::{HEADER_WORDS, MAIL_AT, MAIL_WORDS, Mail, WORDS, Word, check};

#[test]
fn words_do_not_overlap() {
    assert_eq!(Word::Version.index(), 2, "behind the magic");
    let last = WORDS.last().expect("words").0.index();
    assert!(last < MAIL_AT && MAIL_WORDS.last().expect("words").0.index() < HEADER_WORDS);
    assert_eq!(Mail::Asked.index(), MAIL_AT);
    // What is polled at each slow path lies in one cache line.
    assert_eq!(Mail::Asked.index() / 8, Mail::Answered.index() / 8);
}

#[test]
fn a_check_tells_every_word_apart() {
    let request = [1, 2, 3, 4, 5, 6];
    for i in 0..request.len() {
        for bit in 0..64 {
            let mut other = request;
            other[i] ^= 1 << bit;
            assert_ne!(check(other), check(request), "word {i}, bit {bit}");
        }
    }
}
