//! The JSON form of slab lists in a trace file.

use super::{Barn, CacheLists, CpuSheaves, CpuSlabLists, Lists, Objects, Sheaf, SlabOnList};
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
    let sheaves = |of: &CpuSheaves| json!({ "cpu": of.cpu, "main": of.main, "spare": of.spare, "rcu_free": of.rcu_free });
    let sheaves: Vec<_> = cache.sheaves.iter().map(sheaves).collect();
    let barn = |of: &Barn| json!({ "full": of.full, "empty": of.empty });
    let barns: Vec<_> = cache.barns.iter().map(barn).collect();
    json!({
        "name": cache.name, "read_at": cache.read_at, "nodes": nodes, "cpus": cpus,
        "sheaves": sheaves, "barns": barns,
    })
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
        let slab = if_any(&value["slab"], listed)?;
        let cpu = value["cpu"].as_u64()?.try_into().ok()?;
        Some(CpuSlabLists { cpu, slab, partial: all(&value["partial"])? })
    };
    let sheaves = |value: &Value| {
        Some(CpuSheaves {
            cpu: value["cpu"].as_u64()?.try_into().ok()?,
            main: sheaf(&value["main"])?,
            spare: if_any(&value["spare"], sheaf)?,
            rcu_free: if_any(&value["rcu_free"], sheaf)?,
        })
    };
    let barn = |value: &Value| {
        let full = value["full"].as_array()?.iter().map(sheaf).collect::<Option<Vec<_>>>()?;
        Some(Barn { full, empty: value["empty"].as_u64()?.try_into().ok()? })
    };
    // A recorder that did not read sheaves says nothing of them.
    let told = |key: &str| value[key].as_array().map_or(&[][..], Vec::as_slice);
    Some(CacheLists {
        name: value["name"].as_str()?.into(),
        read_at: value["read_at"].as_u64()?,
        nodes: value["nodes"].as_array()?.iter().map(all).collect::<Option<Vec<_>>>()?,
        cpus: value["cpus"].as_array()?.iter().map(cpu).collect::<Option<Vec<_>>>()?,
        sheaves: told("sheaves").iter().map(sheaves).collect::<Option<Vec<_>>>()?,
        barns: told("barns").iter().map(barn).collect::<Option<Vec<_>>>()?,
    })
}

/// What a value that is not null is; `None` if it makes no sense.
fn if_any<T>(value: &Value, get: impl Fn(&Value) -> Option<T>) -> Option<Option<T>> {
    if value.is_null() { Some(None) } else { get(value).map(Some) }
}

fn sheaf(value: &Value) -> Option<Sheaf> {
    value.as_array()?.iter().map(Value::as_u64).collect()
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
            ..CacheLists::default()
        };
        let lists = Lists { caches: vec![cache], unread: 2 };
        let bytes = write(&lists);
        assert_eq!(read(&bytes), Some(lists));
        assert_eq!(read(&bytes[..bytes.len() - 1]), None);
        assert_eq!(read(br#"{"caches":[{"name":"filp"}],"unread":0}"#), None);
    }
}
