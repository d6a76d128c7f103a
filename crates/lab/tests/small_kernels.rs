//! What real kernels left of small machines, and which allocator left most; and the engines on the
//! same load, beside them.
//!
//! `data/small_6.1.txt` is what Linux 6.1 told at four moments of a load, with each of its
//! allocators; `data/small_6.1.live.txt` is what was live at the first, as SLAB counts it.
//! `data/small_6.12.txt` is the same of Linux 6.12 with SLUB_TINY and with SLUB.
//! `cargo test --release -p slabyard-lab --test small_kernels -- --nocapture` prints the errors.

use slabyard_lab::slob::Machine;
use slabyard_lab::small::contender::{Empties, Lists};
use slabyard_lab::small::load::Of;
use slabyard_lab::small::{Contender, Load, Look, Small, Step, run, text};
use slabyard_lab::trace;
use std::fs;
use std::path::{Path, PathBuf};

const MOMENTS: [&str; 4] = ["booted", "held", "released", "dropped"];

/// 16 MiB, of which the kernel's own took about 6.
const SMALL: Small = Small { page_size: 4096, pages: 4096, reserved: 1590 };

/// `/sys/kernel/slab` is SLUB's alone: nodes, which share a cache with `pid`, and their tree. It
/// counts free objects of its CPUs' slabs as live, so the rest is SLAB's count.
const NODES_OF_SYS: [(&str, u32); 2] = [("pid", 2048), ("radix_tree_node", 160)];

struct Told {
    /// The kernel, the memory, the boot.
    name: String,
    moment: String,
    free: u32,
    slab: u32,
    blocks: Vec<u32>,
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn told() -> Vec<Told> {
    told_in("small_6.1.txt")
}

fn told_in(name: &str) -> Vec<Told> {
    let text = fs::read_to_string(data(name)).expect("a table");
    let of_line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |word: &&str| word.parse().unwrap_or_else(|_| panic!("{line}"));
        let numbers: Vec<u32> = words[2..].iter().map(number).collect();
        assert_eq!(numbers.len(), 15, "{line}");
        Told {
            name: words[0].into(),
            moment: words[1].into(),
            free: numbers[1],
            slab: numbers[2],
            blocks: numbers[4..].to_vec(),
        }
    };
    text.lines().filter(|line| !line.starts_with('#')).map(of_line).collect()
}

/// The figure of each boot of a kernel on a memory, in order.
fn figures(told: &[Told], kernel: &str, moment: &str, figure: fn(&Told) -> u32) -> Vec<u32> {
    let is_of = |it: &&Told| it.moment == moment && it.name.strip_prefix(kernel).is_some();
    let mut all: Vec<u32> = told.iter().filter(is_of).map(figure).collect();
    assert!(!all.is_empty(), "{kernel} {moment}");
    all.sort_unstable();
    all
}

fn median(told: &[Told], kernel: &str, moment: &str, figure: fn(&Told) -> u32) -> u32 {
    let all = figures(told, kernel, moment, figure);
    all[all.len() / 2]
}

/// SLOB, SLAB, and SLUB with the highest orders 0 to 3.
const KERNELS: [&str; 6] = ["slob", "slab", "slub-o0", "slub-o1", "slub-o2", "slub-o3"];

#[test]
fn buddies_and_pages_of_the_kernels_agree() {
    for it in told().into_iter().chain(told_in("small_6.12.txt")) {
        let of_blocks: u32 = (0..).zip(&it.blocks).map(|(order, n)| n << order).sum();
        assert!(of_blocks.abs_diff(it.free) < 40, "{} {}: {of_blocks}", it.name, it.moment);
    }
}

/// After a boot: SLOB, then SLAB, then SLUB with slabs of one or two pages, of four, of eight.
#[test]
fn kernels_leave_most_pages_in_this_order_after_a_boot() {
    let told = told();
    for machine in ["-12M", "-16M", "-24M"] {
        for load in ["", "other-"] {
            if machine != "-16M" && load == "other-" {
                continue;
            }
            let free = KERNELS.map(|kernel| {
                median(&told, &format!("{load}{kernel}{machine}"), "booted", |it| it.free)
            });
            println!("{load}{machine}: {KERNELS:?} leave {free:?}");
            let [slob, slab, slub0, slub1, slub2, slub3] = free;
            assert!(slob > slab && slab > slub0.max(slub1), "{free:?}");
            assert!(slub0.abs_diff(slub1) <= 4, "{free:?}");
            assert!(slub0.min(slub1) > slub2 && slub2 > slub3, "{free:?}");
        }
    }
}

/// SLUB_TINY takes fewer slab pages than SLUB with each order; among its orders 1 leaves most, as
/// on the board of 2022, and so has the engine.
#[test]
fn tiny_takes_fewer_pages_than_slub_and_order_1_is_its_best() {
    let told = told_in("small_6.12.txt");
    let of = |kernel: &str, figure| {
        [0, 1, 2, 3].map(|o| median(&told, &format!("{kernel}-o{o}-16M"), "booted", figure))
    };
    let [tiny, slub] = ["tiny", "slub"].map(|kernel| of(kernel, |it| it.slab));
    let free = of("tiny", |it| it.free);
    println!("6.12: slab pages of SLUB_TINY {tiny:?}, of SLUB {slub:?}; SLUB_TINY leaves {free:?}");
    assert!(tiny.iter().max() < slub.iter().min());
    assert_eq!(free.iter().max(), Some(&free[1]));
    assert_eq!(tiny.iter().min(), Some(&tiny[1]));
    let load = load(&[]);
    let ours = [0, 1, 2, 3].map(|max_order| slab_pages(Contender::Tiny { max_order }, &load)[0]);
    println!("by 6.1's live objects our SLUB_TINY takes {ours:?}");
    let of_slub = [0, 1, 2, 3].map(|order| slab_pages(self::slub(order), &load)[0]);
    assert!(ours.iter().zip(of_slub).all(|(tiny, slub)| *tiny <= slub), "{ours:?} {of_slub:?}");
}

