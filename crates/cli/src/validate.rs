//! `slabyard validate`: asks a process to check the objects of all its caches that have debugging
//! on.
//!
//! Neighbour: [`RequestWait`] sends the request; the process itself prints what it finds, on its
//! standard error, because it knows its functions' names.

use crate::asking::{RequestWait, Wait};
use crate::failure::Failure;
use crate::stdout;
use slabyard_observe::process::RequestKind;
use slabyard_observe::source::SourceName;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  slabyard run --slab-debug -- ./server &
  slabyard validate $(pgrep -n server)

The process prints each finding on its own standard error, restores the bytes, and goes on,
whatever SLABYARD_ON_ERROR says. It looks at its next call of malloc or free, or at once by its
helper thread if it was started with `slabyard run --helper`; from one that has none and makes no
call before --timeout, or before Ctrl-C, the request is taken back. No thread at rest is stopped to
look, as `shrink` does: a report asks the loader, whose lock it may have.

Exit codes: 0 sound, 1 something is wrong, 2 usage, 3 cannot: no cache has debugging, the
process may not be read, or it made no call in time.";

/// `slabyard validate`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ValidateArgs {
    /// The process
    #[arg(value_name = "SOURCE")]
    source: SourceName,
    #[command(flatten)]
    wait: Wait,
}

/// Asks, and prints how many objects were wrong.
pub fn run(args: &ValidateArgs) -> Result<ExitCode, Failure> {
    let SourceName::Process(pid) = args.source else {
        let text = "only a process can be asked; a kernel looks through a cache when 1 is written \
                    to /sys/kernel/slab/CACHE/validate";
        return Err(anyhow::anyhow!("{}: {text}", args.source).into());
    };
    let answer = RequestWait::new(args.wait)?.ask(pid, &RequestKind::Validate)?;
    let line = match answer.old {
        0 => format!("process {pid}: sound\n"),
        1 => format!("process {pid}: 1 object is wrong; its standard error says more\n"),
        n => format!("process {pid}: {n} objects are wrong; its standard error says more\n"),
    };
    stdout::print(line.as_bytes())?;
    Ok(if answer.old == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
