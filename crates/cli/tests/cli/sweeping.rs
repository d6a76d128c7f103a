//! `slabyard sweep`: kills, signals, full disks, shards and nonsense; the table is always the same.

use crate::skipped::skip;
use crate::stage::{SLABYARD, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/traces/tr64k_hb_smp4.slabtrace");

const VARY: [&str; 4] = ["--vary", "max_order=0..3", "--vary", "cpus=4,16,64"];

struct Sweep {
    directory: TempDir,
}

impl Sweep {
    fn new() -> Sweep {
        Sweep { directory: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// In the directory, so that names alone are typed.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(SLABYARD);
        command.arg("sweep").args(args).current_dir(self.directory.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn done(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout).to_string()
    }

    fn sweep<'a>(&self, output: &'a str) -> Vec<&'a str> {
        [&[TRACE][..], &VARY, &["-o", output]].concat()
    }

    /// Starts one, and waits until its journal has so many rows.
    fn started(&self, output: &str, rows: usize) -> Child {
        let mut command = self.command(&self.sweep(output));
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let journal = self.path(&format!("{output}.part"));
        let deadline = Instant::now() + Duration::from_secs(60);
        while fs::read(&journal).map_or(0, |b| b.iter().filter(|b| **b == b'\n').count()) < rows + 2
        {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it had {rows} rows");
            assert!(Instant::now() < deadline, "no {rows} rows");
            thread::sleep(Duration::from_millis(1));
        }
        child
    }
}

fn is_empty_of_parts(directory: &Path) -> bool {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    names.into_iter().all(|name| {
        let name = name.to_string_lossy();
        !name.ends_with(".part") && !name.starts_with(".slabyard-")
    })
}

/// Killed by SIGKILL again and again, at any moment, it ends with the bytes of a run at once.
#[test]
fn a_killed_sweep_goes_on_and_gives_the_same_bytes() {
    let sweep = Sweep::new();
    for format in ["csv", "parquet"] {
        let (whole, killed) = (format!("whole.{format}"), format!("killed.{format}"));
        sweep.done(&sweep.sweep(&whole));
        for (rows, wait_ms) in [(0, 0), (1, 3), (3, 11), (5, 29), (8, 7)] {
            let mut child = sweep.started(&killed, rows);
            thread::sleep(Duration::from_millis(wait_ms));
            child.kill().unwrap();
            child.wait().unwrap();
            if sweep.path(&killed).exists() {
                break;
            }
        }
        let said = sweep.done(&sweep.sweep(&killed));
        assert!(said.contains("were done before"), "{said}");
        assert!(sweep.bytes(&whole) == sweep.bytes(&killed), "{format}");
        assert!(is_empty_of_parts(sweep.directory.path()));
        let again = sweep.done(&sweep.sweep(&killed));
        assert!(again.contains("12 points, 12 were done before"), "{again}");
    }
}

#[test]
fn one_cpu_and_shards_give_the_same_bytes() {
    let sweep = Sweep::new();
    sweep.done(&sweep.sweep("whole.parquet"));
    let mut one = Command::new("taskset");
    one.args(["-c", &own_cpu(), SLABYARD, "sweep"]).args(sweep.sweep("one.parquet"));
    let output = one.current_dir(sweep.directory.path()).output();
    match output {
        Err(_) => skip("one CPU: there is no taskset"),
        Ok(output) => {
            assert!(output.status.success(), "{}", text(&output.stderr));
            assert!(sweep.bytes("whole.parquet") == sweep.bytes("one.parquet"));
        }
    }
    let parts = ["c.parquet", "a.csv", "b.json"];
    for (part, shard) in parts.iter().zip(["1/3", "2/3", "3/3"]) {
        sweep.done(&[&sweep.sweep(part)[..], &["--shard", shard]].concat());
    }
    sweep.done(&[&["join"], &parts[..], &["-o", "joined.parquet"]].concat());
    assert!(sweep.bytes("whole.parquet") == sweep.bytes("joined.parquet"));
    let missing = sweep.run(&["join", "a.csv", "b.json", "-o", "none.csv"]);
    assert_eq!(missing.status.code(), Some(3));
    assert!(text(&missing.stderr).contains("4 of 12 points are missing: 0, 3, 6, 9; join"));
    assert!(!sweep.path("none.csv").exists());
    let mut damaged = sweep.bytes("c.parquet");
    damaged[40] ^= 1;
    fs::write(sweep.path("c.parquet"), damaged).unwrap();
    let refused = sweep.run(&[&["join"], &parts[..], &["-o", "none.csv"]].concat());
    assert_eq!(refused.status.code(), Some(3));
    assert!(text(&refused.stderr).contains("c.parquet: its checksum: it is damaged"));
}

/// One that this process may run on.
fn own_cpu() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    line.trim().split([',', '-']).next().unwrap().to_owned()
}

