//! Programs with more privileges than their caller: their environment is controlled by the caller,
//! and the library reads none of it. They are linked with the library, which has the same effect as
//! naming it in the OS's preload file.
//!
//! Only root can create such a program, and only on a file system that permits it.

use crate::process_runner::{library, tests};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const NOBODY: u32 = 65534;
const SET_USER_ID: u32 = 0o4755;
const SET_GROUP_ID: u32 = 0o2755;
const PLAIN: u32 = 0o755;

/// A directory that everybody may enter, with the program in it; it goes at the end.
struct ProgramDir {
    directory: PathBuf,
}

impl ProgramDir {
    /// `None` where it cannot be made, which is said.
    fn new(name: &str) -> Option<ProgramDir> {
        // SAFETY: no argument, no memory.
        if unsafe { geteuid() } != 0 {
            println!("skipped: it takes root to make a set-user-id program");
            return None;
        }
        let directory =
            std::env::temp_dir().join(format!("slabyard-secure.{name}.{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        fs::set_permissions(&directory, Permissions::from_mode(0o755)).expect("its rights");
        let place = ProgramDir { directory };
        let copy = place.at("libslabyard_malloc.so");
        fs::copy(library(), &copy).expect("a copy of the library");
        fs::set_permissions(&copy, Permissions::from_mode(0o755)).expect("its rights");
        let directory = place.directory.display();
        // For this directory: such a program takes no path from its environment.
        let compiled = Command::new("cc")
            .arg(tests().join("secure/program.c"))
            .arg("-o")
            .arg(place.at("program"))
            .arg(format!("-L{directory}"))
            .args(["-Wl,--no-as-needed", "-l:libslabyard_malloc.so"])
            .arg(format!("-Wl,--disable-new-dtags,-rpath,{directory}"))
            .status();
        let Ok(compiled) = compiled else {
            println!("skipped: cc is not installed");
            return None;
        };
        assert!(compiled.success(), "the program does not build");
        Some(place)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Runs the program with this mode as nobody.
    fn run(&self, mode: u32, arguments: &[&str], variables: &[(&str, &Path)]) -> Output {
        let program = self.at("program");
        fs::set_permissions(&program, Permissions::from_mode(mode)).expect("its rights");
        Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(variables.iter().copied())
            .current_dir("/")
            .uid(NOBODY)
            .gid(NOBODY)
            .output()
            .expect("the program runs")
    }

    /// True if the kernel gives the program the privileges that its mode says.
    fn is_honoured(&self, mode: u32) -> bool {
        let output = self.run(mode, &[], &[]);
        assert!(output.status.success(), "{output:?}");
        let honoured = output.stdout.starts_with(b"secure 1");
        if !honoured {
            println!("skipped: {} honours no set-user-id", self.directory.display());
        }
        honoured
    }
}

impl Drop for ProgramDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

unsafe extern "C" {
    fn geteuid() -> u32;
}

/// Runs `check` with each mode, and whether the caller's environment is to be heard in it.
fn each_mode(name: &str, check: impl Fn(&ProgramDir, u32, bool)) {
    let Some(place) = ProgramDir::new(name) else { return };
    check(&place, PLAIN, true);
    for mode in [SET_USER_ID, SET_GROUP_ID] {
        if place.is_honoured(mode) {
            check(&place, mode, false);
        }
    }
}

#[test]
fn a_report_is_written_with_the_callers_rights_alone() {
    each_mode("report", |place, mode, heard| {
        let file = place.at("secret");
        fs::write(&file, "root's").expect("a file");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("its rights");
        let output = place.run(mode, &[], &[("SLABYARD_REPORT", &file)]);
        assert!(output.status.success(), "mode {mode:o}: {output:?}");
        assert_eq!(fs::read_to_string(&file).expect("the file"), "root's", "mode {mode:o}");
        // A program that asked gets a message that the report is not possible, if it may ask.
        assert_eq!(!output.stderr.is_empty(), heard, "mode {mode:o}: {output:?}");
    });
}

#[test]
fn options_are_the_callers_only_with_the_callers_rights() {
    const SIGABRT: i32 = 6;
    each_mode("options", |place, mode, heard| {
        let variables =
            [("SLABYARD_ON_ERROR", Path::new("report")), ("SLABYARD_NONSENSE", Path::new("1"))];
        let output = place.run(mode, &["twice"], &variables);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.contains("NONSENSE"), heard, "mode {mode:o}: {output:?}");
        assert!(said.contains("double free"), "mode {mode:o}: {output:?}");
        let aborted = output.status.signal() == Some(SIGABRT);
        assert_eq!(aborted, !heard, "mode {mode:o}: {output:?}");
    });
}
