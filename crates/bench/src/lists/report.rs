//! The results of `lists`, in the format in which they are written to a file.

use std::collections::BTreeMap;

use serde::Serialize;

use super::look::{ListsSample, Sum};
use super::measure::{BOMB, DRAIN, HeldProcess, HoldPoint, LOADS, Measured};
use crate::allocators::Allocator;
use crate::counts::DrainedFrees;
use crate::load::said::Run;
use crate::machine::Machine;
use crate::questions::ListsOptions;
use crate::stats::{Estimate, PairedSamples, ratio};

/// A line `Slab` of `/proc/meminfo` around `echo 1 > /sys/kernel/slab/*/shrink`, in the report of
/// January 2021.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PublishedResult {
    pub machine: &'static str,
    pub before_kib: u64,
    pub after_kib: u64,
}

/// Kernels older than 5.9.
pub const PUBLISHED: [PublishedResult; 2] = [
    PublishedResult { machine: "Horn's laptop", before_kib: 652_096, after_kib: 580_780 },
    PublishedResult {
        machine: "Horn's workstation, 56 cores",
        before_kib: 10_902_712,
        after_kib: 9_485_364,
    },
];

#[derive(Serialize)]
pub struct Report<'a> {
    format: u32,
    suite: &'static str,
    machine: &'a Machine,
    allocators: &'a [Allocator],
    pub rounds: u32,
    pub scale: f64,
    pub published: [PublishedResult; 2],
    pub fronts: Vec<OfFront<'a>>,
}

/// What was measured on one front.
#[derive(Serialize)]
pub struct OfFront<'a> {
    pub name: &'static str,
    pub bomb: OfLoad<'a>,
    pub drain: OfLoad<'a>,
    pub held: Vec<OfHeld<'a>>,
}

#[derive(Serialize)]
pub struct OfLoad<'a> {
    pub load: &'static str,
    /// Its time to the first front's.
    pub to_first: Estimate,
    pub runs: &'a [Run],
    /// By name.
    pub counts: BTreeMap<String, u64>,
    /// Slow frees by slabs drained.
    pub drains: Vec<DrainedFrees>,
}

/// A fork bomb that was held.
#[derive(Serialize)]
pub struct OfHeld<'a> {
    pub moment: HoldPoint,
    /// Of all lists, before it was shrunk.
    pub lists: Sum,
    pub before_kib: u64,
    pub after_kib: u64,
    pub before: &'a ListsSample,
    pub after: &'a ListsSample,
}

impl<'a> Report<'a> {
    /// Of all fronts.
    pub fn new(
        machine: &'a Machine,
        allocators: &'a [Allocator],
        options: &ListsOptions,
        measured: &'a [Measured],
    ) -> Self {
        let first = &measured[0];
        let of = |(measured, allocator): (&'a Measured, &Allocator)| OfFront {
            name: allocator.name,
            bomb: of_load(BOMB, measured, first),
            drain: of_load(DRAIN, measured, first),
            held: measured.held.iter().map(of_held).collect(),
        };
        Self {
            format: 1,
            suite: "lists",
            machine,
            allocators,
            rounds: options.rounds,
            scale: options.scale,
            published: PUBLISHED,
            fronts: measured.iter().zip(allocators).map(of).collect(),
        }
    }
}

fn of_load<'a>(load: usize, measured: &'a Measured, first: &Measured) -> OfLoad<'a> {
    let times = |of: &Measured| of.runs[load].iter().map(|run| run.ns as f64).collect::<Vec<f64>>();
    let (own, first) = (times(measured), times(first));
    OfLoad {
        load: LOADS[load],
        to_first: ratio(&[PairedSamples { ours: &own, peer: &first }]),
        runs: &measured.runs[load],
        counts: measured.counted[load].named(),
        drains: measured.counted[load].drains(),
    }
}

fn of_held(held: &HeldProcess) -> OfHeld<'_> {
    OfHeld {
        moment: held.moment,
        lists: held.before.sum(),
        before_kib: held.before.slab_bytes() / 1024,
        after_kib: held.after.slab_bytes() / 1024,
        before: &held.before,
        after: &held.after,
    }
}
