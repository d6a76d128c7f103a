//! Makes a snapshot of a look: each number under its name in `crate::fields`.
//!
//! Neighbours: [`super::look`] below; [`crate::identity`] checks what is told.
//! Invariants: the parts of a standing yard add up to `committed`, to the byte:
//! `committed` is measured by itself, and `in_transit` is what is missing only while
//! something is under way.

use super::counts;
use super::front::Front;
use super::held;
use super::judge::Judged;
use super::look::Look;
use super::nodes::AtNodes;
use super::span::Span;
use super::walk::{MOST_SLABS, Slabs, Walk};
use crate::snapshot::{Cache, Machine, Missing, Snapshot};
use crate::value::{Reading, Value};
use slabyard_abi::region::{CacheWord, GRANULE, NodeWord, Word};
use std::collections::{BTreeMap, BTreeSet};

/// Fills a snapshot.
pub(crate) fn tell(front: &Front, look: &Look, want_slabs: bool, snapshot: &mut Snapshot) {
    snapshot.machine = Machine {
        page_bytes: Some(front.page_bytes),
        // In mode 3 rows are private slots.
        nodes: front.nodes.map(|table| table.nodes as u32),
        possible_cpus: (front.mode != 3).then_some(front.nr_rows as u32),
        ..Machine::default()
    };
    let mut sums = Sums::default();
    let mut names = BTreeSet::new();
    for number in 0..look.end.caches.len() {
        if let Some(mut cache) = cache(front, look, number, want_slabs, snapshot, &mut sums) {
            // Two caches of one name would be told as one.
            cache.name = free_name(&mut names, &cache.name);
            snapshot.caches.push(cache);
        }
    }
    match &look.walk {
        Ok(Walk { cut: true, .. }) => {
            let why = format!("only {MOST_SLABS} are told one by one");
            snapshot.missing.push(Missing { what: "slabs".into(), why });
        }
        Ok(_) => {}
        Err(why) => {
            let what = "empty, fullness".to_owned();
            snapshot.missing.push(Missing { what, why: why.clone() });
        }
    }
    if let Some(Err(why)) = &look.counts {
        snapshot.missing.push(Missing { what: "counters".into(), why: why.clone() });
    }
    totals(front, look, &sums, &mut snapshot.totals);
    let pressure = look.pressure.iter().map(|(name, n)| ((*name).to_owned(), (*n).into()));
    snapshot.totals.extend(pressure);
    let empties = snapshot.caches.iter().filter_map(|cache| cache.value("empties_bytes"));
    if let Some(sum) = empties.cloned().reduce(|sum, bytes| sum.plus(&bytes).unwrap_or(sum)) {
        snapshot.totals.insert("empties_parked".into(), sum);
    }
}

/// A name that is not among these, which get it.
pub(crate) fn free_name(names: &mut BTreeSet<String>, wanted: &str) -> String {
    let numbered = (2..).map(|n| format!("{wanted}#{n}"));
    let mut all = std::iter::once(wanted.to_owned()).chain(numbered);
    all.find(|name| names.insert(name.clone())).expect("numbers without end")
}

/// Bytes of all caches together.
#[derive(Default)]
struct Sums {
    live: Span,
    parked_cpu: Span,
    parked_node: Span,
    free_partial: Span,
    padding: Span,
}

