//! Parses snapshots from JSON.
//!
//! An attribute is a number, or text as sysfs prints it ("17 N0=17"). A file holds one kernel's
//! caches under `slab`, or several dumps under `dumps`, and values outside the dumps apply to each
//! of them.

use super::numbers::cache_of;
use super::{Cache, CpuPartial, Error, KernelSnapshot, saved};
use crate::packed::ZSTD;
use crate::plain::plain_json;
use crate::rules::{NodeSet, count_and_last};
use serde_json::{Map, Value};
use slabyard_observe::file;
use std::io::Read;
use std::path::Path;

const MAX_MIB: u64 = 256;

impl KernelSnapshot {
    /// Reads a file: one snapshot, or one for each of its dumps.
    ///
    /// # Errors
    /// A file that cannot be read, or holds something else.
    pub fn open(path: &Path) -> Result<Vec<KernelSnapshot>, Error> {
        if path.is_dir() {
            return Ok(vec![saved::of_pasted(file::open(path)?)?]);
        }
        let bytes =
            std::fs::read(path).map_err(|error| Error::Read { path: path.into(), error })?;
        match is_json(&bytes) {
            true => KernelSnapshot::parse(&bytes),
            false => Ok(vec![saved::of_pasted(file::open(path)?)?]),
        }
    }

    /// Reads a file's bytes.
    ///
    /// # Errors
    /// Bytes that are something else.
    pub fn parse(bytes: &[u8]) -> Result<Vec<KernelSnapshot>, Error> {
        let unpacked;
        let text = if bytes.starts_with(&ZSTD) {
            unpacked = unpack(bytes)?;
            &unpacked[..]
        } else {
            bytes
        };
        if !is_json(text) {
            let pasted = file::read(text, Path::new("standard input"))?;
            return Ok(vec![saved::of_pasted(pasted)?]);
        }
        let root = plain_json(serde_json::from_slice(text).map_err(Error::Json)?);
        let root = root.as_object().ok_or_else(|| Error::Shape("it is no object".into()))?;
        if root.contains_key("format") {
            return Ok(vec![saved::open(text)?]);
        }
        let Some(dumps) = root.get("dumps") else {
            return Ok(vec![one(None, root, root)?]);
        };
        let dumps = dumps.as_object().ok_or_else(|| Error::Shape("`dumps` is no object".into()))?;
        dumps
            .iter()
            .map(|(name, dump)| {
                let shape = || Error::Shape(format!("dump `{name}` is no object"));
                one(Some(name), dump.as_object().ok_or_else(shape)?, root)
            })
            .collect()
    }
}

/// Plain or packed as ours are; else it may be a text that somebody pasted, or an archive.
fn is_json(bytes: &[u8]) -> bool {
    bytes.starts_with(&ZSTD) || bytes.trim_ascii_start().first() == Some(&b'{')
}

fn unpack(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let decoder = zstd::Decoder::new(bytes).map_err(Error::Zstd)?;
    let mut text = Vec::new();
    let limit = MAX_MIB << 20;
    let read = decoder.take(limit + 1).read_to_end(&mut text).map_err(Error::Zstd)?;
    if read as u64 > limit { Err(Error::TooLarge(MAX_MIB)) } else { Ok(text) }
}

