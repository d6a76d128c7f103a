//! Turns the state of a modelled kernel into a snapshot of the crate `slabyard-observe`. It holds
//! what a kernel's sysfs would report and, beyond that, which objects are live, and each slab on
//! each list.
//!
//! [`crate::replay`] runs the model; `slabyard-observe` displays the snapshot. Invariants: live +
//! parked_cpu + parked_node + free_partial = total_objects, for each cache whose live objects are
//! known; the slabs that are listed one by one are the `partial` slabs of nodes and the
//! `slabs_cpu_partial` of CPUs; in bytes, the totals and the padding add up to `committed`.

use crate::case::Case;
use crate::plain::plain;
use crate::replay::report::CacheUse;
use crate::replay::{Replayed, Start};
use crate::rules::{Accounting, Settings};
use crate::snapshot::KernelSnapshot;
use crate::trace::Damage;
use slabyard_model::cache::{Front, KernelCache};
use slabyard_observe::fields::{FieldKind, field};
use slabyard_observe::snapshot::{Machine, Missing, Slab, SlabPlace, Source, SourceKind};
use slabyard_observe::{Cache, Reading, Snapshot, Value};
use std::collections::BTreeMap;

/// Addresses of one cache's slabs: model slabs have numbers, which begin anew in each
/// cache.
const CACHE_SHIFT: u32 = 44;

/// A replay, and what it was of: all that a snapshot of its caches is made from.
pub struct ReplaySnapshot<'a> {
    /// Name of the trace.
    pub name: &'a str,
    /// Events that the trace's recorder lost.
    pub lost: u64,
    /// Parts of the trace that were skipped.
    pub damaged: &'a [Damage],
    /// The traced kernel's caches.
    pub kernel: &'a KernelSnapshot,
    /// The rules and the machine of the model.
    pub settings: &'a Settings,
    /// The case that was replayed.
    pub case: &'a Case,
    /// How the state at the start was found.
    pub start: Start,
    /// The caches at the start and at the end, and what they did.
    pub replayed: &'a Replayed,
}

