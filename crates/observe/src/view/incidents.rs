//! Prints what went wrong, as a kernel's log reported it, below a list.

use super::cell;
use crate::incident::{Incident, SiteRole};
use crate::snapshot::Snapshot;
use std::io::{self, Write};

/// Callers of a site that are printed.
const MOST_CALLERS: usize = 8;

/// Writes each of [`Snapshot::incidents`] under an empty line: its first line, what it is about, and
/// a line a site.
pub(super) fn write(out: &mut dyn Write, snapshot: &Snapshot) -> io::Result<()> {
    for incident in &snapshot.incidents {
        writeln!(out, "\n{}", cell::clean(&incident.text))?;
        let about = about(incident);
        if !about.is_empty() {
            writeln!(out, "  {}", about.join(", "))?;
        }
        for site in &incident.sites {
            let role = match site.role {
                SiteRole::Allocated => "allocated in",
                SiteRole::Freed => "freed in",
                SiteRole::Reported => "reported in",
            };
            let told = [
                site.pid.map(|pid| format!("process {pid}")),
                site.cpu.map(|cpu| format!("CPU {cpu}")),
                site.age_jiffies.map(|age| format!("{age} jiffies before")),
            ];
            let told: Vec<String> = told.into_iter().flatten().collect();
            let by =
                if told.is_empty() { String::new() } else { format!(" ({})", told.join(", ")) };
            writeln!(out, "  {role} {}{by}", cell::clean(&site.function))?;
            let callers = site.stack.iter().filter(|caller| **caller != site.function);
            for caller in callers.take(MOST_CALLERS) {
                writeln!(out, "    {}", cell::clean(caller))?;
            }
        }
    }
    Ok(())
}

/// What a report says beside its first line.
fn about(incident: &Incident) -> Vec<String> {
    let named = |name: &str, value: &Option<String>| {
        value.as_deref().map(|value| format!("{name} {}", cell::clean(value)))
    };
    let all = [
        named("program", &incident.program),
        named("cache", &incident.cache),
        incident.order.map(|order| format!("order {order}")),
        incident.min_order.map(|order| format!("least order of a slab {order}")),
    ];
    all.into_iter().flatten().collect()
}
