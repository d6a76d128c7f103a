//! Checks that documents, comments and messages use the field's terms, and none of the retired
//! words.

use super::code::Code;
use crate::phrase::{Phrase, Word, add_words};
use crate::rules::Words;
use crate::tree::Tree;
use std::collections::{BTreeMap, HashMap};

/// Where a retired word is, and what to use in its place.
pub fn retired_words(tree: &Tree, code: &Code, words: &Words) -> Vec<String> {
    let everywhere = Retired::of([&words.retired]);
    let of_engine = Retired::of([&words.retired, &words.retired_of_engine]);
    let is_in = |path: &str, paths: &[String]| paths.iter().any(|of| path.starts_with(&**of));
    let retired = |path| if is_in(path, &words.of_engine) { &of_engine } else { &everywhere };
    let exempt = |path| is_in(path, &words.exempt);
    let mut found = Vec::new();
    for (path, text) in tree.files("", ".md").filter(|(path, _)| !exempt(path)) {
        let mut is_code = false;
        // A sentence of a document is on one line.
        for (i, line) in text.lines().enumerate() {
            is_code ^= line.starts_with("```");
            if !is_code {
                let mut words = Vec::new();
                add_words(&mut words, i + 1, line);
                retired(path).find(path, &words, &mut found);
            }
        }
    }
    for (path, prose) in code.rust.iter().filter(|(path, _)| !exempt(path)) {
        let mut words: Vec<Word> = Vec::new();
        let mut last = 0;
        for comment in &prose.comments {
            if comment.line != last + 1 {
                retired(path).find(path, &words, &mut found);
                words.clear();
            }
            last = comment.line;
            add_words(&mut words, comment.line, &comment.text);
        }
        retired(path).find(path, &words, &mut found);
        if code.tests.contains(path) {
            continue;
        }
        for string in &prose.strings {
            let mut words = Vec::new();
            add_words(&mut words, string.line, &string.text);
            retired(path).find(path, &words, &mut found);
        }
    }
    found
}

/// The retired phrases, by the words that they begin with.
struct Retired<'a> {
    phrases: HashMap<String, Vec<(Phrase, &'a str)>>,
}

impl<'a> Retired<'a> {
    fn of<const N: usize>(tables: [&'a BTreeMap<String, String>; N]) -> Retired<'a> {
        let mut phrases: HashMap<String, Vec<(Phrase, &str)>> = HashMap::new();
        for (old, new) in tables.into_iter().flatten() {
            for first in Phrase::of(old).first_words() {
                phrases.entry(first.clone()).or_default().push((Phrase::of(old), new));
            }
        }
        Retired { phrases }
    }

    fn find(&self, path: &str, words: &[Word], found: &mut Vec<String>) {
        for (i, word) in words.iter().enumerate() {
            for (phrase, new) in self.phrases.get(&word.text).into_iter().flatten() {
                let Some(length) = phrase.length_at(&words[i..]) else { continue };
                let old: Vec<&str> =
                    words[i..i + length].iter().map(|word| word.text.as_str()).collect();
                let old = old.join(" ");
                found.push(format!("{path}:{}: retired: `{old}`, use: {new}", word.line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::sources;

    /// What the tables of the repository find in this file.
    fn found(path: &str, text: &str) -> Vec<String> {
        let words: Words = toml::from_str(include_str!("../../../../ci/words.toml")).unwrap();
        let words = Words { exempt: vec!["docs/exempt.md".to_owned()], ..words };
        let tree = Tree::of([(path, text)]);
        retired_words(&tree, &Code::of(&tree, &sources(&tree).unwrap()), &words)
    }

    #[track_caller]
    fn finds(path: &str, text: &str, place: &str, phrase: &str) {
        let found = found(path, text);
        let expected = format!("{path}:{place}: retired: `{phrase}`, use: ");
        assert!(found.len() == 1 && found[0].starts_with(&expected), "{found:?}");
    }

    #[test]
    fn finds_retired_words_in_documents() {
        finds("docs/design.md", "\n\nWho `comes` by.", "3", "comes by");
        let text = "A large one goes straight home.";
        finds("docs/tuning.md", text, "1", "goes straight home");
        finds("README.md", "The Heartbeat, then.", "1", "heartbeat");
    }

    #[test]
    fn finds_retired_words_in_comments_over_lines() {
        let path = "crates/malloc/src/fork.rs";
        finds(path, "//! Objects are sent\n//! home.", "1", "sent home");
        finds(path, "fn f() { let a = 1; // Its slab's frame.\n}", "1", "slab's frame");
    }

    #[test]
    fn finds_retired_words_in_messages_and_not_in_tests() {
        let path = "crates/cli/src/run.rs";
        finds(path, "fn f() { print(\"{} of the heartbeat\") }", "1", "heartbeat");
        assert_eq!(found(path, "#[cfg(test)]\nfn f() { print(\"heartbeat\") }"), [""; 0]);
        assert_eq!(found("crates/cli/tests/run.rs", "fn f() { g(\"heartbeat\") }"), [""; 0]);
    }

    #[test]
    fn finds_what_is_retired_of_the_engine_there_alone() {
        finds("crates/slabyard/src/yard.rs", "// In the last round.", "1", "last round");
        assert_eq!(found("crates/bench/src/runs.rs", "// In the last round."), [""; 0]);
    }

    #[test]
    fn allows_innocent_words() {
        for text in [
            "A stripped program has a home directory; a frame of the stack; what it owes.",
            "A round number of rounds, step by step; background; the system grants it; page by page.",
        ] {
            assert_eq!(found("docs/design.md", text), [""; 0]);
        }
        assert_eq!(found("docs/design.md", "```\nheartbeat\n```\n"), [""; 0]);
        assert_eq!(found("docs/exempt.md", "heartbeat"), [""; 0]);
    }
}
