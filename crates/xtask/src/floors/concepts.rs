//! Measures how large each type is over all files of a crate: a type whose methods are spread over
//! thirty files is as large as one in a single file. Code that is compiled only for tests does not
//! count.

use crate::attributes::{is_for_tests, is_hidden};
use crate::limits::Counts;
use crate::source::{Source, Tokens, for_tests};
use std::collections::HashSet;
use syn::visit::{self, Visit};
use syn::{
    Attribute, ImplItem, ImplItemFn, Item, ItemFn, ItemImpl, ItemMod, ItemTrait, TraitItem, Type,
    Visibility,
};

/// What is counted; a concept of a crate is `crate::Name`.
#[derive(Default)]
pub struct Concepts {
    /// The methods of each type, those of traits apart.
    pub methods: Counts,
    /// The functions of each trait, required and provided.
    pub trait_functions: Counts,
    /// The types that have a trait of ours, in all crates.
    pub implementors: Counts,
    /// How many types of the project have a bare name.
    pub bare_names: Counts,
    /// What a crate shows: `crate::modules`, `crate::traits`, `crate::functions`, but what is hidden.
    pub public: Counts,
}

/// Counts the concepts of all crates. `linked` are files that another crate has.
pub fn concepts(sources: &[Source], linked: &HashSet<&str>) -> Result<Concepts, String> {
    let tests = for_tests(sources);
    let mut concepts = Concepts::default();
    let mut implemented = Vec::new();
    let hidden = hidden_modules(sources)?;
    for source in sources {
        let path = source.path.as_str();
        if tests.contains(path) || linked.contains(path) {
            continue;
        }
        let of = path.split('/').nth(1).unwrap_or("");
        let shows_modules = path.ends_with("/src/lib.rs");
        let is_hidden = hidden.iter().any(|of| is_below(path, of));
        let (concepts, implemented) = (&mut concepts, &mut implemented);
        Count { of, shows_modules, is_hidden, concepts, implemented }.visit_file(&source.items()?);
    }
    for (of, name) in implemented {
        // A trait of the same crate, else of the one that has it.
        let own = format!("{of}::{name}");
        let of_other = format!("::{name}");
        let traits = &concepts.trait_functions;
        let other = || traits.keys().find(|key| key.ends_with(&of_other)).cloned();
        if let Some(key) = traits.contains_key(&own).then_some(own).or_else(other) {
            *concepts.implementors.entry(key).or_default() += 1;
        }
    }
    Ok(concepts)
}

/// The hidden modules that are files: each as the path of its directory.
fn hidden_modules(sources: &[Source]) -> Result<Vec<String>, String> {
    let mut hidden = Vec::new();
    for source in sources {
        let path = source.path.strip_suffix(".rs").unwrap_or(&source.path);
        let of = ["/lib", "/main", "/mod"].iter().find_map(|end| path.strip_suffix(end));
        let directory = of.unwrap_or(path);
        for item in source.items()?.items {
            if let Item::Mod(item) = item
                && item.content.is_none()
                && is_hidden(&item.attrs)
            {
                hidden.push(format!("{directory}/{}", item.ident));
            }
        }
    }
    Ok(hidden)
}

/// True if a file is that of a module, or of one below it.
fn is_below(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// The lines that choose by a `cfg` of this name.
pub fn lines_of_cfg(sources: &[Source], linked: &HashSet<&str>, name: &str) -> usize {
    let of = |source: &Source| {
        let tokens = Tokens(&source.tokens);
        let on = (0..source.tokens.len()).filter(|&i| {
            tokens.at(i) == name && (i.saturating_sub(12)..i).any(|at| tokens.at(at) == "cfg")
        });
        on.map(|i| source.tokens[i].line).collect::<HashSet<_>>().len()
    };
    sources.iter().filter(|source| !linked.contains(source.path.as_str())).map(of).sum()
}

/// The count of one file.
struct Count<'a> {
    /// The crate.
    of: &'a str,
    /// Modules that are public in others are shown by those of the root only.
    shows_modules: bool,
    /// In a module that the documentation does not show.
    is_hidden: bool,
    concepts: &'a mut Concepts,
    /// The traits of the blocks `impl`: the crate that has the block, and the trait's name.
    implemented: &'a mut Vec<(String, String)>,
}

impl Count<'_> {
    fn public(&mut self, visibility: &Visibility, attributes: &[Attribute], what: &str) {
        let is_public = matches!(visibility, Visibility::Public(_));
        if is_public && !self.is_hidden && !is_hidden(attributes) {
            *self.concepts.public.entry(format!("{}::{what}", self.of)).or_default() += 1;
        }
    }

    fn bare_name(&mut self, name: &syn::Ident) {
        *self.concepts.bare_names.entry(name.to_string()).or_default() += 1;
    }
}

