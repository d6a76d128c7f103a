//! The repository's files, held in memory: a rule reads them here and never from the disk, so that
//! a rule's test needs only a few made-up texts.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// What is at a path.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// The contents, if it is a file of text, by whatever link.
    pub text: Option<String>,
    /// Where it leads, if it is a symbolic link.
    pub link: Option<String>,
}

/// All paths below the root, with `/` between their parts, in the order of their bytes.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    entries: BTreeMap<String, Entry>,
}

impl Tree {
    /// Reads what is below `root`, but for what is built and what git has.
    /// A symbolic link to a directory is an entry, and is not followed.
    pub fn read(root: &Path) -> io::Result<Tree> {
        let mut tree = Tree::default();
        tree.read_directory(root, "")?;
        Ok(tree)
    }

    fn read_directory(&mut self, root: &Path, inside: &str) -> io::Result<()> {
        for entry in fs::read_dir(root.join(inside))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == "target" || name == ".git" {
                continue;
            }
            let path = if inside.is_empty() { name } else { format!("{inside}/{name}") };
            let kind = entry.file_type()?;
            let link = if kind.is_symlink() {
                Some(fs::read_link(entry.path())?.to_string_lossy().into_owned())
            } else {
                None
            };
            // What is no text (a recording, a link to a directory) has none.
            let text = if kind.is_dir() { None } else { fs::read_to_string(entry.path()).ok() };
            self.entries.insert(path.clone(), Entry { text, link });
            if kind.is_dir() {
                self.read_directory(root, &path)?;
            }
        }
        Ok(())
    }

    /// A tree of these files.
    #[cfg(test)]
    pub fn of<const N: usize>(files: [(&str, &str); N]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.plant(path, text);
        }
        tree
    }

    /// Puts a file at the path, and the directories above it.
    #[cfg(test)]
    pub fn plant(&mut self, path: &str, text: &str) {
        for (at, _) in path.match_indices('/') {
            self.entries.entry(path[..at].to_owned()).or_default();
        }
        let entry = Entry { text: Some(text.to_owned()), link: None };
        self.entries.insert(path.to_owned(), entry);
    }

    #[cfg(test)]
    pub fn remove(&mut self, path: &str) {
        self.entries.remove(path);
    }

    /// Puts a symbolic link at the path.
    #[cfg(test)]
    pub fn plant_link(&mut self, path: &str, to: &str) {
        let entry = Entry { text: None, link: Some(to.to_owned()) };
        self.entries.insert(path.to_owned(), entry);
    }

    /// Every path, directories too.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Is there anything at the path?
    pub fn has(&self, path: &str) -> bool {
        self.entries.contains_key(path)
    }

    /// The text of the file at the path.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.entries.get(path)?.text.as_deref()
    }

    /// Every symbolic link, and where it leads.
    pub fn links(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries
            .iter()
            .filter_map(|(path, entry)| Some((path.as_str(), entry.link.as_deref()?)))
    }

    /// The files below `directory`, which ends with `/`, whose names end with `ending`.
    pub fn files<'a>(
        &'a self,
        directory: &'a str,
        ending: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> + 'a {
        self.entries
            .range(directory.to_owned()..)
            .take_while(move |(path, _)| path.starts_with(directory))
            .filter(move |(path, _)| path.ends_with(ending))
            .filter_map(|(path, entry)| Some((path.as_str(), entry.text.as_deref()?)))
    }

    /// The names of the directories in `crates`.
    pub fn crates(&self) -> impl Iterator<Item = &str> {
        self.paths().filter_map(|path| {
            let name = path.strip_prefix("crates/")?;
            (!name.contains('/') && self.text(path).is_none()).then_some(name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn reads_files_and_links_and_leaves_out_what_is_built() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        fs::create_dir_all(root.join("crates/a/src")).unwrap();
        fs::create_dir_all(root.join("crates/a/target")).unwrap();
        fs::write(root.join("crates/a/src/lib.rs"), "mod b;").unwrap();
        fs::write(root.join("crates/a/target/built.rs"), "mod c;").unwrap();
        symlink("lib.rs", root.join("crates/a/src/b.rs")).unwrap();
        symlink("../a/src", root.join("crates/a/other")).unwrap();
        let tree = Tree::read(root).unwrap();
        assert_eq!(
            tree.files("crates/", ".rs").collect::<Vec<_>>(),
            [("crates/a/src/b.rs", "mod b;"), ("crates/a/src/lib.rs", "mod b;")]
        );
        let links = [("crates/a/other", "../a/src"), ("crates/a/src/b.rs", "lib.rs")];
        assert_eq!(tree.links().collect::<Vec<_>>(), links);
        assert_eq!(tree.crates().collect::<Vec<_>>(), ["a"]);
    }
}
