//! The table of messages against the sources, and `docs/messages.md` against the table.

use super::messages::{self, GROUPS, MESSAGES};
use super::{explained, hint, numbers};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The crates that print through the command.
const OF_COMMAND: [&str; 8] = ["cli", "ask", "doctor", "lab", "observe", "owners", "page", "abi"];
/// Those whose lines begin with `slabyard: ` in a program.
const OF_LIBRARIES: [&str; 5] = ["process", "malloc", "kmem", "engines", "slabyard"];

/// What a failure's text stands behind.
const FAILURES: [&str; 3] = ["#[error(", "anyhow!(", "bail!("];

fn crates() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The sources of a crate without tests and this module, their literals in one line each.
fn sources(of: &str) -> Vec<String> {
    let mut left = vec![crates().join(of).join("src")];
    let mut texts = Vec::new();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("a directory of sources");
            left.extend(entries.map(|entry| entry.expect("an entry").path()));
        } else if path.extension().is_some_and(|ending| ending == "rs") && !is_ours(&path) {
            let text = fs::read_to_string(&path).expect("a source");
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            texts.push(in_one_line(text));
        }
    }
    texts
}

fn is_ours(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "explain")
}

/// Without the ends of lines in literals, which a backslash takes out.
fn in_one_line(text: &str) -> String {
    let mut parts = text.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.trim_start())
}

/// The first literal behind each of these words, if it is in the same call.
fn literals(source: &str, before: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for word in before {
        for (at, _) in source.match_indices(word) {
            let rest = &source[at + word.len()..];
            let Some((_, literal)) = rest.split_once('"') else { continue };
            if rest.find([';', ')']).is_some_and(|end| end < rest.len() - literal.len()) {
                continue;
            }
            let mut end = 0;
            while !literal[end..].starts_with('"') {
                end += if literal[end..].starts_with('\\') { 2 } else { 1 };
                while !literal.is_char_boundary(end) {
                    end += 1;
                }
            }
            found.push(literal[..end].to_owned());
        }
    }
    found
}

/// Has a text words of its own, beside those that are filled in?
fn says_something(text: &str) -> bool {
    let mut depth = 0;
    let own = text.chars().filter(|c| {
        depth += i32::from(*c == '{') - i32::from(*c == '}');
        depth == 0 && c.is_alphabetic()
    });
    own.count() > 0
}

/// Failures without a code, and why.
fn needs_none(text: &str) -> bool {
    // What was typed: it names the word and what is possible.
    let typed = [
        "expected KEY=VALUE",
        "unknown key",
        "takes {takes}",
        "out of range",
        "cannot be set",
        "cannot be shrunk",
        "--caches",
        "bound to",
    ];
    // Around another error, whose words decide.
    let around = [
        "standard input: {error}",
        "waiting for signals failed",
        "cache {id}: {why}",
        "cache {name}: {why}",
        "cache {id}: {what}",
        "a row: {wrong}",
        "{ENV}=",
        "stopped",
        "line {line}: {what}",
        "not here: {0}",
        "{name} of {source}: {why}",
        "kernel: {why_not}",
        "{damage}; write the file again",
        // What another program did, in its own words.
        "{what} ended {}{lines}",
    ];
    typed.iter().chain(&around).any(|part| text.contains(part))
}

fn failures_without_a_code(source: &str) -> Vec<String> {
    let mut found = literals(source, &FAILURES);
    found.retain(|text| {
        says_something(text) && !needs_none(text) && messages::of_text(text).is_none()
    });
    found
}

fn lines_without_a_code(source: &str) -> Vec<String> {
    // Parts of a report, whose first line has one, and numbers that were asked for.
    let parts = [
        "===",
        "---",
        "BUG ",
        "FIX ",
        "TRACE ",
        "Slab ",
        "Object ",
        "Pointer ",
        "Called by",
        "First byte",
        "    {",
        "by nobody knows",
        "committed {}",
        "{} live {} parked",
        "{info}",
    ];
    let mut found = literals(source, &["say!("]);
    found.retain(|text| {
        says_something(text)
            && !parts.iter().any(|part| text.contains(part))
            && !text.starts_with("memory at {:#x}: {cause}")
            && !text.starts_with("free({:#x}): {cause}")
            && messages::of_text(text).is_none()
    });
    found
}

