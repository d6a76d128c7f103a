//! `slabyard explain`: from a message, a number or a finding to its paragraph.

use crate::stage::{SLABYARD, text};
use std::process::{Command, Output};

fn slabyard(args: &[&str]) -> Output {
    Command::new(SLABYARD).args(args).output().unwrap()
}

#[test]
fn a_failure_ends_with_the_code_that_explains_it() {
    let failed = slabyard(&["list", "4194305"]);
    assert_eq!(failed.status.code(), Some(3));
    let said = text(&failed.stderr);
    let command =
        said.trim_end().strip_suffix(']').and_then(|said| said.rsplit_once(" [slabyard "));
    let (_, command) = command.unwrap_or_else(|| panic!("no code: {said}"));
    let explained = slabyard(&command.split(' ').collect::<Vec<_>>());
    assert_eq!(explained.status.code(), Some(0));
    assert!(text(&explained.stdout).starts_with("E0302: no such process\n"));
}

#[test]
fn a_line_of_a_library_leads_to_its_code() {
    let line = "slabyard: free(0x7f12c0a01240): double free of an object of cache malloc-64";
    let words: Vec<&str> = line.split(' ').collect();
    for args in [&["explain", line][..], &[&["explain"], &words[..]].concat()] {
        assert!(text(&slabyard(args).stdout).starts_with("E0101: double free\n"));
    }
}

#[test]
fn a_name_of_several_tables_has_a_paragraph_of_each() {
    let said = slabyard(&["explain", "parked_cpu"]);
    let said = text(&said.stdout);
    assert!(said.contains("parked_cpu: of a cache, objects;"), "{said}");
    assert!(said.contains("parked_cpu: of a yard or a kernel, bytes;"), "{said}");
    assert!(said.contains("more in docs/counters.md"), "{said}");
}

#[test]
fn what_is_not_known_is_said_and_all_codes_are_listed() {
    let unknown = slabyard(&["explain", "no", "tide"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).starts_with("slabyard: nothing is known of `no tide`: "));
    let all = slabyard(&["explain"]);
    assert!(text(&all.stdout).contains("  E0101  double free\n"));
}
