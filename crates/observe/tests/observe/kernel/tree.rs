//! Builds a kernel's files below a temporary directory.

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// What a kernel shows, as texts.
#[derive(Default)]
pub struct Kernel {
    pub release: String,
    pub possible: String,
    pub online: String,
    pub nodes: Option<String>,
    /// In kB.
    pub meminfo: BTreeMap<String, u64>,
    /// Directory, attribute, text.
    pub caches: BTreeMap<String, BTreeMap<String, String>>,
    /// Link and directory.
    pub links: BTreeMap<String, String>,
}

/// Attributes that a kernel lets root write.
const WRITABLE: [&str; 6] =
    ["min_partial", "cpu_partial", "remote_node_defrag_ratio", "failslab", "shrink", "validate"];

impl Kernel {
    /// One dump of a file of kernels' dumps; the only one without a name.
    pub fn of_dump(file: &str, dump: Option<&str>) -> Kernel {
        let path = dumps().join(file);
        let packed = fs::read(&path).unwrap();
        let root: Value = serde_json::from_slice(&zstd::decode_all(&packed[..]).unwrap()).unwrap();
        let one = dump.map_or(&root, |name| &root["dumps"][name]);
        let key = |key: &str| one.get(key).or_else(|| root.get(key));
        let text = |name: &str| key(name).and_then(Value::as_str).unwrap_or("").to_owned();
        // Either a text of its own, or "possible=0-3 present=0-3 online=0-3".
        let cpus = |which: &str| match text(&format!("{which}_cpus")) {
            own if own.is_empty() => {
                let all = text("cpus");
                let word = all.split(' ').find_map(|w| w.strip_prefix(&format!("{which}=")));
                word.unwrap().to_owned()
            }
            own => own,
        };
        let object = |name: &str| key(name).and_then(Value::as_object).cloned().unwrap_or_default();
        let release = [text("kernel"), text("uname")].concat();
        let release = release.split(' ').find(|w| w.starts_with(|c: char| c.is_ascii_digit()));
        Kernel {
            release: release.unwrap().to_owned(),
            possible: cpus("possible"),
            online: cpus("online"),
            nodes: Some(text("nodes")).filter(|n| !n.is_empty()),
            meminfo: numbers(&object("meminfo")),
            caches: object("slab")
                .iter()
                .map(|(id, texts)| (id.clone(), attributes(texts)))
                .collect(),
            links: object("aliases")
                .iter()
                .map(|(name, id)| (name.clone(), id.as_str().unwrap().to_owned()))
                .collect(),
        }
    }

    /// Writes everything.
    pub fn write(&self, root: &Path) {
        self.write_sysfs(root);
        put(root, "proc/slabinfo", &self.slabinfo());
    }

    /// Writes everything but slabinfo.
    pub fn write_sysfs(&self, root: &Path) {
        put(root, "proc/sys/kernel/osrelease", &format!("{}\n", self.release));
        put(root, "sys/devices/system/cpu/possible", &format!("{}\n", self.possible));
        put(root, "sys/devices/system/cpu/online", &format!("{}\n", self.online));
        if let Some(nodes) = &self.nodes {
            put(root, "sys/devices/system/node/online", &format!("{nodes}\n"));
        }
        let meminfo = self.meminfo.iter().map(|(key, kb)| format!("{key}:  {kb:>10} kB\n"));
        put(root, "proc/meminfo", &meminfo.collect::<String>());
        put(root, "proc/buddyinfo", "Node 0, zone      DMA      0      1      3 \n");
        let slab = root.join("sys/kernel/slab");
        fs::create_dir_all(&slab).unwrap();
        for (id, texts) in &self.caches {
            let actions = [("shrink", ""), ("validate", "")];
            let texts = texts.iter().map(|(name, text)| (name.as_str(), text.as_str()));
            for (name, text) in texts.chain(actions) {
                let file = put(&slab, &format!("{id}/{name}"), &format!("{text}\n"));
                let mode = if WRITABLE.contains(&name) { 0o600 } else { 0o400 };
                fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
            }
        }
        for (name, id) in &self.links {
            symlink(id, slab.join(name)).unwrap();
        }
    }

    /// The name that slabinfo has for a directory: the last of its links, so that it is
    /// not the one that a reader would choose by itself.
    pub fn creator<'a>(&'a self, id: &'a str) -> &'a str {
        let links = self.links.iter().filter(|(_, of)| *of == id);
        links.map(|(name, _)| name.as_str()).next_back().unwrap_or(id)
    }

    /// The first number of an attribute.
    pub fn number(&self, id: &str, attribute: &str) -> u64 {
        self.caches[id][attribute].split(' ').next().unwrap().parse().unwrap()
    }

    fn slabinfo(&self) -> String {
        let mut text =
            String::from("slabinfo - version: 2.1\n# name            <active_objs> ...\n");
        for id in self.caches.keys() {
            let of = |attribute| self.number(id, attribute);
            text += &format!(
                "{:<17} {:6} {:6} {:6} {:4} {:4} : tunables {:4} {:4} {:4} : slabdata {:6} {:6} {:6}\n",
                self.creator(id),
                of("objects"),
                of("total_objects"),
                of("slab_size"),
                of("objs_per_slab"),
                1 << of("order"),
                0,
                0,
                0,
                of("slabs"),
                of("slabs"),
                0
            );
        }
        text
    }
}

/// A directory of thousands of small files: in memory, where there is such a place.
pub fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Where kernels' dumps are.
pub fn dumps() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/tests/data")
}

/// Writes a file and the directories above it.
pub fn put(root: &Path, path: &str, text: &str) -> PathBuf {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

fn numbers(object: &Map<String, Value>) -> BTreeMap<String, u64> {
    object.iter().map(|(key, value)| (key.clone(), value.as_u64().unwrap())).collect()
}

/// As sysfs prints them; without those that the kernel did not have.
fn attributes(texts: &Value) -> BTreeMap<String, String> {
    let texts = texts.as_object().unwrap().iter().filter(|(_, value)| *value != "NA");
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(pair) => format!("{}({})", pair[0], pair[1]),
        number => number.to_string(),
    };
    texts.map(|(name, value)| (name.clone(), text(value))).collect()
}
