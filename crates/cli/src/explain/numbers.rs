//! What a name means that tables, reports and findings show: a counter, a setting, a finding of the
//! doctor. The texts are those of the tables that these are made from.

use slabyard_abi::counters::{FIELDS, Field, FieldKind, TOTALS, Unit};
use slabyard_abi::pressure::PressureCounter;
use slabyard_abi::stats::Counter;
use slabyard_doctor::rules::RULES;
use slabyard_kernels::settings::{ENGINE_OPTIONS, OPTIONS};

/// All paragraphs about a name, as several tables may have it.
pub fn of_name(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    let sum = "which is the sum of its parts";
    found.extend(numbers(FIELDS, name, "a cache", &format!("a part of total_objects, {sum}")));
    found.extend(numbers(
        TOTALS,
        name,
        "a yard or a kernel",
        &format!("a part of committed, {sum}"),
    ));
    found.extend(counts(Counter::ALL, name, "slow paths of a cache"));
    found.extend(counts(PressureCounter::ALL, name, "memory pressure on a process"));
    found.dedup();
    for option in OPTIONS.iter().chain(ENGINE_OPTIONS) {
        let key = option.env.strip_prefix("SLABYARD_").unwrap_or(option.env).to_lowercase();
        if key == name || option.env == name {
            let help = option.help();
            found.push(format!(
                "{key}: an option, `--set {key}=VALUE` of `slabyard run` or the variable {}\n  \
                 {help}\n  more in docs/tuning.md",
                option.env
            ));
        }
    }
    for rule in RULES.iter().filter(|rule| rule.id == name) {
        found.push(format!(
            "{name}: a finding of `slabyard doctor`\n  measured: {}\n  why: {}\n  remedy: {}\n  \
             more in docs/doctor.md",
            rule.measures, rule.why, rule.remedy
        ));
    }
    found
}

/// Every counter, for the test that each has a paragraph.
#[cfg(test)]
pub fn names() -> impl Iterator<Item = &'static str> {
    let numbers = FIELDS.iter().chain(TOTALS).map(|field| field.name);
    numbers.chain(Counter::NAMES.iter().copied()).chain(PressureCounter::NAMES.iter().copied())
}

fn numbers<'a>(
    fields: &'a [Field],
    name: &'a str,
    whose: &'a str,
    part: &'a str,
) -> impl Iterator<Item = String> + 'a {
    fields.iter().filter(move |field| field.name == name).map(move |field| {
        let kind = match field.kind {
            FieldKind::Attribute => "fixed",
            FieldKind::Tunable => "a tunable, which `slabyard set` changes",
            FieldKind::Gauge => "goes up and down",
            FieldKind::Counter => "a counter, which grows only",
        };
        let part = if field.part { format!("; {part}") } else { String::new() };
        format!(
            "{name}: of {whose}, {}; {kind}{part}\n  {}\n  more in docs/counters.md",
            unit(field.unit),
            field.help
        )
    })
}

fn counts<'a, T>(
    counters: &'a [(T, &str, &str)],
    name: &'a str,
    of: &'a str,
) -> impl Iterator<Item = String> + 'a {
    let rows = counters.iter().filter(move |(_, row, _)| *row == name);
    rows.map(move |(_, _, help)| {
        format!("{name}: a counter of {of}\n  {help}\n  more in docs/counters.md")
    })
}

const fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "bytes",
        Unit::Objects => "objects",
        Unit::Slabs => "slabs",
        Unit::Order => "a power of two of pages",
        Unit::Runs => "runs of pages",
        Unit::Sheaves => "sheaves",
        Unit::Share => "a share of all",
        Unit::Hundredths => "a ratio",
        Unit::Flag => "0 or 1",
        Unit::Milliseconds => "milliseconds",
        Unit::Count => "a number",
        Unit::Text => "a name",
    }
}
