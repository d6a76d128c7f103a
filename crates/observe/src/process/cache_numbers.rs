//! Computes the numbers of one cache from its words, its CPUs and its slabs: each is a range that
//! covers its values at the beginning and end of a look.
//!
//! Neighbours: [`super::judge`] computes the numbers at one moment, [`super::nodes`] those of each
//! memory node; [`super::to_snapshot`] calls this module for each cache in use.

use super::counts;
use super::cpu_slabs;
use super::cpu_slabs_held;
use super::front::Front;
use super::judge::CacheContents;
use super::look::YardLook;
use super::nodes::AtNodes;
use super::span::Span;
use super::totals::CacheSums;
use super::walk::CacheSlabs;
use crate::snapshot::{Cache, Missing};
use crate::value::{Reading, Value};
use slabyard_abi::region::{CacheWord, GRANULE, NodeWord};
use std::collections::{BTreeMap, BTreeSet};

/// One cache during a look.
pub(super) struct CacheNumbers<'a> {
    front: &'a Front,
    look: &'a YardLook,
    /// Number of the cache in its yard.
    number: usize,
    slot: usize,
    /// Begin and end of the look.
    ends: [&'a CacheContents; 2],
    /// Nothing of it moved during the look.
    still: bool,
    /// What the walk over the descriptors found, if there was one.
    walked: Option<CacheSlabs>,
    /// Objects by where they are.
    live: Span,
    parked_cpu: Span,
    parked_node: Span,
    free_partial: Span,
}

