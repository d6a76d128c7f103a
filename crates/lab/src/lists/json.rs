//! The JSON form of slab lists in a trace file.

use super::{CacheLists, CpuSlabLists, Lists, Objects, SlabOnList};
use serde_json::{Value, json};

/// As bytes.
#[must_use]
pub fn write(lists: &Lists) -> Vec<u8> {
    let caches: Vec<Value> = lists.caches.iter().map(put).collect();
    json!({ "caches": caches, "unread": lists.unread }).to_string().into_bytes()
}

fn put(cache: &CacheLists) -> Value {
    let all = |slabs: &[SlabOnList]| slabs.iter().map(slab).collect::<Vec<_>>();
    let cpu = |of: &CpuSlabLists| json!({ "cpu": of.cpu, "slab": of.slab.as_ref().map(slab), "partial": all(&of.partial) });
    let nodes: Vec<_> = cache.nodes.iter().map(|slabs| all(slabs)).collect();
    let cpus: Vec<_> = cache.cpus.iter().map(cpu).collect();
    json!({ "name": cache.name, "read_at": cache.read_at, "nodes": nodes, "cpus": cpus })
}

fn slab(of: &SlabOnList) -> Value {
    json!([of.base, of.objects, of.free.as_ref().map(|free| &free.0)])
}

/// Back from [`write()`].
#[must_use]
pub fn read(bytes: &[u8]) -> Option<Lists> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let caches = value["caches"].as_array()?.iter().map(get).collect::<Option<Vec<_>>>()?;
    Some(Lists { caches, unread: value["unread"].as_u64()?.try_into().ok()? })
}

fn get(value: &Value) -> Option<CacheLists> {
    let all = |value: &Value| value.as_array()?.iter().map(listed).collect::<Option<Vec<_>>>();
    let cpu = |value: &Value| {
        let slab = match &value["slab"] {
            Value::Null => None,
            slab => Some(listed(slab)?),
        };
        let cpu = value["cpu"].as_u64()?.try_into().ok()?;
        Some(CpuSlabLists { cpu, slab, partial: all(&value["partial"])? })
    };
    Some(CacheLists {
        name: value["name"].as_str()?.into(),
        read_at: value["read_at"].as_u64()?,
        nodes: value["nodes"].as_array()?.iter().map(all).collect::<Option<Vec<_>>>()?,
        cpus: value["cpus"].as_array()?.iter().map(cpu).collect::<Option<Vec<_>>>()?,
    })
}

fn listed(value: &Value) -> Option<SlabOnList> {
    let [base, objects, free] = value.as_array()?.as_slice() else { return None };
    let free = match free {
        Value::Null => None,
        free => Some(Objects(free.as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?)),
    };
    let objects = objects.as_u64()?.try_into().ok()?;
    let within = |free: &Objects| free.0.len() <= 1 << 10;
    free.as_ref().is_none_or(within).then_some(SlabOnList { base: base.as_u64()?, objects, free })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let slab = |base, free: Option<Vec<u64>>| SlabOnList {
            base,
            objects: 70,
            free: free.map(Objects),
        };
        let cache = CacheLists {
            name: "filp".into(),
            read_at: 5,
            nodes: vec![vec![slab(0x1000, Some(vec![1, 1 << 5])), slab(0x3000, None)], Vec::new()],
            cpus: vec![CpuSlabLists {
                cpu: 3,
                slab: None,
                partial: vec![slab(0x2000, Some(vec![6]))],
            }],
        };
        let lists = Lists { caches: vec![cache], unread: 2 };
        let bytes = write(&lists);
        assert_eq!(read(&bytes), Some(lists));
        assert_eq!(read(&bytes[..bytes.len() - 1]), None);
        assert_eq!(read(br#"{"caches":[{"name":"filp"}],"unread":0}"#), None);
    }
}
