//! Rules on snapshots that no running program gives at will: what is found, and what the verdict
//! comes to.

use slabyard_doctor::owners::{Owner, Owners};
use slabyard_doctor::recording::Recording;
use slabyard_doctor::{Diagnosis, Look, Outcome, examine};
use slabyard_lab::leaks::{Hoard, Leaks};
use slabyard_observe::snapshot::{Machine, Source, SourceKind};
use slabyard_observe::source::SourceName;
use slabyard_observe::{Cache, Snapshot, Value};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn look(kind: SourceKind, at_ms: u64, totals: &[(&str, u64)], caches: Vec<Cache>) -> Look {
    let mut snapshot = Snapshot::new(Source::of(kind));
    snapshot.taken_at_ms = at_ms;
    snapshot.source.release = Some("6.1.0".into());
    snapshot.machine = Machine { page_bytes: Some(4096), ..Machine::default() };
    snapshot.caches = caches;
    for (name, bytes) in totals {
        snapshot.totals.insert((*name).into(), Value::Exact(*bytes));
    }
    Look::of(&SourceName::File("saved.json".into()), snapshot)
}

/// A process whose parts are these, the rest of 10 MiB being its program.
fn process(at_ms: u64, parts: &[(&str, u64)]) -> Look {
    let sum: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
    let all = [
        ("committed", sum),
        ("resident", sum + 10 * MIB),
        ("resident_allocator", sum),
        ("resident_files", 10 * MIB),
        ("resident_stack", 0),
        ("resident_brk", 0),
        ("resident_other", 0),
    ];
    look(SourceKind::Process, at_ms, &[parts, &all].concat(), Vec::new())
}

fn kernel(at_ms: u64, caches: &[(&str, u64)]) -> Look {
    let caches: Vec<Cache> = caches
        .iter()
        .map(|(name, objects)| {
            let mut cache = Cache::new(*name);
            let slabs = objects.div_ceil(16);
            for (field, number) in [
                ("objects", *objects),
                ("total_objects", slabs * 16),
                ("objs_per_slab", 16),
                ("slab_size", 256),
                ("object_size", 256),
                ("slabs", slabs),
                ("order", 0),
                ("partial", 0),
                ("cpu_slabs", 0),
            ] {
                cache.set(field, number);
            }
            cache
        })
        .collect();
    let slab = caches.iter().map(|cache| cache.exact("slabs").unwrap() * 4096).sum();
    look(SourceKind::Kernel, at_ms, &[("slab", slab), ("mem_total", 8 * GIB)], caches)
}

fn adds_up(diagnosis: &Diagnosis) {
    let sum: i64 = diagnosis.verdict.parts.iter().map(|part| part.bytes).sum();
    assert_eq!(sum, i64::try_from(diagnosis.verdict.bytes).unwrap());
}

fn ids(diagnosis: &Diagnosis) -> Vec<&str> {
    diagnosis.findings.iter().map(|finding| finding.id).collect()
}

#[test]
fn free_pages_are_a_burst_if_they_stay_free() {
    let full = || process(1000, &[("live", 20 * MIB), ("free_runs", 60 * MIB)]);
    let found = examine(&[full()], None);
    assert_eq!(ids(&found), ["burst.free"]);
    assert!(found.findings[0].says.starts_with("A burst is over: 60.0 MiB (67 %)"));
    adds_up(&found);
    // They went back meanwhile.
    let later = process(2000, &[("live", 20 * MIB), ("free_runs", 2 * MIB)]);
    assert_eq!(examine(&[full(), later], None).outcome, Outcome::NothingFound);
}

#[test]
fn small_programs_raise_no_alarm() {
    let parts = [("live", MIB), ("free_runs", 7 * MIB), ("parked_cpu", 7 * MIB)];
    let found = examine(&[process(1000, &parts)], None);
    assert_eq!(found.outcome, Outcome::NothingFound, "{:?}", ids(&found));
    adds_up(&found);
}

#[test]
fn a_list_that_is_empty_is_in_no_sentence() {
    let blocks = |ms, mib| process(ms, &[("live", 0), ("runs", mib * MIB)]);
    let found = examine(&[blocks(1000, 100)], None);
    assert_eq!(
        found.notes[0].says,
        "It is simply live: the program holds 100.0 MiB (91 %): 100.0 MiB in larger blocks."
    );
    // Objects grow, and no class tells of itself.
    let objects = |ms, mib| process(ms, &[("live", mib * MIB)]);
    let found = examine(&[objects(1000, 10), objects(31_000, 20), objects(61_000, 30)], None);
    assert_eq!(ids(&found), ["leak.growth"]);
    let says = &found.findings[0].says;
    assert!(says.ends_with(" an hour."), "{says}");
}

#[test]
fn what_was_lent_and_is_not_in_memory_is_taken_off() {
    let parts = [("live", 100 * MIB), ("free_runs", MIB)];
    let mut absent = process(1000, &parts);
    let snapshot = absent.snapshot.as_mut().unwrap();
    snapshot.totals.insert("resident_allocator".into(), Value::Exact(41 * MIB));
    snapshot.totals.insert("resident".into(), Value::Exact(51 * MIB));
    let found = examine(&[absent], None);
    assert_eq!(found.verdict.part("absent"), -60 * (1 << 20));
    assert_eq!(found.verdict.part("unexplained"), 0);
    adds_up(&found);
}

struct Known;