impl ReplaySnapshot<'_> {
    /// The model as it was when the run ended.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let machine = &self.settings.machine;
        let begun = *self.case.prepared.span.start();
        let mut snapshot = Snapshot::new(Source {
            program: Some(plain(self.name).into_owned()),
            release: Some(self.settings.release.name.into()),
            trace_ns: Some(self.replayed.after.time_ns.saturating_sub(begun)),
            ..Source::of(SourceKind::Lab)
        });
        snapshot.machine = Machine {
            page_bytes: Some(machine.page_size.into()),
            possible_cpus: Some(machine.possible_cpus),
            online_cpus: Some(machine.online_cpus),
            nodes: Some(machine.nodes),
        };
        snapshot.caches = (0..self.case.ids.len()).map(|nth| self.cache(nth)).collect();
        snapshot.totals = totals(&snapshot.caches);
        snapshot.missing = self.missing();
        snapshot
    }

    fn cache(&self, nth: usize) -> Cache {
        let (case, model) = (self.case, &self.replayed.caches[nth]);
        let mut cache = self.named(nth);
        self.set_rules(&mut cache, nth);
        self.set_memory(&mut cache, nth);
        set_counters(&mut cache, model);
        let slab_bytes = u64::from(case.page_size) << case.orders[nth];
        let orders = [case.orders[nth], case.least[nth].0];
        let lists = lists(model, (nth as u64 + 1) << CACHE_SHIFT, slab_bytes, orders);
        cpus(&mut cache, model, &lists);
        nodes(&mut cache, model, &lists);
        let mut fullness = BTreeMap::new();
        for slab in &lists {
            *fullness.entry(slab.inuse).or_insert(0) += 1;
        }
        cache.fullness = Some(fullness.into_iter().collect());
        cache.slabs = Some(lists);
        cache
    }

    /// The geometry of a cache, and the rules that its allocator goes by.
    fn set_rules(&self, cache: &mut Cache, nth: usize) {
        let rules = self.replayed.caches[nth].rules();
        let object_size = self.kernel.caches[nth].object_size;
        if let Some(object_size) = object_size {
            cache.set("object_size", u64::from(object_size));
        }
        cache.set("slab_size", u64::from(self.case.sizes[nth]));
        cache.set("order", u64::from(self.case.orders[nth]));
        cache.set("objs_per_slab", u64::from(rules.objects));
        if let Front::ArrayCaches(limits) = rules.front {
            cache.set("limit", u64::from(limits.limit));
            cache.set("batchcount", u64::from(limits.batchcount));
            cache.set("sharedfactor", u64::from(limits.sharedfactor));
        } else {
            cache.set("cpu_partial", u64::from(rules.cpu_partial));
            cache.set("min_partial", u64::from(rules.min_partial));
            cache.set("sheaf_capacity", u64::from(rules.sheaf_capacity));
        }
    }

    /// Objects by where they are, and the bytes of the slabs, some of which may have the least
    /// order.
    fn set_memory(&self, cache: &mut Cache, nth: usize) {
        let moment = &self.replayed.after.caches[nth];
        let places = &moment.places;
        let bytes_of = |order: u8| u64::from(self.case.page_size) << order;
        let small = u64::from(places.small);
        let small_bytes = small * bytes_of(self.case.least[nth].0);
        let large_bytes = (u64::from(places.slabs) - small) * bytes_of(self.case.orders[nth]);
        if let Some(live) = self.live(moment) {
            cache.set("live", live);
        }
        // One call at a time.
        cache.set("in_transit", 0);
        cache.set("objects", places.objects - places.free_node);
        cache.set("total_objects", places.objects);
        cache.set("bytes", large_bytes + small_bytes);
    }

    /// Named as the sampler of a kernel names it, so that the two can be compared: ids
    /// that begin with a colon are made up.
    fn named(&self, nth: usize) -> Cache {
        let id = self.case.ids[nth].as_str();
        let all = self.kernel.aliases.iter().filter(|(_, of)| *of == id);
        let mut aliases: Vec<String> = all.map(|(name, _)| name.clone()).collect();
        let is_id = |name: &str| self.kernel.caches.iter().any(|c| c.id == name);
        match aliases.iter().position(|name| id.starts_with(':') && !is_id(name)) {
            Some(first) => {
                let name = aliases.remove(first);
                Cache { name, id: Some(id.into()), aliases, ..Cache::default() }
            }
            None => Cache { name: id.into(), aliases, ..Cache::default() },
        }
    }

    /// From the snapshot alone slabs that were full are put in place as the trace shows
    /// them, so that it is not known what is live.
    fn live(&self, moment: &CacheUse) -> Option<u64> {
        (self.start == Start::LookAhead).then(|| moment.live())
    }

    /// Why these numbers are less than a real kernel's.
    fn missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        let mut miss = |what: &str, why: String| {
            missing.push(Missing { what: what.into(), why });
        };
        if self.lost > 0 {
            miss("events", format!("{} were lost while the trace was recorded", self.lost));
        }
        for damage in self.damaged {
            miss("events", damage.to_string());
        }
        if let Some(unlike) = &self.case.unlike {
            miss("the traced start", unlike.clone());
        }
        if self.start != Start::LookAhead {
            miss("live", "the start was found from the snapshot alone".into());
        }
        let untouched: u64 = self.replayed.untouched.iter().sum();
        if untouched > 0 {
            let why = format!("{untouched} that no event touches are not in the model");
            miss("slabs", why);
        }
        for (nth, cache) in self.case.prepared.caches.iter().enumerate() {
            let has_slabs = self.replayed.caches[nth].nr_slabs() > 0;
            if let Some(why) = cache.left_out.filter(|_| has_slabs) {
                miss(&format!("frees of {}", self.named(nth).name), why.into());
            }
        }
        missing
    }
}

/// What a cache counted; a kernel without sheaves reports nothing about them.
fn set_counters(cache: &mut Cache, model: &KernelCache) {
    let rules = model.rules();
    let has_sheaves = match rules.front {
        Front::ArrayCaches(_) => true,
        Front::CpuSlabs => false,
        _ => rules.sheaf_capacity > 0,
    };
    for (name, _, count) in model.counters().each() {
        let is_there = has_sheaves || !(name.contains("sheaf") || name.starts_with("barn_"));
        if is_there && field(name).is_some_and(|field| field.kind == FieldKind::Counter) {
            cache.set(name, count);
        }
    }
}

