//! The preload library: its yard, and its differences from the other libraries.
//!
//! Neighbour: the code of `slabyard-process` is generic over this library.

use slabyard::engine::Sheaves;
use slabyard::platform::linux::{Linux, Uncounted};
use slabyard::yard::Yard;
use slabyard_abi::engines::EngineName;
use slabyard_kernels::settings::Key;
use slabyard_process::library::{Library, Start};
use slabyard_process::malloc::{Malloc, report};
use slabyard_process::options::Options;
use slabyard_process::say;

/// The process's yard.
static YARD: Yard<Linux, Sheaves> = Yard::new(Linux::new());

/// The library.
pub(crate) struct Preload;

impl Library for Preload {
    type Counting = Uncounted;
    type Engine = Sheaves;

    const START: Start = Start::AtFirstCall;
    const IS_MALLOC: bool = true;
    const SEES_SYSTEM_CALLS: bool = cfg!(any(target_arch = "aarch64", target_arch = "x86_64"));

    #[inline(always)]
    fn yard() -> &'static Yard<Linux, Sheaves> {
        &YARD
    }

    /// There is no choice.
    fn choose(options: &Options) {
        if EngineName::of_word(options.get(Key::Engine)) != Some(YARD.engine()) {
            say!("SLABYARD_ENGINE is not possible here: the library has `slub` alone");
        }
    }

    fn before_threads() {
        report::remember();
        report::begin_profile::<Preload>();
    }

    fn at_exit() {
        report::at_exit::<Preload>();
    }
}

impl Malloc for Preload {
    type Words = ();
}
