//! Probes of calls that take or free slab objects, of which the kernel has no tracepoint.
//!
//! A probe is a line in tracefs's `kprobe_events` (`Documentation/trace/kprobetrace.rst`), whose
//! arguments the kernel finds by its own description of its functions (BTF), since 6.6. Then it is an
//! event like others, in a group with the name of our instance. A kernel without kprobes, or one that
//! does not know a function, records without them.
//!
//! [`super::tracefs`] removes the probes of recorders that were killed; [`super::kmem`] decodes the
//! events. Invariant: probes are removed after the instance that records them, as the kernel keeps
//! those in use.

use super::tracefs::{self, TraceInstance, Tracefs, group_of, name, remove_probes};
use crate::event::EventKind;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::sync::Arc;

/// A probe: its event, what it is, and the lines that set it, of which the first that the kernel
/// takes is used: functions were renamed.
struct Probe {
    event: &'static str,
    kind: EventKind,
    lines: &'static [&'static str],
}

const PROBES: [Probe; 5] = [
    Probe {
        event: "kfree_rcu",
        kind: EventKind::KfreeRcu,
        // By name: up to 6.2 the second argument is an offset in the object.
        lines: &["kvfree_call_rcu ptr=ptr:x64"],
    },
    Probe {
        event: "prefill_sheaf",
        kind: EventKind::PrefillSheaf,
        lines: &["kmem_cache_prefill_sheaf name=s->name:string bytes_req=size:u64"],
    },
    Probe {
        event: "return_sheaf",
        kind: EventKind::ReturnSheaf,
        lines: &["kmem_cache_return_sheaf name=s->name:string bytes_req=sheaf->size:u64"],
    },
    Probe {
        event: "alloc_bulk",
        kind: EventKind::AllocBulk,
        lines: &[
            "kmem_cache_alloc_bulk_noprof name=s->name:string bytes_req=size:u64",
            "kmem_cache_alloc_bulk name=s->name:string bytes_req=size:u64",
        ],
    },
    Probe {
        event: "free_bulk",
        kind: EventKind::FreeBulk,
        lines: &["kmem_cache_free_bulk name=s->name:string bytes_req=size:u64"],
    },
];

/// Probes that are set. Removed when dropped.
pub(crate) struct Probes {
    tracefs: Arc<Tracefs>,
    /// The file of each event, and what it is.
    pub(super) events: Vec<(String, &'static str, EventKind)>,
    /// Calls that the kernel has and does not let us probe.
    pub(super) lacking: Vec<&'static str>,
}

impl Probes {
    /// None are set.
    pub(super) fn new(tracefs: Arc<Tracefs>) -> Probes {
        Probes { tracefs, events: Vec::new(), lacking: Vec::new() }
    }

    /// Sets those that the kernel takes.
    ///
    /// # Errors
    /// The kernel has no probes, or does not let us.
    pub(super) fn set(&mut self) -> io::Result<()> {
        let path = self.tracefs.root().join(tracefs::PROBES);
        let mut file = OpenOptions::new().append(true).open(path)?;
        let group = group_of(&name());
        for Probe { event, kind, lines } in &PROBES {
            let mut is_refused = false;
            for line in *lines {
                match file.write_all(format!("p:{group}/{event} {line}\n").as_bytes()) {
                    Ok(()) => {
                        let path = format!("events/{group}/{event}");
                        self.events.push((path, event, *kind));
                        is_refused = false;
                        break;
                    }
                    // Of a function that is not there nothing is lost.
                    Err(error) => is_refused |= error.kind() != io::ErrorKind::NotFound,
                }
            }
            self.lacking.extend(is_refused.then_some(*event));
        }
        Ok(())
    }

    /// Has an instance record them.
    pub(super) fn enable(&self, instance: &TraceInstance) -> Result<(), super::error::Error> {
        for (file, ..) in &self.events {
            instance.set(&format!("{file}/enable"), "1")?;
        }
        Ok(())
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        remove_probes(&self.tracefs, &name());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn probes_are_set_in_a_group_of_the_recorder_and_removed() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(tracefs::PROBES);
        fs::write(&file, "p:kprobes/other vfs_read\n").unwrap();
        let mut probes = Probes::new(Arc::new(Tracefs::at(root.path())));
        probes.set().unwrap();
        let group = group_of(&name());
        let set: Vec<String> = PROBES.iter().map(|it| format!("{group}/{}", it.event)).collect();
        let files: Vec<_> = probes.events.iter().map(|(file, ..)| file.as_str()).collect();
        assert_eq!(files, set.iter().map(|it| format!("events/{it}")).collect::<Vec<_>>());
        assert!(probes.lacking.is_empty());
        let lines = fs::read_to_string(&file).unwrap();
        drop(probes);
        let removed: String = set.iter().map(|it| format!("-:{it}\n")).collect();
        assert_eq!(fs::read_to_string(&file).unwrap(), lines + &removed);
    }

    #[test]
    fn a_kernel_without_probes_has_none_set() {
        let root = tempfile::tempdir().unwrap();
        let mut probes = Probes::new(Arc::new(Tracefs::at(root.path())));
        assert_eq!(probes.set().unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(probes.events.is_empty() && probes.lacking.is_empty());
        drop(probes);
        assert!(!root.path().join(tracefs::PROBES).exists());
    }
}