/// The slabs on all lists, each list from its head.
fn lists(model: &KernelCache, begin: u64, slab_bytes: u64, [order, least]: [u8; 2]) -> Vec<Slab> {
    let slab = |(number, free): (u32, u32), place| Slab {
        // The model counts its slabs from 1.
        page: begin + u64::from(number - 1) * slab_bytes,
        order: (if model.is_small(number) { least } else { order }).into(),
        objects: model.objects_of(number),
        inuse: model.objects_of(number) - free,
        place,
        ..Slab::default()
    };
    let counts_objects = model.rules().accounting != Accounting::Slabs;
    let mut lists = Vec::new();
    for cpu in 0..model.nr_cpus() {
        let list: Vec<(u32, u32)> = model.each_cpu_partial(cpu).collect();
        let begin = lists.len();
        // A slab that joins counts those behind it and itself.
        let (mut pages, mut counted) = (0, 0);
        for listed in list.into_iter().rev() {
            pages += 1;
            counted += model.counted(listed.0);
            lists.push(Slab {
                partial_pages: Some(pages),
                partial_objects: counts_objects.then_some(counted),
                ..slab(listed, SlabPlace::Cpu(cpu as u32))
            });
        }
        lists[begin..].reverse();
    }
    for node in 0..model.nr_nodes() {
        let list = model.each_node_partial(node as u16);
        lists.extend(list.map(|listed| slab(listed, SlabPlace::Node(node as u32))));
    }
    lists
}

/// What CPUs hold.
fn cpus(cache: &mut Cache, model: &KernelCache, lists: &[Slab]) {
    let mut held: BTreeMap<u32, [u64; 3]> = BTreeMap::new();
    for cpu in 0..model.nr_cpus() {
        let slab = model.cpu_slab(cpu).map(|(slab, _)| u64::from(model.free_of(slab)));
        let in_sheaves = model.in_sheaves_of(cpu) as u64;
        if slab.is_some() || in_sheaves > 0 {
            let parked = slab.unwrap_or(0) + in_sheaves;
            held.insert(cpu as u32, [parked, u64::from(slab.is_some()), 0]);
        }
    }
    for slab in lists {
        if let SlabPlace::Cpu(cpu) = slab.place {
            let [parked, slabs, listed] = held.entry(cpu).or_default();
            *parked += u64::from(slab.free());
            *slabs += 1;
            *listed += 1;
        }
    }
    for (nth, name) in ["parked_cpu", "cpu_slabs", "slabs_cpu_partial"].into_iter().enumerate() {
        let cpus = held.iter().map(|(cpu, held)| (*cpu, held[nth]));
        cache.set(name, Reading { cpus: exact(cpus.clone()), ..sum(cpus) });
    }
}

fn nodes(cache: &mut Cache, model: &KernelCache, lists: &[Slab]) {
    const NAMES: [&str; 6] =
        ["slabs", "parked_node", "partial", "empty", "free_partial", "objects_partial"];
    let nr_nodes = model.nr_nodes() as u16;
    let mut of: Vec<[u64; 6]> = (0..nr_nodes)
        .map(|node| [u64::from(model.nr_slabs_of(node)), model.in_barn_of(node) as u64, 0, 0, 0, 0])
        .collect();
    for slab in lists {
        if let SlabPlace::Node(node) = slab.place {
            let [_, _, partial, empty, free, inuse] = &mut of[node as usize];
            *partial += 1;
            *empty += u64::from(slab.inuse == 0);
            *free += u64::from(slab.free());
            *inuse += u64::from(slab.inuse);
        }
    }
    for (nth, name) in NAMES.into_iter().enumerate() {
        let nodes = of.iter().enumerate().map(|(node, of)| (node as u32, of[nth]));
        cache.set(name, Reading { nodes: exact(nodes.clone()), ..sum(nodes) });
    }
}

fn exact(parts: impl Iterator<Item = (u32, u64)>) -> Vec<(u32, Value)> {
    parts.map(|(number, part)| (number, part.into())).collect()
}

fn sum(parts: impl Iterator<Item = (u32, u64)>) -> Reading {
    parts.map(|(_, part)| part).sum::<u64>().into()
}

/// Bytes of all caches together, where each of them is known.
fn totals(caches: &[Cache]) -> BTreeMap<String, Value> {
    let all = |of: &dyn Fn(&Cache) -> Option<u64>| caches.iter().map(of).sum::<Option<u64>>();
    let in_bytes = |name: &str| all(&|c| Some(c.exact(name)? * c.exact("slab_size")?));
    let mut totals = BTreeMap::new();
    let mut put = |name: &str, bytes: Option<u64>| {
        totals.extend(bytes.map(|bytes| (name.to_owned(), Value::Exact(bytes))));
    };
    for name in ["live", "parked_cpu", "parked_node", "in_transit", "free_partial"] {
        put(name, in_bytes(name));
    }
    let committed = all(&|c| c.exact("bytes"));
    let objects = in_bytes("total_objects");
    put("padding", committed.and_then(|all| all.checked_sub(objects?)));
    put("committed", committed);
    totals
}
