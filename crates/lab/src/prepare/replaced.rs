//! When the nodes of maple trees are freed, of which no event tells.
//!
//! A task that writes to a maple tree does not change nodes that readers may be in: it allocates
//! nodes in their place, and frees the old ones by `kfree_rcu()`. So right after a task allocated a
//! node it frees one that it allocated before, although the trace shows that free only when the
//! memory is used again, long after the grace period. Of a task's nodes the one is freed whose
//! memory is used again first; if that is much later than usual, the tree grew instead. If the
//! recorder set probes, events tell these frees. When a task destroys its tree, the trace shows the
//! free of the root alone, and the other nodes are freed with it.
//!
//! A write that needs several nodes takes them from a sheaf that was prefilled for it. Such an
//! allocation may not wait for memory, by its flags, and those of one write come one after the
//! other.
//!
//! Neighbours: [`super::matching`] finds which frees are missing, and this module moves them;
//! [`super::readers`] uses how long memory was not used again. Invariant: the allocations and frees of
//! an object alternate as before.

use super::input::CacheNumber;
use super::matching::{self, Step, StepKind, Via};
use std::collections::{BTreeSet, HashMap};

/// A write prefills its sheaf for the worst case: one less than this many times what it takes.
const WORST_CASE: usize = 2;
/// Memory that is not used again for this many times the median was in use for some of it.
const MOST_TIMES: u64 = 6;

/// Moves the missed frees of the nodes, among steps in order of time, to where others replaced them.
pub(super) fn place(steps: &mut Vec<Step>, nodes: CacheNumber) {
    let lives = Lives::of(steps, nodes);
    let frees = if lives.is_told {
        // Probes tell of prefilled sheaves, too.
        lives.frees(steps, &HashMap::new(), 0)
    } else {
        let write_of = prefilled(steps, &lives, nodes);
        lives.guessed(steps, &write_of)
    };
    for nth in &lives.steps {
        if steps[*nth].via == Via::AfterReaders {
            steps[*nth].via = Via::Plain;
        }
    }
    for (alloc, free) in frees {
        let Step { object, slab, .. } = steps[alloc];
        let free = Step { object, slab, ..free };
        match lives.until.get(&alloc) {
            Some(missed) => steps[*missed] = free,
            None => steps.push(free),
        }
    }
    *steps = matching::sort(std::mem::take(steps));
}

/// When objects are live. Steps are known by their places.
struct Lives {
    /// The nodes'.
    steps: Vec<usize>,
    /// Of each allocation, its free.
    until: HashMap<usize, usize>,
    /// Of each task, the last one of the nodes that the trace shows.
    last: HashMap<u32, usize>,
    /// Events tell what `kfree_rcu()` frees: the recorder set probes.
    is_told: bool,
}

impl Lives {
    fn of(steps: &[Step], nodes: CacheNumber) -> Lives {
        let all = steps.iter().enumerate().filter(|(_, step)| step.cache == nodes);
        let nodes: Vec<usize> = all.map(|(nth, _)| nth).collect();
        let is_told = nodes.iter().any(|nth| steps[*nth].via == Via::Rcu);
        let (until, last) = (HashMap::new(), HashMap::new());
        let mut lives = Lives { steps: nodes, until, last, is_told };
        let mut freed = HashMap::new();
        for nth in lives.steps.iter().rev() {
            let Step { object, op, missed, task, .. } = steps[*nth];
            if op == StepKind::Free {
                freed.insert(object, *nth);
            } else if let Some(free) = freed.remove(&object) {
                lives.until.insert(*nth, free);
            }
            if !missed {
                lives.last.entry(task).or_insert(*nth);
            }
        }
        lives
    }

    /// True if an event shows the free of what a step allocates, other than by `kfree_rcu()`.
    fn is_free_traced(&self, steps: &[Step], alloc: usize) -> bool {
        let is_plain = |free: &usize| !steps[*free].missed && steps[*free].via != Via::Rcu;
        self.until.get(&alloc).is_some_and(is_plain)
    }

    /// When the memory of a node is used again; at no time if the trace does not show it.
    fn used_again(&self, steps: &[Step], alloc: usize) -> u64 {
        self.until.get(&alloc).map_or(u64::MAX, |free| steps[*free].time_ns)
    }

    /// The frees of nodes that others replaced, as far as the allocations tell.
    fn guessed(&self, steps: &[Step], write_of: &HashMap<usize, usize>) -> Vec<(usize, Step)> {
        let any = self.frees(steps, write_of, u64::MAX);
        let unused = self.unused(steps, &any);
        let mut times: Vec<u64> = unused.iter().map(|(freed, again)| again - freed).collect();
        times.sort_unstable();
        let usual = times.get(times.len() / 2).copied().unwrap_or(0);
        self.frees(steps, write_of, usual.saturating_mul(MOST_TIMES))
    }

