//! The arguments of `slabyard record`.

use clap::ValueHint;
use slabyard_ask::sizes::memory_size;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  slabyard record -o build.slabtrace --kernel -- make -j8
  slabyard record -o minute.slabtrace --kernel --duration 60
  slabyard record -o dentry.slabtrace --kernel --caches 'dentry,*inode_cache' -- find / -xdev
  slabyard record -o long.slabtrace --kernel --max-size 2G       until Ctrl-C
  slabyard replay build.slabtrace --check                        no other file is needed
  slabyard record -o script.slabtrace -- python3 script.py       its malloc, on Slabyard
  slabyard record --restore                                      after a crash of a recorder";

const LONG: &str = "\
The trace file holds the kernel's caches as they were just before the first event, just after the
last one, and after a shrink of all caches at the end; `slabyard replay FILE` starts from it.
With --kernel it also holds what lay on the caches' lists when tracing began, slab by slab: it is
read out of the kernel's memory by bpf(2), before the command starts. Where the kernel refuses
that, a line says why, and the recording has counts only.

Without --kernel the command runs on Slabyard's malloc, and its calls are recorded, without those
of its children; `slabyard replay` replays them on any engine.

With --kernel all processes of the machine are recorded, this one too: what it takes is in the same slabs. It
takes a few objects for each megabyte that it writes. The user's own tracing is not
disturbed: the events go to an instance of tracefs of their own, which is removed at the end; when
this process is killed, a second one removes it, and if that is killed too, the next recording or
--restore.

Exit code: that of the command; without one 0. 2 usage, 3 it cannot be recorded. The first Ctrl-C
or SIGTERM goes to the command, whose end ends the recording; the second ends the recording at
once. Events that the kernel could not keep are counted, told and written into the file.";

/// `slabyard record`.
#[derive(clap::Args)]
#[command(
    override_usage = "slabyard record -o FILE [--kernel] [OPTIONS] [-- COMMAND [ARG]...]",
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{LONG}")
)]
pub struct RecordArgs {
    /// The trace file
    #[arg(
        long,
        short,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        required_unless_present_any = ["restore", "guard"]
    )]
    pub(super) output: Option<PathBuf>,
    /// Record the kernel's slab memory, which takes root; without it the program's calls to malloc
    #[arg(long)]
    pub(super) kernel: bool,
    /// Stop after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(super) duration: Option<Duration>,
    /// Stop before the file becomes larger: 500M, 2G
    #[arg(long, value_name = "SIZE", value_parser = memory_size)]
    pub(super) max_size: Option<u64>,
    /// Caches to be recorded, by name; `*` and `?` stand for any letters
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "kernel")]
    pub(super) caches: Vec<String>,
    /// The kernel's buffer for each CPU [default: 64M, less on a small machine]
    #[arg(long, value_name = "SIZE", value_parser = memory_size, requires = "kernel")]
    pub(super) buffer: Option<u64>,
    /// Do not shrink the caches before the first and after the last event: quicker, and the replay
    /// knows less
    #[arg(long, requires = "kernel")]
    pub(super) no_shrink: bool,
    /// Do not read what lies on the caches' lists out of the kernel's memory: the replay then knows
    /// less of the start
    #[arg(long, requires = "kernel")]
    pub(super) no_lists: bool,
    /// Do not probe calls that have no tracepoint (kfree_rcu(), in bulk, prefilled sheaves): the replay
    /// then guesses when these objects were freed
    #[arg(long, requires = "kernel")]
    pub(super) no_probes: bool,
    /// Remove what recorders that were killed have left in the kernel, and do nothing else
    #[arg(long, conflicts_with_all = ["output", "kernel", "duration", "max_size", "caches", "command"])]
    pub(super) restore: bool,
    /// Wait for the end of standard input, then remove this instance
    #[arg(long, hide = true, value_name = "INSTANCE")]
    pub(super) guard: Option<String>,
    /// The command to run while it records, and its arguments
    #[arg(
        value_name = "COMMAND [ARG]",
        last = true,
        value_hint = ValueHint::CommandWithArguments
    )]
    pub(super) command: Vec<OsString>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| "expected seconds, such as 10 or 0.5".into())
}
