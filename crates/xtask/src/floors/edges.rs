//! Checks that a crate depends only on the crates of its row in `ci/rules.toml`. Dev-dependencies
//! are exempt: no distributed program contains them.

use crate::rules::Rules;
use crate::tree::Tree;
use toml::{Table, Value};

/// A crate depends on the crates of its row and on no other of ours; what is loaded into programs
/// depends on no other at all, but where a row says so.
pub fn breaches_of_edges(tree: &Tree, rules: &Rules) -> Vec<String> {
    let shared = manifest(tree, "Cargo.toml");
    let shared = shared.as_ref().ok().and_then(|root| root.get("workspace")?.get("dependencies"));
    let mut breaches = Vec::new();
    for name in tree.crates() {
        let path = format!("crates/{name}/Cargo.toml");
        match manifest(tree, &path) {
            Ok(manifest) => judge(&path, &manifest, shared, rules, &mut breaches),
            Err(error) => breaches.push(error),
        }
    }
    breaches
}

fn manifest(tree: &Tree, path: &str) -> Result<Table, String> {
    let text = tree.text(path).ok_or_else(|| format!("{path}: there is no such file"))?;
    text.parse().map_err(|error| format!("{path}: {error}"))
}

fn judge(
    path: &str,
    manifest: &Table,
    shared: Option<&Value>,
    rules: &Rules,
    breaches: &mut Vec<String>,
) {
    let name = manifest.get("package").and_then(|package| package.get("name")?.as_str());
    let Some(name) = name else {
        breaches.push(format!("{path}: a crate without a name"));
        return;
    };
    let Some(row) = rules.edges.get(name) else {
        breaches.push(format!("{path}: crate {name} has no row"));
        return;
    };
    let closed = rules.without_others.iter().any(|closed| closed == name);
    let optional = rules.optional.get(name).map_or(&[][..], Vec::as_slice);
    for (key, value) in dependencies(manifest) {
        // A dependency may have a name of its own and the crate behind it, said here or in the
        // workspace's table.
        let package = |value: &Value| Some(value.get("package")?.as_str()?.to_owned());
        let behind = package(value).or_else(|| package(shared?.get(key)?));
        let dependency = behind.as_deref().unwrap_or(key);
        if rules.edges.contains_key(dependency) {
            if !row.iter().any(|allowed| allowed == dependency) {
                breaches.push(format!("{path}: {name} depends on {dependency}"));
            }
        } else if closed && !optional.iter().any(|allowed| allowed == dependency) {
            breaches.push(format!("{path}: {name} depends on {dependency}, a crate of others"));
        } else if closed && value.get("optional").and_then(Value::as_bool) != Some(true) {
            breaches.push(format!("{path}: {name} depends on {dependency} without a feature"));
        }
    }
}

/// The dependencies of programs and of build scripts, on every target.
fn dependencies(manifest: &Table) -> impl Iterator<Item = (&str, &Value)> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let targets = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    std::iter::once(manifest).chain(targets).flat_map(|table| {
        ["dependencies", "build-dependencies"]
            .into_iter()
            .filter_map(|kind| table.get(kind)?.as_table())
            .flat_map(|table| table.iter().map(|(key, value)| (key.as_str(), value)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = r#"
        engine-crate = "slabyard"
        without-others = ["slabyard-abi", "slabyard", "slabyard-malloc"]
        floors = []
        without-unsafe = []
        vague-names = []
        [edges]
        slabyard-abi = []
        slabyard = ["slabyard-abi"]
        slabyard-malloc = ["slabyard", "slabyard-abi"]
        slabyard-observe = ["slabyard-abi"]
        [optional]
        slabyard = ["allocator-api2"]
        [limits]
    "#;

    /// What is found if `text` is in the manifest of a crate.
    fn found(name: &str, text: &str) -> Vec<String> {
        let workspace = "[workspace.dependencies]
            slabyard = { path = \"crates/slabyard\" }
            reader = { path = \"crates/observe\", package = \"slabyard-observe\" }";
        let mut tree = Tree::of([("Cargo.toml", workspace)]);
        let package = format!("[package]\nname = \"{name}\"\n{text}\n");
        tree.plant("crates/planted/Cargo.toml", &package);
        breaches_of_edges(&tree, &toml::from_str(RULES).unwrap())
    }

    #[track_caller]
    fn finds(name: &str, text: &str, breach: &str) {
        assert_eq!(found(name, text), [format!("crates/planted/Cargo.toml: {breach}")]);
    }

    #[test]
    fn finds_a_crate_that_is_not_in_the_row() {
        let text = "[target.\"cfg(unix)\".dependencies]\nslabyard = { path = \"../slabyard\" }";
        finds("slabyard-observe", text, "slabyard-observe depends on slabyard");
    }

    #[test]
    fn finds_a_crate_under_another_name() {
        let text = "[dependencies.reader]\npackage = \"slabyard-observe\"";
        finds("slabyard", text, "slabyard depends on slabyard-observe");
        let text = "[dependencies]\nreader.workspace = true";
        finds("slabyard", text, "slabyard depends on slabyard-observe");
    }

    #[test]
    fn finds_what_a_build_script_depends_on() {
        let text = "[build-dependencies]\nslabyard.workspace = true";
        finds("slabyard-abi", text, "slabyard-abi depends on slabyard");
    }

    #[test]
    fn finds_a_crate_of_others_even_behind_a_feature() {
        let text = "[dependencies]\nlibc = { version = \"0.2\", optional = true }";
        finds("slabyard", text, "slabyard depends on libc, a crate of others");
        let text = "[target.\"cfg(unix)\".dependencies.allocator-api2]\nversion = \"0.2\"\noptional = true";
        finds(
            "slabyard-malloc",
            text,
            "slabyard-malloc depends on allocator-api2, a crate of others",
        );
    }

    #[test]
    fn finds_a_crate_of_others_without_a_feature() {
        let text = "[dependencies]\nallocator-api2 = \"0.2.21\"";
        finds("slabyard", text, "slabyard depends on allocator-api2 without a feature");
        let text = "[dependencies]\nallocator-api2 = { version = \"0.2.21\", optional = true }";
        assert_eq!(found("slabyard", text), [""; 0]);
    }

    #[test]
    fn allows_what_tests_alone_depend_on() {
        assert_eq!(found("slabyard", "[dev-dependencies]\nlibc = \"0.2\""), [""; 0]);
        let text = "[dev-dependencies]\nslabyard.workspace = true";
        assert_eq!(found("slabyard-observe", text), [""; 0]);
    }

    #[test]
    fn finds_a_crate_without_a_row() {
        finds("slabyard-extra", "", "crate slabyard-extra has no row");
    }
}
