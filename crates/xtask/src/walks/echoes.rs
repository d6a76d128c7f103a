//! A documenting comment says more than the name of what it documents.
//!
//! The words of a comment are held against those of the item's name, of its type, and of what the
//! item is in: the type or the trait, and the module. A comment of which only fillers are left
//! (`ci/words.toml` has them: articles, pronouns, questions) says nothing, and a reader has read
//! it in vain. Words are compared without their endings, so that `frees` equals `free`. Items that
//! macros make are not seen.

use crate::attributes::{is_for_tests, words_of};
use crate::rules::Words;
use crate::source::Source;
use std::collections::HashSet;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, Field, Ident, ImplItemConst, ImplItemFn, ItemConst, ItemEnum, ItemFn,
    ItemImpl, ItemMod, ItemStatic, ItemStruct, ItemTrait, ItemType, Lit, Meta, ReturnType,
    TraitItemConst, TraitItemFn, TraitItemType, Type, Variant,
};

/// The comments that say nothing, in files that are not for tests only. What the help of a command
/// is made of is exempt: there the name alone would say less.
pub fn echoes<'a>(
    sources: impl Iterator<Item = &'a Source>,
    words: &Words,
) -> Result<Vec<String>, String> {
    let fillers: HashSet<String> = words.fillers.iter().map(|word| stem(word)).collect();
    let mut found = Vec::new();
    for source in sources {
        let module = source.path.trim_end_matches(".rs").trim_end_matches("/mod");
        let module = module.rsplit('/').next().unwrap_or(module);
        let around = vec![words_of_name(module)];
        let look = Look { path: &source.path, fillers: &fillers, around, found: &mut found };
        { look }.visit_file(&source.items()?);
    }
    Ok(found)
}

struct Look<'a> {
    path: &'a str,
    fillers: &'a HashSet<String>,
    /// The words of the names of what the item at hand is in.
    around: Vec<Vec<String>>,
    found: &'a mut Vec<String>,
}

impl Look<'_> {
    fn judge(&mut self, attributes: &[Attribute], name: &Ident, types: &[&Type]) {
        let Some((line, comment)) = comment(attributes) else { return };
        let mut known: HashSet<String> = self.around.iter().flatten().cloned().collect();
        known.extend(words_of_name(&name.to_string()));
        known.extend(types.iter().flat_map(|of| words_of_type(of)));
        let says = |word: &str| {
            let word = stem(&word.to_lowercase());
            !known.contains(&word) && !self.fillers.contains(&word)
        };
        if !words(&comment).any(says) {
            let Look { path, .. } = self;
            self.found.push(format!("{path}:{line}: says nothing of {name}: {}", comment.trim()));
        }
    }

    /// Looks at what is in an item of this name.
    fn within(&mut self, name: &str, look: impl FnOnce(&mut Self)) {
        self.around.push(words_of_name(name));
        look(self);
        self.around.pop();
    }
}

/// Are its comments the help of a command?
fn is_help(attributes: &[Attribute]) -> bool {
    let derived = ["Args", "Parser", "Subcommand", "ValueEnum"];
    words_of(attributes, "derive").any(|word| derived.contains(&word.as_str()))
}

/// The text of an item's documenting comment, and its first line.
fn comment(attributes: &[Attribute]) -> Option<(usize, String)> {
    let mut lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some((text.span().start().line, text.value())),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    let (line, mut comment) = lines.next()?;
    for (_, text) in lines {
        comment += &text;
    }
    Some((line, comment))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    // That of a genitive is no word.
    words.filter(|word| !matches!(*word, "" | "s"))
}

/// The words of a name in capitals, in camels or with underscores.
fn words_of_name(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && before.is_lowercase()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut()
            && c != '_'
        {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    words.iter().map(|word| stem(word)).collect()
}

fn words_of_type(of: &Type) -> Vec<String> {
    struct Names(Vec<String>);
    impl Visit<'_> for Names {
        fn visit_ident(&mut self, name: &Ident) {
            self.0.extend(words_of_name(&name.to_string()));
        }
    }
    let mut names = Names(Vec::new());
    names.visit_type(of);
    names.0
}

/// A word without its ending.
fn stem(word: &str) -> String {
    let endings = ["ing", "ied", "ies", "ed", "es", "s", "e", "y"];
    let ending = endings.iter().find(|&ending| {
        word.ends_with(ending) && word.len() >= ending.len() + if ending.len() > 2 { 3 } else { 2 }
    });
    let stem = &word[..word.len() - ending.map_or(0, |ending| ending.len())];
    let mut letters: Vec<char> = stem.chars().collect();
    if let [.., a, b] = letters[..]
        && a == b
    {
        letters.pop();
    }
    letters.into_iter().collect()
}