    /// When nodes were freed by `kfree_rcu()`, and when their memory was used again.
    fn unused(&self, steps: &[Step], frees: &[(usize, Step)]) -> Vec<(u64, u64)> {
        let by_rcu = frees.iter().filter(|(_, free)| free.via == Via::Rcu);
        let times = by_rcu.map(|(alloc, free)| (free.time_ns, self.used_again(steps, *alloc)));
        times.filter(|(_, again)| *again < u64::MAX).collect()
    }

    /// For each allocation of a node that others replaced, or that was destroyed with its tree, the
    /// free. No memory stays unused longer than `most_ns` that is used again.
    fn frees(
        &self,
        steps: &[Step],
        write_of: &HashMap<usize, usize>,
        most_ns: u64,
    ) -> Vec<(usize, Step)> {
        let mut frees = Vec::new();
        // Of each task, its live nodes: when their memory is used again, and their allocations.
        let mut trees: HashMap<u32, BTreeSet<(u64, usize)>> = HashMap::new();
        // Of each object that is live, its allocation.
        let mut live: HashMap<u32, usize> = HashMap::new();
        for nth in &self.steps {
            let step = &steps[*nth];
            let free = |via| Step { op: StepKind::Free, missed: true, via, ..*step };
            if step.op == StepKind::Alloc {
                live.insert(step.object, *nth);
                if self.is_free_traced(steps, *nth) {
                    continue;
                }
                let tree = trees.entry(step.task).or_default();
                if self.is_told {
                    let until = self.until.get(nth).map(|free| steps[*free].via);
                    if until != Some(Via::Rcu) {
                        tree.insert((self.used_again(steps, *nth), *nth));
                    }
                    continue;
                }
                let write = write_of.get(nth);
                let is_older = |of: &&(u64, usize)| write.is_none() || write_of.get(&of.1) != write;
                let soon = tree.iter().find(is_older);
                let soon = soon.filter(|(again, _)| again.saturating_sub(step.time_ns) <= most_ns);
                let never = || tree.range((u64::MAX, 0)..).find(is_older);
                if let Some(replaced) = soon.or_else(never).copied() {
                    tree.remove(&replaced);
                    frees.push((replaced.1, free(Via::Rcu)));
                }
                tree.insert((self.used_again(steps, *nth), *nth));
            } else if let Some(alloc) = live.remove(&step.object).filter(|_| step.missed) {
                if let Some(tree) = trees.get_mut(&steps[alloc].task) {
                    tree.remove(&(step.time_ns, alloc));
                }
            } else if self.last.get(&step.task) == Some(nth) {
                let tree = trees.remove(&step.task).unwrap_or_default();
                let gone = tree.into_iter().filter(|(again, _)| *again < u64::MAX);
                frees.extend(gone.map(|(_, alloc)| (alloc, free(Via::Plain))));
            }
        }
        frees
    }
}

