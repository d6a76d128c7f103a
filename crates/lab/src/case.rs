//! A case combines a trace, the snapshot taken at its start, and the settings of a machine to
//! replay it on, for [`crate::replay`] and [`crate::check`].

use crate::accuracy::Change;
use crate::geometry;
use crate::lists::{self, Lists};
use crate::population::{CacheOutcome, Population};
use crate::prepare::left_out::GONE;
use crate::prepare::{self, CacheFacts, Input, Order, Prepared};
use crate::replay::events::{self, Event, MachineEvent};
use crate::replay::others::OtherPages;
use crate::replay::{ParkedSlabs, Plan, Start};
use crate::rules::{Front, Settings, Slab};
use crate::slab;
use crate::snapshot::{Cache, KernelSnapshot};
use crate::trace::{self, Attached, Events, Frames, Header, LISTS, Names, SHRINK, Source, Trace};
use slabyard_kernels::KernelSheaves;
use slabyard_kernels::page_lists::{Rules as PageRules, Zone};
use slabyard_model::cache::Rules;

/// Bytes of a machine's memory where it is unknown.
const LARGE: u64 = 4 << 30;

/// What a replay needs, owned; copies share the steps.
#[derive(Clone)]
pub struct Case {
    /// Ids of the caches.
    pub ids: Vec<String>,
    /// The trace's steps.
    pub prepared: Prepared,
    /// Rules of each cache on the machine of the settings.
    pub rules: Vec<Rules>,
    /// Objects of a slab of each cache on the traced machine.
    pub traced_objects: Vec<u32>,
    /// Objects in a sheaf of each cache there; 0 without sheaves.
    pub traced_sheaves: Vec<u32>,
    /// Slabs of each cache here for one of the traced machine, as its
    /// [population](crate::population) is laid out; or why it is not. Then they are as many as hold
    /// the same objects.
    pub laid_out: Result<Vec<f64>, String>,
    /// Order of each cache there.
    pub orders: Vec<u8>,
    /// The least order of each cache's slabs there, and their objects.
    pub least: Vec<(u8, u32)>,
    /// Which caches' pages count as reclaimable.
    pub reclaimable: Vec<bool>,
    /// Bytes of an object's stride.
    pub sizes: Vec<u32>,
    /// What the snapshot says about the start; empty without one for this machine.
    pub parked: Vec<ParkedSlabs>,
    /// Node of each CPU.
    pub node_of: Vec<u16>,
    /// The node whose memory each node uses.
    pub memory_of: Vec<u16>,
    /// CPUs of the traced machine.
    pub traced_cpus: u32,
    /// Bytes of a page of the machine.
    pub page_size: u32,
    /// The page lists of the settings.
    pub page_lists: Option<PageRules>,
    /// Share of the slabs that the kernel made that are of caches left out of comparisons.
    pub left_out_share: f64,
    /// The trace says too little to be sure which page an object is in ([`Frames::guess`]).
    pub guesses_frames: bool,
    /// Barns and refills of each cache on the machine of the settings.
    pub sheaves: Vec<KernelSheaves>,
    /// What becomes of SLAB's free slabs, by the rules of SLAB.
    pub slab: Slab,
    /// Why a run on this machine does not compare with one on another, in words, if it
    /// is not as the traced one.
    pub unlike: Option<String>,
    /// Which caches of the trace the release of the settings does not have, in words.
    pub gone: Option<String>,
    /// In what it is not.
    pub changes: Vec<Change>,
    /// Shrinks of caches that happened while it was recorded, in order of time.
    pub shrinks: Vec<Event>,
    /// What happens to the machine on the way, these among it, in order of time.
    pub events: Vec<Event>,
    /// Pages of the trace that are not slabs, if they were requested.
    pub others: OtherPages,
}

struct TraceParts<'a> {
    events: Events<'a>,
    names: &'a Names,
    header: &'a Header,
    attached: &'a [Attached],
}

/// Why there is no case.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The trace does not tell what an address means.
    #[error(
        "cannot tell the page frame of an address: the trace has no page event near an \
         allocation; record it with the events mm_page_alloc and mm_page_free"
    )]
    Addresses,
    /// A cache has no geometry under these settings.
    #[error("cache {id}: {why}")]
    Geometry {
        /// The cache.
        id: String,
        /// What makes the size impossible.
        why: crate::geometry::SizeError,
    },
    /// The trace cannot be prepared.
    #[error(transparent)]
    Prepare(#[from] prepare::Error),
}

