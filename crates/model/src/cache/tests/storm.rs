//! Audits the cache after random calls by every combination of rules, and plants bugs.

use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The slab that the next object comes from, if it is one that there is already and sheaves are
/// not in front of it.
fn expected(cache: &KernelCache, cpu: usize, node: Option<u16>) -> Option<u32> {
    let own = cache.cpu_slab(cpu).map(|(slab, _)| slab);
    let strange = own.is_some_and(|slab| node.is_some_and(|n| n != cache.slab(slab).node.get()));
    if !cache.stacks.is_empty() || !cache.rules.has_cpu_slabs() || strange {
        return None;
    }
    Some(cache.choose(cpu, node).slab()).filter(|slab| *slab != NONE)
}

/// Random calls, an audit after each, and a prediction of the next slab before each allocation;
/// returns what is wrong, if anything.
fn storm(rules: Rules, node_of: &[u16], seed: u64) -> Result<(), String> {
    let mut random = Random(seed | 1);
    let mut cache = KernelCache::new(rules, node_of);
    let mut live: Vec<u32> = Vec::new();
    for step in 0..600 {
        let cpu = random.below(node_of.len());
        // Waves: up, down, up.
        let up = if step / 150 % 2 == 0 { 70 } else { 30 };
        match random.below(100) {
            99 => cache.shrink(),
            98 => cache.flush_cpu(cpu),
            n if n < up || live.is_empty() => {
                let node = (random.below(8) == 0).then_some(0);
                let expected = expected(&cache, cpu, node);
                let slab = match expected {
                    None => {
                        let calls =
                            [AllocCall::Plain, AllocCall::Prefilled(2), AllocCall::Delayed(1)];
                        cache.alloc_by(calls[random.below(4).min(3) % 3], cpu, node)
                    }
                    Some(_) => cache.alloc(cpu, node),
                };
                if expected.is_some_and(|of| of != slab) {
                    return Err(format!("step {step}: {expected:?} was next, not {slab}"));
                }
                live.push(slab);
            }
            _ => {
                let slab = live.swap_remove(random.below(live.len()));
                if random.below(4) == 0 {
                    if cache.free_rcu(cpu, slab) && random.below(2) == 0 {
                        cache.end_grace();
                    }
                } else {
                    cache.free(cpu, slab);
                }
            }
        }
        let of = |slab: u32| live.iter().filter(|of| **of == slab).count() as u32;
        cache.audit(Some(&of)).map_err(|what| format!("step {step}: {what}"))?;
    }
    Ok(())
}

#[test]
fn every_combination_keeps_the_books() {
    each_combination(|rules, node_of| {
        for seed in 1..4 {
            if let Err(what) = storm(rules, node_of, seed * 7919) {
                panic!("{rules:?} on {node_of:?}, seed {seed}: {what}");
            }
        }
    });
}

/// Where CPU partial lists are off and CPU slabs are used, more than one slab on a
/// node's list is enough for slabs to get lost; elsewhere the bug does not exist.
#[test]
fn lost_slabs_are_found_in_the_first_run_wherever_they_exist() {
    let mut found = 0;
    each_combination(|rules, node_of| {
        let rules = Rules { planted: Planted::LoseExtraSlabs, ..rules };
        let exists = !rules.cpu_partial_lists && rules.has_cpu_slabs();
        let run = catch_unwind(AssertUnwindSafe(|| storm(rules, node_of, 7919)));
        let is_found = !matches!(run, Ok(Ok(())));
        assert_eq!(is_found, exists, "{rules:?} on {node_of:?}");
        if let Ok(Err(what)) = run {
            assert!(what.contains("unreachable"), "{what}");
        }
        found += u32::from(exists);
    });
    assert_eq!(found, 72);
}

#[test]
fn lost_slabs_make_memory_grow_without_end() {
    let peak = |planted: Planted| {
        let rules = Rules { cpu_partial_lists: false, planted, ..RULES };
        let mut cache = KernelCache::new(rules, &[0, 0]);
        let mut live = Vec::new();
        let mut random = Random(5);
        for _ in 0..20_000 {
            live.push(cache.alloc(0, None));
            while live.len() > 100 {
                let slab = live.swap_remove(random.below(live.len()));
                let _lost = catch_unwind(AssertUnwindSafe(|| cache.free(1, slab)));
            }
        }
        cache.nr_slabs()
    };
    assert!(peak(Planted::None) < 100);
    assert!(peak(Planted::LoseExtraSlabs) > 200);
}
