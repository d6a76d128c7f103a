//! Slab memory foretold from one guest's snapshot, held against another guest that was booted with
//! other settings: the errors that `population::measured` publishes.

use slabyard_lab::accuracy::{Accuracy, Change};
use slabyard_lab::population::measured::{MEASURED, of};
use slabyard_lab::population::{CacheOutcome, Population};
use slabyard_lab::rules::Settings;
use slabyard_lab::snapshot::KernelSnapshot;
use std::path::PathBuf;

/// A guest at a moment.
struct Guest {
    kernel: &'static str,
    /// CPUs, and what it was booted with.
    name: String,
    moment: String,
    snapshot: KernelSnapshot,
    settings: Settings,
}

impl Guest {
    fn real_kb(&self) -> u64 {
        let page = u64::from(self.snapshot.page_size);
        let kb = |cache: &slabyard_lab::snapshot::Cache| {
            (cache.slabs.unwrap() * (page << cache.order)) >> 10
        };
        self.snapshot.caches.iter().map(kb).sum()
    }

    /// What is foretold of another guest from this one, as a share of what it has.
    fn off(&self, other: &Guest) -> f64 {
        let population = Population::from_snapshot(&self.snapshot, &self.own()).unwrap();
        let kb = population.on(&other.settings).unwrap().slab_kb;
        kb as f64 / other.real_kb() as f64 - 1.0
    }

    /// Its rules without what was set by hand: that stands in its snapshot.
    fn own(&self) -> Settings {
        self.snapshot.settings().unwrap().0
    }
}

fn data(name: &str) -> Vec<KernelSnapshot> {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    KernelSnapshot::open(&data.join(name)).unwrap()
}

fn guests() -> Vec<Guest> {
    let mut guests = Vec::new();
    for kernel in ["6.1", "6.12", "6.18", "7.3"] {
        for snapshot in data(&format!("guests/{kernel}.json.zst")) {
            let dump = snapshot.dump.clone().unwrap();
            let (name, moment) = dump.split_once('.').unwrap();
            let mut settings = snapshot.settings().unwrap().0;
            if let Some((_, set)) = name.split_once('-')
                && set.contains("_partial=")
            {
                settings.set(set).unwrap();
            }
            let (name, moment) = (name.to_owned(), moment.to_owned());
            guests.push(Guest { kernel, name, moment, snapshot, settings });
        }
    }
    let files = ["def_smp16_hb", "mo2_smp16_hb", "mo1_smp16_hb", "mo0_smp16_hb", "smp4"];
    for (file, name) in files.into_iter().zip(["16", "16-2", "16-1", "16-0", "4"]) {
        for snapshot in data(&format!("p64k_{file}.json.zst")) {
            let moment = snapshot.dump.clone().unwrap();
            let settings = snapshot.settings().unwrap().0;
            let (kernel, name) = ("6.12 of 64K", name.into());
            guests.push(Guest { kernel, name, moment, snapshot, settings });
        }
    }
    guests
}

/// What two guests differ in, if it is one thing.
fn change(from: &Guest, to: &Guest) -> Option<Change> {
    if from.name == to.name && from.moment == to.moment {
        let both = [from.kernel, to.kernel];
        return (both == ["6.12", "7.3"] || both == ["7.3", "6.12"]).then_some(Change::Front);
    }
    let same = from.kernel == to.kernel && from.moment == to.moment;
    if !same || from.moment == "fork" {
        return None;
    }
    match &of(&from.settings, &to.settings)[..] {
        [Accuracy { change, .. }] => Some(*change),
        _ => None,
    }
}

fn errors() -> Vec<(Change, String, f64)> {
    let guests = guests();
    let mut errors = Vec::new();
    for from in &guests {
        for to in &guests {
            // What CPUs' lists and nodes kept under limits that were set is not taken back.
            let set = |guest: &Guest| guest.name.contains("_partial=");
            if let Some(change) = change(from, to).filter(|_| !set(from)) {
                let names = format!("{} {} {} → {}", from.kernel, from.moment, from.name, to.name);
                errors.push((change, names, from.off(to)));
            }
        }
    }
    errors
}

fn docs() -> String {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/geometry.md");
    std::fs::read_to_string(docs).unwrap()
}

#[test]
fn errors_on_guests_are_those_that_are_published() {
    let errors = errors();
    let docs = docs();
    let mut known = Vec::new();
    for row in MEASURED {
        let of_change = errors.iter().filter(|error| error.0 == row.change);
        let off: Vec<f64> = of_change.map(|error| error.2).collect();
        let low = off.iter().copied().fold(f64::MAX, f64::min);
        let high = off.iter().copied().fold(f64::MIN, f64::max);
        let squares = off.iter().map(|off| off * off).sum::<f64>() / off.len() as f64;
        let (pairs, mean) = (off.len(), 100.0 * squares.sqrt());
        let outwards = ((low * 100.0).floor() / 100.0, (high * 100.0).ceil() / 100.0);
        let signed = |share: f64| match (share * 100.0).round() as i32 {
            0 => "0".into(),
            percent => format!("{percent:+}"),
        };
        let (low, high) = (signed(outwards.0), signed(outwards.1));
        let cells = format!("| {pairs} | {low} to {high} % | {mean:.1} % |");
        assert!(docs.contains(&cells), "docs/geometry.md is to have of {:?} {cells}", row.change);
        known.push(Accuracy { change: row.change, pairs, off: Some(outwards) });
    }
    for (change, names, off) in &errors {
        println!("{change:?} {names}: {:+.1} %", off * 100.0);
    }
    assert_eq!(known, MEASURED);
}