#[test]
fn each_failure_of_the_command_has_a_code() {
    let all: Vec<_> = OF_COMMAND.iter().flat_map(|of| sources(of)).collect();
    let nr: usize = all.iter().map(|source| literals(source, &FAILURES).len()).sum();
    assert!(nr > 150, "{nr} failures are too few: they are made otherwise now");
    let without: Vec<_> = all.iter().flat_map(|source| failures_without_a_code(source)).collect();
    assert!(without.is_empty(), "without a code: {without:#?}");
}

#[test]
fn each_line_of_a_library_has_a_code() {
    let all = OF_LIBRARIES.iter().flat_map(|of| sources(of));
    let without: Vec<_> = all.flat_map(|source| lines_without_a_code(&source)).collect();
    assert!(without.is_empty(), "without a code: {without:#?}");
}

#[test]
fn a_text_without_a_code_is_found() {
    let source =
        "say!(\n    \"the moon \\\n     is {}\", full);\n#[error(\"{0}\")] A,\nbail!(\"no tide\")";
    let source = in_one_line(source);
    assert_eq!(lines_without_a_code(&source), ["the moon is {}"]);
    assert_eq!(failures_without_a_code(&source), ["no tide"]);
    assert!(failures_without_a_code("bail!(\"{} is damaged: {what}\")").is_empty());
}

#[test]
fn each_part_of_the_table_is_printed_somewhere() {
    let texts: Vec<_> = OF_COMMAND.iter().chain(&OF_LIBRARIES).flat_map(|of| sources(of)).collect();
    let is_printed = |part: &&&str| texts.iter().any(|text| text.contains(**part));
    let parts = MESSAGES.iter().flat_map(|message| message.says);
    let unused: Vec<_> = parts.filter(|part| !is_printed(part)).collect();
    assert!(unused.is_empty(), "printed nowhere: {unused:#?}");
    let filled = MESSAGES.iter().flat_map(|message| message.says).find(|part| part.contains('{'));
    assert_eq!(filled, None, "what is filled in is printed otherwise");
}

#[test]
fn codes_are_ordered_and_in_a_group() {
    assert!(MESSAGES.is_sorted_by(|a, b| a.code < b.code));
    assert!(
        MESSAGES.iter().all(|message| GROUPS.iter().any(|(digit, _)| *digit == message.group()))
    );
}

#[test]
fn what_is_printed_leads_to_its_code() {
    let line = "slabyard: free(0x7f12c0a01240): double free of an object of cache malloc-64";
    assert!(explained(line).is_some_and(|text| text.starts_with("E0101: ")));
    assert_eq!(hint("there is no process 7"), " [slabyard explain E0302]");
    assert_eq!(hint("no tide"), "");
    assert!(explained("e0501").is_some() && explained("no tide").is_none());
}

#[test]
fn each_number_has_a_paragraph() {
    for name in numbers::names() {
        assert!(
            explained(name).is_some_and(|text| text.starts_with(&format!("{name}: "))),
            "{name}"
        );
    }
    assert!(explained("decay_ms").is_some() && explained("burst.free").is_some());
}

#[test]
fn the_document_has_the_table() {
    let path = crates().join("../docs/messages.md");
    let found = fs::read_to_string(&path).expect("docs/messages.md");
    let (before, _) = found.split_once("<!-- messages -->\n").expect("the table begins");
    let mut right = format!("{before}<!-- messages -->\n");
    for (digit, group) in GROUPS {
        let _ = write!(right, "\n## {group}\n");
        for message in MESSAGES.iter().filter(|message| message.group() == digit) {
            let says =
                message.says.iter().map(|part| format!("\"{}\"", part.trim().replace('`', "")));
            let says = says.collect::<Vec<_>>().join(", ");
            let means = message.sentences();
            let _ = write!(
                right,
                "\n### {}\n\n**{}**: {says}.\n\n{means}\n",
                message.code, message.title
            );
        }
    }
    if std::env::var_os("SLABYARD_BLESS").is_some() {
        return fs::write(&path, right).expect("docs/messages.md");
    }
    assert!(
        found == right,
        "docs/messages.md differs; SLABYARD_BLESS=1 cargo test -p slabyard-cli explain"
    );
}
