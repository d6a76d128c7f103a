//! Rust files as tokens: those of code, in the order of the text, without comments, strings,
//! characters and numbers. A macro's arguments are tokens like all others, so that a rule about
//! names sees what is named there, too.

use crate::tree::Tree;
use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// A word, `::`, or one character that is neither.
#[derive(Debug)]
pub struct Token {
    pub text: String,
    pub line: usize,
}

impl Token {
    pub fn is_word(&self) -> bool {
        self.text.starts_with(|c: char| c == '_' || c.is_alphabetic())
    }
}

/// One Rust file.
#[derive(Debug)]
pub struct Source {
    /// From the root of the repository.
    pub path: String,
    pub tokens: Vec<Token>,
}

/// All Rust files of the tree's crates, or what is wrong with one.
pub fn sources(tree: &Tree) -> Result<Vec<Source>, String> {
    tree.files("crates/", ".rs").map(|(path, text)| source(path, text)).collect()
}

fn source(path: &str, text: &str) -> Result<Source, String> {
    let stream: TokenStream =
        text.parse().map_err(|error| format!("{path}: this is no Rust: {error}"))?;
    let mut tokens = Vec::with_capacity(text.len() / 6);
    flatten(stream, &mut tokens);
    Ok(Source { path: path.to_owned(), tokens })
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        let line = tree.span().start().line;
        let mut push = |text: &str, line| tokens.push(Token { text: text.to_owned(), line });
        match tree {
            TokenTree::Ident(name) => push(&name.to_string(), line),
            TokenTree::Literal(_) => {}
            TokenTree::Punct(punct) => {
                let path = punct.as_char() == ':'
                    && punct.spacing() == Spacing::Joint
                    && trees.next_if(is_colon).is_some();
                if path {
                    push("::", line);
                } else {
                    push(punct.as_char().encode_utf8(&mut [0; 4]), line);
                }
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                push(open, line);
                let last = group.span_close().start().line;
                flatten(group.stream(), tokens);
                tokens.push(Token { text: close.to_owned(), line: last });
            }
        }
    }
}

fn is_colon(tree: &TokenTree) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == ':')
}

/// Tokens by number; beyond the last there is nothing.
pub struct Tokens<'a>(pub &'a [Token]);

impl<'a> Tokens<'a> {
    pub fn at(&self, i: usize) -> &'a str {
        self.0.get(i).map_or("", |token| &token.text)
    }

    /// Are these the tokens from `i` on?
    pub fn are(&self, i: usize, texts: &[&str]) -> bool {
        texts.iter().enumerate().all(|(k, text)| self.at(i + k) == *text)
    }

    /// Is there an attribute at `i` by which what follows is for tests alone?
    pub fn for_tests(&self, i: usize) -> bool {
        if !self.are(i, &["#", "[", "cfg"]) {
            return false;
        }
        let condition = self.0[i + 3..].iter().map(|token| token.text.as_str());
        let mut of_tests = false;
        for word in condition.take_while(|text| *text != "]") {
            match word {
                "not" | "any" => return false,
                "test" => of_tests = true,
                _ => {}
            }
        }
        of_tests
    }

    /// The last token of what the attribute at `i` belongs to.
    pub fn end_of_item(&self, mut i: usize) -> usize {
        while self.at(i) == "#" {
            i = self.end_of_attribute(i) + 1;
        }
        // A field or an argument ends at a comma, an item does not.
        let is_item = ITEMS.contains(&self.at(i));
        let mut depth = 0;
        while i < self.0.len() {
            match self.at(i) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" if depth == 0 => return i - 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 && (matches!(self.at(i), "}" | ";") || (self.at(i) == "," && !is_item)) {
                return i;
            }
            i += 1;
        }
        self.0.len() - 1
    }

    fn end_of_attribute(&self, mut i: usize) -> usize {
        let mut depth = 0;
        while i < self.0.len() {
            match self.at(i) {
                "[" => depth += 1,
                "]" if depth == 1 => return i,
                "]" => depth -= 1,
                _ => {}
            }
            i += 1;
        }
        i
    }
}

const ITEMS: [&str; 16] = [
    "fn",
    "mod",
    "use",
    "impl",
    "struct",
    "enum",
    "union",
    "const",
    "static",
    "pub",
    "unsafe",
    "type",
    "trait",
    "extern",
    "async",
    "macro_rules",
];