/// Finds the allocations from prefilled sheaves. Returns of each the first one of the same write.
fn prefilled(steps: &mut [Step], lives: &Lives, nodes: CacheNumber) -> HashMap<usize, usize> {
    let mut writes: HashMap<u32, Vec<usize>> = HashMap::new();
    let mut write_of = HashMap::new();
    let mut end = |steps: &mut [Step], write: &[usize]| {
        for (at, nth) in write.iter().enumerate() {
            let least = if at == 0 { write.len() * WORST_CASE - 1 } else { 1 };
            let via = Via::Prefilled(u8::try_from(least).unwrap_or(u8::MAX));
            steps[*nth].via = if write.len() > 1 { via } else { Via::Plain };
            write_of.insert(*nth, write[0]);
        }
    };
    for nth in 0..steps.len() {
        let Step { cache, task, op, via, missed, .. } = steps[nth];
        let is_prefilled = cache == nodes && op == StepKind::Alloc && via != Via::Plain;
        if is_prefilled && lives.is_free_traced(steps, nth) {
            // One node, of a tree that holds what the task takes out of its own.
            steps[nth].via = Via::Plain;
        } else if is_prefilled {
            writes.entry(task).or_default().push(nth);
        } else if !missed && let Some(write) = writes.remove(&task) {
            end(steps, &write);
        }
    }
    writes.values().for_each(|write| end(steps, write));
    write_of
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A step of a task with an object, at a millisecond.
    fn step(at_ms: u64, task: u32, op: StepKind, object: u32) -> Step {
        Step {
            time_ns: at_ms * MS,
            object,
            slab: 0,
            cache: 0,
            task,
            cpu: task as u16,
            node: crate::event::ANY_NODE,
            op,
            via: Via::Plain,
            missed: false,
            nowait: false,
        }
    }

    fn alloc(at_ms: u64, task: u32, object: u32) -> Step {
        step(at_ms, task, StepKind::Alloc, object)
    }

    fn prefilled(at_ms: u64, object: u32) -> Step {
        Step { via: Via::Prefilled(1), ..alloc(at_ms, 1, object) }
    }

    /// A free that the trace misses, found when the memory was used again.
    fn missed(at_ms: u64, object: u32) -> Step {
        let free = step(at_ms, 9, StepKind::Free, object);
        Step { via: Via::AfterReaders, missed: true, ..free }
    }

    /// The frees after they were placed: when, on which CPU, of which object and by which call.
    fn placed(mut steps: Vec<Step>) -> Vec<(u64, u16, u32, Via)> {
        place(&mut steps, 0);
        assert!(steps.is_sorted_by_key(|step| step.time_ns));
        let frees = steps.iter().filter(|step| step.op == StepKind::Free);
        frees.map(|step| (step.time_ns / MS, step.cpu, step.object, step.via)).collect()
    }

    #[test]
    fn a_node_is_freed_when_its_task_allocates_the_next() {
        let steps = vec![
            alloc(0, 1, 0),
            alloc(5, 1, 1),
            alloc(6, 2, 2),
            missed(30, 0),
            alloc(30, 2, 0),
            missed(40, 1),
            alloc(40, 3, 1),
        ];
        assert_eq!(
            placed(steps),
            [(5, 1, 0, Via::Rcu), (30, 2, 2, Via::Rcu), (40, 9, 1, Via::Plain)]
        );
    }

    #[test]
    fn nodes_of_one_write_come_from_a_prefilled_sheaf_and_replace_older_ones() {
        let mut steps = vec![
            alloc(0, 1, 0),
            prefilled(5, 1),
            prefilled(5, 2),
            prefilled(5, 3),
            alloc(6, 1, 4),
            missed(20, 0),
            alloc(20, 2, 0),
            missed(21, 2),
            alloc(21, 2, 2),
        ];
        place(&mut steps, 0);
        let via = |object| {
            let of = steps.iter().find(|step| step.object == object);
            of.map(|step| step.via)
        };
        assert_eq!(via(1), Some(Via::Prefilled(5)));
        assert_eq!((via(2), via(3)), (Some(Via::Prefilled(1)), Some(Via::Prefilled(1))));
        let frees = steps.iter().filter(|step| step.op == StepKind::Free);
        let freed: Vec<(u64, u32)> = frees.map(|step| (step.time_ns / MS, step.object)).collect();
        assert_eq!(freed[..2], [(5, 0), (6, 2)]);
    }

    #[test]
    fn a_node_whose_memory_is_used_again_much_later_stays_in_its_tree() {
        let mut steps =
            vec![alloc(0, 1, 100), alloc(1, 1, 101), missed(900, 100), alloc(900, 3, 100)];
        for nth in 0..4 {
            let (at, object) = (10 + 10 * nth, nth as u32);
            steps.extend([
                alloc(at, 2, object),
                missed(at + 20, object),
                alloc(at + 20, 4, object),
            ]);
        }
        steps = matching::sort(steps);
        assert!(placed(steps).contains(&(900, 9, 100, Via::Plain)));
    }

    #[test]
    fn nodes_are_freed_with_the_root_of_their_tree() {
        let steps = vec![
            alloc(0, 1, 0),
            alloc(5, 1, 1),
            prefilled(6, 2),
            prefilled(6, 3),
            step(10, 1, StepKind::Free, 1),
            missed(30, 2),
            alloc(30, 2, 2),
        ];
        assert!(placed(steps).contains(&(10, 1, 2, Via::Plain)));
    }

    #[test]
    fn frees_that_events_tell_of_stay_and_those_of_a_tree_that_ends_are_placed() {
        let rcu = |at_ms, object| Step { via: Via::Rcu, ..step(at_ms, 1, StepKind::Free, object) };
        // The root is freed last; object 2 is in the tree then, and is used again later.
        let mut steps = vec![
            alloc(0, 1, 0),
            alloc(5, 1, 1),
            rcu(6, 0),
            alloc(9, 1, 2),
            rcu(20, 1),
            missed(40, 2),
            alloc(40, 3, 2),
            alloc(41, 3, 0),
        ];
        place(&mut steps, 0);
        let frees: Vec<_> = steps.iter().filter(|step| step.op == StepKind::Free).collect();
        let told: Vec<_> =
            frees.iter().map(|free| (free.time_ns / MS, free.object, free.via)).collect();
        assert_eq!(told, [(6, 0, Via::Rcu), (20, 1, Via::Rcu), (20, 2, Via::Plain)]);
    }
}