#[test]
fn a_signal_ends_it_soon_and_says_how_to_go_on() {
    let sweep = Sweep::new();
    sweep.done(&sweep.sweep("whole.csv"));
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        // Of its own: a journal that is there does not say that the sweep goes on.
        let name = format!("{signal}.csv");
        let child = sweep.started(&name, 1);
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        let sent = Instant::now();
        let output = child.wait_with_output().unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{message}");
        assert!(sent.elapsed() < Duration::from_secs(5));
        let told = format!("points are done and kept in {name}.part");
        assert!(message.contains(&told), "{message}");
        assert!(!sweep.path(&name).exists());
        sweep.done(&sweep.sweep(&name));
        assert!(sweep.bytes(&name) == sweep.bytes("whole.csv"));
    }
}

#[test]
fn the_second_of_two_sweeps_into_one_file_is_refused() {
    let sweep = Sweep::new();
    let mut first = sweep.started("out.csv", 1);
    kill(Pid::from_raw(first.id().cast_signed()), Signal::SIGSTOP).unwrap();
    let second = sweep.run(&sweep.sweep("out.csv"));
    kill(Pid::from_raw(first.id().cast_signed()), Signal::SIGCONT).unwrap();
    assert_eq!(second.status.code(), Some(2));
    assert!(text(&second.stderr).contains("another sweep is writing out.csv"));
    assert!(first.wait().unwrap().success());
    assert!(sweep.path("out.csv").exists());
}

/// A file that may not grow stands for a disk that is full: what was written is kept.
#[test]
fn a_disk_that_fills_loses_nothing() {
    let sweep = Sweep::new();
    sweep.done(&sweep.sweep("whole.csv"));
    let limited = |blocks: &str| {
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh", SLABYARD, "sweep"]).args(sweep.sweep("out.csv"));
        command.current_dir(sweep.directory.path()).output().unwrap()
    };
    // In blocks of 512 bytes: room for the journal's head and some rows.
    let output = limited("8");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(message.contains("cannot write out.csv.part"), "{message}");
    assert!(message.contains("points that are done are kept"), "{message}");
    assert!(!sweep.path("out.csv").exists());
    let kept = sweep.bytes("out.csv.part");
    assert!(kept.ends_with(b"\n") && kept.iter().filter(|b| **b == b'\n').count() > 3);
    let said = sweep.done(&sweep.sweep("out.csv"));
    assert!(said.contains("were done before"), "{said}");
    assert!(sweep.bytes("out.csv") == sweep.bytes("whole.csv"));
}

/// A real one, where we may mount it.
#[test]
fn a_full_file_system_says_so() {
    let sweep = Sweep::new();
    let script = format!(
        "mount -t tmpfs -o size=16k none . && cd . && cd \"$PWD\" || exit 99; \
         '{SLABYARD}' sweep '{TRACE}' --vary max_order=0..3 --vary cpus=1..9 -o out.csv"
    );
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &script]).current_dir(sweep.directory.path());
    match command.output() {
        Ok(output) if output.status.code() != Some(99) && output.status.code() != Some(1) => {
            let message = text(&output.stderr);
            assert_eq!(output.status.code(), Some(3), "{message}");
            assert!(message.contains("free some room on this disk"), "{message}");
            assert!(message.contains("No space left"), "{message}");
        }
        _ => skip("a full file system: none can be mounted here"),
    }
}

