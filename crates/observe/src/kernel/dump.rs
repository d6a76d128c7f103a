//! Reads kernels' caches from scripts' dumps: a JSON object has the attributes of
//! `/sys/kernel/slab`, as numbers or as sysfs prints them ("17 N0=17").
//!
//! ```text
//! {"kernel": .., "slab": {ID: {ATTRIBUTE: ..}}, "aliases": {NAME: ID}, "meminfo": {..}}
//! {"uname": .., "dumps": {MOMENT: {"slab": .., ..}, ..}}      keys outside apply to each
//! ```
//!
//! Neighbours: [`crate::file`] opens the dumps; [`super::attribute`] parses the texts. The dumps do
//! not contain slabinfo, so a merged cache is listed under the first of its names.

use super::attribute::{absent, parse, stub};
use super::machine;
use super::names::{name_of, named};
use crate::hidden;
use crate::release::Release;
use crate::snapshot::{Missing, Snapshot, Source, SourceKind};
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

type Texts = BTreeMap<String, Json>;

/// A file of dumps.
#[derive(Debug, Deserialize)]
pub(crate) struct Dumps {
    #[serde(default)]
    dumps: BTreeMap<String, Dump>,
    #[serde(flatten)]
    one: Dump,
}

/// One dump; in a file of several each part may also stand outside.
#[derive(Debug, Default, Deserialize)]
struct Dump {
    kernel: Option<String>,
    uname: Option<String>,
    page_size: Option<u64>,
    possible_cpus: Option<String>,
    online_cpus: Option<String>,
    /// "possible=0-3 present=0-3 online=0-3"
    cpus: Option<String>,
    nodes: Option<String>,
    meminfo: Option<BTreeMap<String, Json>>,
    slab: Option<BTreeMap<String, Texts>>,
    aliases: Option<BTreeMap<String, String>>,
}

impl Dumps {
    /// The name of the dump that is wanted, or of the first; `None` if there is one
    /// kernel alone.
    ///
    /// # Errors
    /// What there is, if that is not wanted.
    pub(crate) fn find(&self, wanted: Option<&str>) -> Result<Option<&str>, String> {
        let mut names = self.dumps.keys().map(String::as_str);
        let Some(wanted) = wanted else { return Ok(names.next()) };
        match names.find(|name| *name == wanted) {
            Some(name) => Ok(Some(name)),
            None if self.dumps.is_empty() => {
                Err("one snapshot and no dumps; leave out what is behind #".into())
            }
            None => Err(self.dumps.keys().map(String::as_str).collect::<Vec<_>>().join(", ")),
        }
    }

    /// The dump of this name as a snapshot taken at a time.
    ///
    /// # Errors
    /// What is not as it should be.
    pub(crate) fn sample(&self, name: Option<&str>, at_ms: u64) -> Result<Snapshot, String> {
        let taken_at_ms = at_ms;
        let first = name.and_then(|name| self.dumps.get_key_value(name));
        let mut snapshot = snapshot(first.map(|(_, dump)| dump), &self.one)?;
        snapshot.taken_at_ms = taken_at_ms;
        let mut miss = |what: &str, why: String| {
            snapshot.missing.push(Missing { what: what.into(), why });
        };
        miss("time", "the dump does not tell when it was taken; the file's own is shown".into());
        if let Some((name, _)) = first.filter(|_| self.dumps.len() > 1) {
            let others = self.dumps.keys().filter(|other| *other != name);
            let others: Vec<_> = others.map(String::as_str).collect();
            let why = format!("the file holds {} dumps, and `{name}` is shown", self.dumps.len());
            miss(&others.join(", "), why);
        }
        Ok(snapshot)
    }
}

fn snapshot(dump: Option<&Dump>, outside: &Dump) -> Result<Snapshot, String> {
    let empty = Dump::default();
    let dump = dump.unwrap_or(&empty);
    macro_rules! part {
        ($name:ident) => {
            dump.$name.as_ref().or(outside.$name.as_ref())
        };
    }
    let mut snapshot = Snapshot::new(Source::of(SourceKind::Kernel));
    let release = part!(kernel).or(part!(uname)).and_then(|text| release(text));
    snapshot.source.release = release.map(Into::into);
    let release = release.and_then(Release::parse);
    let all = part!(cpus).map_or("", String::as_str);
    let within = |key: &str| all.split_whitespace().find_map(|word| word.strip_prefix(key));
    let possible = part!(possible_cpus).map(String::as_str).or_else(|| within("possible="));
    let online = part!(online_cpus).map(String::as_str).or_else(|| within("online="));
    snapshot.machine.possible_cpus = possible.and_then(machine::count);
    snapshot.machine.online_cpus = online.and_then(machine::count);
    snapshot.machine.nodes = part!(nodes).and_then(|nodes| machine::count(nodes));
    let meminfo = part!(meminfo).into_iter().flatten();
    let lines = meminfo.filter_map(|(key, value)| Some((key.as_str(), value.as_u64()?)));
    machine::totals(&mut snapshot, lines);

    let slab = part!(slab).ok_or("it has no caches (no object `slab`)")?;
    let mut aliases: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, id) in part!(aliases).into_iter().flatten() {
        aliases.entry(id).or_default().push(name);
    }
    let (mut taken, mut missing) = (BTreeSet::new(), BTreeMap::new());
    for (id, texts) in slab {
        let aliases = aliases.get(id.as_str()).map_or(&[][..], Vec::as_slice);
        let mut cache = named(name_of(id, aliases), Some(id), aliases, &mut taken);
        for (name, value) in texts {
            let why = stub(name, release.as_ref());
            let Some(text) = text(value).filter(|_| why.is_none()) else {
                missing.insert(name, why.unwrap_or_else(|| absent(name, release.as_ref())));
                continue;
            };
            let reading = parse(name, &text).map_err(|e| format!("cache `{id}`, {name}: {e}"))?;
            cache.set(name.as_str(), reading);
        }
        snapshot.caches.push(cache);
    }
    let row = |(what, why): (&String, String)| Missing { what: what.clone(), why };
    snapshot.missing.extend(missing.into_iter().map(row));
    let told = part!(page_size).copied();
    snapshot.machine.page_bytes = told.or_else(|| machine::page_bytes(&snapshot.caches));
    hidden::sum(&mut snapshot);
    Ok(snapshot)
}

/// An attribute as sysfs would print it; `None` for one that the kernel lacked.
fn text(value: &Json) -> Option<String> {
    match value {
        Json::Null => None,
        Json::String(text) if text == "NA" => None,
        Json::String(text) => Some(text.clone()),
        // [42, 4] for "42(4)".
        Json::Array(pair) => match pair.as_slice() {
            [objects, slabs] => Some(format!("{objects}({slabs})")),
            _ => Some(value.to_string()),
        },
        other => Some(other.to_string()),
    }
}

/// The release in "6.18.44" or in all that `uname -a` prints.
fn release(text: &str) -> Option<&str> {
    let looks_so = |w: &&str| w.starts_with(|c: char| c.is_ascii_digit()) && w.contains('.');
    text.split_whitespace().find(looks_so)
}
