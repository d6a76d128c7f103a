//! The recordings, loads and snapshots that rows use. They are part of the program, so that an
//! installed command has them: 1.4 MB of the repository's traces and snapshots, which are compressed.
//! The larger traces of the same loads (`hackbench`, `forkexec`) stay outside. Links lead to those of
//! the lab, so that a package of this crate, which cannot have files of others, has copies.

/// What holds a recording.
#[derive(Clone, Copy)]
pub enum Content {
    /// A trace file that has its snapshot inside.
    Trace(&'static [u8]),
    /// A trace, and the snapshot of its start.
    TraceFrom(&'static [u8], &'static [u8]),
    /// The text of a load.
    Load(&'static str),
}

/// A trace by its name.
#[derive(Clone, Copy)]
pub struct Recording {
    /// Its file's name.
    pub name: &'static str,
    /// Its bytes.
    pub content: Content,
}

/// What real kernels reported of their caches.
#[derive(Clone, Copy)]
pub struct Guest {
    /// Its file's name.
    pub name: &'static str,
    /// Snapshots, each of one moment.
    pub bytes: &'static [u8],
}

/// A boot of a kernel on a small machine: its events, and what it told of its memory.
#[derive(Clone, Copy)]
pub struct SmallBoot {
    /// Its file's name.
    pub name: &'static str,
    /// The events.
    pub trace: &'static [u8],
    /// The state at the begin and at each moment.
    pub state: &'static [u8],
}

macro_rules! bytes {
    ($($path:literal),+) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $($path),+))
    };
}

macro_rules! load {
    ($path:literal) => {
        Content::Load(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), $path)))
    };
}

/// hackbench on Linux 6.12 with 64 KiB pages and 4 CPUs.
pub const HACKBENCH_64K: Recording = Recording {
    name: "tr64k_hb_smp4",
    content: Content::TraceFrom(
        bytes!("traces/tr64k_hb_smp4.slabtrace"),
        bytes!("traces/tr64k_hb_smp4.before.json.zst"),
    ),
};
/// hackbench on Linux 6.1 with 4 KiB pages and 4 CPUs.
pub const HACKBENCH_4K: Recording =
    Recording { name: "guest_4", content: Content::Trace(bytes!("traces/guest_4.slabtrace")) };
/// Short processes.
pub const FORKS: Recording = Recording { name: "forks.toml", content: load!("/loads/forks.toml") };
/// Bios that are freed on other CPUs.
pub const BIOS: Recording = Recording { name: "bios.toml", content: load!("/loads/bios.toml") };
/// One object of 4 KiB, allocated and freed in a loop.
pub const ONE_OBJECT: Recording =
    Recording { name: "one_object.toml", content: load!("/loads/one_object.toml") };
/// The same loop with four objects in a turn.
pub const FOUR_OBJECTS: Recording =
    Recording { name: "four_objects.toml", content: load!("/loads/four_objects.toml") };
/// Groups of senders and receivers.
pub const MESSAGING: Recording =
    Recording { name: "messaging.toml", content: load!("/loads/messaging.toml") };
/// Packets from one CPU to another.
pub const PACKETS: Recording =
    Recording { name: "packets.toml", content: load!("/loads/packets.toml") };
/// Bursts of tasks whose objects other CPUs free.
pub const FORK_BOMB: Recording =
    Recording { name: "fork_bomb.toml", content: load!("/loads/fork_bomb.toml") };

macro_rules! guest {
    ($(#[$doc:meta])* $name:ident, $file:literal) => {
        $(#[$doc])*
        pub const $name: Guest =
            Guest { name: $file, bytes: bytes!("dumps/", $file, ".json.zst") };
    };
}

guest!(/** 6.12, 64 KiB pages, 16 CPUs. */ P64K_DEFAULT, "p64k_def_smp16_hb");
guest!(/** The same with `slub_max_order=0`. */ P64K_ORDER_0, "p64k_mo0_smp16_hb");
guest!(/** The same with `slub_max_order=1`. */ P64K_ORDER_1, "p64k_mo1_smp16_hb");
guest!(/** The same with `slub_max_order=2`. */ P64K_ORDER_2, "p64k_mo2_smp16_hb");
guest!(/** 5.10, 4 KiB pages, 4 CPUs. */ X86_5_10, "x86_510_4k_smp4_hb");
guest!(/** 6.12, 4 KiB pages, 4 CPUs. */ X86_6_12, "x86_612_4k_smp4_hb_nehalem");
guest!(/** 6.18, 4 KiB pages, 2 CPUs, no guest: a machine with many caches. */ X86_6_18, "x86_618_4k_smp2");
guest!(/** Guests of 6.1, some with other possible CPUs. */ GUESTS_6_1, "guests/6.1");
guest!(/** Guests of 6.12. */ GUESTS_6_12, "guests/6.12");
guest!(/** Guests of 6.18. */ GUESTS_6_18, "guests/6.18");
guest!(/** Guests of 7.3. */ GUESTS_7_3, "guests/7.3");

macro_rules! small {
    ($(#[$doc:meta])* $name:ident, $file:literal) => {
        $(#[$doc])*
        pub const $name: SmallBoot = SmallBoot {
            name: concat!("small_", $file),
            trace: bytes!("traces/small_", $file, ".slabtrace"),
            state: bytes!("traces/small_", $file, ".state.zst"),
        };
    };
}

small!(/** 6.1 with SLOB on 16 MiB. */ SMALL_SLOB, "slob");
small!(/** 6.1 with SLAB. */ SMALL_SLAB, "slab");
small!(/** 6.1 with SLUB, slabs of one page. */ SMALL_SLUB_0, "slub-o0");
small!(/** 6.1 with SLUB, slabs of up to 8 pages. */ SMALL_SLUB_3, "slub-o3");
small!(/** 6.12 with SLUB_TINY, slabs of up to two pages. */ SMALL_TINY_1, "tiny12-o1");

/// Bytes of code of each engine, which `ci/fixed` builds and holds to this table.
pub const FIXED_SIZES: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/measured/fixed-sizes.txt"));

/// Pages of a real kernel's boots on 8 MiB without an MMU, which `ci/small-board` measured.
pub const SMALL_BOARD: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/measured/small-machines.md"));