/// On 64 KiB pages, with what a dump after a shrink tells of live objects.
#[test]
fn orders_on_large_pages_are_foretold_as_they_are_published() {
    let foretold = |file: &str, moment: &str| {
        let dumps = data(&format!("p64k_{file}_smp16_hb.json.zst"));
        let find = |name: &str| dumps.iter().find(|it| it.dump.as_deref() == Some(name)).unwrap();
        let (snapshot, shrunk) = (find(moment), find(&format!("{moment}_shrunk")));
        let own = snapshot.settings().unwrap().0;
        let population = Population::from_snapshots(snapshot, shrunk, &own).unwrap();
        let kb = |order: usize| {
            let mut settings = own.clone();
            settings.set(&format!("max_order={order}")).unwrap();
            population.on(&settings).unwrap().slab_kb as f64
        };
        [0, 1, 2].map(|order| kb(order) - kb(3))
    };
    let boots = ["def", "mo0", "mo1", "mo2", "mo3"].map(|file| foretold(file, "boot"));
    let mean = [0, 1, 2].map(|order| boots.iter().map(|boot| boot[order]).sum::<f64>() / 5.0);
    for (of, [a, b, c]) in [
        ("after boot, predicted: mean of five boots", mean),
        ("after hackbench, predicted from the default boot", foretold("def", "hb")),
    ] {
        let row = format!("| {of} | {a:.0} | {b:.0} | {c:.0} |");
        assert!(docs().contains(&row), "docs/geometry.md is to have {row}");
    }
}

/// A limit that changes nothing, or the wrong way, would pass the ranges above.
#[test]
fn limits_move_the_total_the_way_that_guests_did() {
    let guests = guests();
    let find = |kernel: &str, name: &str| {
        let it = |guest: &&Guest| {
            (guest.kernel, &*guest.name, &*guest.moment) == (kernel, name, "files")
        };
        guests.iter().find(it).unwrap()
    };
    let settings = ["cpu_partial=0", "cpu_partial=400", "min_partial=30", "max_order=0"];
    for set in settings {
        let (from, to) = (find("6.12", "4"), find("6.12", &format!("4-{set}")));
        let population = Population::from_snapshot(&from.snapshot, &from.own()).unwrap();
        let kb = population.on(&to.settings).unwrap().slab_kb;
        let (before, real) = (from.real_kb(), to.real_kb());
        println!("{set}: {before} KiB before, {real} after, {kb} foretold");
        assert_eq!(real > before, kb > before, "{set}");
        assert_ne!(kb, before, "{set}");
    }
}

#[test]
fn settings_that_change_nothing_give_the_snapshot() {
    for guest in guests() {
        let own = guest.own();
        let outcome = Population::from_snapshot(&guest.snapshot, &own).unwrap().on(&own).unwrap();
        let real = guest.snapshot.caches.iter().map(|cache| (&*cache.id, cache.slabs.unwrap()));
        let same = |cache: &CacheOutcome, real: (&str, u64)| (&*cache.id, cache.slabs) == real;
        let is_same = outcome.caches.iter().zip(real).all(|(cache, real)| same(cache, real));
        assert!(is_same, "{} {} {}", guest.kernel, guest.name, guest.moment);
        assert_eq!(outcome.slab_kb, guest.real_kb());
    }
}

/// Kernels with sheaves have no CPU slabs, and newer ones do not count them.
#[test]
fn a_kernel_with_sheaves_need_not_count_cpu_slabs() {
    for guest in guests() {
        let of = |snapshot: &KernelSnapshot| Population::from_snapshot(snapshot, &guest.own());
        let mut uncounted = guest.snapshot.clone();
        uncounted.caches.iter_mut().for_each(|cache| cache.cpu_slabs = None);
        match guest.kernel {
            "7.3" => assert_eq!(of(&uncounted).unwrap(), of(&guest.snapshot).unwrap()),
            kernel => assert!(of(&uncounted).is_err(), "{kernel}"),
        }
    }
}

#[test]
fn every_cache_of_every_guest_follows_the_rules() {
    // Limits that were set in sysfs are no rule's.
    let mut guests = guests();
    guests.retain(|guest| !guest.name.contains("_partial="));
    // As many as docs/geometry.md says; five of 64 KiB pages are in its other number.
    let mut names: Vec<_> = guests.iter().map(|guest| (guest.kernel, &guest.name)).collect();
    names.dedup();
    assert_eq!(names.len(), 29 + 5);
    for guest in guests {
        let differences = guest.snapshot.differences(&guest.own()).unwrap();
        assert_eq!(differences, [], "{} {} {}", guest.kernel, guest.name, guest.moment);
    }
}