/// The order of a trace's events: a guest's CPUs stop now and then.
#[must_use]
pub fn order_of(snapshot: &KernelSnapshot) -> Order {
    // What runs under another kernel is seen by pauses; 64 KiB pages here come from
    // emulated machines, whose CPUs run in turns.
    if snapshot.page_size > 4096 { Order::GUEST } else { Order::HOST }
}

impl Case {
    /// Puts a case together. `order` says how the trace's events are ordered.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(
        trace: &Trace,
        snapshot: &KernelSnapshot,
        settings: &Settings,
        order: Order,
    ) -> Result<Case, Error> {
        let Trace { events, names, header, attached, .. } = trace;
        let held = TraceParts { events: Events::Held(events), names, header, attached };
        Case::of_events(&held, snapshot, settings, order)
    }

    /// As before, of a trace whose events may be in its file.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn of_source(
        source: &Source,
        snapshot: &KernelSnapshot,
        settings: &Settings,
        order: Order,
    ) -> Result<Case, Error> {
        let Source { names, header, attached, .. } = source;
        let held = TraceParts { events: source.events(), names, header, attached };
        Case::of_events(&held, snapshot, settings, order)
    }

    fn of_events(
        held: &TraceParts<'_>,
        snapshot: &KernelSnapshot,
        settings: &Settings,
        order: Order,
    ) -> Result<Case, Error> {
        let TraceParts { events, names, header, attached } = *held;
        let read = attached.iter().find(|attached| attached.name == LISTS);
        let lists = read.and_then(|attached| lists::json::read(&attached.bytes));
        let shift = header.page_shift().unwrap_or(snapshot.page_size.trailing_zeros());
        let slabs = lists.iter().flat_map(Lists::bases);
        let found = match (header.frames(), events) {
            (Some(frames), _) => Some((frames, false)),
            (None, Events::Held(events)) => Frames::find(events, slabs, Some(shift)),
            (None, Events::Stored(_)) => None,
        };
        let (frames, guesses_frames) = found.ok_or(Error::Addresses)?;
        let facts = CacheFacts::of(snapshot);
        let (caches, aliases, lists) = (facts.as_slice(), &snapshot.aliases, lists.as_ref());
        let input = Input { events, names, frames, caches, aliases, lists, order };
        let prepared = prepare::prepare(&input)?;
        let shrinks = shrinks(attached, snapshot, *prepared.span.start());
        let left_out_share = prepare::left_out::share_of_made(&prepared);
        let mut case = Case {
            ids: facts.iter().map(|facts| facts.id.clone()).collect(),
            prepared,
            rules: Vec::new(),
            traced_objects: facts.iter().map(|facts| facts.objects).collect(),
            traced_sheaves: facts.iter().map(|facts| facts.sheaf_capacity).collect(),
            laid_out: Ok(Vec::new()),
            orders: Vec::new(),
            least: Vec::new(),
            reclaimable: Vec::new(),
            sizes: facts.iter().map(|facts| facts.slab_size).collect(),
            parked: snapshot.caches.iter().map(parked).collect(),
            node_of: Vec::new(),
            memory_of: Vec::new(),
            traced_cpus: 0,
            page_size: 0,
            page_lists: None,
            left_out_share,
            guesses_frames,
            sheaves: Vec::new(),
            slab: Slab::default(),
            unlike: None,
            gone: None,
            changes: Vec::new(),
            events: shrinks.clone(),
            shrinks,
            others: OtherPages::default(),
        };
        case.rule(header, snapshot, settings)?;
        Ok(case)
    }

    /// Puts other settings in place, for the same trace and snapshot.
    ///
    /// # Errors
    /// [`Error::Geometry`]; the case is not to be used then.
    pub fn rule(
        &mut self,
        header: &Header,
        snapshot: &KernelSnapshot,
        settings: &Settings,
    ) -> Result<(), Error> {
        let machine = &settings.machine;
        let cpus = machine.online_cpus as usize;
        let nodes = machine.nodes.max(1) as usize;
        self.node_of = (0..cpus).map(|cpu| (cpu * nodes / cpus) as u16).collect();
        self.memory_of = machine.memoryless.memory_of(nodes as u32).unwrap_or_default();
        self.page_size = machine.page_size;
        // Of a machine whose memory nobody told, the lists are those of any large one.
        let memory = if machine.memory_bytes > 0 { machine.memory_bytes } else { LARGE };
        let zone_bytes = memory / nodes as u64;
        let zone = Zone::of(zone_bytes, machine.page_size.into(), cpus.div_ceil(nodes) as u64);
        self.page_lists = settings.page_lists.map(|kind| PageRules::new(kind, &zone, u32::MAX));
        self.orders.clear();
        self.least.clear();
        self.rules.clear();
        self.sheaves.clear();
        for (cache, request) in snapshot.caches.iter().zip(snapshot.requests(settings)) {
            let geometry = geometry::of_cache(&request, settings)
                .map_err(|why| Error::Geometry { id: cache.id.clone(), why })?;
            self.orders.push(geometry.order);
            self.least.push((geometry.min_order, geometry.least_objects(settings)));
            self.rules.push(geometry.rules(settings));
            self.sheaves.push(settings.sheaves(cache.slab_size));
        }
        self.gone = self.leave_out_gone(snapshot, settings);
        let own = snapshot.settings().map(|(own, _)| own);
        self.laid_out = match &own {
            Ok(own) => laid_out(snapshot, own, settings),
            Err(error) => Err(error.to_string()),
        };
        let counted = |cache: &Cache| cache.reclaim_account == Some(true);
        self.reclaimable = snapshot.caches.iter().map(counted).collect();
        let told = snapshot.machine().map(|machine| machine.online_cpus);
        self.traced_cpus = told.or(header.cpus).unwrap_or(machine.online_cpus);
        self.unlike = self.unlike();
        let is_other = [
            (Change::Cpus, self.traced_cpus != machine.online_cpus),
            (Change::Pages, snapshot.page_size != self.page_size),
            (Change::Orders, snapshot.page_size == self.page_size && self.others() > 0),
            (Change::Front, own.is_ok_and(|own| has_sheaves(&own) != has_sheaves(settings))),
        ];
        self.changes = is_other.into_iter().filter_map(|(what, is)| is.then_some(what)).collect();
        Ok(())
    }

    /// Leaves out what the release of the settings does not have, and what is merged with it.
    fn leave_out_gone(&mut self, snapshot: &KernelSnapshot, settings: &Settings) -> Option<String> {
        let mut names = Vec::new();
        for (id, cache) in self.ids.iter().zip(&mut self.prepared.caches) {
            let is_it = |name: &&&str| snapshot.cache(name).is_some_and(|found| found.id == *id);
            let found = settings.release.gone.iter().find(is_it);
            cache.gone = found.is_some();
            cache.left_out = match cache.left_out {
                None if cache.gone => Some(GONE),
                Some(GONE) if !cache.gone => None,
                other => other,
            };
            names.extend(found.map(|name| match name == id {
                true => id.clone(),
                false => format!("{name} ({id})"),
            }));
        }
        let release = settings.release.name;
        (!names.is_empty())
            .then(|| format!("Linux {release} has no {}: left out", names.join(", ")))
    }

    /// Replays it by the rules of SLAB, as settings have them.
    ///
    /// # Errors
    /// [`Error::Geometry`], where a cache has none.
    pub fn follow_slab_of(
        &mut self,
        snapshot: &KernelSnapshot,
        settings: &Settings,
    ) -> Result<(), Error> {
        let rules = slab::Rules::of_settings(settings);
        // What the snapshot tells is of the order that the kernel was booted with.
        let told = settings.typed_max_order().is_none() && is_told(snapshot, &rules);
        self.follow_arrays(snapshot, &rules, told)?;
        self.slab = settings.slab;
        Ok(())
    }

    /// Replays it by the rules of SLAB: with arrays in front of slabs. There are as many objects as
    /// the snapshot says, for a snapshot [of a kernel with SLAB](KernelSnapshot::is_of_slab) and
    /// the same pages, or as the rules say.
    ///
    /// # Errors
    /// [`Error::Geometry`], where a cache has none.
    pub fn follow_slab(
        &mut self,
        snapshot: &KernelSnapshot,
        rules: &slab::Rules,
    ) -> Result<(), Error> {
        self.follow_arrays(snapshot, rules, is_told(snapshot, rules))
    }

    fn follow_arrays(
        &mut self,
        snapshot: &KernelSnapshot,
        rules: &slab::Rules,
        told: bool,
    ) -> Result<(), Error> {
        self.slab.choice = rules.choice;
        self.laid_out = match told {
            true => Ok(Vec::new()),
            false => Err("populations are laid out in slabs of SLUB alone".into()),
        };
        for (nth, cache) in snapshot.caches.iter().enumerate() {
            let request = slab::Request {
                object_size: cache.object_size.unwrap_or(cache.slab_size),
                keeps_contents: cache.destroy_by_rcu.unwrap_or(false),
                reclaimable: cache.reclaim_account.unwrap_or(false),
                ..slab::Request::of(cache.slab_size)
            };
            let found = slab::of(&request, rules)
                .map_err(|why| Error::Geometry { id: cache.id.clone(), why })?;
            let (objects, order) = match told {
                true => (cache.objs_per_slab, cache.order),
                false => (found.objects, found.order),
            };
            self.rules[nth] = self.rules[nth].of_arrays(objects, found.limits);
            self.orders[nth] = order;
            // It has no smaller slabs.
            self.least[nth] = (order, objects);
        }
        self.unlike = self.unlike();
        self.changes.retain(|change| *change != Change::Orders);
        self.changes.extend((!snapshot.is_of_slab()).then_some(Change::Allocator));
        Ok(())
    }

    /// Lets events happen to the machine, which is the last that is set.
    ///
    /// # Errors
    /// See [`events::ImpossibleEvent`].
    pub fn happens(&mut self, mut all: Vec<Event>) -> Result<(), events::ImpossibleEvent> {
        let of_cpus = all.iter().any(|event| event.what.is_of_cpus());
        let shrinks = all.iter().any(|event| event.what == MachineEvent::Shrink);
        all.extend(&self.shrinks);
        all.sort_by_key(|event| event.at_ns);
        events::check(&all, self.node_of.len())?;
        self.changes.extend(of_cpus.then_some(Change::Hotplug));
        self.changes.extend(shrinks.then_some(Change::Shrink));
        self.events = all;
        self.unlike = self.unlike();
        Ok(())
    }

    /// Tells the pages of the trace apart that are no slabs, for a machine whose memory has an end.
    ///
    /// # Errors
    /// The trace's file cannot be read.
    pub fn tell_others(&mut self, events: Events<'_>) -> Result<(), trace::Error> {
        self.others = OtherPages::of(events, &self.prepared.slabs)?;
        Ok(())
    }

    /// Caches of the trace that have other slabs than the traced ones.
    fn others(&self) -> usize {
        let mut seen = vec![false; self.ids.len()];
        self.prepared.slabs.iter().for_each(|slab| seen[slab.cache as usize] = true);
        (0..self.ids.len())
            .filter(|nth| seen[*nth] && self.traced_objects[*nth] != self.rules[*nth].objects)
            .count()
    }

    /// On other slabs the start is laid out anew, and on other CPUs the tasks are placed by a rule:
    /// both are near what a kernel would have, and not measured there.
    fn unlike(&self) -> Option<String> {
        let others = self.others();
        let cpus = self.node_of.len() as u32;
        let mut why = Vec::new();
        if others > 0 {
            let (caches, have) = if others == 1 { ("cache", "has") } else { ("caches", "have") };
            why.push(format!(
                "{others} {caches} {have} other slabs than the traced kernel's, and the objects at the \
                 start are laid out anew, with their holes"
            ));
        }
        if cpus != self.traced_cpus {
            let traced = self.traced_cpus;
            why.push(format!("the tasks of {traced} CPUs are placed on {cpus} by a rule"));
        }
        if self.events.iter().any(|event| event.what.is_of_cpus()) {
            why.push("tasks are placed by a rule once a CPU went or came".into());
        }
        if self.events.iter().any(|event| event.what == MachineEvent::Shrink) {
            why.push(
                "caches are shrunk, without what shrinkers would free, which no trace tells".into(),
            );
        }
        let unlike = "figures of unlike machines do not compare";
        (!why.is_empty()).then(|| format!("{}; {unlike}", why.join("; ")))
    }

    /// A plan to run it.
    #[must_use]
    pub fn plan(&self, start: Start) -> Plan<'_> {
        Plan {
            prepared: &self.prepared,
            rules: &self.rules,
            traced_objects: &self.traced_objects,
            traced_sheaves: &self.traced_sheaves,
            laid_out: self.laid_out.as_deref().unwrap_or_default(),
            node_of: &self.node_of,
            memory_of: &self.memory_of,
            traced_cpus: self.traced_cpus as usize,
            tasks: 1,
            parked: &self.parked,
            start,
            orders: &self.orders,
            least: &self.least,
            reclaimable: &self.reclaimable,
            slab: self.slab,
            sheaves: &self.sheaves,
            sample_every: 0,
            audit_every: 0,
            page_size: self.page_size,
            memory: None,
            others: &self.others,
            steps: None,
            events: &self.events,
            page_lists: self.page_lists,
            called: None,
        }
    }
}

