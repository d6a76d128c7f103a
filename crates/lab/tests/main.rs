//! The lab's tests in one program, so that the code that they share is compiled and linked once. A
//! test that needs a process of its own starts this program again. `long.rs` counts what the whole
//! process allocates, so it is a program of its own.

mod aliens;
mod array_reaps;
mod check;
mod contention;
mod cpu_slabs;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod created;
mod csv;
mod doubts;
mod fixed_orders;
#[path = "geometry/main.rs"]
mod geometry;
mod known_start;
mod leaks;
mod lists;
mod memory;
mod one_policy;
mod one_policy_slab;
mod order_rule;
mod orders;
mod populations;
#[path = "prepare/main.rs"]
mod prepare;
mod presets;
mod recorded;
mod scale;
mod settings_walk;
mod slab;
mod slab_replay;
mod slob;
mod small;
mod small_board;
mod small_kernels;
mod small_told;
mod to_snapshot;
mod trace;

/// cargo finds no program here by itself: a file that nobody names would never run.
#[test]
fn each_file_is_a_module() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for entry in std::fs::read_dir(directory).expect("the tests") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name");
        let Some(module) = name.strip_suffix(".rs") else { continue };
        let named = include_str!("main.rs").contains(&format!("mod {module};\n"));
        assert!(
            named || ["main", "long"].contains(&module),
            "tests/main.rs does not name {module}"
        );
    }
}
