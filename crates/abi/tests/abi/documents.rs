//! Tables that documents copy from the code: the options in `docs/tuning.md`, the counters in
//! `docs/counters.md`, the words of the readable region in `docs/region.md`. The text around them
//! is written by hand, the tables by `SLABYARD_BLESS=1 cargo test -p slabyard-abi --test abi`.

use slabyard_abi::counters::{CACHE_FIELDS, ReportField, Unit, YARD_FIELDS};
use slabyard_abi::engines::EngineName;
use slabyard_abi::pressure::PressureCounter;
use slabyard_abi::region::{CACHE_WORDS, MAIL_WORDS, TUNABLES, WORDS};
use slabyard_abi::stats::Counter;
use slabyard_kernels::settings::{ENGINE_OPTIONS, OF_ENGINE, OPTIONS, Opt, ValueKind};
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

const COMMAND: &str = "run `SLABYARD_BLESS=1 cargo test -p slabyard-abi --test abi`";

fn document(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

/// Asserts that a document has these tables between their markers, or puts them there.
fn has_tables(name: &str, tables: &[(&str, String)]) {
    let path = document(name);
    let found = fs::read_to_string(&path).expect(name);
    let right = with_tables(&found, tables);
    if std::env::var_os("SLABYARD_BLESS").is_some() {
        return fs::write(&path, &right).expect(name);
    }
    let differs = right.lines().zip(found.lines()).find(|(right, found)| right != found);
    assert!(found == right, "docs/{name} differs ({differs:?}); {COMMAND}");
}

fn with_tables(text: &str, tables: &[(&str, String)]) -> String {
    tables.iter().fold(text.to_owned(), |text, table| with_table(&text, table))
}

fn with_table(text: &str, (name, table): &(&str, String)) -> String {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("no marker {name}"));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("no end of {name}"));
    format!("{before}{begin}{table}{end}{after}")
}

fn bytes(n: u64) -> String {
    match n {
        _ if n >= 1 << 30 => format!("{}G", n >> 30),
        _ if n >= 1 << 20 => format!("{}M", n >> 20),
        _ => n.to_string(),
    }
}

fn takes(kind: ValueKind) -> String {
    match kind {
        ValueKind::Number(low, high) => format!("{low} to {high}"),
        ValueKind::Bytes(low, high) => format!("bytes, {} to {}", bytes(low), bytes(high)),
        ValueKind::Switch => "0 or 1".into(),
        ValueKind::Word(words) | ValueKind::Release(words, _) => {
            words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ")
        }
        ValueKind::Text => "text".into(),
    }
}

fn default(option: &Opt) -> String {
    match option.kind {
        ValueKind::Number(..) if option.default == OF_ENGINE => "the engine's own".into(),
        ValueKind::Number(..) | ValueKind::Switch => option.default.to_string(),
        ValueKind::Bytes(..) => bytes(option.default),
        ValueKind::Word(words) | ValueKind::Release(words, _) => {
            format!("`{}`", words[option.default as usize])
        }
        ValueKind::Text => "none".into(),
    }
}

fn options(options: &[Opt]) -> String {
    let mut text = String::from("| variable | takes | default | what it is |\n|---|---|---|---|\n");
    for option in options {
        let (takes, default) = (takes(option.kind), default(option));
        let _ = writeln!(text, "| `{}` | {takes} | {default} | {} |", option.env, option.help());
    }
    text
}

#[test]
fn tuning_has_the_options() {
    let tables = [("options", options(OPTIONS)), ("options of engines", options(ENGINE_OPTIONS))];
    has_tables("tuning.md", &tables);
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "bytes",
        Unit::Objects => "objects",
        Unit::Slabs => "slabs",
        Unit::Order => "order",
        Unit::Runs => "runs",
        Unit::Milliseconds => "ms",
        Unit::Sheaves => "sheaves",
        Unit::Share | Unit::Hundredths => "ratio",
        Unit::Flag => "0 or 1",
        // The number of a word.
        Unit::Text | Unit::Count => "count",
    }
}

fn fields<T>(fields: &[ReportField<T>]) -> String {
    let mut text = String::from("| name | unit | part | what it is |\n|---|---|---|---|\n");
    for ReportField { field, .. } in fields {
        let part = if field.part { "yes" } else { "" };
        let _ =
            writeln!(text, "| `{}` | {} | {part} | {} |", field.name, unit(field.unit), field.help);
    }
    text.replace("|  |", "| |")
}

fn counted<T>(counters: &[(T, &str, &str)], is_shown: fn(&str) -> bool) -> String {
    let mut text = String::from("| counter | counts |\n|---|---|\n");
    for (_, name, help) in counters.iter().filter(|(_, name, _)| is_shown(name)) {
        let _ = writeln!(text, "| `{name}` | {help} |");
    }
    text
}

fn counters() -> [(&'static str, String); 4] {
    let of_warm = |name: &str| name.starts_with("page_") && !name.starts_with("page_cold_");
    [
        ("cache", fields(CACHE_FIELDS)),
        ("yard", fields(YARD_FIELDS)),
        ("page lists", counted(Counter::ALL, of_warm)),
        ("pressure", counted(PressureCounter::ALL, |_| true)),
    ]
}

#[test]
fn counters_has_the_fields() {
    has_tables("counters.md", &counters());
}

fn words(rows: impl Iterator<Item = (usize, &'static str, &'static str)>) -> String {
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

#[test]
fn the_document_has_the_tables() {
    let tables = [
        ("header", words(WORDS.iter().map(|(w, name, help)| (w.index(), *name, *help)))),
        ("cache", words(CACHE_WORDS.iter().map(|(w, name, help)| (w.index(), *name, *help)))),
        ("mailbox", words(MAIL_WORDS.iter().map(|(w, name, help)| (w.index(), *name, *help)))),
        ("tunables", tunables()),
        ("engines", engines()),
    ];
    has_tables("region.md", &tables);
}

#[test]
fn a_wrong_row_is_found() {
    let text = fs::read_to_string(document("counters.md")).expect("counters.md");
    let planted = [
        ("| `slabs` | slabs |", "| `slabs` | objects |"),
        ("| `committed` | bytes | |", "| `committed` | bytes | yes |"),
        ("| `padding` | bytes | yes | tails of slabs, behind the last object |\n", ""),
    ];
    for (row, wrong) in planted {
        let altered = text.replacen(row, wrong, 1);
        assert_ne!(altered, text, "the document has {row}");
        assert_ne!(with_tables(&altered, &counters()), altered, "{row} as {wrong}");
    }
}
