//! Finds which slabinfo line, directory and links belong to one cache.
//!
//! Neighbours: [`super::slabinfo`] supplies the lines, [`super::tree`] the directories and links. A
//! merged cache has one line under its first creator's name, one directory under an id such as
//! `:0000064`, and a link for every name. This module makes duplicate names in slabinfo distinct.

use super::slabinfo::Row;
use super::tree::Listing;
use crate::snapshot::Cache;
use std::collections::{BTreeMap, BTreeSet};

/// One kernel cache of slabinfo, sysfs or both.
pub(super) struct FoundCache {
    pub cache: Cache,
    /// Name of its directory in sysfs.
    pub directory: Option<String>,
    /// True if slabinfo lists it.
    pub listed: bool,
}

/// Caches of slabinfo in its order, then those that only sysfs has.
pub(super) fn together(rows: &[Row], listing: &Listing) -> Vec<FoundCache> {
    let mut aliases: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, id) in &listing.links {
        aliases.entry(id).or_default().push(name);
    }
    let aliases_of = |id: &str| aliases.get(id).map_or(&[][..], Vec::as_slice);
    let mut free: BTreeSet<&str> = listing.ids.iter().map(String::as_str).collect();
    let mut names = BTreeSet::new();
    let mut found = Vec::new();
    for row in rows {
        // A second line of the same name finds the directory taken.
        let id = listing.links.get(&row.name).unwrap_or(&row.name);
        let directory = free.take(id.as_str());
        let aliases = directory.map_or(&[][..], aliases_of);
        let mut cache = named(&row.name, directory, aliases, &mut names);
        for (number, value) in &row.numbers {
            cache.set(*number, *value);
        }
        found.push(FoundCache { cache, directory: directory.map(Into::into), listed: true });
    }
    for id in free {
        let name = name_of(id, aliases_of(id));
        let cache = named(name, Some(id), aliases_of(id), &mut names);
        found.push(FoundCache { cache, directory: Some(id.into()), listed: false });
    }
    found
}

/// The name of a cache that slabinfo does not list: ids that begin with a colon are
/// made up by the kernel. Links come in alphabetical order.
pub(super) fn name_of<'a>(id: &'a str, aliases: &[&'a str]) -> &'a str {
    aliases.first().filter(|_| id.starts_with(':')).unwrap_or(&id)
}

/// A cache for which only the id, the name and the aliases are known.
pub(crate) fn named(
    name: &str,
    id: Option<&str>,
    aliases: &[&str],
    taken: &mut BTreeSet<String>,
) -> Cache {
    let own = std::iter::once(name.to_owned());
    let mut names = own.chain((2..).map(|n| format!("{name}#{n}")));
    // Never without one: it counts on.
    let unique = names.find(|name| !taken.contains(name)).unwrap_or_default();
    taken.insert(unique.clone());
    Cache {
        name: unique,
        id: id.filter(|id| *id != name).map(Into::into),
        aliases: aliases.iter().filter(|a| **a != name).map(|a| (*a).to_owned()).collect(),
        ..Cache::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str) -> Row {
        Row { name: name.into(), numbers: vec![("objects", 1)] }
    }

    fn listing() -> Listing {
        let link = |(name, id): (&str, &str)| (name.to_owned(), id.to_owned());
        Listing {
            ids: [":0000064", ":0000128", "dentry", "new"].map(Into::into).to_vec(),
            links: [
                ("anon_vma_chain", ":0000064"),
                ("zswap_entry", ":0000064"),
                ("pid", ":0000128"),
                ("bio-128", ":0000128"),
            ]
            .map(link)
            .into(),
        }
    }

    #[test]
    fn lines_directories_and_links_meet() {
        let found = together(&[row("zswap_entry"), row("dentry"), row("gone")], &listing());
        let all: Vec<_> = found
            .iter()
            .map(|f| (f.cache.names().collect::<Vec<_>>(), f.directory.as_deref(), f.listed))
            .collect();
        assert_eq!(
            all,
            [
                (vec!["zswap_entry", ":0000064", "anon_vma_chain"], Some(":0000064"), true),
                (vec!["dentry"], Some("dentry"), true),
                (vec!["gone"], None, true),
                (vec!["bio-128", ":0000128", "pid"], Some(":0000128"), false),
                (vec!["new"], Some("new"), false),
            ]
        );
    }

    #[test]
    fn a_name_that_comes_twice_is_counted() {
        let found = together(&[row("dentry"), row("dentry"), row("dentry")], &listing());
        let names: Vec<_> = found.iter().map(|f| f.cache.name.as_str()).collect();
        assert_eq!(names[..3], ["dentry", "dentry#2", "dentry#3"]);
        assert_eq!(found[1].directory, None);
        // Found by its name, and only the first is what sysfs shows.
        assert_eq!(found[0].directory.as_deref(), Some("dentry"));
    }
}
