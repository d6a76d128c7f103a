//! The caches of a load, as a snapshot of a kernel that has them and no slab yet.

use super::format::{Load, LoadCache, at};
use crate::geometry::{self, Request};
use crate::rules::{Machine, NodeSet, Settings};
use crate::snapshot::KernelSnapshot;
use serde_json::{Map, Value, json};
use std::path::Path;
use toml::Spanned;

/// The snapshot; a file that the load names is looked for in a directory.
pub(super) fn snapshot(
    load: &Load,
    text: &str,
    directory: &Path,
) -> Result<KernelSnapshot, String> {
    let (machine, settings) = machine(load, text)?;
    let mut caches = Map::new();
    for cache in &load.cache {
        let LoadCache { name, size, sheaf_capacity, .. } = cache.get_ref();
        let request =
            Request { size: *size, sheaf_capacity: *sheaf_capacity, debug: false, boot: false };
        let geometry = geometry::of_cache(&request, &settings)
            .map_err(|why| at(text, cache, format!("cache {name}: {why}")))?;
        if caches.insert(name.clone(), fields(cache.get_ref(), &geometry)).is_some() {
            return Err(at(text, cache, format!("cache {name}: there are two of this name")));
        }
    }
    let range = |count: u32| format!("0-{}", count - 1);
    let document = json!({
        "kernel": load.machine.release, "page_size": machine.page_size,
        "possible_cpus": range(machine.possible_cpus), "present_cpus": range(machine.present_cpus),
        "online_cpus": range(machine.online_cpus), "nodes": range(machine.nodes),
        "aliases": {}, "slab": caches,
    });
    let mut own = KernelSnapshot::parse(document.to_string().as_bytes())
        .map_err(|error| error.to_string())?
        .remove(0);
    own.memoryless = machine.memoryless;
    if let Some(file) = &load.snapshot {
        add(&mut own, file, directory)
            .map_err(|what| at(text, file, format!("snapshot: {what}")))?;
    }
    match own.caches.is_empty() {
        true => Err("there are no caches: give [[cache]], or a snapshot".into()),
        false => Ok(own),
    }
}

fn machine(load: &Load, text: &str) -> Result<(Machine, Settings), String> {
    let typed = &load.machine;
    let mut machine = Machine::new(typed.page_size, typed.cpus);
    machine.possible_cpus = typed.possible_cpus.unwrap_or(typed.cpus);
    machine.nodes = typed.nodes;
    if let Some(list) = &typed.memoryless {
        machine.memoryless = NodeSet::parse(list.get_ref()).ok_or_else(|| {
            at(text, list, "memoryless is a list of nodes below 64, such as 1,3-7")
        })?;
    }
    let settings = Settings::of_version(&typed.release, machine);
    let (settings, _) = settings.map_err(|error| format!("machine: {error}"))?;
    settings.validate().map_err(|error| format!("machine: {error}"))?;
    Ok((machine, settings))
}

fn fields(cache: &LoadCache, geometry: &geometry::Geometry) -> Value {
    json!({
        "object_size": cache.size, "slab_size": cache.size, "align": 8,
        "objs_per_slab": geometry.objects, "order": geometry.order,
        "cpu_partial": geometry.cpu_partial, "min_partial": geometry.min_partial,
        "slabs": 0, "objects": 0, "total_objects": 0, "partial": 0, "objects_partial": 0,
        "cpu_slabs": 0, "slabs_cpu_partial": "0(0)",
        "destroy_by_rcu": u8::from(cache.typesafe_by_rcu),
        "reclaim_account": u8::from(cache.reclaimable),
        "sheaf_capacity": cache.sheaf_capacity,
    })
}

/// Adds the caches of a snapshot, without their slabs.
fn add(
    own: &mut KernelSnapshot,
    file: &Spanned<std::path::PathBuf>,
    directory: &Path,
) -> Result<(), String> {
    let path = directory.join(file.get_ref());
    let told = KernelSnapshot::open(&path).map_err(|error| error.to_string())?.pop();
    let told = told.ok_or_else(|| format!("{} holds no caches", path.display()))?;
    if told.page_size != own.page_size {
        return Err(format!(
            "its pages have {} bytes, the machine's {}",
            told.page_size, own.page_size
        ));
    }
    for mut cache in told.caches {
        if own.caches.iter().any(|known| known.id == cache.id) {
            return Err(format!("cache {} is also a [[cache]]", cache.id));
        }
        let empty = [
            &mut cache.slabs,
            &mut cache.objects,
            &mut cache.total_objects,
            &mut cache.partial,
            &mut cache.objects_partial,
            &mut cache.cpu_slabs,
        ];
        empty.into_iter().for_each(|count| *count = Some(0));
        cache.slabs_cpu_partial = None;
        own.caches.push(cache);
    }
    own.caches.sort_by(|a, b| a.id.cmp(&b.id));
    own.aliases = told.aliases;
    Ok(())
}