/// One snapshot; what `dump` lacks is looked for in `root`.
pub(super) fn one(
    name: Option<&str>,
    dump: &Map<String, Value>,
    root: &Map<String, Value>,
) -> Result<KernelSnapshot, Error> {
    let text = |key: &str| dump.get(key).or_else(|| root.get(key)).and_then(Value::as_str);
    let meminfo = |key: &str| dump.get("meminfo").and_then(|m| m.get(key)).and_then(Value::as_u64);
    let slab = dump.get("slab").and_then(Value::as_object);
    let slab = slab.ok_or_else(|| Error::Shape("it has no caches (no object `slab`)".into()))?;
    let mut caches =
        slab.iter().map(|(id, fields)| cache(id, fields)).collect::<Result<Vec<_>, _>>()?;
    caches.sort_by(|a, b| a.id.cmp(&b.id));
    let told = dump.get("page_size").or_else(|| root.get("page_size")).and_then(number);
    let page_size = told.or_else(|| page_size(&caches));
    let unknown = || Error::Shape("no page size is told, and the caches' orders fit none".into());
    let cpus = |which: &str| {
        // Either "possible_cpus": "0-3", or all in one text: "possible=0-3 present=0-3".
        let own = text(&format!("{which}_cpus"));
        let prefix = format!("{which}=");
        let all = text("cpus").into_iter().flat_map(str::split_whitespace);
        own.or_else(|| all.into_iter().find_map(|word| word.strip_prefix(&prefix)))
            .and_then(count_and_last)
    };
    let aliases = dump.get("aliases").and_then(Value::as_object);
    Ok(KernelSnapshot {
        dump: name.map(Into::into),
        kernel: text("kernel").or_else(|| text("uname")).and_then(version),
        page_size: page_size
            .and_then(|size| u32::try_from(size).ok())
            .filter(|size| size.is_power_of_two())
            .ok_or_else(unknown)?,
        possible_cpus: cpus("possible").map(|(_, last)| last + 1),
        present_cpus: cpus("present").map(|(count, _)| count),
        online_cpus: cpus("online").map(|(count, _)| count),
        nodes: text("nodes").and_then(count_and_last).map(|(count, _)| count),
        memoryless: NodeSet::without_memory(
            text("nodes").unwrap_or_default(),
            text("has_normal_memory").unwrap_or_default(),
        ),
        cmdline: text("cmdline").map(Into::into),
        slab_kb: meminfo("Slab"),
        slab_kb_at: root.get("mi").map(moments).unwrap_or_default(),
        assumed: Vec::new(),
        memory_kb: meminfo("MemTotal"),
        caches,
        aliases: aliases
            .into_iter()
            .flatten()
            .filter_map(|(name, id)| Some((name.clone(), id.as_str()?.to_owned())))
            .collect(),
    })
}

fn cache(id: &str, fields: &Value) -> Result<Cache, Error> {
    let cpu_partial = fields.get("slabs_cpu_partial").and_then(cpu_partial);
    cache_of(id, |key| fields.get(key).and_then(number), cpu_partial, "")
}

/// `[["boot0", {"Slab": 56896}], ...]`.
fn moments(list: &Value) -> Vec<(String, u64)> {
    let moment = |pair: &Value| Some((pair[0].as_str()?.to_owned(), pair[1]["Slab"].as_u64()?));
    list.as_array().into_iter().flatten().filter_map(moment).collect()
}

/// 17, or "17" or "17 N0=17".
fn number(value: &Value) -> Option<u64> {
    let first = || value.as_str()?.split_whitespace().next()?.parse().ok();
    value.as_u64().or_else(first)
}

/// "42(4) C0=21(2) C1=21(2)", or `[42, 4]`; only the slabs are real, the objects
/// are computed from them.
fn cpu_partial(value: &Value) -> Option<CpuPartial> {
    if let Some(pair) = value.as_array() {
        let slabs = pair.get(1).and_then(Value::as_u64)?;
        return Some(CpuPartial { slabs, per_cpu: (slabs == 0).then(Vec::new) });
    }
    let slabs_of =
        |word: &str| -> Option<u64> { word.split_once('(')?.1.strip_suffix(')')?.parse().ok() };
    let mut words = value.as_str()?.split_whitespace();
    let slabs = slabs_of(words.next()?)?;
    let per_cpu: Option<Vec<_>> = words
        .map(|word| {
            let (cpu, count) = word.strip_prefix('C')?.split_once('=')?;
            Some((cpu.parse().ok()?, slabs_of(count)?))
        })
        .collect();
    // Kernels without SMP, and short texts, tell the sum alone.
    let per_cpu = per_cpu.filter(|rows| rows.iter().map(|row| row.1).sum::<u64>() == slabs);
    Some(CpuPartial { slabs, per_cpu })
}

/// "6.18.44-fc", or the same within all that `uname -a` prints.
fn version(text: &str) -> Option<String> {
    let words = text.split_whitespace();
    let starts = |w: &&str| w.starts_with(|c: char| c.is_ascii_digit()) && w.contains('.');
    words.into_iter().find(starts).map(Into::into)
}

/// The one page size with which all caches' orders, sizes and objects agree.
fn page_size(caches: &[Cache]) -> Option<u64> {
    let fits = |page: &u64| {
        let whole = |c: &Cache| (page << c.order) / u64::from(c.slab_size);
        !caches.is_empty() && caches.iter().all(|c| whole(c) == u64::from(c.objs_per_slab))
    };
    let mut sizes = (12..=16).map(|shift| 1u64 << shift).filter(fits);
    let found = sizes.next();
    found.filter(|_| sizes.next().is_none())
}