impl Owners for Known {
    fn of_cache(&self, cache: &str) -> Vec<Owner> {
        let who = format!("sshd.service for {cache}");
        vec![Owner { who, site: None, objects: 7, bytes: 1792 }]
    }
}

#[test]
fn a_cache_that_grows_is_found_with_its_owner_if_that_is_known() {
    let at = |ms, objects| kernel(ms, &[("kmalloc-256", objects), ("filp", 10_000)]);
    let looks = [at(0, 10_000), at(30_000, 60_000), at(60_000, 110_000)];
    let found = examine(&looks, None);
    assert_eq!(ids(&found), ["kernel.growth"]);
    assert_eq!(found.findings[0].caches, ["kmalloc-256"]);
    assert!(
        found.findings[0].says.contains("Cannot tell whose it is"),
        "{}",
        found.findings[0].says
    );
    adds_up(&found);
    let found = examine(&looks, Some(&Known));
    assert_eq!(found.findings[0].owners[0].who, "sshd.service for kmalloc-256");
    // What stops is no growth, nor is what moves by little.
    let stops = [at(0, 10_000), at(30_000, 100_000), at(60_000, 100_001)];
    assert_eq!(examine(&stops, None).outcome, Outcome::NothingFound);
    let little = [at(0, 10_000), at(30_000, 11_000), at(60_000, 12_000)];
    assert_eq!(examine(&little, None).outcome, Outcome::NothingFound);
}

#[test]
fn memory_that_the_kernel_cannot_reclaim_is_found_with_all_names_of_its_cache() {
    let mut held = kernel(0, &[("kmalloc-256", 2_000_000), ("dentry", 2_000_000)]);
    held.snapshot.as_mut().unwrap().caches[0].aliases = vec!["filp".into(), "ebitmap_node".into()];
    let found = examine(&[held], None);
    assert_eq!(ids(&found), ["kernel.merged"]);
    let says = &found.findings[0].says;
    assert!(says.contains("merged: its objects are of any of kmalloc-256 and filp"), "{says}");
    adds_up(&found);
}

#[test]
fn a_merged_cache_of_tasks_counts_once() {
    let mut full = kernel(0, &[("task_struct", 500_000), ("pid", 1_000_000)]);
    full.snapshot.as_mut().unwrap().caches[1].aliases = vec!["cred_jar".into()];
    let found = examine(&[full], None);
    assert_eq!(found.findings[0].id, "kernel.tasks");
    assert_eq!(found.findings[0].bytes, (500_000 + 1_000_000) / 16 * 4096);
    assert_eq!(found.findings[0].caches, ["pid", "task_struct"]);
}

#[test]
fn files_that_the_kernel_keeps_are_found_when_they_take_a_fifth_of_memory() {
    let found = examine(&[kernel(0, &[("ext4_inode_cache", 8_000_000)])], None);
    assert_eq!(ids(&found), ["kernel.cached-files"]);
    let found = examine(&[kernel(0, &[("ext4_inode_cache", 800_000)])], None);
    assert_eq!(found.outcome, Outcome::NothingFound);
}

#[test]
fn a_negative_entry_is_no_file() {
    let mut full = kernel(0, &[("dentry", 4_000_000)]);
    let files = slabyard_doctor::kernel_files::KernelFiles {
        dentries: Some(4_000_000),
        unused_dentries: Some(3_900_000),
        negative_dentries: Some(3_000_000),
        dead_cgroups: Some(20_000),
        cgroups: None,
    };
    full.kernel = Some(files);
    let found = examine(std::slice::from_ref(&full), None);
    assert_eq!(ids(&found), ["kernel.dead-cgroups", "kernel.negative-dentries"]);
    assert!(found.findings[1].owners.is_empty() && !found.findings[1].says.contains("held by"));
    // Of a machine that does not tell its CPUs, and of one that has two.
    assert_eq!(found.findings[0].bytes, (20_000 * (16 + 16 * 2)) << 10);
    let found = examine(std::slice::from_ref(&full), Some(&Known));
    assert_eq!(found.findings[1].owners[0].who, "sshd.service for dentry");
    assert!(found.findings[1].says.contains("held by sshd.service for dentry (1.8 KiB)"));
    full.snapshot.as_mut().unwrap().machine.possible_cpus = Some(2);
    let found = examine(&[full], None);
    let dead = found.findings.iter().find(|finding| finding.id == "kernel.dead-cgroups").unwrap();
    assert_eq!(dead.bytes, (20_000 * (16 + 2 * 2)) << 10);
}

#[test]
fn what_a_shrink_gave_back_at_the_end_of_a_recording_was_hoarded() {
    let hoard = |mib: u64, is_shrunk: bool| {
        let hoard = Hoard {
            cache: "task_struct".into(),
            bytes: 2 * mib * MIB,
            grew_bytes: 0,
            free_bytes: 0,
            shrink_gave: is_shrunk.then_some(mib * MIB),
        };
        let leaks = Leaks { hoards: Some(vec![hoard]), ..Leaks::default() };
        let recording = Recording { of_kernel: true, leaks, ..Recording::default() };
        Look { recording: Some(recording), ..kernel(0, &[("task_struct", 100)]) }
    };
    let found = examine(&[hoard(600, true)], None);
    assert_eq!(ids(&found), ["kernel.parked"]);
    let says = &found.findings[0].says;
    assert!(says.starts_with("600.0 MiB (7 %) was hoarded"), "{says}");
    adds_up(&found);
    for little in [hoard(100, true), hoard(600, false)] {
        assert_eq!(examine(&[little], None).outcome, Outcome::NothingFound);
    }
}
