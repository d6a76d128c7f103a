//! PostgreSQL: the server and the processes that it forks run on the measured allocator, its client
//! pgbench on the C library's.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::prepared::{Prepared, installed};
use crate::allocators::{Bench, without_settings};
use crate::interrupt;

/// Where Debian puts what is not for everybody's search path.
const VERSIONS: &str = "/usr/lib/postgresql";
/// The server has come up, or gone, within this, or it failed.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(10);

/// Rows to begin with: 100 000 for each unit.
const FILL: [&str; 4] = ["-i", "-q", "-s", "2"];
/// Four connections, each a process; the draws are the same in each run.
const TRANSACTIONS: [&str; 8] =
    ["-n", "-c", "4", "-t", "500", "--random-seed", "7", "--protocol=prepared"];
/// What the transactions came to, and an aggregate of many strings.
const SUMS: &str = "select sum(abalance) from pgbench_accounts; \
     select sum(delta), count(*) from pgbench_history; \
     select count(*), sum(length(s)) from (select string_agg(md5(n::text), ',' order by n desc) s \
     from generate_series(1, 200000) n group by n % 1000) x";

fn home(bench: &Bench) -> PathBuf {
    bench.program("postgres")
}

/// The server on a new cluster, which is given no time for its disk.
pub fn postgres(bench: &Bench) -> Result<Prepared> {
    let home = home(bench);
    let user = another_user()?;
    // Another user is to read the libraries, and to own the data.
    fs::set_permissions(bench.program(""), fs::Permissions::from_mode(0o755))?;
    let mut make = without_settings(&installed("install")?);
    make.args(["-d", "-m", "700"]).args(user.iter().map(|user| format!("-o{user}")));
    done(make.arg(&home))?;
    let data = home.join("data");
    let as_user = prefix(user.as_deref())?;
    let mut init = under(&as_user, &tool("initdb")?);
    init.arg("-D").arg(&data).args(["-U", "postgres", "-A", "trust", "--no-sync"]);
    done(init.current_dir(bench.program("")))?;
    let args = ["-D".into(), data.into_os_string(), "-k".into(), home.into_os_string()];
    let mut server = Prepared::new(tool("postgres")?, args);
    for setting in ["listen_addresses=", "fsync=off", "autovacuum=off"] {
        server.args.extend(["-c", setting].map(OsString::from));
    }
    server.as_user = as_user;
    server.client = Some(talk);
    Ok(server)
}

/// Who the server runs as, if we are root: it refuses to be.
fn another_user() -> Result<Option<String>> {
    let id = |args: &[&str]| Command::new("id").args(args).output().context("id");
    if id(&["-u"])?.stdout != b"0\n" {
        return Ok(None);
    }
    let known = id(&["-u", "postgres"])?.status.success();
    Ok(Some(if known { "postgres" } else { "nobody" }.to_owned()))
}

fn prefix(user: Option<&str>) -> Result<Vec<OsString>> {
    let Some(user) = user else { return Ok(Vec::new()) };
    let mut words = vec![installed("setpriv")?.into_os_string()];
    words.extend(["--reuid", user, "--init-groups"].map(OsString::from));
    Ok(words)
}

/// A program of PostgreSQL, of the newest version.
fn tool(name: &str) -> Result<PathBuf> {
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let found = versions.map(|entry| entry.path()).filter(|at| at.join("bin").join(name).is_file());
    match found.max_by_key(|path| number(path)) {
        Some(version) => Ok(version.join("bin").join(name)),
        None => installed(name),
    }
}

fn under(prefix: &[OsString], program: &Path) -> Command {
    match prefix {
        [] => without_settings(program),
        [first, others @ ..] => {
            let mut command = without_settings(Path::new(first));
            command.args(others).arg(program);
            command
        }
    }
}

/// Fills the tables, makes transactions, requests sums and ends the server.
fn talk(_: &Prepared, bench: &Bench) -> Result<String> {
    let home = home(bench);
    wait("the server", || client("psql", &home, &["-c", "select 1"]).is_ok())?;
    client("pgbench", &home, &FILL)?;
    client("pgbench", &home, &TRANSACTIONS)?;
    let sums = client("psql", &home, &["-At", "-c", SUMS])?;
    let process = home.join("data/postmaster.pid");
    let text = fs::read_to_string(&process).context("the server's number")?;
    // Fast shutdown.
    done(Command::new("kill").args(["-INT", text.lines().next().unwrap_or_default()]))?;
    wait("the server's end", || !process.exists())?;
    Ok(sums)
}

fn wait(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let start = Instant::now();
    while !is_so() {
        interrupt::check()?;
        ensure!(start.elapsed() < PATIENCE, "postgres: {what} does not come");
        thread::sleep(POLL);
    }
    Ok(())
}

fn client(name: &str, home: &Path, args: &[&str]) -> Result<String> {
    let mut command = without_settings(&tool(name)?);
    command.arg("-h").arg(home).args(["-U", "postgres"]).args(args);
    done(command.env("PGDATABASE", "postgres"))
}

/// What a command said, which succeeded.
fn done(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let out = command.output().with_context(|| name.clone())?;
    if !out.status.success() {
        bail!("{name}: {}: {}", out.status, String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}
