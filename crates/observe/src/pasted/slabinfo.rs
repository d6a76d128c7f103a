//! A copy of `/proc/slabinfo`, whole or in part, with or without its heading.
//!
//! Neighbour: [`crate::kernel`] knows the columns.

use super::found::{Outcome, Pasted};
use super::lines::{self, Line};
use crate::kernel::slabinfo::{HEADING, Row, Version};

pub(super) fn read(lines: &[Line<'_>], pasted: &mut Pasted) -> Outcome {
    let headings: Vec<usize> =
        (0..lines.len()).filter(|at| lines[*at].text.trim_start().starts_with(HEADING)).collect();
    let begin = headings.first().copied();
    let end = headings.get(1).copied().unwrap_or(lines.len());
    let version = begin.and_then(|at| Version::parse(lines[at].text));
    if let (Some(at), None) = (begin, version) {
        let what = lines::shown(lines[at].text);
        return Outcome::Damaged(format!("line {} has no version: {what}", lines[at].number));
    }
    let version = version.unwrap_or_default();
    let (rows, strange) = rows(&lines[..end], begin.map_or(0, |at| at + 1), version);
    if rows.is_empty() {
        let Some(at) = begin else { return Outcome::Absent };
        let what = match strange.first() {
            Some(line) => format!("line {} is {}", line.number, lines::shown(line.text)),
            None => "there is nothing".into(),
        };
        let heading = lines[at].number;
        return Outcome::Damaged(format!("behind its heading in line {heading} {what}"));
    }
    for row in rows {
        let mut cache = pasted.cache(&row.name);
        row.numbers.iter().for_each(|(name, value)| cache.set(*name, *value));
        pasted.snapshot.caches.push(cache);
    }
    if let Some(why) = lines::strange(&strange) {
        pasted.miss("slabinfo", why);
    }
    if let Some(second) = headings.get(1) {
        let second = lines[*second].number;
        let why = "another begins there, and one is read; save it as a file of its own for `diff`";
        pasted.miss(&format!("slabinfo from line {second} on"), why);
    }
    Outcome::Read
}

/// The rows from a line on, and the lines among them that are none.
fn rows<'a>(lines: &[Line<'a>], begin: usize, version: Version) -> (Vec<Row>, Vec<Line<'a>>) {
    let (mut rows, mut strange, mut pending) = (Vec::new(), Vec::new(), Vec::new());
    let is_ended = begin > 0 && version == Version::V1;
    let mut at = begin;
    while at < lines.len() {
        if let Some((row, used)) = lines::joined(lines, at, |line| row(version, begin, line)) {
            rows.push(row);
            strange.append(&mut pending);
            at += used;
            continue;
        }
        let line = lines[at];
        let text = line.text.trim_start();
        // The names of columns, which a mail may have wrapped.
        if !text.is_empty() && !text.starts_with(['#', '<', ':']) {
            // The first behind the last row is a row that was cut, if it looks like one.
            let is_next = rows.is_empty() || pending.is_empty();
            if (!rows.is_empty() && is_next && looks_cut(text)) || (rows.is_empty() && begin > 0) {
                strange.push(line);
            } else if !rows.is_empty() {
                pending.push(line);
            }
            if is_ended && !rows.is_empty() {
                break;
            }
        }
        at += 1;
    }
    (rows, strange)
}

/// Version 1 has no words by which its rows are told from other tables: they need a heading.
fn row(version: Version, begin: usize, line: &str) -> Option<Row> {
    (version != Version::V1 || begin > 0).then(|| version.row(line.trim())).flatten()
}

