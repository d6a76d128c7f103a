//! The words of options whose values no kernel release determines.
//!
//! Neighbours: [`super::table`] has the rows that accept them; libraries use the same tables to
//! decode a word's number.

/// How CPUs are distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuMode {
    /// As is possible.
    Auto,
    /// By the rseq area of the C library.
    Rseq,
    /// By a registration of our own.
    OwnRseq,
    /// They are not: each thread has a private slot.
    Slots,
}

words! { CpuMode:
    "auto" => Auto,
    "rseq" => Rseq,
    "own-rseq" => OwnRseq,
    "slots" => Slots,
}

/// What follows a report of misuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMisuse {
    /// Go on after a wrong size alone.
    Auto,
    /// Always abort.
    Abort,
    /// Always continue.
    Report,
}

words! { OnMisuse:
    "auto" => Auto,
    "abort" => Abort,
    "report" => Report,
}

/// What a CPU of the engine slub allocates from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlubFront {
    /// Sheaves, and barns behind them.
    Sheaves,
    /// A CPU slab and a CPU partial list, as a kernel to 6.17.
    CpuSlabs,
    /// Sheaves, refilled through a CPU slab.
    Mixed,
}

words! { SlubFront:
    "sheaves" => Sheaves,
    "cpu-slabs" => CpuSlabs,
    "mixed" => Mixed,
}

/// A bug of CPU slabs that checkers must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// No bug.
    None,
    /// The slabs that the series of 2023 lost at first.
    LostSlabs,
}

words! { PlantedBug:
    "none" => None,
    "lost-slabs" => LostSlabs,
}

/// What a drain under memory pressure returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PressureDrain {
    /// All that is parked and free.
    Full,
    /// Empty slabs and free pages alone.
    Empties,
}

words! { PressureDrain:
    "full" => Full,
    "empties" => Empties,
}

/// How many memory nodes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeCount {
    /// No node is remote.
    One = 1,
    /// Half of the CPUs on each.
    Two = 2,
    /// A quarter of the CPUs on each.
    Four = 4,
}

words! { NodeCount:
    "1" => One,
    "2" => Two,
    "4" => Four,
}