/// The load of a boot of SLOB's, from the first moment on, behind what SLAB said was live then.
fn load(nodes_of_sys: &[(&str, u32)]) -> Load {
    let trace = trace::open(&data("../../traces/boot_6.1.slabtrace")).expect("a trace");
    let mut load = Load::of_trace(&trace, &text::moments(&trace), Machine::X86_64).load;
    let booted = load.steps.iter().position(|step| *step == Step::Reach(0)).expect("it is there");
    load.steps.drain(..booted);
    let live = fs::read_to_string(data("small_6.1.live.txt")).expect("a text");
    let mut lines = String::new();
    for line in live.lines() {
        let name = line.split(' ').next().unwrap();
        match nodes_of_sys.iter().find(|(of, _)| *of == name) {
            Some((_, count)) => {
                let (but_count, _) = line.rsplit_once(' ').unwrap();
                lines += &format!("{but_count} {count}\n");
            }
            None => lines += &format!("{line}\n"),
        }
    }
    load.begin_with_live(&lines);
    assert!(load.live_at(0).contains_key(&Of::Kmalloc(512)), "classes are there");
    load
}

fn slab_pages(contender: Contender, load: &Load) -> [u32; 4] {
    let looks = run(SMALL, contender, load).unwrap().looks;
    let pages: Vec<u32> = looks.iter().map(Look::slab_pages).collect();
    pages.try_into().expect("four moments")
}

const fn slub(max_order: u8) -> Contender {
    Contender::Slub { max_order, empties: Empties::Kept, lists: Lists::Off }
}

/// Ours, and theirs, of SLAB and SLUB.
fn beside(nodes_of_sys: &[(&str, u32)]) -> Vec<(&'static str, [u32; 4], [u32; 4])> {
    let told = told();
    let (of_slab, of_slub) = (load(&[]), load(nodes_of_sys));
    let ours = |nth: usize| match nth {
        1 => slab_pages(Contender::Slab { max_order: 0 }, &of_slab),
        _ => slab_pages(slub(nth as u8 - 2), &of_slub),
    };
    let theirs = |kernel: &str| {
        MOMENTS.map(|moment| median(&told, &format!("{kernel}-16M"), moment, |it| it.slab))
    };
    (1..KERNELS.len()).map(|nth| (KERNELS[nth], theirs(KERNELS[nth]), ours(nth))).collect()
}

fn percent(ours: u32, theirs: u32) -> f64 {
    100.0 * (f64::from(ours) - f64::from(theirs)) / f64::from(theirs)
}

/// After the boot the engines are within four pages, and in the kernels' order where that is not a
/// matter of four pages (SLUB with 0 and 1 is). While the load is held and after its release they
/// are up to 9 % too high, because another kernel's load is served. What `drop_caches` finds is
/// another kernel's, too: that one had five times as many names.
#[test]
fn engines_take_the_pages_of_kernels_on_16_mib() {
    let all = beside(&NODES_OF_SYS);
    for (kernel, theirs, ours) in &all {
        let off: Vec<String> =
            (0..4).map(|at| format!("{:+.1} %", percent(ours[at], theirs[at]))).collect();
        println!("{kernel}: {MOMENTS:?} theirs {theirs:?}, ours {ours:?}: {}", off.join(", "));
        assert!(ours[0].abs_diff(theirs[0]) <= 4, "{kernel} booted");
        assert!((1..3).all(|at| percent(ours[at], theirs[at]).abs() < 9.0), "{kernel}");
    }
    for (one, theirs, ours) in &all {
        for (other, of_other, ours_of_other) in &all {
            if theirs[0] + 4 < of_other[0] {
                assert!(ours[0] < ours_of_other[0], "{one} and {other}");
            }
        }
    }
}

/// SLOB tells no counts of objects; held against it is what it grew by since the boot.
#[test]
fn slob_grows_as_the_kernel_s_did_on_16_mib() {
    let told = told();
    let theirs = MOMENTS.map(|moment| median(&told, "slob-16M", moment, |it| it.slab));
    let ours = slab_pages(Contender::Slob, &load(&[]));
    let grown = |pages: [u32; 4]| [1, 2, 3].map(|at| pages[at] as i32 - pages[0] as i32);
    println!("slob: {MOMENTS:?} grown by theirs {:?}, ours {:?}", grown(theirs), grown(ours));
    for (ours, theirs) in grown(ours).into_iter().zip(grown(theirs)) {
        assert!((ours - theirs).abs() <= 6, "{ours} {theirs}");
    }
}

/// SLUB without its own files in /sys is found to be too small.
#[test]
fn a_load_that_lacks_objects_is_found_out() {
    for (kernel, theirs, ours) in beside(&[]).into_iter().skip(1) {
        assert!(percent(ours[0], theirs[0]) < -20.0, "{kernel}: {ours:?}");
    }
}
