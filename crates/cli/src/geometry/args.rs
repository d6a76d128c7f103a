//! The arguments of `slabyard geometry`.

use crate::machine::RulesArgs;
use crate::settings;
use clap::ValueHint;
use slabyard_ask::sizes::size;
use slabyard_lab::rules;

const EXAMPLES: &str = "\
Examples:
  slabyard geometry 192 4k                      as on this machine
  slabyard geometry --release 5.9 --page-size 64k --cpus 64 9856
  slabyard geometry --set max_order=1 --set cpu_partial=8192:1,4096:2 --json 1k 8k
  slabyard geometry --against kernel            every cache of the running kernel (root)
  slabyard geometry --against boot.json.zst --release 6.12
  slabyard geometry --against dumps.json#boot   one of the dumps of a file
  slabyard geometry --explain kmalloc-1k        why its objects take what they take (root)
  slabyard geometry --engine slab 192 2k        by the rules of mm/slab.c, to 6.7

What is not given of the machine is this one's, or with --against the snapshot's.";

/// `slabyard geometry`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help())]
pub struct GeometryArgs {
    #[command(flatten)]
    pub(super) rules: RulesArgs,
    /// For programs
    #[arg(long)]
    pub(super) json: bool,
    /// Compare each cache of a snapshot's file (`-` is standard input), or of the running
    /// `kernel`, with the rules
    #[arg(
        long,
        value_name = "SNAPSHOT|kernel",
        conflicts_with = "sizes",
        value_hint = ValueHint::FilePath
    )]
    pub(super) against: Option<std::path::PathBuf>,
    /// Say of what the stride and the slabs of a cache consist, by its flags, and what each part costs:
    /// of the running kernel, or of the snapshot that --against names
    #[arg(long, value_name = "CACHE", conflicts_with = "sizes")]
    pub(super) explain: Option<String>,
    /// Bytes of an object, such as 192 or 4k [default: the kmalloc size classes]
    #[arg(value_name = "SIZE", value_parser = size)]
    pub(super) sizes: Vec<u32>,
}

fn long_help() -> String {
    let mut text = format!(
        "{EXAMPLES}\n\nEvery kernel from 5.9 on follows the newest of these presets that is not \
         above it: {}.\n\nKeys of --set (the kernel's names with slab_ or slub_ in front are taken \
         as well):\n",
        rules::RELEASES.iter().map(|r| r.name).collect::<Vec<_>>().join(", ")
    );
    settings::add_replay_keys(&mut text);
    text.push_str(
        "\nWaste is what is behind the last object of each slab; `-` and null are unknown: to \
         5.15 a CPU's partial list is limited in objects, not in slabs.\n\nExit codes: 0 done, 1 \
         differences from a kernel, 2 usage or a setting that cannot be, 3 cannot read the \
         snapshot.",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use slabyard_kernels::settings::REPLAYED;

    #[test]
    fn help_names_every_key() {
        let help = long_help();
        for key in REPLAYED {
            assert!(help.contains(&format!("  {}: ", key.name)), "{}", key.name);
        }
    }
}