/// Slabs of each cache by these settings for one that the snapshot counts by its `own`, or what the
/// snapshot does not tell. Its own settings need nothing of it: they leave each slab as it is.
fn laid_out(
    snapshot: &KernelSnapshot,
    own: &Settings,
    settings: &Settings,
) -> Result<Vec<f64>, String> {
    if own == settings {
        return Ok(vec![1.0; snapshot.caches.len()]);
    }
    let population = Population::from_snapshot(snapshot, own).map_err(|error| error.to_string())?;
    let outcome = population.on(settings).map_err(|error| error.to_string())?;
    let slabs = population.caches.iter().map(|cache| cache.places.slabs());
    let ratio = |(cache, slabs): (&CacheOutcome, f64)| match slabs > 0.0 {
        true => cache.places.slabs() / slabs,
        false => 1.0,
    };
    Ok(outcome.caches.iter().zip(slabs).map(ratio).collect())
}

/// True if every cache has sheaves.
fn has_sheaves(settings: &Settings) -> bool {
    settings.front() == Front::Sheaves
}

/// True if a snapshot tells the geometry of SLAB's caches.
fn is_told(snapshot: &KernelSnapshot, rules: &slab::Rules) -> bool {
    snapshot.is_of_slab() && rules.page_size == snapshot.page_size
}

