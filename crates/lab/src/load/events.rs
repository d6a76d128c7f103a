//! What the tasks of a load do, as a trace's events.
//!
//! Each task begins an operation after a random time, whose mean its rate gives (so that operations
//! are a Poisson process), and allocates all objects of the operation at that moment. An object is
//! freed when its lifetime is over, on its own CPU or on another one that the load names. Its
//! address is the one that was freed last, or in a new slab: the replay asks only which object an
//! event is about. Invariant: events are in order of time, and of making where times are equal.

use super::format::{Allocation, Lifetime, Load, TaskGroup, at, cpu_list};
use crate::event::{ANY_NODE, Event, EventKind};
use crate::snapshot::{Cache, KernelSnapshot};
use crate::trace::{NO_NAME, Names};
use slabyard_small::random::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most events of a load: they are in memory.
const MOST_EVENTS: f64 = 16e6;
/// The first page frame of a slab.
const FIRST: u64 = 1 << 16;
/// `GFP_KERNEL`.
const MAY_WAIT: u32 = 0xcc0;
/// `GFP_NOWAIT`.
const NOWAIT: u32 = 0x2800;
/// What frees on another CPU is a task of its own there; these numbers are above all others.
const FREEING: u32 = 1 << 24;
const SECOND: f64 = 1e9;

/// A task of a group.
struct Task<'a> {
    cpu: u16,
    /// Its number, and its own random numbers.
    pid: u32,
    random: Random,
    mean_ns: f64,
    until: u64,
    parts: &'a [TaskAllocation],
    /// Its place among the CPUs of its group.
    nth: usize,
}

/// An allocation of an operation, ready to be made.
struct TaskAllocation {
    /// Among those that are used.
    cache: usize,
    count: u32,
    lifetime: Option<Lifetime>,
    freed_on: Vec<u16>,
    node: i16,
    gfp: u32,
}

/// Where the next objects of a cache are.
struct Place {
    name: u32,
    order: u8,
    objects: u32,
    size: u32,
    free: Vec<u64>,
}

/// A call that is due.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Operation { task: usize },
    Free { place: usize, address: u64, cpu: u16, pid: u32 },
}

/// All events, and the names of their caches.
pub(super) fn events(
    load: &Load,
    text: &str,
    snapshot: &KernelSnapshot,
) -> Result<(Vec<Event>, Names), String> {
    let end = (load.seconds.get_ref() * SECOND) as u64;
    let mut run = Run {
        names: Names::new(),
        places: Vec::new(),
        due: BinaryHeap::new(),
        nr_due: 0,
        events: Vec::new(),
        frame: FIRST,
        page_shift: snapshot.page_size.trailing_zeros(),
    };
    let (mut groups, mut expected) = (Vec::new(), 0.0);
    for group in &load.tasks {
        let parts = |allocation: &toml::Spanned<Allocation>| {
            run.part(allocation.get_ref(), load.machine.cpus, snapshot)
                .map_err(|what| at(text, allocation, format!("allocates: {what}")))
        };
        let parts: Vec<TaskAllocation> =
            group.get_ref().allocates.iter().map(parts).collect::<Result<_, _>>()?;
        let TaskGroup { cpus, per_cpu, per_second, from, until, .. } = group.get_ref();
        let cpus = cpu_list(cpus.get_ref(), load.machine.cpus)?;
        let seconds = until.unwrap_or(*load.seconds.get_ref()) - from;
        let objects: u32 = parts.iter().map(|part| part.count).sum();
        let tasks = cpus.len() as f64 * f64::from(*per_cpu);
        expected += 2.0 * tasks * per_second.get_ref() * seconds * f64::from(objects);
        if expected > MOST_EVENTS {
            let what = format!(
                "tasks: some {expected:.0} events so far; at most {MOST_EVENTS:.0} are made: take \
                 fewer seconds, or lower rates"
            );
            return Err(at(text, group, what));
        }
        groups.push((group.get_ref(), cpus, parts));
    }
    let mut tasks = Vec::new();
    for (group, cpus, parts) in &groups {
        for (nth, cpu) in cpus.iter().enumerate() {
            for _ in 0..group.per_cpu {
                let pid = tasks.len() as u32 + 1;
                let seed = load.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(pid);
                let mut random = Random::new(seed);
                random.share();
                let mean_ns = SECOND / group.per_second.get_ref();
                let until = group.until.map_or(end, |until| (until * SECOND) as u64);
                tasks.push(Task { cpu: *cpu, pid, random, mean_ns, until, parts, nth });
                let first = (group.from * SECOND) as u64;
                run.after(first, &mut tasks, pid as usize - 1);
            }
        }
    }
    run.until(end, &mut tasks);
    Ok((run.events, run.names))
}