impl<'a> CacheNumbers<'a> {
    /// `None` for a cache that is not in use, or whose slot another one has by now.
    pub(super) fn of(
        front: &'a Front,
        look: &'a YardLook,
        number: usize,
    ) -> Option<CacheNumbers<'a>> {
        let ends = [look.begin.caches.get(number)?, look.end.caches.get(number)?];
        let [begin, last] = ends.map(|judged| judged.words);
        if begin.get(CacheWord::Generation) != last.get(CacheWord::Generation) {
            return None;
        }
        let slot = last.slot()?;
        let walk = look.walk.as_ref().ok();
        let both = |of: fn(&CacheContents) -> Span| of(ends[0]).hull(of(ends[1]));
        Some(CacheNumbers {
            front,
            look,
            number,
            slot,
            ends,
            still: look.still(number),
            walked: walk.map(|walk| walk.caches.get(&slot).cloned().unwrap_or_default()),
            live: look.live(number),
            parked_cpu: both(|judged| judged.parked_cpu),
            parked_node: both(|judged| judged.parked_node),
            free_partial: both(|judged| judged.free.minus(judged.free_held)),
        })
    }

    /// The cache with all that is known of it.
    pub(super) fn cache(&self, want_slabs: bool) -> Cache {
        let mut cache = Cache::new(match self.ends[1].words.name() {
            name if name.is_empty() => format!("cache-{}", self.number),
            name => name,
        });
        self.set_aliases(&mut cache);
        self.set_objects(&mut cache);
        self.set_slabs(&mut cache);
        self.set_geometry(&mut cache);
        self.set_front(&mut cache);
        self.set_counters(&mut cache);
        self.set_fullness(&mut cache);
        if want_slabs {
            cache.slabs = self.slabs_one_by_one();
        }
        cache
    }

    /// What of it is not known because its yard is damaged, or was while it was read.
    pub(super) fn missing(&self, name: &str) -> Vec<Missing> {
        let missing = |part: &str, why: String| Missing { what: format!("{name}{part}"), why };
        let damage = cpu_slabs::damage(self.ends);
        let odd = "a row holds what is no index of a sheaf: its objects are not known";
        [
            self.disagreement().map(|why| missing("", why)),
            damage.map(|why| missing(": cpu_slabs", why)),
            self.ends.iter().any(|judged| judged.odd).then(|| missing(": parked_cpu", odd.into())),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Adds its bytes, by where they are.
    pub(super) fn add_to(&self, sums: &mut CacheSums) {
        let size = self.last(CacheWord::SlabSize);
        let add = |sum: &mut Span, objects: Span| *sum = sum.plus(objects.times(size));
        add(&mut sums.live, self.live);
        add(&mut sums.parked_cpu, self.parked_cpu);
        add(&mut sums.parked_node, self.parked_node);
        add(&mut sums.free_partial, self.free_partial);
        let objects = self.last(CacheWord::Objects).saturating_mul(size);
        let padding = self.slab_bytes().saturating_sub(objects);
        sums.padding = sums.padding.plus(self.word(CacheWord::NrSlabs).times(padding));
    }

    fn set_aliases(&self, cache: &mut Cache) {
        let generation = self.last(CacheWord::Generation) as u32;
        let is_this =
            |alias: &&(u32, u32, String)| alias.0 as usize == self.number && alias.1 == generation;
        let names = self.look.aliases.iter().filter(is_this).map(|alias| alias.2.clone());
        cache.aliases = names.collect();
        if !cache.aliases.is_empty() {
            cache.set("aliases", cache.aliases.len() as u64);
        }
    }

    /// Live, parked, free and in transit.
    fn set_objects(&self, cache: &mut Cache) {
        let nodes = self.at_nodes();
        let all = |judged: &CacheContents| {
            judged.word(CacheWord::NrSlabs).times(judged.words.get(CacheWord::Objects))
        };
        cache.set("live", self.live);
        cache.set("parked_cpu", Reading { cpus: self.by_row(), ..Reading::from(self.parked_cpu) });
        cache.set("parked_node", nodes.by_word(self.parked_node, NodeWord::BarnObjects));
        cache.set("in_transit", self.both(|judged| judged.in_transit));
        cache.set("free_partial", nodes.by_walk(self.free_partial, |node| node.free));
        cache.set("objects", self.both(|judged| judged.out.plus(judged.free_held)));
        cache.set("total_objects", self.both(all));
    }

    /// On nodes' lists, full, and their bytes.
    fn set_slabs(&self, cache: &mut Cache) {
        let nodes = self.at_nodes();
        let (slabs, partial) = (CacheWord::NrSlabs, CacheWord::NrPartial);
        let unlisted = |judged: &CacheContents| judged.word(slabs).minus(judged.word(partial));
        let held = |judged: &CacheContents| judged.held_by_cpu(1, |cpu| cpu.slabs).1;
        cache.set("slabs", nodes.by_walk(self.word(slabs), |node| node.slabs));
        cache.set("partial", nodes.by_word(self.word(partial), NodeWord::NrPartial));
        cache.set("full", self.both(unlisted).minus(self.both(held)));
        cache.set("bytes", self.word(slabs).times(self.slab_bytes()));
    }

    fn set_geometry(&self, cache: &mut Cache) {
        cache.set("object_size", self.last(CacheWord::ObjectSize));
        cache.set("slab_size", self.last(CacheWord::SlabSize));
        cache.set("order", u64::from(self.order().saturating_sub(self.front.page_order())));
        cache.set("objs_per_slab", self.last(CacheWord::Objects));
    }

    /// What CPUs and nodes have of it by the rules of its front: CPU slabs, array caches or sheaves.
    fn set_front(&self, cache: &mut Cache) {
        use CacheWord as W;
        let words = &self.ends[1].words;
        let nodes = self.at_nodes();
        if let Some(kind) = cpu_slabs_held::kind(words) {
            cpu_slabs::set(cache, kind, self.ends, self.slab_bytes());
        }
        if cpu_slabs_held::are_arrays(words) {
            cache.set("front", Value::Text("array-caches".into()));
            cache.set("limit", self.last(W::SheafCapacity));
            cache.set("batchcount", self.last(W::CpuPartial));
            cache.set("sharedfactor", self.last(W::CpuPartialSlabs));
        } else {
            cache.set("min_partial", self.last(W::MinPartial));
        }
        if !cpu_slabs_held::are_stacks(words) && !cpu_slabs_held::are_arrays(words) {
            cache.set("sheaf_capacity", self.last(W::SheafCapacity));
            cache.set("barn_full_limit", self.last(W::BarnFullLimit));
            cache.set("barn_empty_limit", self.last(W::BarnEmptyLimit));
            cache.set("barn_full", nodes.by_word(self.word(W::BarnFull), NodeWord::BarnFull));
            cache.set("barn_empty", nodes.by_word(self.word(W::BarnEmpty), NodeWord::BarnEmpty));
        }
    }

    fn set_counters(&self, cache: &mut Cache) {
        cache.set("slow_paths", u64::from(self.ends[1].words.version().0));
        if let Some(Ok(counts)) = &self.look.counts
            && let Some(rows) = counts.get(&self.slot)
        {
            counts::set(cache, rows);
        }
    }

    /// How full the slabs are that the walk found.
    fn set_fullness(&self, cache: &mut Cache) {
        let Some(walked) = &self.walked else { return };
        let nodes = self.at_nodes();
        // Of a cache that moved, the descriptors were each seen at another moment.
        let most = self.word(CacheWord::NrPartial).high;
        let empty =
            if self.still { Span::exact(walked.empty) } else { Span { low: 0, high: most } };
        cache.set("empty", nodes.by_walk(empty, |node| node.empty));
        if self.still {
            let by_used = walked.fullness.iter();
            let used: u64 = by_used.map(|(used, n)| u64::from(*used).saturating_mul(*n)).sum();
            cache.set("objects_partial", nodes.by_walk(Span::exact(used), |node| node.used));
        }
        cache.fullness = Some(walked.fullness.iter().map(|(used, n)| (*used, *n)).collect());
    }

    /// Those on nodes' lists, then those on CPUs' lists.
    fn slabs_one_by_one(&self) -> Option<Vec<crate::snapshot::Slab>> {
        let mut slabs = self.walked.as_ref().map(|walked| walked.each.clone());
        if let Some(held) = &self.ends[1].held {
            slabs.get_or_insert_default().extend_from_slice(&held.lists);
        }
        slabs
    }

    /// How a cache that stood still counts other than its descriptors show.
    fn disagreement(&self) -> Option<String> {
        let walked = self.walked.as_ref().filter(|_| self.still)?;
        let counted = [
            self.word(CacheWord::NrSlabs),
            self.word(CacheWord::NrPartial),
            self.both(|judged| judged.free),
        ];
        contradiction(walked, counted).or_else(|| lost(walked, self.ends[1]))
    }

    /// The span of a number of both ends.
    fn both(&self, of: impl Fn(&CacheContents) -> Span) -> Span {
        of(self.ends[0]).hull(of(self.ends[1]))
    }

    fn word(&self, word: CacheWord) -> Span {
        self.both(|judged| judged.word(word))
    }

    /// A word that does not change while the cache lives, or that is reported as it is at the end.
    fn last(&self, word: CacheWord) -> u64 {
        self.ends[1].words.get(word)
    }

    /// A slab is of 2^order granules.
    fn order(&self) -> u32 {
        u32::try_from(self.last(CacheWord::Order)).unwrap_or(u32::MAX)
    }

    fn slab_bytes(&self) -> u64 {
        (GRANULE as u64).checked_shl(self.order()).unwrap_or(0)
    }

    fn at_nodes(&self) -> AtNodes<'_> {
        let walked = self.walked.as_ref().filter(|_| self.still);
        AtNodes::new(self.front, self.ends, walked.map(|walked| &walked.nodes))
    }

    /// What is parked for each CPU or private slot.
    fn by_row(&self) -> Vec<(u32, Value)> {
        let [begin, end] =
            self.ends.map(|judged| judged.rows.iter().copied().collect::<BTreeMap<_, _>>());
        let rows: BTreeSet<u32> = begin.keys().chain(end.keys()).copied().collect();
        let of = |rows: &BTreeMap<u32, Span>, row| rows.get(&row).copied().unwrap_or_default();
        rows.into_iter().map(|row| (row, of(&begin, row).hull(of(&end, row)).into())).collect()
    }
}

/// What of a cache with CPU slabs that stood still is in slabs that nobody has.
fn lost(walked: &CacheSlabs, judged: &CacheContents) -> Option<String> {
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
fn contradiction(walked: &CacheSlabs, counted: [Span; 3]) -> Option<String> {
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