/// The shrinks that a trace tells of, of caches that the snapshot has. The replay's time begins with
/// the first event.
fn shrinks(attached: &[Attached], snapshot: &KernelSnapshot, begun_ns: u64) -> Vec<Event> {
    let of = |attached: &Attached| {
        let id = &snapshot.cache(std::str::from_utf8(&attached.bytes).ok()?)?.id;
        let number = snapshot.caches.binary_search_by(|cache| cache.id.cmp(id)).ok()?;
        let what = MachineEvent::ShrinkOf(u16::try_from(number).ok()?);
        Some(Event { at_ns: attached.time.saturating_sub(begun_ns), what })
    };
    let mut shrinks: Vec<Event> =
        attached.iter().filter(|attached| attached.name == SHRINK).filter_map(of).collect();
    shrinks.sort_by_key(|event| event.at_ns);
    shrinks
}

fn parked(cache: &Cache) -> ParkedSlabs {
    let lists = cache.slabs_cpu_partial.as_ref();
    let mut cpu_partial = Vec::new();
    for (cpu, slabs) in lists.and_then(|lists| lists.per_cpu.as_ref()).into_iter().flatten() {
        let cpu = *cpu as usize;
        if cpu_partial.len() <= cpu {
            cpu_partial.resize(cpu + 1, 0);
        }
        cpu_partial[cpu] = *slabs as u32;
    }
    let told: u32 = cpu_partial.iter().sum();
    let on_lists = lists.map_or(0, |lists| lists.slabs as u32).max(told);
    let node_partial = cache.partial.unwrap_or(0) as u32;
    let used = cache.objects_partial.unwrap_or(0) as u32;
    ParkedSlabs {
        slabs: cache.slabs.unwrap_or(0) as u32,
        cpu_slabs: (cache.cpu_slabs.unwrap_or(0) as u32).saturating_sub(on_lists),
        cpu_partial,
        cpu_partial_of_any: on_lists - told,
        node_partial,
        node_free: (node_partial * cache.objs_per_slab).saturating_sub(used),
    }
}
