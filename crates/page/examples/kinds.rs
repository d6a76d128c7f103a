//! Prints a page with each kind of chart: `cargo run -p slabyard-page --example kinds > kinds.html`.

use slabyard_page::{Axis, Cell, Chart, Error, Page, Section, Series, Table, Unit, path};
use std::io::Write;

/// A name as a hostile program could give to a cache.
const HOSTILE: &str = "</script><img src=x onerror=alert(1)>";

fn data() -> serde_json::Value {
    let point = |nth: u64| {
        let live = 3 * nth + nth % 7;
        let of = |kib: u64| serde_json::json!({ "bytes": kib << 10 });
        serde_json::json!({
            "time_ns": nth * 20_000_000,
            "live": live << 20, "parked_cpu": (live / 3) << 20, "free_partial": (live / 4) << 20,
            "caches": { "dentry": of(1200 * nth), "kmalloc-2k": of(90_000 - 700 * nth), HOSTILE: of(20_000) },
        })
    };
    let cache = |name: &str, before: u64, after: u64| serde_json::json!({ "name": name, "before": before, "after": after, "live": [before / 2, before] });
    serde_json::json!({
        "series": (0..100).map(point).collect::<Vec<_>>(),
        "caches": [
            cache("dentry", 90_000_000, 70_000_000), cache("kmalloc-2k", 40_000_000, 52_000_000),
            cache(HOSTILE, 9_000_000, 9_500_000), cache("inode_cache", 800_000, 0),
        ],
        "partial": (1..17).map(|n| serde_json::json!({ "in_use": n, "slabs": (n * 37) % 23 })).collect::<Vec<_>>(),
        "points": [
            { "set": "max_order=0", "bytes": 61_000_000, "work": 40_000 },
            { "set": "max_order=1", "bytes": 64_500_000, "work": 21_000 },
            { "set": "max_order=1,cpu_partial=0", "bytes": 64_000_000, "work": 52_000 },
            { "set": "max_order=3", "bytes": 77_000_000, "work": 9_000 },
        ],
    })
}

fn main() -> Result<(), Error> {
    let data = data();
    let time = || Axis::new("time", Unit::Nanoseconds);
    let memory = || Axis::new("memory", Unit::Bytes);
    let caches = || Axis::new("", Unit::Name);
    let mut curves = Chart::lines("Memory by cache", time(), memory());
    for name in ["dentry", "kmalloc-2k", HOSTILE] {
        let bytes = format!("/series/*/caches/{}/bytes", path::key(name));
        curves = curves.with(Series::new(name, "/series/*/time_ns", bytes));
    }
    let mut areas = Chart::areas("Memory by place", time(), memory());
    for (name, key) in
        [("live", "live"), ("on CPUs", "parked_cpu"), ("in partial slabs", "free_partial")]
    {
        areas = areas.with(Series::new(name, "/series/*/time_ns", format!("/series/*/{key}")));
    }
    let side =
        |name: &str, key: &str| Series::new(name, "/caches/*/name", format!("/caches/*/{key}"));
    let bars = Chart::bars("Before and after", caches(), memory())
        .with(side("before", "before"))
        .with(side("after", "after"));
    let ranges =
        Chart::bars("Live, as far as it is known", caches(), memory()).with(side("live", "live"));
    let stacked = Chart::stacked_bars("Both, largest first", caches(), memory())
        .with(side("before", "before").rows([0, 1, 2]))
        .with(side("after", "after").rows([0, 1, 2]));
    let in_use = Axis::new("objects in use", Unit::Count);
    let histogram = Chart::histogram("Partial slabs", in_use, Axis::new("slabs", Unit::Count))
        .with(Series::new("slabs", "/partial/*/in_use", "/partial/*/slabs"));
    let point =
        |name: &str| Series::new(name, "/points/*/bytes", "/points/*/work").labels("/points/*/set");
    let front =
        Chart::scatter("Memory against work", memory(), Axis::new("slow paths", Unit::Count))
            .with(point("settings"))
            .with(point("front").rows([0, 1, 3]).connected());
    let mut table = Table::new(["cache", "before", "after"]);
    for cache in data["caches"].as_array().into_iter().flatten() {
        let number = |key: &str| match cache[key].as_u64() {
            Some(number) => Cell::number(number.to_string(), number as f64),
            None => Cell::unknown(),
        };
        table.push([
            Cell::text(cache["name"].as_str().unwrap_or("")),
            number("before"),
            number("none"),
        ]);
    }
    let page = Page::new("Each kind of chart", data.to_string())
        .made_by("slabyard", "cargo run -p slabyard-page --example kinds")
        .with(Section::new("Over time").text("Curves and areas.").chart(curves).chart(areas))
        .with(Section::new("By cache").chart(bars).chart(ranges).chart(stacked).table(table))
        .with(Section::new("Slabs").chart(histogram))
        .with(Section::new("Settings").chart(front).code("slub_max_order=1"));
    // A reader that is gone is no error of the page.
    let _ = std::io::stdout().write_all(page.html()?.as_bytes());
    Ok(())
}
