//! What `slabyard replay --help` says besides its options: examples, how to take a snapshot, what
//! the numbers mean, and the names in `slabyard-lab`'s tables.

use super::table;
use crate::settings;
use slabyard_lab::counters::Counters;
use slabyard_lab::replay::contend;
use std::fmt::Write;

pub(super) const EXAMPLES: &str = "\
Examples:
  slabyard replay load.slabtrace --start load.before.json
  slabyard replay load.slabtrace                        finds load.before.json beside it
  slabyard replay load.slabtrace --release 5.9 --set cpu_partial=10
  slabyard replay load.slabtrace --set max_order=1 --samples 100 --json > orders.json
  slabyard replay load.slabtrace --samples 200 --html load.html     curves, for a browser
  slabyard replay load.slabtrace --engine slab          by the rules of mm/slab.c
  slabyard replay load.slabtrace --engine slob          which pages would SLOB need?
  slabyard replay load.slabtrace --cpus 64 --tasks 8x   eight times the tasks, on 64 CPUs
  slabyard replay load.slabtrace --memory 8M          does it fit on a machine of 8 MiB?
  slabyard replay load.slabtrace --cpus 64 --memory 40M --pressure full
  slabyard replay load.slabtrace --offline 3@2 --online 3@4.5 --shrink 3
  slabyard replay load.slabtrace --contention=2,16,128  what waits, and what fails?
  slabyard replay load.slabtrace --check                are these rules the kernel's?
  slabyard replay load.slabtrace --save peak.json --save-at peak
  slabyard show peak.json filp                          each CPU's list, slab by slab
  slabyard replay load.csv.zst --start boot.json#hb --convert load.slabtrace
  zcat load.csv.gz | slabyard replay - --start load.before.json

What is not given of the machine is the traced one's.";

const SNAPSHOTS: &str = "\
A snapshot is a JSON file with what /sys/kernel/slab says, taken as root just before the
recording begins (a shrink of all caches before it makes it exact):

  slabyard shrink kernel; slabyard snapshot kernel -o load.before.json

or on a machine without slabyard:

  import glob, json, os
  def read(path):
      try: return open(path).read().strip()
      except OSError: return None
  slab, aliases = {}, {}
  for path in glob.glob('/sys/kernel/slab/*'):
      name = os.path.basename(path)
      if os.path.islink(path): aliases[name] = os.path.basename(os.readlink(path))
      else: slab[name] = {key: read(f'{path}/{key}') for key in os.listdir(path)}
  cpus = {f'{which}_cpus': read(f'/sys/devices/system/cpu/{which}')
          for which in ('possible', 'present', 'online')}
  print(json.dumps({'kernel': os.uname().release, 'page_size': os.sysconf('SC_PAGE_SIZE'),
      'nodes': read('/sys/devices/system/node/online'), 'cmdline': read('/proc/cmdline'),
      'slab': slab, 'aliases': aliases, **cpus}))

A CSV of events has the columns t_us,cpu,pid,ev,cache_or_site,ptr,req,alloc,gfp,node,acct, where
ev is A or F (kmem_cache_alloc, kmem_cache_free), M or K (kmalloc, kfree), P or Q (pages got,
given back).";

/// Behind the options of `--help`.
pub(super) fn long() -> String {
    let mut text = format!("{EXAMPLES}\n\n{SNAPSHOTS}\n\n");
    text.push_str(
        "In the table, before, after, peak, allocated and freed are slabs; live and the columns \
         behind it are objects at the end, by where they are: live ones, and free ones in CPU \
         slabs, on CPU partial lists, in sheaves, in barns and on nodes' partial lists; waste is \
         what is behind the last objects of slabs. `-` is unknown.\n\n\
         With --json: {\"source\", \"settings\", \"before\", \"after\", \"caches\", \"totals\", \
         \"counters\", \"drains\", \"frees_left_out\", \"contradictions\", \"unlike\", \"accuracy\", \"memory\", \"series\"}; before and after hold \
         {\"caches\", \"totals\"}, in objects for a cache and in bytes for the totals, where bytes \
         are live, parked_cpu, parked_node, free_partial and padding together; null is unknown; \
         unlike says why the figures do not compare with those of another machine, accuracy how far \
         off peaks above the start were where such machines were measured: {\"change\", \"pairs\", \
         \"lowest\", \"highest\"}, of the kernel's peak; memory is null without --memory, else the \
         machine's: free pages and blocks by order at the start, when fewest and at the end, and what \
         failed. \
         With --check: {\"source\", \"settings\", \"caches\", \"totals\", \"spread\", \"goals\", \
         \"met\"}.\n\n\
         --check shows, for each cache and all together, the mean error of the number of slabs \
         over time in slabs and of its range, and that of a trivial predictor (live objects over \
         objects of a slab, and min_partial); peak, slabs allocated and freed, end, the kernel's \
         and the model's; how often the model, led along the kernel's choices, foretells the slab \
         that a CPU takes next (one-step), or any object's slab (same slab); how many of the slabs \
         that the kernel gave back the model gave back too (discards), and how many it gave back \
         that the kernel kept (wrong). Caches with sheaves show no one-step.\n\nKeys of --set:\n",
    );
    settings::add_replay_keys(&mut text);
    text.push_str(
        "\n--contention shows, for each number of CPUs and for eager and delayed freezing, or as \
         --set freezing says: compare-exchanges of slabs, those under a list lock, those that \
         failed; list locks, those waited for, and how long; the longest wait; how long locks were \
         held; barn locks, those waited for, and how long; the share of both waits in the time that \
         all calls took; the time of a call, and how many there were a second. With --json: \
         {\"source\", \"settings\", \"costs\", \"rows\"}; a row's passed_over are locked lists of \
         other nodes that refills did without.\n\nNames of --cost:\n",
    );
    for cost in contend::costs() {
        let ns = *(cost.of)(&mut contend::COSTS.clone());
        let _ = writeln!(text, "  {}: {ns} ns\n      {} ({})", cost.name, cost.what, cost.source);
    }
    text.push_str("\nCounters:\n");
    for (name, help, _) in Counters::default().each() {
        let _ = writeln!(text, "  {name}: {}", table::sentence(help));
    }
    text.push_str(
        "\nExit codes: 0 done; 1 a goal of the check is missed, or the figures are uncertain, \
         because events are missing or the snapshot does not fit the trace; 4 the load needs more than \
         --memory; 2 usage or a setting \
         that cannot be; 3 a file that cannot be read or is damaged. With --partial events may \
         be missing: that is told and is no 1.",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use slabyard_kernels::settings::REPLAYED;

    #[test]
    fn help_names_every_key_and_counter() {
        let help = long();
        let names = REPLAYED.iter().map(|key| key.name);
        let counters = Counters::default();
        for name in names.chain(counters.each().map(|(name, ..)| name)) {
            assert!(help.contains(&format!("\n  {name}: ")), "{name}");
        }
    }
}
