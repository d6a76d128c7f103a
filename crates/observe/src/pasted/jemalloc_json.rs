//! What jemalloc's `malloc_stats_print` writes as JSON (`stats_print_opts:J`), alone or as a line of a
//! program's output.
//!
//! Neighbour: [`super::jemalloc`] has the same numbers of a text, and stores them.

use super::found::{Outcome, Pasted};
use super::jemalloc::{self, Bin, Sums};
use super::lines::Line;
use serde_json::Value as Json;

/// What the object begins with.
pub(crate) const BEGIN: &str = "{\"jemalloc\"";

pub(super) fn read(lines: &[Line<'_>], pasted: &mut Pasted) -> Outcome {
    let is_begin = |line: &&Line<'_>| line.text.trim_start().starts_with(BEGIN);
    let Some(at) = lines.iter().position(|line| is_begin(&line)) else { return Outcome::Absent };
    let text: String = lines[at..].iter().flat_map(|line| [line.text, "\n"]).collect();
    let number = lines[at].number;
    // What stands behind it is the program's.
    let first = serde_json::Deserializer::from_str(&text).into_iter::<Json>().next();
    let whole = match first {
        Some(Ok(whole)) => whole,
        Some(Err(error)) => {
            let line = number.saturating_add(error.line().saturating_sub(1));
            return Outcome::Damaged(format!("line {line} is not whole JSON: {error}"));
        }
        None => return Outcome::Absent,
    };
    let json = &whole["jemalloc"];
    let of = |json: &Json, key: &str| json.get(key).and_then(Json::as_u64);
    let (stats, arenas) = (&json["stats"], &json["arenas"]);
    let page = of(arenas, "page");
    // Without `merged`, of a single arena.
    let by_arena = &json["stats.arenas"];
    let only =
        by_arena.as_object().filter(|all| all.len() == 1).and_then(|all| all.values().next());
    let arena = by_arena.get("merged").or(only).unwrap_or(&Json::Null);
    let unused =
        || of(arena, "pdirty")?.checked_add(of(arena, "pmuzzy").unwrap_or(0))?.checked_mul(page?);
    let sums = Sums {
        allocated: of(stats, "allocated"),
        active: of(stats, "active"),
        metadata: of(stats, "metadata"),
        resident: of(stats, "resident"),
        mapped: of(stats, "mapped"),
        retained: of(stats, "retained"),
        tcache: of(arena, "tcache_bytes"),
        unused: unused(),
    };
    if sums.allocated.is_none() {
        return Outcome::Damaged(format!("the object in line {number} has no `stats.allocated`"));
    }
    let version = json["version"].as_str().unwrap_or_default();
    pasted.heap(Some(format!("jemalloc {version}").trim().into()));
    pasted.snapshot.machine.page_bytes = page;
    let classes = arenas["bin"].as_array().into_iter().flatten();
    let counts = arena["bins"].as_array().into_iter().flatten();
    let bin = |(class, count): (&Json, &Json)| {
        Some(Bin {
            size: of(class, "size")?,
            objs_per_slab: of(class, "nregs")?,
            slab_bytes: of(class, "slab_size").or_else(|| of(class, "run_size")),
            allocated: of(count, "curregs")?,
            slabs: of(count, "curslabs").or_else(|| of(count, "curruns"))?,
            nonfull: of(count, "nonfull_slabs"),
        })
    };
    let bins: Vec<Bin> = classes.zip(counts).filter_map(bin).collect();
    if bins.is_empty() {
        pasted.miss(
            "bins of jemalloc",
            "the text has no sum of its arenas, or options left bins out",
        );
    }
    jemalloc::store(&sums, &bins, pasted);
    Outcome::Read
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use crate::value::Value;

    const TEXT: &str = r#"starting
{"jemalloc":{"version":"5.3.0","arenas":{"page":4096,"bin":[{"size":8,"nregs":512,"slab_size":4096},{"size":48,"nregs":256,"slab_size":12288}]},
"stats":{"allocated":1000,"active":4096,"metadata":7,"resident":9,"mapped":10,"retained":20},
"stats.arenas":{"merged":{"pdirty":3,"pmuzzy":1,"tcache_bytes":96,"bins":[{"curregs":0,"curslabs":0},{"curregs":123,"curslabs":8,"nonfull_slabs":1}]}}}}
done
"#;

    #[test]
    fn totals_and_bins_are_read() {
        let found = read(TEXT, 0).unwrap();
        assert_eq!(found.total("live"), Some(&Value::Range(904, 1000)));
        assert_eq!(found.total("free_runs"), Some(&Value::Exact(4 * 4096)));
        assert_eq!(found.caches.len(), 1, "bins without slabs are left out");
        assert_eq!(found.caches[0].exact("bytes"), Some(8 * 12288));
    }

    #[test]
    fn damage_is_named_by_its_line() {
        let cut = &TEXT[..TEXT.find("\"stats.arenas\"").unwrap()];
        assert!(
            format!("{:?}", read(cut, 0))
                .contains("looked for statistics of jemalloc (JSON), but line")
        );
        let other = TEXT.replace("allocated", "other");
        assert!(format!("{:?}", read(&other, 0)).contains("no `stats.allocated`"));
    }
}
