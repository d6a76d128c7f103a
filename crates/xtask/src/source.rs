//! Rust files as tokens: the tokens of code, in the order of the text, without comments, strings,
//! characters and numbers. A macro's arguments are tokens like all others, so that a rule about
//! names also sees names in them.

use crate::tree::Tree;
use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use std::collections::HashSet;

/// The paths of those files that are compiled for tests only: in a crate's directory of tests,
/// examples or benchmarks, or modules of a file that declares them so, at any depth.
pub fn for_tests(sources: &[Source]) -> HashSet<&str> {
    let mut modules = HashSet::new();
    for source in sources {
        let tokens = Tokens(&source.tokens);
        let is_root = ["/lib.rs", "/main.rs"].iter().any(|root| source.path.ends_with(root));
        let directory = if is_root { above(&source.path) } else { module_path(&source.path) };
        for i in (0..source.tokens.len()).filter(|&i| tokens.for_tests(i)) {
            let end = tokens.end_of_item(i);
            if tokens.at(end) == ";" && tokens.at(end - 2) == "mod" {
                modules.insert(format!("{directory}/{}", tokens.at(end - 1)));
            }
        }
    }
    let is_for_tests = |path: &str| {
        let directory = path.split('/').nth(2);
        if matches!(directory, Some("tests" | "examples" | "benches")) {
            return true;
        }
        let mut module = module_path(path);
        while module.contains('/') {
            if modules.contains(module) {
                return true;
            }
            module = above(module);
        }
        false
    };
    sources.iter().map(|source| source.path.as_str()).filter(|path| is_for_tests(path)).collect()
}

/// The path of a file's module: where the files of its parts are.
fn module_path(path: &str) -> &str {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    path.strip_suffix("/mod").unwrap_or(path)
}

fn above(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(above, _)| above)
}

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
    stream: TokenStream,
}

impl Source {
    pub fn stream(&self) -> TokenStream {
        self.stream.clone()
    }

    /// What the file is to the compiler, before macros are expanded.
    pub fn items(&self) -> Result<syn::File, String> {
        syn::parse2(self.stream.clone())
            .map_err(|error| format!("{}:{}: {error}", self.path, error.span().start().line))
    }
}

/// All Rust files of the tree's crates, or what is wrong with one.
pub fn sources(tree: &Tree) -> Result<Vec<Source>, String> {
    tree.files("crates/", ".rs").map(|(path, text)| source(path, text)).collect()
}

fn source(path: &str, text: &str) -> Result<Source, String> {
    let stream: TokenStream =
        text.parse().map_err(|error| format!("{path}: this is no Rust: {error}"))?;
    let mut tokens = Vec::with_capacity(text.len() / 6);
    flatten(stream.clone(), &mut tokens);
    Ok(Source { path: path.to_owned(), tokens, stream })
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

    /// Are these the tokens that start at `i`?
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_those_of_code() {
        let text = "/* a /* b */ */ fn f<'a>(x: a::B) { g(\"c\", 'd', 1) } // e\n";
        let source = source("crates/x/src/lib.rs", text).unwrap();
        let texts: Vec<&str> = source.tokens.iter().map(|token| token.text.as_str()).collect();
        let code = "fn f < ' a > ( x : a :: B ) { g ( , , ) }";
        assert_eq!(texts, code.split(' ').collect::<Vec<_>>());
    }

    #[test]
    fn files_for_tests_are_known_by_who_declares_them() {
        let declares = "mod code;\n#[cfg(test)]\nmod tests;\n#[cfg(not(test))]\nmod other;";
        let tree = Tree::of([
            ("crates/x/src/lib.rs", declares),
            ("crates/x/src/tests.rs", ""),
            ("crates/x/src/tests/deep.rs", ""),
            ("crates/x/src/code/mod.rs", declares),
            ("crates/x/src/code/tests.rs", ""),
            ("crates/x/src/code/other.rs", ""),
            ("crates/x/tests/program.rs", ""),
        ]);
        let sources = sources(&tree).unwrap();
        let mut paths: Vec<&str> = for_tests(&sources).into_iter().collect();
        paths.sort_unstable();
        assert_eq!(
            paths,
            [
                "crates/x/src/code/tests.rs",
                "crates/x/src/tests.rs",
                "crates/x/src/tests/deep.rs",
                "crates/x/tests/program.rs",
            ]
        );
    }

    #[test]
    fn what_is_no_rust_is_said() {
        assert!(source("crates/x/src/lib.rs", "fn f() {").is_err());
    }
}
