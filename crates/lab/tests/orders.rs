//! The effect of `slub_max_order` on 64 KiB pages, predicted from each guest's boot, and compared
//! with what the guests with the other orders measured.

use slabyard_lab::population::{Error, Population};
use slabyard_lab::rules::Settings;
use slabyard_lab::snapshot::KernelSnapshot;
use std::path::PathBuf;

/// Guests of 16 CPUs, and the order that each was booted with; 3 is the default.
const BOOTS: [(&str, u8); 5] = [("def", 3), ("mo3", 3), ("mo2", 2), ("mo1", 1), ("mo0", 0)];
const DEFAULT: u8 = 3;
const ORDERS: [u8; 3] = [0, 1, 2];
/// `Slab:` as booted in kB, the least and the most of five boots of the default
/// order. Of two others of the five there are snapshots.
const FIVE_BOOTS: (f64, f64) = (78912.0, 87296.0);

struct Boot {
    name: &'static str,
    max_order: u8,
    dumps: Vec<KernelSnapshot>,
}

impl Boot {
    fn dump(&self, name: &str) -> &KernelSnapshot {
        self.dumps.iter().find(|dump| dump.dump.as_deref() == Some(name)).unwrap()
    }

    /// `Slab:` of `/proc/meminfo` at a moment.
    fn slab_kb(&self, moment: &str) -> f64 {
        let told = &self.dumps[0].slab_kb_at;
        told.iter().find(|(name, _)| name == moment).unwrap().1 as f64
    }

    /// All slabs of a dump. `/proc/meminfo` lags behind by what each CPU has not yet
    /// added to the sum.
    fn slabs_kb(&self, dump: &str) -> f64 {
        let dump = self.dump(dump);
        let kb = |c: &slabyard_lab::snapshot::Cache| {
            c.slabs.unwrap() * (u64::from(dump.page_size) << c.order >> 10)
        };
        dump.caches.iter().map(kb).sum::<u64>() as f64
    }

    fn own(&self) -> Settings {
        self.dump("boot").settings().unwrap().0
    }

    fn population(&self, dump: &str) -> Population {
        let shrunk = self.dump(&format!("{dump}_shrunk"));
        Population::from_snapshots(self.dump(dump), shrunk, &self.own()).unwrap()
    }

    /// Slabs in kB under each order from 0 to the default.
    fn predict(&self, population: &Population) -> [f64; 4] {
        let mut settings = self.own();
        [0, 1, 2, 3].map(|order| {
            settings.max_order = Some(order);
            population.on(&settings).unwrap().slab_kb as f64
        })
    }
}

fn boots() -> Vec<Boot> {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let open = |(name, max_order)| {
        let dumps = KernelSnapshot::open(&data.join(format!("p64k_{name}_smp16_hb.json.zst")));
        let dumps = dumps.unwrap();
        assert_eq!(dumps[0].settings().unwrap().0.max_order(), max_order, "{name}");
        Boot { name, max_order, dumps }
    };
    BOOTS.map(open).into()
}

fn mean(numbers: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = numbers.fold((0.0, 0.0), |(sum, count), n| (sum + n, count + 1.0));
    sum / count
}

/// What each order changed against the mean of the boots of the default order.
fn measured(boots: &[Boot], of: impl Fn(&Boot) -> f64) -> [f64; 3] {
    let at = |order| mean(boots.iter().filter(|boot| boot.max_order == order).map(&of));
    ORDERS.map(|order| at(order) - at(DEFAULT))
}

fn effects(kb: [f64; 4]) -> [f64; 3] {
    ORDERS.map(|order| kb[usize::from(order)] - kb[usize::from(DEFAULT)])
}

/// The first order whose predicted effect is not that of the kernels, of the same
/// sign and within a third.
fn wrong(predicted: [f64; 3], measured: [f64; 3]) -> Option<u8> {
    ORDERS.into_iter().find(|order| {
        let (predicted, measured) = (predicted[usize::from(*order)], measured[usize::from(*order)]);
        (predicted - measured).abs() > measured.abs() / 3.0
    })
}

fn row(what: &str, kb: &[f64]) {
    let columns: Vec<String> = kb.iter().map(|kb| format!("{kb:>9.0}")).collect();
    println!("{what:<44}{}", columns.concat());
}