/// What is printed at the end: the best points of each machine, and the line of trust that `ask` prints.
#[test]
fn the_end_has_the_best_points_and_a_line_of_trust() {
    let sweep = Sweep::new();
    let said = sweep.done(&sweep.sweep("out.csv"));
    let asked = Command::new(SLABYARD).args(["ask", TRACE]).output().unwrap();
    let asked = text(&asked.stdout).lines().last().unwrap().to_owned();
    assert!(asked.starts_with("trust: ") && said.ends_with(&format!("{asked}\n")), "{said}");
    let again = sweep.done(&sweep.sweep("out.csv"));
    let best = |said: &str| said.split_once("\n\n").unwrap().1.to_owned();
    assert_eq!(best(&again), best(&said), "of a table that is there");
    let json = sweep.done(&[&sweep.sweep("out.csv")[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["trust"][0]["line"], asked);
    let fronts = json["fronts"].as_array().unwrap();
    let machines: Vec<&str> = fronts.iter().map(|it| it["machine"].as_str().unwrap()).collect();
    assert_eq!(machines, ["cpus=4", "cpus=16", "cpus=64"]);
    for front in fronts {
        let point = |nth: &Value| &json["compared"][nth.as_u64().unwrap() as usize];
        let points: Vec<&Value> = front["best"].as_array().unwrap().iter().map(point).collect();
        for two in points.windows(2) {
            let of = |nth: usize, key: &str| two[nth][key].as_f64().unwrap();
            assert!(of(0, "memory_bytes") <= of(1, "memory_bytes"), "{two:?}");
            assert!(of(0, "slow_path_ns") > of(1, "slow_path_ns"), "{two:?}");
        }
        let name = points[0]["name"].as_str().unwrap().split_once(':').unwrap().1;
        assert!(said.lines().any(|line| line.starts_with(&format!("{name} "))), "{name} in {said}");
    }
    let unchecked = sweep.done(&[&sweep.sweep("out.csv")[..], &["--no-check"]].concat());
    assert!(!unchecked.contains("trust: ") && unchecked.contains("best points"), "{unchecked}");
    let joined = sweep.done(&["join", "out.csv", "-o", "joined.csv"]);
    assert_eq!(best(&joined), best(&unchecked));
    // Machines are not chosen between.
    let machines = sweep.done(&[TRACE, "--vary", "cpus=4,16", "-o", "machines.csv"]);
    assert!(machines.contains("\npoints ") && !machines.contains("best points"), "{machines}");
}

#[test]
fn another_sweeps_rows_and_tables_are_not_lost() {
    let sweep = Sweep::new();
    let mut child = sweep.started("out.csv", 1);
    child.kill().unwrap();
    child.wait().unwrap();
    let other = [TRACE, "--vary", "max_order=0", "-o", "out.csv"];
    let refused = sweep.run(&other);
    let message = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{message}");
    assert!(message.contains("this one has vary max_order=0; give another"), "{message}");
    let said = sweep.done(&[&other[..], &["--restart"]].concat());
    assert!(said.starts_with("out.csv: 1 points\n"), "{said}");
    let refused = sweep.run(&sweep.sweep("out.csv"));
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("is not the table of this sweep"));
    let json: Value =
        serde_json::from_str(&sweep.done(&[&other[..], &["--json"]].concat())).unwrap();
    assert_eq!((&json["points"], &json["done_before"]), (&1.into(), &1.into()));
}

#[test]
fn points_are_listed_and_impossible_ones_named() {
    let sweep = Sweep::new();
    let vary = ["--vary", "release=6.12,7.3", "--vary", "cpu_partial=4"];
    let listed = sweep.done(&[&[TRACE][..], &vary, &["--list", "--json"]].concat());
    let json: Value = serde_json::from_str(&listed).unwrap();
    let points = json["points"].as_array().unwrap();
    assert_eq!((points.len(), &points[0]["impossible"]), (2, &Value::Null));
    assert!(points[1]["impossible"].as_str().unwrap().contains("CPU partial lists"));
    let refused = sweep.run(&[&[TRACE][..], &vary, &["-o", "out.json"]].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("smp4.slabtrace:release=7.3+cpu_partial=4: "));
    assert!(!sweep.path("out.json.part").exists());
    sweep.done(&[&[TRACE][..], &vary, &["-o", "out.json", "--skip-impossible"]].concat());
    let table: Value = serde_json::from_slice(&sweep.bytes("out.json")).unwrap();
    assert_eq!((&table[1]["peak_bytes"], &table[0]["impossible"]), (&Value::Null, &Value::Null));
    assert_eq!(table[0]["cpu_partial"], 4);
    assert!(table[1]["impossible"].is_string() && table[0]["peak_bytes"].is_u64());
}

#[test]
fn nonsense_is_refused_with_a_reason() {
    let sweep = Sweep::new();
    let vary = "max_order=0";
    for (args, code, why) in [
        (&[TRACE, "--vary", "max_ordre=0", "-o", "a.csv"][..], 2, "did you mean"),
        (&[TRACE, "--vary", "max_order=3..0", "-o", "a.csv"], 2, "range is empty"),
        (&[TRACE, "--vary", "a=0..999", "--vary", "b=0..999", "-o", "a.csv"], 2, "vary less"),
        (&[TRACE, "--vary", vary, "-o", "a.txt"], 2, "ends in .csv"),
        (&[TRACE, "--vary", vary, "-o", "no/a.csv"], 3, "cannot write no/a.csv.part"),
        (&[TRACE, "--vary", vary, "-o", "a.csv", "--shard", "0/3"], 2, "numbered from 1"),
        (&[TRACE, "/no/such", "--vary", vary, "-o", "a.csv"], 3, "/no/such"),
        (&[TRACE, TRACE, "--vary", vary, "-o", "a.csv"], 2, "the same trace"),
        (&["-", "--vary", vary, "-o", "a.csv"], 2, "not standard input"),
        (&[TRACE, "-o", "a.csv"], 2, "--vary"),
        (&[TRACE, "--vary", vary], 2, "--output"),
        (&["join", "none.csv", "-o", "a.csv"], 3, "none.csv"),
        (&["join", "-o", "a.csv"], 2, "PART"),
    ] {
        let output = sweep.run(args);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
        assert!(message.contains(why), "{args:?}: {message}");
    }
    assert_eq!(fs::read_dir(sweep.directory.path()).unwrap().count(), 0, "nothing is left");
    let csv = sweep.path("load.csv");
    fs::write(&csv, "").unwrap();
    let refused = sweep.run(&["load.csv", "--vary", vary, "-o", "load.csv", "--restart"]);
    assert!(text(&refused.stderr).contains("would write over") && csv.exists());
}

/// What `docs/sweep` has for schedulers, as plain processes: the shards make up the whole.
#[test]
fn the_jobs_of_the_documents_run_as_they_stand() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sweep");
    for (file, variable, numbers) in [
        ("slurm.sbatch", "SLURM_ARRAY_TASK_ID", 1..=3),
        ("kubernetes.yaml", "JOB_COMPLETION_INDEX", 0..=2),
    ] {
        let sweep = Sweep::new();
        fs::copy(TRACE, sweep.path("load.slabtrace")).unwrap();
        let start = TRACE.replace(".slabtrace", ".before.json.zst");
        fs::copy(start, sweep.path("load.before.json.zst")).unwrap();
        let job = fs::read_to_string(docs.join(file)).unwrap();
        let line = |start: &str| {
            let mut lines = job.lines().map(|line| line.trim_start_matches([' ', '#']));
            lines.find(|line| line.starts_with(start)).expect(start).to_owned()
        };
        let sh = |line: &str, number: &str| {
            let bin = Path::new(SLABYARD).parent().unwrap();
            let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
            let mut command = Command::new("sh");
            command.args(["-ec", line]).env("PATH", path).env(variable, number);
            let output = command.current_dir(sweep.directory.path()).output().unwrap();
            assert!(output.status.success(), "{file}: {line}: {}", text(&output.stderr));
        };
        let job_line = line("slabyard sweep load.slabtrace");
        numbers.for_each(|number| sh(&job_line, &number.to_string()));
        sh(&line("slabyard sweep join"), "");
        let (whole, _) = job_line.split_once(" --shard").unwrap();
        sh(&format!("{whole} -o whole.parquet"), "");
        assert!(sweep.bytes("whole.parquet") == sweep.bytes("out.parquet"), "{file}");
    }
}
