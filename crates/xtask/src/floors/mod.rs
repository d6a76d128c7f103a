//! The rules about crates and modules. Each rule takes the tree of files and returns the rule's
//! breaches, one per line.

mod circles;
mod concepts;
mod edges;
mod files;
mod graph;
mod links;
mod modules;
mod names;
mod sizes;
mod unsafe_code;

use crate::limits::{Counts, Findings, breaches_of_limit};
use crate::rules::{Rules, rules};
use crate::source::{Source, for_tests, sources};
use crate::tree::Tree;
use std::collections::HashSet;

/// The breaches of all rules.
pub fn findings(tree: &Tree) -> Result<Findings, String> {
    let rules = rules(tree)?;
    let sources = sources(tree)?;
    let mut findings = vec![
        ("edges", edges::breaches_of_edges(tree, &rules)),
        ("modules", modules::breaches_of_modules(&sources, &rules)),
        ("unsafe", unsafe_code::breaches_of_unsafe(&sources, &rules)),
        ("files", files::breaches_of_files(&sources)),
        ("names", names::breaches_of_names(tree, &sources, &rules)),
    ];
    let counts = counts_of(tree, &sources, &rules)?;
    findings.extend(counts.iter().map(|(kind, of)| breaches_of_limit(kind, &rules, of)));
    Ok(findings)
}

/// All circles, one a line, behind the path of their crate's source.
pub fn all_circles(tree: &Tree) -> Result<Vec<String>, String> {
    let sources = sources(tree)?;
    let of = |name| {
        let root = format!("crates/{name}/src/");
        let circles = circles::circles(&sources, &root);
        circles
            .into_iter()
            .map(move |circle| format!("crates/{name}/src: circle of modules: {circle}"))
    };
    Ok(tree.crates().flat_map(of).collect())
}

/// What has a limit here, by the name that it has in the table.
pub fn counted(tree: &Tree, rules: &Rules) -> Result<Vec<(&'static str, Counts)>, String> {
    counts_of(tree, &sources(tree)?, rules)
}

fn counts_of(
    tree: &Tree,
    sources: &[Source],
    rules: &Rules,
) -> Result<Vec<(&'static str, Counts)>, String> {
    let linked: HashSet<&str> = tree.links().map(|(path, _)| path).collect();
    let concepts = concepts::concepts(sources, &linked)?;
    let choices = rules.limits.get("cfg-lines").into_iter().flat_map(|limit| limit.rows.keys());
    let choices =
        choices.map(|name| (name.clone(), concepts::lines_of_cfg(sources, &linked, name)));
    Ok(vec![
        ("circles", circles_of_crates(tree, sources)),
        ("links", links::links_out_of_crates(tree)),
        ("methods", concepts.methods),
        ("trait-functions", concepts.trait_functions),
        ("implementors", concepts.implementors),
        ("bare-names", concepts.bare_names),
        ("public", concepts.public),
        ("cfg-lines", choices.collect()),
        ("lines", sizes::lines(tree, &for_tests(sources))),
        ("code-lines", sizes::code_lines(tree)),
    ])
}

fn circles_of_crates(tree: &Tree, sources: &[Source]) -> Counts {
    let count = |name| circles::circles(sources, &format!("crates/{name}/src/")).len();
    tree.crates().map(|name| (name.to_owned(), count(name))).collect()
}