/// A name and a number, as a row begins.
fn looks_cut(text: &str) -> bool {
    let mut words = text.split_whitespace();
    words.next().is_some_and(|name| !name.ends_with(['#', '$', ':']))
        && words.next().is_some_and(|word| word.parse::<u64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use crate::snapshot::Snapshot;

    const HEAD: &str = "slabinfo - version: 2.1\n# name            <active_objs> <num_objs>\n";
    const ROW: &str = "dentry 269600 269619  192   21    1 : tunables    0    0    0 : slabdata  12839  12839      0\n";
    const FILP: &str =
        "filp 4400 4416  256   32    2 : tunables    0    0    0 : slabdata    138    138      0\n";

    fn names(snapshot: &Snapshot) -> Vec<&str> {
        snapshot.caches.iter().map(|cache| cache.name.as_str()).collect()
    }

    #[test]
    fn a_table_is_read_with_and_without_its_heading_and_in_a_mail() {
        let plain = format!("{HEAD}{ROW}{FILP}");
        for text in [
            plain.clone(),
            format!("{ROW}{FILP}"),
            plain.replace('\n', "\r\n"),
            plain.lines().map(|line| format!("> > {line}\n")).collect(),
            format!(
                "Hello,\n\nthis is 1 of 2 boxes\n# cat /proc/slabinfo\n{plain}# \n-- \nbye 12 34\n"
            ),
        ] {
            let found = read(&text, 7).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
            assert_eq!(names(&found), ["dentry", "filp"], "{text}");
            assert_eq!(found.missing, [], "{text}");
            assert_eq!(found.machine.page_bytes, Some(4096));
            assert_eq!(found.caches[0].exact("slabs"), Some(12839));
            assert_eq!(found.caches[0].value("live").unwrap().bounds(), Some((0, 269_600)));
            assert_eq!(
                (found.taken_at_ms, &found.source.formats[..]),
                (7, &["slabinfo".into()][..])
            );
        }
    }

    #[test]
    fn wrapped_lines_are_joined_wherever_they_break() {
        let words: Vec<&str> = ROW.split_whitespace().collect();
        for at in 1..words.len() {
            let (a, b) = words.split_at(at);
            let text = format!("{HEAD}{FILP}{}\n{}\n{FILP}", a.join(" "), b.join(" "));
            let found = read(&text, 0).unwrap();
            assert_eq!(names(&found), ["filp", "dentry", "filp#2"], "{text}");
            assert_eq!(found.missing, [], "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let cut = format!("{HEAD}{FILP}{}", &ROW[..30]);
        let found = read(&cut, 0).unwrap();
        assert_eq!(names(&found), ["filp"]);
        assert!(
            found.missing[0].why.starts_with("line 4 is no row of it: `dentry 269600"),
            "{:?}",
            found.missing
        );
        let between = format!("{HEAD}{FILP}dentry many 3\n{ROW}");
        let found = read(&between, 0).unwrap();
        assert_eq!(found.missing[0].why, "line 4 is no row of it: `dentry many 3`");
        let error = format!("{:?}", read(&format!("{HEAD}dentry many 3\n"), 0));
        assert!(
            error.contains("behind its heading in line 1 line 3 is `dentry many 3`"),
            "{error}"
        );
        assert!(format!("{:?}", read("slabinfo - version: x\n", 0)).contains("no version"));
        let error = format!("{:?}", read("\nno such thing\n", 0));
        assert!(
            error.contains("slabtop") && error.contains("line 2 is `no such thing`"),
            "{error}"
        );
    }

    #[test]
    fn of_two_tables_the_first_is_read_and_the_second_named() {
        let found = read(&format!("{HEAD}{ROW}\n{HEAD}{FILP}"), 0).unwrap();
        assert_eq!(names(&found), ["dentry"]);
        assert_eq!(found.missing[0].what, "slabinfo from line 5 on");
    }

    #[test]
    fn linux_2_4_needs_its_heading() {
        let row = "dentry_cache 5100 5130 128 170 171 1\n";
        let found = read(&format!("slabinfo - version: 1.1\n{row}and 2 more\n"), 0).unwrap();
        assert_eq!(found.caches[0].exact("objs_per_slab"), Some(30));
        assert!(read(row, 0).is_err());
    }
}