/// One cache: begin and end of the look together; `None` if it is not in use.
fn cache(
    front: &Front,
    look: &Look,
    number: usize,
    want_slabs: bool,
    snapshot: &mut Snapshot,
    sums: &mut Sums,
) -> Option<Cache> {
    use CacheWord as W;
    let ends = [look.begin.caches.get(number)?, look.end.caches.get(number)?];
    let last = ends[1].words;
    // Another cache has the slot by now.
    if ends[0].words.get(W::Generation) != last.get(W::Generation) {
        return None;
    }
    let slot = last.slot()?;
    let both = |f: &dyn Fn(&Judged) -> Span| f(ends[0]).hull(f(ends[1]));
    let word = |w: W| both(&|j| j.word(w));

    let mut cache = Cache::new(match last.name() {
        name if name.is_empty() => format!("cache-{number}"),
        name => name,
    });
    let is_this = |alias: &&(u32, u32, String)| {
        alias.0 as usize == number && alias.1 == last.get(W::Generation) as u32
    };
    let names = look.aliases.iter().filter(is_this).map(|alias| alias.2.clone());
    cache.aliases = names.collect();
    if !cache.aliases.is_empty() {
        cache.tell("aliases", cache.aliases.len() as u64);
    }
    let size = last.get(W::SlabSize);
    let order = u32::try_from(last.get(W::Order)).unwrap_or(u32::MAX);
    let slab_bytes = (GRANULE as u64).checked_shl(order).unwrap_or(0);
    let padding = slab_bytes.saturating_sub(last.get(W::Objects).saturating_mul(size));
    let objects = |j: &Judged| j.word(W::NrSlabs).times(j.words.get(W::Objects));

    let slabs = word(W::NrSlabs);
    let partial = word(W::NrPartial);
    let live = look.live(number);
    let parked_cpu = both(&|j| j.parked_cpu);
    let parked_node = both(&|j| j.parked_node);
    let free = both(&|j| j.free.minus(j.free_held));

    let still = look.still(number);
    let walked = look.walk.as_ref().ok();
    let walked = walked.map(|walk| walk.caches.get(&slot).cloned().unwrap_or_default());
    let at_nodes = walked.as_ref().map(|walked| &walked.nodes);
    let nodes = AtNodes::new(front, ends, at_nodes.filter(|_| still));

    cache.tell("live", live);
    cache.tell("parked_cpu", Reading { cpus: cpus(ends), ..Reading::from(parked_cpu) });
    cache.tell("parked_node", nodes.by_word(parked_node, NodeWord::BarnObjects));
    cache.tell("in_transit", both(&|j| j.in_transit));
    cache.tell("free_partial", nodes.by_walk(free, |node| node.free));
    cache.tell("objects", both(&|j| j.out.plus(j.free_held)));
    cache.tell("total_objects", both(&objects));
    cache.tell("slabs", nodes.by_walk(slabs, |node| node.slabs));
    cache.tell("partial", nodes.by_word(partial, NodeWord::NrPartial));
    let held = both(&|j| j.held_by_cpu(1, |cpu| cpu.slabs).1);
    cache.tell("full", both(&|j| j.word(W::NrSlabs).minus(j.word(W::NrPartial))).minus(held));
    cache.tell("bytes", slabs.times(slab_bytes));
    cache.tell("object_size", last.get(W::ObjectSize));
    cache.tell("slab_size", size);
    cache.tell("order", u64::from(order.saturating_sub(front.page_order())));
    cache.tell("objs_per_slab", last.get(W::Objects));
    if let Some(kind) = held::kind(&last) {
        super::cpu_slabs::tell(&mut cache, kind, ends, slab_bytes);
    }
    if held::are_arrays(&last) {
        cache.tell("front", Value::Text("array-caches".into()));
        cache.tell("limit", last.get(W::SheafCapacity));
        cache.tell("batchcount", last.get(W::CpuPartial));
        cache.tell("sharedfactor", last.get(W::CpuPartialSlabs));
    } else {
        cache.tell("min_partial", last.get(W::MinPartial));
    }
    if !held::are_stacks(&last) && !held::are_arrays(&last) {
        cache.tell("sheaf_capacity", last.get(W::SheafCapacity));
        cache.tell("barn_full_limit", last.get(W::BarnFullLimit));
        cache.tell("barn_empty_limit", last.get(W::BarnEmptyLimit));
        cache.tell("barn_full", nodes.by_word(word(W::BarnFull), NodeWord::BarnFull));
        cache.tell("barn_empty", nodes.by_word(word(W::BarnEmpty), NodeWord::BarnEmpty));
    }
    cache.tell("slow_paths", u64::from(last.version().0));
    if let Some(Ok(counts)) = &look.counts
        && let Some(rows) = counts.get(&slot)
    {
        counts::tell(&mut cache, rows);
    }
    if let Some(walked) = &walked {
        let counted = [slabs, partial, both(&|j| j.free)];
        let why = contradiction(walked, counted).or_else(|| lost(walked, ends[1]));
        if still && let Some(why) = why {
            snapshot.missing.push(Missing { what: cache.name.clone(), why });
        }
        fullness(&mut cache, walked, &nodes, still, partial.high);
        if want_slabs {
            cache.slabs = Some(walked.each.clone());
        }
    }
    if want_slabs && let Some(held) = &ends[1].held {
        cache.slabs.get_or_insert_default().extend_from_slice(&held.lists);
    }
    if let Some(why) = super::cpu_slabs::damage(ends) {
        let missing = Missing { what: format!("{}: cpu_slabs", cache.name), why };
        snapshot.missing.push(missing);
    }
    if ends.iter().any(|j| j.odd) {
        let why = "a row holds what is no place of a sheaf: its objects are not known";
        let missing = Missing { what: format!("{}: parked_cpu", cache.name), why: why.into() };
        snapshot.missing.push(missing);
    }

    let add = |sum: &mut Span, objects: Span| *sum = sum.plus(objects.times(size));
    add(&mut sums.live, live);
    add(&mut sums.parked_cpu, parked_cpu);
    add(&mut sums.parked_node, parked_node);
    add(&mut sums.free_partial, free);
    sums.padding = sums.padding.plus(slabs.times(padding));
    Some(cache)
}

