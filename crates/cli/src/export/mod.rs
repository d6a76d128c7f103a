//! `slabyard export`: prints OpenMetrics text once, or serves it over HTTP, or writes a source as the
//! files of a kernel.
//!
//! Neighbours: [`server`] answers requests; `observe::view::openmetrics` has the series;
//! [`kernel_files`] writes the files.
//! Invariants: the server reports that it listens only after it has read the source once; an
//! address other than loopback must be typed in full.

mod kernel_files;
mod server;

use crate::failure::Failure;
use crate::{look, stdout};
use anyhow::Context;
use clap::ValueHint;
use slabyard_observe::source::{ReadScope, SourceName};
use slabyard_observe::view::openmetrics;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  slabyard export > slab.prom                       once, the kernel
  slabyard export $(pgrep -n python3) --top 20
  slabyard export kernel --listen 9817 &
  curl -s 127.0.0.1:9817/metrics | grep -c ^slabyard_
  slabyard export $(pgrep -n python3) --as slabinfo > slabinfo
  sudo unshare -m sh -c 'mount --bind slabinfo /proc/slabinfo && slabtop -o'
  slabyard export kernel --as sysfs -o kernel.now && slabyard list kernel.now

With --listen it serves /metrics until SIGTERM or SIGINT, each time from a fresh look.
There is no access control: keep it on the loopback address, or behind what has one.";

/// `slabyard export`.
#[derive(clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{}", look::CODES))]
pub struct ExportArgs {
    /// Where to look: `kernel`, a process, or a file
    #[arg(value_name = "SOURCE", default_value = "kernel", value_hint = ValueHint::FilePath)]
    source: SourceName,
    /// The caches that are exported: so many of the largest
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Serve over HTTP, at a port of 127.0.0.1 or at ADDRESS:PORT
    #[arg(long, value_name = "PORT", value_parser = address)]
    listen: Option<SocketAddr>,
    /// What to write
    #[arg(long = "as", value_name = "FORMAT", value_enum, default_value_t = Format::Openmetrics)]
    format: Format,
    /// The folder that --as sysfs makes
    #[arg(long, short, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: Option<PathBuf>,
}

/// Forms of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// OpenMetrics text, of the largest caches and the totals
    Openmetrics,
    /// The text of /proc/slabinfo, for slabtop, vmstat -m and others
    Slabinfo,
    /// A folder with proc and sys, of which sys/kernel/slab has a folder a cache
    Sysfs,
}

/// Prints the series, or serves them until told to end.
pub fn run(args: &ExportArgs) -> Result<ExitCode, Failure> {
    if args.source == SourceName::Stdin && args.listen.is_some() {
        let text = "standard input can be read only once, and --listen looks each time that it is \
                    asked; save it to a file";
        return Err(Failure::Usage(text.into()));
    }
    match (args.format, &args.output) {
        (Format::Openmetrics, None) => {}
        _ if args.listen.is_some() => {
            return Err(Failure::Usage("--listen serves OpenMetrics alone".into()));
        }
        (Format::Slabinfo, None) => return kernel_files::slabinfo(&args.source),
        (Format::Sysfs, Some(to)) => return kernel_files::tree(&args.source, to),
        (Format::Sysfs, None) => {
            return Err(Failure::Usage("--as sysfs needs the folder: --output DIR".into()));
        }
        (Format::Openmetrics | Format::Slabinfo, Some(_)) => {
            return Err(Failure::Usage(
                "--output is of --as sysfs; other forms are printed".into(),
            ));
        }
    }
    let text = series(args)?;
    match args.listen {
        None => stdout::print(&text),
        Some(address) => {
            server::serve(address, || series(args))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn series(args: &ExportArgs) -> Result<Vec<u8>, Failure> {
    let snapshot = look::sample(&args.source, ReadScope::default())?;
    let mut text = Vec::new();
    openmetrics::write(&mut text, &snapshot, args.top).context("the series")?;
    Ok(text)
}

/// A port of the loopback address, or an address in full.
fn address(text: &str) -> Result<SocketAddr, String> {
    let port: Option<u16> = text.parse().ok();
    port.map(|port| (Ipv4Addr::LOCALHOST, port).into())
        .or_else(|| text.parse().ok())
        .ok_or_else(|| "expected a port such as 9817, or an address such as 127.0.0.1:9817".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_on_the_loopback_address() {
        assert_eq!(address("9817").unwrap().to_string(), "127.0.0.1:9817");
        assert_eq!(address("0.0.0.0:1").unwrap().to_string(), "0.0.0.0:1");
        assert_eq!(address("[::1]:1").unwrap().to_string(), "[::1]:1");
        for text in ["", ":9817", "localhost:9817", "65536", "127.0.0.1"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