impl<'ast> Visit<'ast> for Count<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_for_tests(attributes(item)) {
            return;
        }
        match item {
            Item::Struct(item) => self.bare_name(&item.ident),
            Item::Enum(item) => self.bare_name(&item.ident),
            Item::Union(item) => self.bare_name(&item.ident),
            Item::Type(item) => self.bare_name(&item.ident),
            Item::Trait(item) => self.bare_name(&item.ident),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if self.shows_modules {
            self.public(&item.vis, &item.attrs, "modules");
        }
        let outside = self.is_hidden;
        self.is_hidden |= is_hidden(&item.attrs);
        visit::visit_item_mod(self, item);
        self.is_hidden = outside;
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.public(&item.vis, &item.attrs, "functions");
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.public(&item.vis, &item.attrs, "functions");
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.public(&item.vis, &item.attrs, "traits");
        let functions = item.items.iter().filter(|item| matches!(item, TraitItem::Fn(_))).count();
        let count = self.concepts.trait_functions.entry(format!("{}::{}", self.of, item.ident));
        let count = count.or_default();
        *count = functions.max(*count);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if let Some((path, _)) = &item.trait_ {
            if let Some(last) = path.segments.last() {
                self.implemented.push((self.of.to_owned(), last.ident.to_string()));
            }
        } else if let Some(name) = name_of(&item.self_ty) {
            let methods = item.items.iter().filter(|item| match item {
                ImplItem::Fn(method) => !is_for_tests(&method.attrs),
                _ => false,
            });
            let count = self.concepts.methods.entry(format!("{}::{name}", self.of)).or_default();
            *count += methods.count();
        }
        visit::visit_item_impl(self, item);
    }
}

fn name_of(of: &Type) -> Option<String> {
    match of {
        Type::Path(path) => Some(path.path.segments.last()?.ident.to_string()),
        Type::Reference(reference) => name_of(&reference.elem),
        _ => None,
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::sources;
    use crate::tree::Tree;

    fn of<const N: usize>(files: [(&str, &str); N]) -> Concepts {
        let tree = Tree::of(files);
        concepts(&sources(&tree).unwrap(), &HashSet::from(["crates/b/src/linked.rs"])).unwrap()
    }

    fn counts<const N: usize>(rows: [(&str, usize); N]) -> Counts {
        rows.map(|(name, number)| (name.to_owned(), number)).into()
    }

    #[test]
    fn counts_the_methods_of_a_type_over_all_files() {
        let concepts = of([
            ("crates/a/src/lib.rs", "mod b; pub struct Yard<P>(P); impl Yard<u8> { fn a() {} }"),
            ("crates/a/src/b.rs", "impl<P: T> super::Yard<P> { fn b() {} pub fn c(&self) {} }"),
            (
                "crates/a/src/c.rs",
                "impl T for Yard<u8> { fn d() {} } impl Yard<u8> { const A: u8; }",
            ),
            ("crates/a/src/d.rs", "#[cfg(test)] mod tests { impl Yard<u8> { fn e() {} } }"),
            ("crates/a/tests/e.rs", "impl Yard<u8> { fn f() {} }"),
            ("crates/b/src/lib.rs", "mod inner { impl Yard { fn g() {} #[cfg(test)] fn h() {} } }"),
            ("crates/b/src/linked.rs", "impl Yard { fn i() {} }"),
        ]);
        assert_eq!(concepts.methods, counts([("a::Yard", 3), ("b::Yard", 1)]));
    }

    #[test]
    fn counts_the_functions_of_a_trait_and_who_has_it() {
        let concepts = of([
            ("crates/a/src/lib.rs", "pub trait Engine { const A: u8; fn a(); fn b() {} type C; }"),
            ("crates/a/src/x.rs", "impl crate::Engine for X {} impl<T: Engine> Engine for Y<T> {}"),
            ("crates/b/src/lib.rs", "impl a::Engine for Z {} impl Clone for Z {}"),
            ("crates/b/tests/w.rs", "impl a::Engine for W {}"),
        ]);
        assert_eq!(concepts.trait_functions, counts([("a::Engine", 2)]));
        assert_eq!(concepts.implementors, counts([("a::Engine", 3)]));
    }

    #[test]
    fn counts_types_that_share_a_bare_name() {
        let concepts = of([
            ("crates/a/src/lib.rs", "enum Kind { A } mod x { pub struct Kind; type Held = u8; }"),
            ("crates/b/src/lib.rs", "trait Kind {} #[cfg(test)] mod tests { struct Kind; }"),
        ]);
        assert_eq!(concepts.bare_names, counts([("Held", 1), ("Kind", 3)]));
    }

    #[test]
    fn counts_what_a_crate_shows() {
        let concepts = of([
            (
                "crates/a/src/lib.rs",
                "pub mod x { pub fn a() {} pub(crate) fn b() {} fn c() {} }
                 #[doc(hidden)] pub mod y { pub trait T {} }
                 impl X { pub fn d() {} #[doc(hidden)] pub fn e() {} }",
            ),
            ("crates/a/src/x.rs", "pub mod z; #[doc(hidden)] pub mod w; pub trait U {}"),
            ("crates/a/src/x/w/mod.rs", "pub trait V {}"),
            ("crates/a/src/x/w/v.rs", "impl X { pub fn f() {} }"),
        ]);
        let public = [("a::functions", 2), ("a::modules", 1), ("a::traits", 1)];
        assert_eq!(concepts.public, counts(public));
    }

    #[test]
    fn counts_lines_of_a_choice() {
        let tree = Tree::of([(
            "crates/a/src/lib.rs",
            "#[cfg(any_engine)]\nfn a() {}\n#[cfg(all(test, not(any_engine)))]\nfn b() {}
             // cfg(any_engine)\nfn any_engine() { if cfg!(any_engine) {} }",
        )]);
        assert_eq!(lines_of_cfg(&sources(&tree).unwrap(), &HashSet::new(), "any_engine"), 3);
    }
}