/// What the walk over the descriptors found of a cache.
fn fullness(cache: &mut Cache, walked: &Slabs, nodes: &AtNodes<'_>, still: bool, partial: u64) {
    let used: u64 =
        walked.fullness.iter().map(|(used, n)| u64::from(*used).saturating_mul(*n)).sum();
    // Of a cache that moved, the descriptors were each seen at another moment.
    let empty = if still { Span::exact(walked.empty) } else { Span { low: 0, high: partial } };
    cache.tell("empty", nodes.by_walk(empty, |node| node.empty));
    if still {
        cache.tell("objects_partial", nodes.by_walk(Span::exact(used), |node| node.used));
    }
    cache.fullness = Some(walked.fullness.iter().map(|(used, n)| (*used, *n)).collect());
}

/// What of a cache with CPU slabs that stood still is in slabs that nobody has.
fn lost(walked: &Slabs, judged: &Judged) -> Option<String> {
    let held = judged.held.as_ref().filter(|held| held.fault.is_none())?;
    let free = held.sum(|cpu| cpu.free);
    (walked.free_unlisted != free).then(|| {
        format!(
            "{} free objects are in slabs on no node's list, but CPUs hold {free} of them: slabs \
             are lost, or the yard is damaged",
            walked.free_unlisted
        )
    })
}

/// What a cache that stood still counts other than its descriptors show: slabs, partial
/// slabs, free objects.
fn contradiction(walked: &Slabs, counted: [Span; 3]) -> Option<String> {
    let shown = [walked.slabs, walked.listed, walked.free];
    let agree = counted.iter().zip(shown).all(|(counted, shown)| *counted == Span::exact(shown));
    let text =
        |n: [u64; 3]| format!("{} slabs, {} of them partial, {} free objects", n[0], n[1], n[2]);
    (!agree).then(|| {
        let counted = text(counted.map(|span| span.low));
        format!(
            "it counts {counted}, but its descriptors show {}: the yard is damaged",
            text(shown)
        )
    })
}

/// What is parked for each CPU or private slot.
fn cpus(ends: [&Judged; 2]) -> Vec<(u32, Value)> {
    let [begin, end] = ends.map(|j| j.rows.iter().copied().collect::<BTreeMap<_, _>>());
    let rows: BTreeSet<u32> = begin.keys().chain(end.keys()).copied().collect();
    let of = |rows: &BTreeMap<u32, Span>, row| rows.get(&row).copied().unwrap_or_default();
    rows.into_iter().map(|row| (row, of(&begin, row).hull(of(&end, row)).into())).collect()
}

