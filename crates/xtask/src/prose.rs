//! The parts of Rust files that people read: comments, and strings, which may be messages.

use crate::source::{Source, Tokens};
use proc_macro2::{LineColumn, Literal, TokenStream, TokenTree};
use syn::Lit;

/// A line of a comment, or a string, and the line on which it begins.
#[derive(Debug, PartialEq)]
pub struct Prose {
    pub line: usize,
    pub text: String,
}

/// What people read in one file.
#[derive(Debug, Default)]
pub struct ProseOfFile {
    /// Line by line, without their slashes.
    pub comments: Vec<Prose>,
    /// Those of what is not compiled for tests only.
    pub strings: Vec<Prose>,
    /// The lines of code, without comments.
    pub code: Vec<String>,
}

/// Parses a file whose tokens are `source`.
pub fn prose(source: &Source, text: &str) -> ProseOfFile {
    let lines: Vec<&str> = text.lines().collect();
    let mut literals = Vec::new();
    collect(source.stream(), &mut literals);
    // A documenting comment is a literal too, by its place in the text.
    literals.retain(|literal| {
        let start = literal.span().start();
        !lines.get(start.line - 1).is_some_and(|line| from(line, start.column).starts_with('/'))
    });
    let mut found = ProseOfFile::default();
    let mut literal = 0;
    for (i, line) in lines.iter().enumerate() {
        while literals.get(literal).is_some_and(|literal| literal.span().end().line < i + 1) {
            literal += 1;
        }
        let on_line = &literals[literal..];
        let start = comment(line, i + 1, on_line);
        let (code, comment) = line.split_at(start.unwrap_or(line.len()));
        found.code.push(code.to_owned());
        if start.is_some() {
            let text = comment.trim_start_matches('/').trim_start_matches('!').to_owned();
            found.comments.push(Prose { line: i + 1, text });
        }
    }
    let of_tests = lines_of_tests(source);
    for literal in literals {
        let line = literal.span().start().line;
        if let Lit::Str(string) = Lit::new(literal)
            && !of_tests.iter().any(|(first, last)| (*first..=*last).contains(&line))
        {
            found.strings.push(Prose { line, text: string.value() });
        }
    }
    found
}

fn collect(stream: TokenStream, literals: &mut Vec<Literal>) {
    for tree in stream {
        match tree {
            TokenTree::Literal(literal) => literals.push(literal),
            TokenTree::Group(group) => collect(group.stream(), literals),
            _ => {}
        }
    }
}

fn from(line: &str, column: usize) -> &str {
    let at = line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
    &line[at..]
}

/// Where a line's comment begins: at two slashes that no literal has.
fn comment(line: &str, number: usize, literals: &[Literal]) -> Option<usize> {
    let mut slashes = line.match_indices("//").map(|(at, _)| at);
    slashes.find(|&at| {
        let here = LineColumn { line: number, column: line[..at].chars().count() };
        let on_line = literals.iter().take_while(|of| of.span().start().line <= number);
        !on_line.map(Literal::span).any(|of| of.start() <= here && here < of.end())
    })
}

/// The first and the last line of each part that is for tests only.
fn lines_of_tests(source: &Source) -> Vec<(usize, usize)> {
    let tokens = Tokens(&source.tokens);
    let parts = (0..source.tokens.len()).filter(|&i| tokens.for_tests(i));
    let line = |i: usize| source.tokens.get(i).map_or(0, |token| token.line);
    parts.map(|i| (line(i), line(tokens.end_of_item(i)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::sources;
    use crate::tree::Tree;

    fn of(text: &str) -> ProseOfFile {
        let tree = Tree::of([("crates/x/src/lib.rs", text)]);
        prose(&sources(&tree).unwrap()[0], text)
    }

    fn lines(prose: &[Prose]) -> Vec<(usize, &str)> {
        prose.iter().map(|prose| (prose.line, prose.text.as_str())).collect()
    }

    #[test]
    fn comments_are_what_no_string_has() {
        let found =
            of("//! Head.\n\n/// Item.\nfn f() {} // Why.\nconst A: &str = \"ä//b\"; // c\n");
        let comments = [(1, " Head."), (3, " Item."), (4, " Why."), (5, " c")];
        assert_eq!(lines(&found.comments), comments);
        assert_eq!(lines(&found.strings), [(5, "ä//b")]);
        assert_eq!(found.code[3], "fn f() {} ");
    }

    #[test]
    fn strings_go_over_lines() {
        let found = of("const A: &str = r#\"a\n// b\n\"#; // c");
        assert_eq!(lines(&found.comments), [(3, " c")]);
        assert_eq!(lines(&found.strings), [(1, "a\n// b\n")]);
    }

    #[test]
    fn strings_of_tests_are_no_messages() {
        let found =
            of("fn f() { g(\"a\") }\n#[cfg(test)]\nmod tests {\n    fn h() { g(\"b\") }\n}");
        assert_eq!(lines(&found.strings), [(1, "a")]);
    }
}
