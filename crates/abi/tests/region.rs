//! `docs/region.md` has the tables of `abi::region` as they are. Its text is written by
//! hand, its tables by `SLABYARD_BLESS=1 cargo test -p slabyard-abi --test region`.

use slabyard_abi::engines::EngineName;
use slabyard_abi::region::{
    CACHE_WORDS, HEADER_WORDS, MAIL_AT, MAIL_WORDS, Mail, TUNABLES, WORDS, Word, check,
};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

const COMMAND: &str = "run `SLABYARD_BLESS=1 cargo test -p slabyard-abi --test region`";

fn document() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/region.md")
}

fn rows(rows: impl Iterator<Item = (usize, &'static str, &'static str)>) -> String {
    let mut text = String::from("| word | name | what it is |\n|---|---|---|\n");
    for (number, name, help) in rows {
        let _ = writeln!(text, "| {number} | `{name}` | {help} |");
    }
    text
}

fn tunables() -> String {
    let mut text =
        String::from("| number | key | of | takes | what it is |\n|---|---|---|---|---|\n");
    for row in TUNABLES {
        let of = if row.of_yard { "the yard" } else { "a cache" };
        let (number, name, help) = (row.number, row.name, row.help());
        let _ = writeln!(
            text,
            "| {number} | `{name}` | {of} | {} to {} | {help} |",
            row.least, row.most
        );
    }
    text
}

fn engines() -> String {
    let mut text = String::from("| number | name | what it is |\n|---|---|---|\n");
    for engine in EngineName::ALL {
        let row = engine.row();
        let _ = writeln!(text, "| {} | `{}` | {} |", engine.number(), row.name, row.help);
    }
    text
}

/// Puts a table where its markers are.
fn with_table(text: &str, name: &str, table: &str) -> String {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("no marker {name}"));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("no end of {name}"));
    format!("{before}{begin}{table}{end}{after}")
}

#[test]
fn the_document_has_the_tables() {
    let found = fs::read_to_string(document()).expect("docs/region.md");
    let mut right = found.clone();
    let tables = [
        ("front", rows(WORDS.iter().map(|(w, name, help)| (w.index(), *name, *help)))),
        ("cache", rows(CACHE_WORDS.iter().map(|(w, name, help)| (w.index(), *name, *help)))),
        ("mailbox", rows(MAIL_WORDS.iter().map(|(w, name, help)| (w.index(), *name, *help)))),
        ("tunables", tunables()),
        ("engines", engines()),
    ];
    for (name, table) in &tables {
        right = with_table(&right, name, table);
    }
    if std::env::var_os("SLABYARD_BLESS").is_some() {
        fs::write(document(), &right).expect("docs/region.md is written");
    } else {
        assert!(found == right, "docs/region.md is not what the tables give; {COMMAND}");
    }
}

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