fn totals(front: &Front, look: &Look, sums: &Sums, totals: &mut BTreeMap<String, Value>) {
    let bytes = |granules: Span| granules.times(GRANULE as u64);
    let mut put = |name: &str, span: Option<Span>| {
        if let Some(span) = span {
            totals.insert(name.to_owned(), span.into());
        }
    };
    let metadata_words = [
        Word::MetadataAt0,
        Word::MetadataAt1,
        Word::MetadataAt2,
        Word::MetadataAt3,
        Word::MetadataAt4,
        Word::MetadataAt5,
        Word::MetadataAt6,
        Word::MetadataAt7,
        Word::MetadataAt8,
        Word::MetadataAt9,
        Word::MetadataAt10,
        Word::MetadataAt11,
    ];
    let metadata = look.counter(Word::RowBytesAt).and_then(|row_bytes| {
        let rows = row_bytes.times(front.nr_rows as u64);
        let fixed = rows.plus(Span::exact(front.fixed_metadata));
        metadata_words.iter().try_fold(fixed, |sum, w| Some(sum.plus(look.counter(*w)?)))
    });
    let mapped = look.counter(Word::MappedAt);
    let free = look.counter(Word::FreeGranulesAt);
    let [nr_banked, banked] = look.banked();
    let runs = look.counter(Word::RunGranulesAt).map(|runs| bytes(runs).minus(banked));
    let free_runs = look.counter(Word::DirtyGranulesAt).map(bytes);
    let returned = free.map(bytes).zip(free_runs).map(|(free, held)| free.minus(held));
    let parked_pages = look.parked_pages().plus(banked);
    let top = look.counter(Word::TopAt);
    // What the system ever lent: the region without its first page, which is never used; mappings;
    // tables.
    let lent = top.zip(mapped).zip(metadata).map(|((top, mapped), metadata)| {
        bytes(top.minus(Span::exact(front.unit()))).plus(mapped).plus(metadata)
    });
    let others = [
        Some(sums.live),
        Some(sums.parked_cpu),
        Some(sums.parked_node),
        Some(sums.free_partial),
        Some(sums.padding),
        Some(parked_pages),
        runs,
        mapped,
        free.map(bytes),
        metadata,
    ];
    let others: Option<Vec<Span>> = others.into_iter().collect();
    let in_transit = match (lent, others) {
        _ if look.quiet() => Some(Span::exact(0)),
        (Some(lent), Some(others)) => Some(lent.minus(Span::sum(others))),
        _ => None,
    };
    put("live", Some(sums.live));
    put("parked_cpu", Some(sums.parked_cpu));
    put("parked_node", Some(sums.parked_node));
    put("in_transit", in_transit);
    put("free_partial", Some(sums.free_partial));
    put("padding", Some(sums.padding));
    put("runs", runs);
    put("mapped", mapped);
    put("parked_pages", Some(parked_pages));
    put("free_runs", free_runs);
    put("metadata", metadata);
    put("committed", lent.zip(returned).map(|(lent, returned)| lent.minus(returned)));
    put("returned", returned);
    put("nr_runs", look.counter(Word::NrRunsAt).map(|runs| runs.minus(nr_banked)));
    put("nr_mapped", look.counter(Word::NrMappedAt));
    put("set_aside", look.counter(Word::SetAsideAt));
    put("mode", Some(Span::exact(front.mode)));
    put("nr_cpus", Some(Span::between(look.begin.rows_in_use, look.end.rows_in_use)));
    put("decay_ms", look.counter(Word::DecayMsAt));
    put("node_limit", look.counter(Word::NodeLimitAt));
    if front.engine != 0 {
        totals.insert("engine".into(), Value::engine(front.engine));
    }
}