struct Run {
    names: Names,
    places: Vec<Place>,
    due: BinaryHeap<Reverse<(u64, u64, Due)>>,
    nr_due: u64,
    events: Vec<Event>,
    frame: u64,
    page_shift: u32,
}

impl Run {
    fn part(
        &mut self,
        allocation: &Allocation,
        cpus: u32,
        snapshot: &KernelSnapshot,
    ) -> Result<TaskAllocation, String> {
        let Allocation { cache, count, lifetime_us, freed_on, node, nowait } = allocation;
        let known = snapshot.cache(cache).ok_or_else(|| {
            format!("there is no cache `{cache}`: neither a [[cache]] nor one of a snapshot")
        })?;
        Ok(TaskAllocation {
            cache: self.place(known),
            count: *count,
            lifetime: *lifetime_us,
            freed_on: freed_on.as_deref().map_or(Ok(Vec::new()), |list| cpu_list(list, cpus))?,
            node: node.unwrap_or(ANY_NODE),
            gfp: if *nowait { NOWAIT } else { MAY_WAIT },
        })
    }

    fn place(&mut self, cache: &Cache) -> usize {
        let name = self.names.intern(&cache.id);
        let known = self.places.iter().position(|place| place.name == name);
        known.unwrap_or_else(|| {
            let (order, objects, size) = (cache.order, cache.objs_per_slab, cache.slab_size);
            self.places.push(Place { name, order, objects, size, free: Vec::new() });
            self.places.len() - 1
        })
    }

    fn add(&mut self, time: u64, due: Due) {
        self.nr_due += 1;
        self.due.push(Reverse((time, self.nr_due, due)));
    }

    /// The next operation of a task, after a random time.
    fn after(&mut self, time: u64, tasks: &mut [Task<'_>], task: usize) {
        let Task { random, mean_ns, until, .. } = &mut tasks[task];
        let wait = -(1.0 - random.share()).ln() * *mean_ns;
        let at = time + wait as u64;
        if at < *until {
            self.add(at, Due::Operation { task });
        }
    }

    fn until(&mut self, end: u64, tasks: &mut [Task<'_>]) {
        while let Some(Reverse((time, _, due))) = self.due.pop() {
            if time >= end {
                break;
            }
            match due {
                Due::Operation { task } => {
                    self.operation(time, &mut tasks[task]);
                    self.after(time, tasks, task);
                }
                Due::Free { place, address, cpu, pid } => {
                    let Place { name, free, .. } = &mut self.places[place];
                    free.push(address);
                    let (kind, name) = (EventKind::CacheFree, *name);
                    self.events.push(Event { time, address, name, cpu, pid, kind, ..Event::BLANK });
                }
            }
        }
    }

    fn operation(&mut self, time: u64, task: &mut Task<'_>) {
        for part in task.parts {
            for _ in 0..part.count {
                let address = self.alloc(time, task, part);
                let Some(lifetime) = part.lifetime else { continue };
                let us = match lifetime {
                    Lifetime::Fixed(us) => us,
                    Lifetime::Between([low, high]) => low + (high - low) * task.random.share(),
                };
                let (cpu, pid) = match part.freed_on.get(task.nth % part.freed_on.len().max(1)) {
                    Some(cpu) => (*cpu, FREEING + u32::from(*cpu)),
                    None => (task.cpu, task.pid),
                };
                let free = Due::Free { place: part.cache, address, cpu, pid };
                self.add(time + (us * 1e3) as u64, free);
            }
        }
    }

    /// An object's address; a slab is made if none is free.
    fn alloc(&mut self, time: u64, task: &Task<'_>, part: &TaskAllocation) -> u64 {
        let place = &mut self.places[part.cache];
        let Place { name, order, objects, size, free } = place;
        let of_task = Event { time, cpu: task.cpu, pid: task.pid, ..Event::BLANK };
        if free.is_empty() {
            let frame = self.frame.next_multiple_of(1 << *order);
            self.frame = frame + (1 << *order);
            let (kind, gfp) = (EventKind::PageAlloc, MAY_WAIT);
            let pages =
                Event { kind, name: NO_NAME, address: frame, order: *order, gfp, ..of_task };
            self.events.push(pages);
            let base = frame << self.page_shift;
            free.extend((0..*objects).rev().map(|nth| base + u64::from(nth * *size)));
        }
        let address = free.pop().unwrap_or_default();
        let TaskAllocation { node, gfp, .. } = *part;
        let (requested, allocated) = (*size, *size);
        let kind = EventKind::CacheAlloc;
        let alloc = Event { kind, name: *name, address, node, gfp, ..of_task };
        self.events.push(Event { requested, allocated, ..alloc });
        address
    }
}