#[test]
fn the_effect_of_max_order_on_64k_pages_is_that_of_the_guests() {
    let boots = boots();
    let meminfo = measured(&boots, |boot| boot.slab_kb("boot0"));
    let slabs = measured(&boots, |boot| boot.slabs_kb("boot"));
    println!("kB against slub_max_order=3                          0        1        2");
    row("measured, Slab: as booted", &meminfo);
    row("measured, slabs of the dump", &slabs);
    row("  of these in caches of the same order", &of_same_order(&boots));
    let default = boots.iter().filter(|boot| boot.max_order == DEFAULT);
    let given: Vec<f64> = default.map(|boot| boot.slab_kb("boot0")).collect();
    let (least, most) = FIVE_BOOTS;
    println!("scatter of the default order: given {given:?}, five boots {least} to {most}");
    // Four of the five are known, and the fifth is between the least and the most.
    let of_five = [least, most].map(|fifth| {
        let five = mean(given.iter().copied().chain([least, most, fifth]));
        meminfo.map(|effect| effect + mean(given.iter().copied()) - five)
    });
    row("measured, mean of the five, at most", &of_five[0]);
    row("measured, mean of the five, at least", &of_five[1]);
    let mut all = Vec::new();
    for boot in &boots {
        let kb = boot.predict(&boot.population("boot"));
        all.push(effects(kb));
        row(&format!("predicted from {}", boot.name), &effects(kb));
        let (own, real) = (kb[usize::from(boot.max_order)], boot.slabs_kb("boot"));
        println!("  its own slabs: {own} kB predicted, {real} kB in its dump");
        // What was read came to the state that it was read from.
        assert!((own - real).abs() < real * 0.03, "{}: {own} {real}", boot.name);
    }
    for predicted in &all {
        for measured in [meminfo, slabs, of_five[0], of_five[1]] {
            assert_eq!(wrong(*predicted, measured), None, "{predicted:?} {measured:?}");
        }
    }
    row(
        "mean of the predictions",
        &ORDERS.map(|order| mean(all.iter().map(|of| of[usize::from(order)]))),
    );
}

/// Differences between boots in caches that `slub_max_order` does nothing to.
fn of_same_order(boots: &[Boot]) -> [f64; 3] {
    let default = boots[0].dump("boot");
    ORDERS.map(|order| {
        let other = boots.iter().find(|boot| boot.max_order == order).unwrap().dump("boot");
        let kb = |of: &KernelSnapshot| {
            let same = of.caches.iter().filter(|cache| {
                let orders = [default, other].map(|dump| dump.cache(&cache.id).map(|c| c.order));
                orders[0] == orders[1]
            });
            same.map(|c| (c.slabs.unwrap() * 64) << c.order).sum::<u64>() as f64
        };
        let defaults = boots.iter().filter(|boot| boot.max_order == DEFAULT);
        kb(other) - mean(defaults.map(|boot| kb(boot.dump("boot"))))
    })
}

/// A check that cannot fail checks nothing.
#[test]
fn wrong_rules_miss_the_effect() {
    let boots = boots();
    let slabs = measured(&boots, |boot| boot.slabs_kb("boot"));
    for boot in boots.iter().filter(|boot| boot.max_order == DEFAULT) {
        let right = boot.population("boot");
        assert_eq!(wrong(effects(boot.predict(&right)), slabs), None);

        let mut one_cpu = right.clone();
        for cache in &mut one_cpu.caches {
            cache.places.cpu = cache.places.cpu.min(1.0);
        }
        let predicted = effects(boot.predict(&one_cpu));
        row(&format!("{}: all CPUs but one left out", boot.name), &predicted);
        assert!(wrong(predicted, slabs).is_some(), "{predicted:?}");

        // As /proc/slabinfo has it: what a CPU slab holds is in use.
        let mut all_live = right.clone();
        for cache in &mut all_live.caches {
            cache.places.full += cache.places.cpu;
            (cache.places.cpu, cache.places.cpu_objects) = (0.0, 0.0);
        }
        let predicted = effects(boot.predict(&all_live));
        row(&format!("{}: CPU slabs taken to be full", boot.name), &predicted);
        assert!(wrong(predicted, slabs).is_some(), "{predicted:?}");

        let alone = Population::from_snapshot(boot.dump("boot"), &boot.own()).unwrap();
        let predicted = effects(boot.predict(&alone));
        row(&format!("{}: without the dump after a shrink", boot.name), &predicted);
        assert!(predicted.iter().all(|effect| *effect < 0.0), "the sign is right: {predicted:?}");
        assert_ne!(predicted, effects(boot.predict(&right)));
    }
}

