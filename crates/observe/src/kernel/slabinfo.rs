//! `/proc/slabinfo`, version 2: one line per cache, the newest cache first.
//!
//! ```text
//! dentry  269619 269619  192  21    1 : tunables 0 0 0 : slabdata 12839 12839 0
//! name    active total   size objs  pages             slabs: active, all
//! ```
//!
//! A merged cache is listed once, under the name of its first creator.

/// The numbers of one line of slabinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub name: String,
    /// By the names of [`crate::fields`].
    pub numbers: [(&'static str, u64); 6],
}

/// Rows, and the lines that are none.
pub(super) fn parse(text: &str) -> (Vec<Row>, Vec<&str>) {
    let (mut rows, mut strange) = (Vec::new(), Vec::new());
    let lines =
        text.lines().filter(|l| !l.starts_with("slabinfo - version") && !l.starts_with('#'));
    for line in lines {
        match row(line) {
            Some(row) => rows.push(row),
            None => strange.push(line),
        }
    }
    (rows, strange)
}

fn row(line: &str) -> Option<Row> {
    // From the right: a name may hold spaces and colons.
    let (rest, slabdata) = line.rsplit_once(": slabdata")?;
    let (rest, _tunables) = rest.rsplit_once(": tunables")?;
    let slabs = slabdata.split_whitespace().nth(1)?.parse().ok()?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (name, numbers) = words.split_at_checked(words.len().checked_sub(5)?)?;
    let number = |at: usize| numbers.get(at)?.parse::<u64>().ok();
    let order = number(4).filter(|pages| pages.is_power_of_two())?.ilog2();
    let row = Row {
        name: super::attribute::printable(&name.join(" ")),
        numbers: [
            ("objects", number(0)?),
            ("total_objects", number(1)?),
            ("slab_size", number(2)?),
            ("objs_per_slab", number(3)?),
            ("order", order.into()),
            ("slabs", slabs),
        ],
    };
    (!row.name.is_empty()).then_some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "slabinfo - version: 2.1\n# name  <active_objs> : tunables : slabdata\n";

    #[test]
    fn a_line_is_read_by_its_columns() {
        let text = format!(
            "{HEAD}kmalloc-1k 16 32 1024 16 4 : tunables 0 0 0 : slabdata 2 3 0\n\
             two words: x 1 2 8 512 1 : tunables 0 0 0 : slabdata 1 1 0\n"
        );
        let (rows, strange) = parse(&text);
        assert!(strange.is_empty());
        let numbers = rows[0].numbers.map(|(_, n)| n);
        assert_eq!((rows[0].name.as_str(), numbers), ("kmalloc-1k", [16, 32, 1024, 16, 2, 3]));
        assert_eq!(rows[1].name, "two words: x");
    }

    #[test]
    fn other_lines_are_given_back() {
        for line in [
            "x 1 2 3 : tunables 0 0 0 : slabdata 1 1 0",
            "x 1 2 8 512 3 : tunables 0 0 0 : slabdata 1 1 0",
            "x 1 2 8 512 1 : tunables 0 0 0",
            "1 2 8 512 1 : tunables 0 0 0 : slabdata 1 1 0",
            "x 1 2 8 -1 1 : tunables 0 0 0 : slabdata 1 1 0",
        ] {
            assert_eq!(parse(line), (vec![], vec![line]));
        }
    }
}
