//! Prints how long each operation that the contention model counts takes on this machine:
//! nanoseconds, medians over time windows. The example needs two CPUs for itself.
//!
//! `cargo run --release -p slabyard-lab --example costs`

use slabyard_lab::calibrate::{Effort, Measured};

fn main() {
    let Measured { exchange, lock, moved, link } =
        Measured::here(Effort { windows: 201, turns: 20_000 });
    let row = |what: &str, took: f64| println!("{what:<44} {took:8.1} ns");
    row("compare-exchange of a line that is here", exchange);
    row("lock and release of a line that is here", lock);
    match moved {
        Some(moved) => row("a line's move from CPU to CPU, exchange incl.", moved),
        None => println!("a line's move from CPU to CPU: there is a single CPU"),
    }
    row("link a slab into a list", link);
}
