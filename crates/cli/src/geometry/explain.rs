//! `slabyard geometry --explain CACHE`: of what a cache's stride and slabs consist, and what each part
//! costs on the machine that was looked at.
//!
//! Neighbours: `slabyard_observe::layout` takes the stride apart; [`slabyard_ask::geometry`] has the
//! rules that choose the order.

use super::args::GeometryArgs;
use super::json::json;
use super::table::bytes;
use crate::failure::Failure;
use crate::terminal::{self, Colour, Grid};
use crate::{look, stdout};
use anyhow::anyhow;
use serde::Serialize;
use slabyard_ask::{Silent, Wanted, geometry};
use slabyard_observe::layout::{self, Layout, StridePart};
use slabyard_observe::source::{ReadScope, SourceName};
use slabyard_observe::{Cache, Snapshot};
use std::fmt::Write;
use std::process::ExitCode;

/// Since this release the pointers to cgroups may lie behind a slab's last object.
const EXT_IN_SLAB: (u32, u32) = (7, 0);
/// A pointer to the cgroup that an object is charged to.
const EXT_BYTES: u64 = 8;

/// Copies of the kmalloc classes, by what their names begin with, and what each is for.
const FAMILIES: [(&str, &str); 8] = [
    (
        "kmalloc-rnd-",
        "one of 15 copies of this kmalloc class, of which each call site uses one, chosen at boot \
         (RANDOM_KMALLOC_CACHES): an attacker's objects rarely meet the victim's",
    ),
    (
        "kmalloc-part-",
        "one of 15 copies of this kmalloc class, chosen by call site or type (KMALLOC_PARTITION_CACHES)",
    ),
    ("kmalloc-cg-", "kmalloc with __GFP_ACCOUNT: each object is charged to a cgroup"),
    ("kmalloc-rcl-", "kmalloc with __GFP_RECLAIMABLE: a shrinker can free these objects"),
    ("kmalloc-dma-", "kmalloc with GFP_DMA: memory that old devices can reach"),
    ("dma-kmalloc-", "kmalloc with GFP_DMA: memory that old devices can reach"),
    (
        "kmalloc-no-objext-",
        "kmalloc for the tables of other slabs' objects, which have no such table themselves",
    ),
    ("kmalloc-", "kmalloc by size: sizes between two classes take the larger one"),
];

/// All that is said of a cache.
#[derive(Serialize)]
struct Explained<'a> {
    cache: &'a str,
    aliases: &'a [String],
    release: Option<&'a str>,
    object_size: u64,
    slab_size: u64,
    family: Option<&'static str>,
    align: u64,
    parts: Vec<PartCost>,
    slab_size_without_debugging: u64,
    order: u64,
    /// Order that the release's rules give for this stride, where its machine is known.
    order_by_rules: Option<u8>,
    objs_per_slab: u64,
    /// Bytes behind a slab's last object.
    tail: u64,
    slabs: u64,
    total_objects: u64,
    /// Bytes of a slab's table of cgroups, once one of its objects is charged.
    obj_ext: u64,
    /// Where that table is.
    obj_ext_is: &'static str,
}

/// A part of a stride.
#[derive(Serialize)]
struct PartCost {
    part: StridePart,
    bytes: u64,
    bytes_of_all_objects: u64,
}

/// Prints it.
pub(super) fn run(args: &GeometryArgs, name: &str) -> Result<ExitCode, Failure> {
    let source = match &args.against {
        None => SourceName::Kernel,
        Some(path) => match path.to_str().map(str::parse::<SourceName>) {
            Some(Ok(source)) => source,
            _ => SourceName::File(path.clone()),
        },
    };
    let snapshot = look::sample(&source, ReadScope { all: true, slabs: false })?;
    let cache = look::cache(&snapshot, &source, name)?;
    let explained =
        explain(&snapshot, cache).map_err(|why| anyhow!("{name} of {source}: {why}"))?;
    let text = if args.json { json(&explained)? } else { text(&explained, name) };
    stdout::print(text.as_bytes())
}

