//! Measures how long it takes to read the kernel: `sample_kernel [ROUNDS]`, as root.

use slabyard_observe::{ReadScope, kernel};
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(20), |n| n.parse())?;
    for all in [false, true] {
        let mut times = Vec::new();
        let mut caches = 0;
        for _ in 0..rounds.max(1) {
            let began = Instant::now();
            caches = kernel::sample(Path::new("/"), ReadScope { all, slabs: false })?.caches.len();
            times.push(began.elapsed());
        }
        times.sort();
        let what = if all { "all attributes" } else { "plain columns" };
        let (least, median, most) = (times[0], times[times.len() / 2], times[times.len() - 1]);
        println!("{what}: {caches} caches, {least:.1?} to {most:.1?}, median {median:.1?}");
    }
    Ok(())
}
