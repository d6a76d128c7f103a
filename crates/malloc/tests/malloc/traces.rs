//! Which slabs the survivors of a burst pin: slabs with a survivor, their memory, and the
//! survivors' allocation sites if their cache keeps tracks.
//!
//! Neighbours: `traced/burst.c` is the program; `slabyard_observe::traces` finds the sites.

use crate::process_runner::{Mode, Program};
use slabyard_observe::traces::{Site, Traces};
use slabyard_observe::{ReadScope, Snapshot, process};
use std::io::{BufRead, BufReader};

const CACHE: &str = "malloc-256";

/// Survivors of the site `open_session` and of `receive_packet`, and KiB that the process grew.
struct Left {
    sessions: u64,
    packets: u64,
    grown_kib: u64,
}

/// What is seen of a burst of this many objects at its end.
fn burst<T>(
    mode: Mode,
    objects: u64,
    variables: &[(&str, &str)],
    see: impl FnOnce(u32) -> T,
) -> Option<(Left, T)> {
    let program = Program::compile("traced/burst.c", &[])?;
    let mut all = vec![("SLABYARD_OBSERVABLE", "1")];
    all.extend(variables);
    let mut child = program.start_with(mode, &[&objects.to_string()], &all);
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("it");
    let numbers: Vec<u64> = line.split_whitespace().map(|n| n.parse().expect("a number")).collect();
    let [sessions, packets, grown_kib] = numbers[..] else { panic!("{line}") };
    let seen = see(child.id());
    drop(child.stdin.take());
    assert!(child.wait().expect("the program ends").success());
    Some((Left { sessions, packets, grown_kib }, seen))
}

/// The site whose innermost frame is in a function.
fn site<'a>(sites: &'a [Site], function: &str) -> &'a Site {
    let is_it = |site: &&Site| {
        site.frames.first().and_then(|frame| frame.function.as_deref()) == Some(function)
    };
    sites.iter().find(is_it).unwrap_or_else(|| panic!("no {function} in {sites:#?}"))
}

#[test]
fn what_a_burst_leaves_is_what_chance_leaves() {
    const OBJECTS: u64 = 200_000;
    let look = |pid| process::sample(pid, ReadScope::default()).expect("a snapshot");
    for mode in [Mode::Rseq, Mode::Slots] {
        let Some((left, snapshot)) = burst(mode, OBJECTS, &[], look) else { return };
        let survivors = left.sessions + left.packets;
        let exact = |snapshot: &Snapshot, name| {
            snapshot
                .cache(CACHE)
                .expect("the cache")
                .exact(name)
                .unwrap_or_else(|| panic!("{name}"))
        };
        let [slabs, bytes, each, live] =
            ["slabs", "bytes", "objs_per_slab", "live"].map(|name| exact(&snapshot, name));
        assert!((survivors..survivors + 100).contains(&live), "{live} of {survivors}");

        // A slab is empty if none of its objects survives, each with the same chance.
        let alone = 1.0 - (1.0 - survivors as f64 / OBJECTS as f64).powi(each as i32);
        let by_chance = OBJECTS as f64 / each as f64 * alone;
        let of_chance = slabs as f64 / by_chance;
        assert!((0.9..1.1).contains(&of_chance), "{slabs} slabs, by chance {by_chance:.0}");

        // The histogram has each of these slabs, none of them empty, and each survivor.
        let fullness = snapshot.cache(CACHE).and_then(|it| it.fullness.clone()).expect("it");
        let held: u64 = fullness.iter().map(|(_, slabs)| slabs).sum();
        let objects: u64 = fullness.iter().map(|(used, slabs)| u64::from(*used) * slabs).sum();
        assert!(fullness.iter().all(|(used, _)| *used > 0), "{fullness:?}");
        assert!(held <= slabs && slabs - held < 3, "{held} of {slabs}");
        assert!(objects >= live - 3 * each && objects <= live, "{objects} of {live}");

        let metadata = snapshot.total("metadata").and_then(slabyard_observe::Value::exact);
        let most = (bytes + metadata.expect("it is told")) * 11 / 10;
        assert!(left.grown_kib * 1024 <= most, "{} KiB for {most}", left.grown_kib);
    }
}

#[test]
fn the_sites_of_survivors_are_told_with_the_slabs_that_they_keep() {
    let see = |pid| process::traces(pid, CACHE).expect("it is read");
    for mode in [Mode::TinyRseq, Mode::SlabSlots] {
        let debug = [("SLABYARD_DEBUG", "U,malloc-256")];
        let Some((left, told)) = burst(mode, 20_000, &debug, see) else { return };
        let Traces { objects, slabs_by_live, alloc, free, .. } = told.expect("it keeps tracks");
        let [sessions, packets] = ["open_session", "receive_packet"].map(|it| site(&alloc, it));
        assert_eq!((sessions.objects, packets.objects), (left.sessions, left.packets));
        assert_eq!(sessions.bytes, 256 * left.sessions);
        let caller = |site: &Site| site.frames[1].function.clone();
        assert_eq!((caller(sessions), caller(packets)), (Some("main".into()), Some("main".into())));
        let file = sessions.frames[0].file.as_deref().expect("a file");
        assert!(file.ends_with("traced/burst"), "{file}");

        let sum = |sites: &[Site]| sites.iter().map(|site| site.objects).sum::<u64>();
        assert_eq!((sum(&alloc), sum(&free)), (objects, objects));
        let live = slabs_by_live.iter().map(|(live, slabs)| u64::from(*live) * slabs);
        assert_eq!(live.sum::<u64>(), objects);
        let slabs: u64 =
            slabs_by_live.iter().filter(|(live, _)| *live > 0).map(|(_, slabs)| slabs).sum();
        for site in [sessions, packets] {
            assert!(0 < site.slabs_alone && site.slabs_alone <= site.slabs, "{site:#?}");
            assert!(site.slabs <= slabs && site.slabs <= site.objects, "{site:#?}");
            assert!(site.threads.is_some_and(|(low, high)| low == high), "{site:#?}");
            let (least, _, most) = site.age.expect("now is known");
            assert!(least <= most && most < 600_000_000_000, "{site:#?}");
        }
        // Of the first burst nothing was freed before.
        assert!(free.iter().any(|site| site.stack.is_empty()), "{free:#?}");
    }
}

#[test]
fn a_cache_without_tracks_has_no_sites() {
    for (mode, debug) in [(Mode::Rseq, "-"), (Mode::TinyRseq, "FZP,malloc-256")] {
        let see = |pid| process::traces(pid, CACHE).expect("it is read");
        let Some((_, told)) = burst(mode, 1000, &[("SLABYARD_DEBUG", debug)], see) else { return };
        assert!(told.is_none(), "{told:#?}");
    }
}