fn explain<'a>(snapshot: &'a Snapshot, cache: &'a Cache) -> Result<Explained<'a>, layout::Error> {
    let Layout { parts, align, without_debugging } = layout::of(snapshot, cache)?;
    let release = snapshot.source.release.as_deref();
    let known = |name| cache.exact(name).ok_or(layout::Error::Unknown(name));
    let (slab_size, order) = (known("slab_size")?, known("order")?);
    let objs_per_slab = known("objs_per_slab")?;
    let page = snapshot.machine.page_bytes.unwrap_or(4096);
    let slab = u32::try_from(order).ok().and_then(|order| page.checked_shl(order));
    let tail = slab.zip(slab_size.checked_mul(objs_per_slab)).and_then(|(a, b)| a.checked_sub(b));
    let tail = tail.ok_or(layout::Error::Unknown("order"))?;
    let obj_ext = EXT_BYTES.saturating_mul(objs_per_slab);
    let total_objects = known("total_objects").unwrap_or(0);
    let cost = |(part, bytes)| PartCost {
        part,
        bytes,
        bytes_of_all_objects: total_objects.saturating_mul(bytes),
    };
    let in_slab = release.and_then(slabyard_kernels::version_of) >= Some(EXT_IN_SLAB);
    Ok(Explained {
        cache: &cache.name,
        aliases: &cache.aliases,
        release,
        object_size: known("object_size")?,
        slab_size,
        family: cache.names().find_map(family),
        align,
        parts: parts.into_iter().map(cost).collect(),
        slab_size_without_debugging: without_debugging,
        order,
        order_by_rules: order_by_rules(snapshot, slab_size),
        objs_per_slab,
        tail,
        slabs: known("slabs").unwrap_or(0),
        total_objects,
        obj_ext,
        obj_ext_is: match (in_slab, obj_ext <= tail) {
            (true, true) => "behind the last object, where nothing else is",
            (true, false) => {
                "in the objects' alignment where that has room, else in a block of its own"
            }
            (false, _) => "in a block of its own",
        },
    })
}

fn family(name: &str) -> Option<&'static str> {
    FAMILIES.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, help)| *help)
}

/// The order for a stride by the rules of the snapshot's kernel on its machine, where all is known.
fn order_by_rules(snapshot: &Snapshot, slab_size: u64) -> Option<u8> {
    // Boot parameters may give another order.
    if snapshot.source.boot.is_some() {
        return None;
    }
    let machine = snapshot.machine;
    let wanted = Wanted {
        release: Some(snapshot.source.release.clone()?),
        page_size: Some(u32::try_from(machine.page_bytes?).ok()?),
        cpus: Some(machine.online_cpus?),
        possible_cpus: machine.possible_cpus,
        ..Wanted::default()
    };
    let (_, rows) = geometry::slub(&wanted, &[u32::try_from(slab_size).ok()?], &Silent).ok()?;
    rows.first().map(|row| row.slabs.order)
}

fn text(it: &Explained<'_>, name: &str) -> String {
    let mut text = String::new();
    let release = it.release.map(|release| format!(" of kernel {release}")).unwrap_or_default();
    let stride = bytes(it.slab_size);
    let _ = writeln!(text, "{name}{release}: {stride} for an object of {}", bytes(it.object_size));
    if let Some(family) = it.family {
        let _ = writeln!(text, "{family}");
    }
    if !it.aliases.is_empty() {
        let _ = writeln!(
            text,
            "{} and {} share these slabs: the kernel merges caches whose objects have the same layout \
             and flags (slab_nomerge keeps them apart)",
            it.cache,
            it.aliases.join(", ")
        );
    }
    text.push('\n');
    let mut grid = Grid::new(&["part", "bytes", "share", "of all objects"]);
    for PartCost { part, bytes, bytes_of_all_objects } in &it.parts {
        grid.push(vec![
            part.help().into(),
            bytes.to_string(),
            terminal::percent(Some(*bytes as f64 / it.slab_size as f64)),
            terminal::bytes(Some(*bytes_of_all_objects)),
        ]);
    }
    grid.push(vec![
        "sum".into(),
        it.slab_size.to_string(),
        terminal::percent(Some(1.0)),
        terminal::bytes(Some(it.slab_size.saturating_mul(it.total_objects))),
    ]);
    grid.write(&mut text, Colour::of_stdout());
    let _ = writeln!(text, "aligned to {}", bytes(it.align));
    slab(&mut text, it);
    text
}

fn slab(text: &mut String, it: &Explained<'_>) {
    let slab = it.slab_size * it.objs_per_slab + it.tail;
    let share = it.tail as f64 * 100.0 / slab as f64;
    let rules = match it.order_by_rules {
        Some(order) if u64::from(order) == it.order => " (as by the rules for this stride)".into(),
        Some(order) => format!(" (by the rules for this stride: {order})"),
        None => String::new(),
    };
    let _ = writeln!(
        text,
        "\norder {}{rules}: slabs of {} with {} objects, and {} behind the last one ({share:.1} %)",
        it.order,
        bytes(slab),
        it.objs_per_slab,
        bytes(it.tail),
    );
    let _ = writeln!(
        text,
        "{} slabs have {}, of which {} are behind last objects",
        it.slabs,
        terminal::bytes(Some(it.slabs.saturating_mul(slab))),
        terminal::bytes(Some(it.slabs.saturating_mul(it.tail))),
    );
    let _ = writeln!(
        text,
        "a slab of which an object is charged to a cgroup has a table of {}: {}",
        bytes(it.obj_ext),
        it.obj_ext_is
    );
    let debugging = it.slab_size - it.slab_size_without_debugging;
    if debugging > 0 {
        let _ = writeln!(
            text,
            "without slab_debug an object would take {}, and all objects {} less",
            bytes(it.slab_size_without_debugging),
            terminal::bytes(Some(debugging.saturating_mul(it.total_objects))),
        );
    }
}