/// After hackbench the default boots alone are 11 MB apart: the signs are held, the
/// sizes are shown.
#[test]
fn after_hackbench_the_signs_are_those_of_the_guests() {
    let boots = boots();
    let meminfo = measured(&boots, |boot| boot.slab_kb("post_hb0"));
    let slabs = measured(&boots, |boot| boot.slabs_kb("hb"));
    println!("kB against slub_max_order=3, after hackbench         0        1        2");
    row("measured, Slab:", &meminfo);
    row("measured, slabs of the dump", &slabs);
    for boot in &boots {
        let predicted = effects(boot.predict(&boot.population("hb")));
        row(&format!("predicted from {}", boot.name), &predicted);
        for (predicted, measured) in predicted.iter().cycle().zip(meminfo.iter().chain(&slabs)) {
            assert!(predicted * measured > 0.0, "{predicted} {measured}");
        }
    }
}

#[test]
fn a_load_is_the_same_each_time_and_its_live_objects_stay() {
    let boot = &boots()[0];
    let population = boot.population("boot");
    assert_eq!(population, boot.population("boot"));
    let mut settings = boot.own();
    settings.max_order = Some(0);
    let outcome = population.on(&settings).unwrap();
    assert_eq!(outcome, population.on(&settings).unwrap());
    assert_eq!(outcome.caches.iter().map(|cache| cache.slab_kb).sum::<u64>(), outcome.slab_kb);
    for (cache, before) in outcome.caches.iter().zip(&population.caches) {
        let (live, before) = (cache.places.live(0.0), before.places.live(0.0));
        assert!(live >= before - 1e-6 && live - before < 16.0, "{}: {before} {live}", cache.id);
    }
    // Those that the shrink made exact have the kernel's number of objects.
    let exact = ["kmalloc-16k", "kmalloc-32k", "kmalloc-8k", "kmalloc-1k", ":0004096"];
    for id in exact {
        let at = population.caches.iter().position(|cache| cache.id == id).unwrap();
        let kernel = boot.dump("boot_shrunk").cache(id).unwrap().objects.unwrap();
        assert_eq!(population.caches[at].places.live(0.0).round() as u64, kernel, "{id}");
    }
}

#[test]
fn snapshots_that_tell_no_population_are_refused_with_words() {
    let parse = |text: &str| KernelSnapshot::parse(text.as_bytes()).unwrap().remove(0);
    let with = |fields: &str| {
        let places = if fields.is_empty() { "" } else { ", " };
        parse(&format!(
            r#"{{"page_size": 4096, "online_cpus": "0-1", "slab": {{"x": {{"slab_size": 64,
            "objs_per_slab": 64, "order": 0{places}{fields}}}}}}}"#
        ))
    };
    let own = boots()[0].own();
    let read = |snapshot: &KernelSnapshot| Population::from_snapshot(snapshot, &own);
    let refused = |snapshot: &KernelSnapshot| read(snapshot).unwrap_err();
    assert!(matches!(refused(&with("")), Error::NoPlaces(_)));
    let huge = with(r#""slabs": 18446744073709551615, "cpu_slabs": 1"#);
    assert!(matches!(refused(&huge), Error::TooMany { .. }));
    let good = with(r#""slabs": 3, "cpu_slabs": 9, "partial": 7, "objects_partial": 999"#);
    let places = read(&good).unwrap().caches[0].places;
    assert_eq!((places.cpu, places.node_list), (2.0, 1.0), "one listed, two on CPUs");
    assert_eq!(places.node_objects, 64.0);
    let none = parse(
        r#"{"page_size": 4096, "slab": {"x": {"slab_size": 64, "objs_per_slab": 64,
        "order": 0, "slabs": 1, "cpu_slabs": 1}}}"#,
    );
    assert_eq!(refused(&none), Error::NoCpus);

    let boots = boots();
    let (one, another) = (boots[0].dump("boot"), boots[4].dump("boot_shrunk"));
    let other = Population::from_snapshots(one, another, &own);
    assert!(matches!(other, Err(Error::OtherBoot(_))));
    assert!(other.unwrap_err().to_string().contains("of the same boot"));
}
