//! Limits that hold in both directions: a number above its limit is a breach, and so is a limit
//! well above its number, so that no number that fell rises again. `ci/floors --lower` lowers the
//! limits in the table.

use crate::rules::{Limit, PATH, Row, Rules};
use std::collections::BTreeMap;

/// What a rule found, behind its name.
pub type Finding = (&'static str, Vec<String>);
pub type Findings = Vec<Finding>;

/// What was counted: how many of one kind each concept has.
pub type Counts = BTreeMap<String, usize>;

impl Limit {
    /// What the design demands for this concept.
    fn wanted(&self, row: Row) -> usize {
        row.wanted.or(self.every).unwrap_or(0)
    }

    /// The most that a concept may have.
    pub fn most(&self, concept: &str) -> Option<usize> {
        let Some(row) = self.rows.get(concept) else { return self.every };
        Some(row.allowed.unwrap_or_else(|| self.wanted(*row)))
    }

    /// What the row is to allow at this number, with room to grow by half of the slack; nothing if
    /// the number is within what is wanted.
    fn fitting(&self, row: Row, number: usize) -> Option<usize> {
        (number > self.wanted(row)).then_some(number + self.slack / 2)
    }
}

/// The breaches of a limit: `kind` is its name in the table.
pub fn breaches_of_limit(kind: &'static str, rules: &Rules, counts: &Counts) -> Finding {
    match rules.limits.get(kind) {
        Some(limit) => (kind, breaches(kind, limit, counts)),
        None => (kind, vec![format!("{PATH}: no limit for {kind}")]),
    }
}

fn breaches(kind: &str, limit: &Limit, counts: &Counts) -> Vec<String> {
    let mut breaches = Vec::new();
    for (concept, &number) in counts {
        let Some(most) = limit.most(concept) else { continue };
        if number > most {
            breaches.push(format!("{kind} of {concept}: {number}, at most {most} are allowed"));
        }
    }
    for (concept, allowed, _) in lower(limit, counts) {
        breaches.push(format!(
            "{kind} of {concept}: {}, but {PATH} still allows {allowed}: ci/floors --lower",
            counts.get(concept).unwrap_or(&0),
        ));
    }
    breaches
}

/// The rows that allow more than there is: what each allows, and what it is to allow.
fn lower<'a>(
    limit: &'a Limit,
    counts: &'a Counts,
) -> impl Iterator<Item = (&'a str, usize, Option<usize>)> {
    limit.rows.iter().filter_map(|(concept, row)| {
        let allowed = row.allowed?;
        let number = counts.get(concept).copied().unwrap_or(0);
        let new = limit.fitting(*row, number);
        let falls = new.is_none() || number + limit.slack < allowed;
        falls.then_some((concept.as_str(), allowed, new))
    })
}

/// The text of the table with each row of this kind lowered to what was counted.
pub fn lowered(text: &str, kind: &str, limit: &Limit, counts: &Counts) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let header = format!("[limits.{kind}.rows]");
    let Some(start) = lines.iter().position(|line| line.trim() == header) else {
        return text.to_owned();
    };
    for (concept, allowed, new) in lower(limit, counts) {
        let row = limit.rows[concept];
        let quoted = format!("\"{concept}\" = ");
        let bare = format!("{concept} = ");
        let end = (start + 1..lines.len()).find(|&at| lines[at].starts_with('['));
        let found = (start + 1..end.unwrap_or(lines.len()))
            .find(|&at| lines[at].starts_with(&quoted) || lines[at].starts_with(&bare));
        let Some(at) = found else { continue };
        let old = format!("allowed = {allowed}");
        match new {
            Some(new) => lines[at] = lines[at].replace(&old, &format!("allowed = {new}")),
            None if row.wanted.is_some() => {
                lines[at] = lines[at].replace(&format!(", {old}"), "").replace(&old, "");
            }
            None => drop(lines.remove(at)),
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
[limits.methods]
every = 60

[limits.methods.rows]
\"slabyard::Yard\" = { allowed = 90 }
\"slabyard::Heap\" = { wanted = 70, allowed = 80 }

[limits.lines.rows]
slabyard = { allowed = 90 }
";

    fn limit() -> Limit {
        let table: toml::Table = TABLE.parse().unwrap();
        table["limits"]["methods"].clone().try_into().unwrap()
    }

    fn of(yard: usize, heap: usize, other: usize) -> Counts {
        let counts =
            [("slabyard::Yard", yard), ("slabyard::Heap", heap), ("slabyard::Other", other)];
        counts.map(|(name, number)| (name.to_owned(), number)).into()
    }

    fn found(counts: &Counts) -> Vec<String> {
        breaches("methods", &limit(), counts)
    }

    #[test]
    fn a_number_may_be_what_is_allowed_and_no_more() {
        assert_eq!(found(&of(90, 80, 60)), [""; 0]);
        assert_eq!(
            found(&of(91, 81, 61)),
            [
                "methods of slabyard::Heap: 81, at most 80 are allowed",
                "methods of slabyard::Other: 61, at most 60 are allowed",
                "methods of slabyard::Yard: 91, at most 90 are allowed",
            ]
        );
    }

    #[test]
    fn a_number_that_fell_lowers_the_table() {
        assert_eq!(
            found(&of(89, 80, 0)),
            ["methods of slabyard::Yard: 89, but ci/rules.toml still allows 90: ci/floors --lower"]
        );
        let text = lowered(TABLE, "methods", &limit(), &of(89, 70, 0));
        assert!(text.contains("\"slabyard::Yard\" = { allowed = 89 }"), "{text}");
        assert!(text.contains("\"slabyard::Heap\" = { wanted = 70 }"), "{text}");
        let text = lowered(TABLE, "methods", &limit(), &of(60, 80, 0));
        assert!(!text.contains("slabyard::Yard"), "{text}");
        assert!(text.contains("slabyard = { allowed = 90 }"), "another table: {text}");
    }

    #[test]
    fn a_concept_that_is_gone_leaves_the_table() {
        assert_eq!(found(&Counts::new()).len(), 2);
    }

    #[test]
    fn with_slack_the_table_follows_later() {
        let limit = Limit { slack: 5, ..limit() };
        assert_eq!(breaches("methods", &limit, &of(85, 75, 0)), [""; 0]);
        assert_eq!(breaches("methods", &limit, &of(84, 74, 0)).len(), 2);
        let text = lowered(TABLE, "methods", &limit, &of(80, 80, 0));
        assert!(text.contains("\"slabyard::Yard\" = { allowed = 82 }"), "{text}");
    }

    #[test]
    fn a_kind_without_a_limit_is_a_breach() {
        let (_, breaches) = breaches_of_limit("methods", &Rules::default(), &of(1, 1, 1));
        assert_eq!(breaches, ["ci/rules.toml: no limit for methods"]);
    }
}
