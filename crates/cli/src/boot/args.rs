//! The arguments of `slabyard boot`.

use crate::html::HtmlArgs;
use crate::machine::Engine;
use crate::settings;
use clap::ValueHint;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  slabyard snapshot kernel -o boot.json; slabyard boot boot.json --set max_order=0
  slabyard boot boot.json --page-size 64k --cpus 16 --possible-cpus 512
  slabyard boot boot.json --possible-cpus 64,256,512 --set max_order=0..3     (12 rows)
  slabyard boot dumps.json.zst#boot --shrunk dumps.json.zst#boot_shrunk --set min_objects=4
  slabyard boot kernel --set cpu_partial=0 --set min_partial=0 --json     (root)
  slabyard boot boot.json --release 7.3
  slabyard boot slabinfo.txt --release 6.12 --cpus 8 --set max_order=0     (a pasted text)
  slabyard boot boot.json --engine tiny --html tiny.html

What is not given of the machine and of the rules is the snapshot's. Each of these options takes
several values, such as 4,16 or 0..3 with both ends: then each combination is a row.";

/// `slabyard boot`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help())]
pub struct BootArgs {
    /// A kernel's snapshot: a file (FILE#DUMP if it holds several, `-` is standard input), a text, folder
    /// or archive with its slabs, or the running `kernel`
    #[arg(value_name = "SNAPSHOT|kernel", value_hint = ValueHint::FilePath)]
    pub(super) snapshot: PathBuf,
    /// Another one of the same boot, taken just after a shrink: it counts live objects exactly
    #[arg(long, value_name = "SNAPSHOT", value_hint = ValueHint::FilePath)]
    pub(super) shrunk: Option<PathBuf>,
    /// The kernel's allocator whose rules hold
    #[arg(long, value_enum, value_delimiter = ',', default_value = "slub")]
    pub(super) engine: Vec<Engine>,
    /// The kernel whose rules hold: a version such as 6.12 [default: the snapshot's]
    #[arg(long, value_name = "R")]
    pub(super) release: Option<String>,
    /// Bytes of a page, 4k to 64k
    #[arg(long, value_name = "S")]
    pub(super) page_size: Option<String>,
    /// CPUs that are there
    #[arg(long, value_name = "N")]
    pub(super) cpus: Option<String>,
    /// CPUs that may ever be there [default: --cpus, if that is given]
    #[arg(long, value_name = "N")]
    pub(super) possible_cpus: Option<String>,
    /// Change a rule; may be repeated, the last one counts
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// Show all caches
    #[arg(long)]
    pub(super) all: bool,
    /// For programs
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) html: HtmlArgs,
}

fn long_help() -> String {
    let mut text = format!("{EXAMPLES}\n\nKeys of --set:\n");
    settings::add_replay_keys(&mut text);
    text.push_str(
        "\nLive objects stay the same, but for those that a kernel has for each CPU; what a snapshot \
         does not tell is assumed (docs/geometry.md). The error to expect is that of nine of ten \
         guests whose slabs were foretold from another guest's snapshot. --json has what is \
         foretold in `after`, or of several rows in `variants`; `least_bytes` and `most_bytes` are \
         between which nine of ten guests were.\n\nExit codes: 0 done, 2 \
         usage or a setting that cannot be, 3 cannot read the snapshot.",
    );
    text
}
