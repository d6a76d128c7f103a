//! Redis: the server runs on the measured allocator, its clients on the C library's.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::inputs;
use super::prepared::{Prepared, installed};
use crate::allocators::{Bench, without_settings};
use crate::interrupt;

/// The server has come up within this, or it failed.
const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(2);

/// What `redis-benchmark` does after the commands.
const BENCHMARK: [&str; 13] = [
    "-q",
    "-P",
    "16",
    "-c",
    "20",
    "-n",
    "100000",
    "-r",
    "50000",
    "-d",
    "100",
    "-t",
    "set,get,lpush,rpop,hset",
];

fn socket(bench: &Bench) -> PathBuf {
    bench.program("redis.sock")
}

/// The server, which keeps nothing on disk.
pub fn redis(bench: &Bench) -> Result<Prepared> {
    for client in ["redis-cli", "redis-benchmark"] {
        installed(client)?;
    }
    bench.unpack("commands.resp", &inputs::redis_commands())?;
    let socket = socket(bench).display().to_string();
    let directory = bench.program("").display().to_string();
    let log = bench.program("redis.log").display().to_string();
    let settings = [
        ("port", "0"),
        ("unixsocket", &socket),
        ("save", ""),
        ("appendonly", "no"),
        ("dir", &directory),
        ("logfile", &log),
        ("enable-debug-command", "local"),
        ("daemonize", "no"),
    ];
    let args = settings.iter().flat_map(|(name, value)| [format!("--{name}"), (*value).to_owned()]);
    let mut server = Prepared::new(installed("redis-server")?, args);
    server.client = Some(talk);
    Ok(server)
}

/// Sends all commands, requests the digest of the data, then benchmarks and ends the server. What
/// it says is the digest: the benchmark draws its keys.
fn talk(_: &Prepared, bench: &Bench) -> Result<String> {
    let socket = socket(bench);
    wait_for(&socket)?;
    let commands = File::open(bench.program("commands.resp"))?;
    client("redis-cli", &socket, &["--pipe"], Some(commands))?;
    let digest = client("redis-cli", &socket, &["DEBUG", "DIGEST"], None)?;
    let size = client("redis-cli", &socket, &["DBSIZE"], None)?;
    client("redis-benchmark", &socket, &BENCHMARK, None)?;
    client("redis-cli", &socket, &["SHUTDOWN", "NOSAVE"], None)?;
    let digest = digest.trim();
    ensure!(digest.len() == 40, "redis' digest is {digest:?}");
    Ok(format!("{digest} {}", size.trim()))
}

fn wait_for(socket: &Path) -> Result<()> {
    let start = Instant::now();
    while client("redis-cli", socket, &["PING"], None).is_ok_and(|said| said.trim() != "PONG") {
        interrupt::check()?;
        ensure!(start.elapsed() < PATIENCE, "redis-server does not answer");
        thread::sleep(POLL);
    }
    Ok(())
}

fn client(name: &str, socket: &Path, args: &[&str], input: Option<File>) -> Result<String> {
    let mut command = without_settings(&installed(name)?);
    command.arg("-s").arg(socket).args(args);
    command.stdin(input.map_or_else(Stdio::null, Stdio::from));
    let out = command.output().with_context(|| name.to_owned())?;
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    if !out.status.success() && args != ["PING"] {
        let words = String::from_utf8_lossy(&out.stderr);
        bail!("{name} {}: {}: {said}{words}", args.join(" "), out.status);
    }
    Ok(said)
}
