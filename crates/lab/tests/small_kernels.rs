//! How much memory of a small machine real kernels with SLUB_TINY and with SLUB left free.
//!
//! `data/small_6.12.txt` is what Linux 6.12 reported at four moments of a load. `cargo test
//! --release -p slabyard-lab --test lab small_kernels:: -- --nocapture` prints the numbers.

use std::fs;
use std::path::Path;

struct Figures {
    /// The kernel, the memory, the boot.
    name: String,
    moment: String,
    free: u32,
    slab: u32,
    blocks: Vec<u32>,
}

fn told() -> Vec<Figures> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/small_6.12.txt");
    let text = fs::read_to_string(path).expect("a table");
    let of_line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |word: &&str| word.parse().unwrap_or_else(|_| panic!("{line}"));
        let numbers: Vec<u32> = words[2..].iter().map(number).collect();
        assert_eq!(numbers.len(), 15, "{line}");
        Figures {
            name: words[0].into(),
            moment: words[1].into(),
            free: numbers[1],
            slab: numbers[2],
            blocks: numbers[4..].to_vec(),
        }
    };
    text.lines().filter(|line| !line.starts_with('#')).map(of_line).collect()
}

/// The number of each boot of a kernel on a memory, in order.
fn figures(told: &[Figures], kernel: &str, moment: &str, figure: fn(&Figures) -> u32) -> Vec<u32> {
    let is_of = |it: &&Figures| it.moment == moment && it.name.strip_prefix(kernel).is_some();
    let mut all: Vec<u32> = told.iter().filter(is_of).map(figure).collect();
    assert!(!all.is_empty(), "{kernel} {moment}");
    all.sort_unstable();
    all
}

fn median(told: &[Figures], kernel: &str, moment: &str, figure: fn(&Figures) -> u32) -> u32 {
    let all = figures(told, kernel, moment, figure);
    all[all.len() / 2]
}

#[test]
fn buddies_and_pages_of_the_kernels_agree() {
    for it in told() {
        let of_blocks: u32 = (0..).zip(&it.blocks).map(|(order, n)| n << order).sum();
        assert!(of_blocks.abs_diff(it.free) < 40, "{} {}: {of_blocks}", it.name, it.moment);
    }
}

/// SLUB_TINY takes fewer slab pages than SLUB with each order; among its orders 1 leaves most, as
/// on the board of 2022.
#[test]
fn tiny_takes_fewer_pages_than_slub_and_order_1_is_its_best() {
    let told = told();
    let of = |kernel: &str, figure| {
        [0, 1, 2, 3].map(|o| median(&told, &format!("{kernel}-o{o}-16M"), "booted", figure))
    };
    let [tiny, slub] = ["tiny", "slub"].map(|kernel| of(kernel, |it| it.slab));
    let free = of("tiny", |it| it.free);
    println!("6.12: slab pages of SLUB_TINY {tiny:?}, of SLUB {slub:?}; SLUB_TINY leaves {free:?}");
    assert!(tiny.iter().max() < slub.iter().min());
    assert_eq!(free.iter().max(), Some(&free[1]));
    assert_eq!(tiny.iter().min(), Some(&tiny[1]));
}