impl<'ast> Visit<'ast> for Look<'_> {
    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        if is_help(&item.attrs) {
            return;
        }
        self.judge(&item.attrs, &item.ident, &[]);
        self.within(&item.ident.to_string(), |look| visit::visit_item_struct(look, item));
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        if is_help(&item.attrs) {
            return;
        }
        self.judge(&item.attrs, &item.ident, &[]);
        self.within(&item.ident.to_string(), |look| visit::visit_item_enum(look, item));
    }

    fn visit_variant(&mut self, item: &'ast Variant) {
        let types: Vec<&Type> = item.fields.iter().map(|field| &field.ty).collect();
        self.judge(&item.attrs, &item.ident, &types);
        self.within(&item.ident.to_string(), |look| visit::visit_variant(look, item));
    }

    fn visit_field(&mut self, item: &'ast Field) {
        if let Some(name) = &item.ident {
            self.judge(&item.attrs, name, &[&item.ty]);
        }
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.judge(&item.attrs, &item.ident, &[]);
        self.within(&item.ident.to_string(), |look| visit::visit_item_trait(look, item));
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if is_for_tests(&item.attrs) {
            return;
        }
        self.judge(&item.attrs, &item.ident, &[]);
        self.within(&item.ident.to_string(), |look| visit::visit_item_mod(look, item));
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        self.around.push(words_of_type(&item.self_ty));
        visit::visit_item_impl(self, item);
        self.around.pop();
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.judge(&item.attrs, &item.sig.ident, &returned(&item.sig.output));
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.judge(&item.attrs, &item.sig.ident, &returned(&item.sig.output));
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        self.judge(&item.attrs, &item.sig.ident, &returned(&item.sig.output));
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_const(&mut self, item: &'ast ItemConst) {
        self.judge(&item.attrs, &item.ident, &[&item.ty]);
    }

    fn visit_item_static(&mut self, item: &'ast ItemStatic) {
        self.judge(&item.attrs, &item.ident, &[&item.ty]);
    }

    fn visit_item_type(&mut self, item: &'ast ItemType) {
        self.judge(&item.attrs, &item.ident, &[&item.ty]);
    }

    fn visit_impl_item_const(&mut self, item: &'ast ImplItemConst) {
        self.judge(&item.attrs, &item.ident, &[&item.ty]);
    }

    fn visit_trait_item_const(&mut self, item: &'ast TraitItemConst) {
        self.judge(&item.attrs, &item.ident, &[&item.ty]);
    }

    fn visit_trait_item_type(&mut self, item: &'ast TraitItemType) {
        self.judge(&item.attrs, &item.ident, &[]);
    }
}

fn returned(output: &ReturnType) -> Vec<&Type> {
    match output {
        ReturnType::Type(_, of) => vec![of],
        ReturnType::Default => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::sources;
    use crate::tree::Tree;

    fn found(text: &str) -> Vec<String> {
        let words: Words = toml::from_str(include_str!("../../../../ci/words.toml")).unwrap();
        let tree = Tree::of([("crates/a/src/machine.rs", text)]);
        let sources = sources(&tree).unwrap();
        echoes(sources.iter(), &words).unwrap()
    }

    #[track_caller]
    fn finds(text: &str, name: &str, comment: &str) {
        let line = text.lines().take_while(|line| !line.contains("//")).count() + 1;
        let echo = format!("crates/a/src/machine.rs:{line}: says nothing of {name}: {comment}");
        assert_eq!(found(text), [echo]);
    }

    #[test]
    fn finds_comments_of_fields() {
        finds("struct Event {\n    /// When.\n    time: u64,\n}", "time", "When.");
        finds("struct Run { /// The memory.\n m: Memory }", "m", "The memory.");
        finds(
            "struct Event { /// The event's cache.\n pub cache: u32 }",
            "cache",
            "The event's cache.",
        );
    }

    #[test]
    fn finds_comments_of_functions_and_methods() {
        finds("/// Runs it.\nfn run() {}", "run", "Runs it.");
        finds(
            "impl Cache { /// Stops the cache.\n fn stop(&self) {} }",
            "stop",
            "Stops the cache.",
        );
        finds("trait T { /// Returns a slab.\n fn get() -> Slab; }", "get", "Returns a slab.");
        finds("mod x { /// The machine's CPUs.\n fn cpus() {} }", "cpus", "The machine's CPUs.");
    }

    #[test]
    fn finds_comments_of_types_and_constants() {
        finds(
            "/// One row of\n/// the table.\nstruct TableRow;",
            "TableRow",
            "One row of the table.",
        );
        finds("enum Place { /// A slab.\n Slab }", "Slab", "A slab.");
        finds("/// Bytes of a page.\nconst PAGE_BYTES: u32 = 1;", "PAGE_BYTES", "Bytes of a page.");
        finds("trait T { /// Its engine.\n type Engine; }", "Engine", "Its engine.");
    }

    #[test]
    fn allows_comments_that_say_more() {
        for text in [
            "struct Event { /// Nanoseconds since the start.\n time: u64 }",
            "/// Bytes.\nstruct Event { /// In pages.\n size: u64 }",
            "/// Runs it without locks.\nfn run() {}",
            "/// Objects, not slabs.\nfn objects() {}",
            "fn run() {} // Runs it.",
        ] {
            assert_eq!(found(text), [""; 0]);
        }
    }

    #[test]
    fn the_help_of_a_command_is_exempt() {
        let text = "#[derive(Clone, Args)] struct A { /// The file\n file: u8 }";
        assert_eq!(found(text), [""; 0]);
        assert_eq!(found("#[cfg(test)] mod tests { /// Runs.\n fn run() {} }"), [""; 0]);
    }
}
