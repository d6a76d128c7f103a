//! Has the kernel leave out the events of the recorder's own BPF runs, before they take room in the
//! buffers.
//!
//! Each run copies its context: `bpf_prog_test_run_syscall` allocates it with `kmalloc`, and frees it
//! before it returns. Filters of the two events drop the calls of that function in the thread that
//! reads the kernel's memory. Invariant: all others stay, as what an interrupt allocates or frees in
//! this thread has another call site. [`super::sieve::RecorderObjects`] drops what has passed.

use super::error::Error;
use super::tracefs::TraceInstance;
use slabyard_observe::kernel::Symbols;
use std::io;
use std::ops::Range;

const FUNCTION: &str = "bpf_prog_test_run_syscall";
const EVENTS: [&str; 2] = ["kmalloc", "kfree"];

/// Where the function lies.
#[derive(Debug)]
pub(super) struct OwnRuns(Option<Range<u64>>);

impl OwnRuns {
    pub(super) fn of(symbols: &Symbols) -> OwnRuns {
        OwnRuns(symbols.range(FUNCTION))
    }

    /// Has an instance leave out what runs in a thread allocate and free from now on.
    ///
    /// # Errors
    /// The kernel hides the function's address, or refuses the filter.
    pub(super) fn leave_out(&self, instance: &TraceInstance, thread: u32) -> Result<(), Error> {
        let hidden = || io::Error::new(io::ErrorKind::NotFound, format!("no {FUNCTION}"));
        let range = self.0.as_ref().ok_or_else(|| Error::at("/proc/kallsyms", hidden()))?;
        let filter = filter(thread, range);
        let set = EVENTS.iter().try_for_each(|event| instance.set(&file(event), &filter));
        if set.is_err() {
            // Never an allocation without its free.
            OwnRuns::record_all(instance);
        }
        Ok(set?)
    }

    /// Has an instance record all again.
    pub(super) fn record_all(instance: &TraceInstance) {
        for event in EVENTS {
            let _ = instance.set(&file(event), "0");
        }
    }
}

fn file(event: &str) -> String {
    format!("events/kmem/{event}/filter")
}

fn filter(thread: u32, function: &Range<u64>) -> String {
    let Range { start, end } = function;
    format!("common_pid != {thread} || call_site < {start:#x} || call_site >= {end:#x}")
}

#[cfg(test)]
mod tests {
    use super::super::tracefs::Tracefs;
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    #[test]
    fn a_filter_drops_one_function_of_one_thread() {
        let text = "ff10 T before\nff20 T bpf_prog_test_run_syscall\nff48 t after\n";
        let OwnRuns(range) = OwnRuns::of(&Symbols::parse(text.into()));
        let told = "common_pid != 7 || call_site < 0xff20 || call_site >= 0xff48";
        assert_eq!(range.map(|range| filter(7, &range)).as_deref(), Some(told));
        let hidden = "0 T bpf_prog_test_run_syscall\n0 T after\n";
        assert!(OwnRuns::of(&Symbols::parse(hidden.into())).0.is_none());
    }

    /// An instance in a directory that has the filters of these events, and what stands in them.
    struct Filters {
        // Before the directory: its end removes the instance's own.
        instance: TraceInstance,
        _root: TempDir,
    }

    impl Filters {
        fn of(events: &[&str]) -> Filters {
            let root = TempDir::new().unwrap();
            fs::create_dir(root.path().join("instances")).unwrap();
            let instance = TraceInstance::create(&Tracefs::at(root.path())).unwrap();
            for event in events {
                fs::create_dir_all(instance.join(&file(event)).parent().unwrap()).unwrap();
                fs::write(instance.join(&file(event)), "none").unwrap();
            }
            Filters { instance, _root: root }
        }

        fn texts(&self) -> Vec<Option<String>> {
            EVENTS.iter().map(|event| self.instance.read(&file(event)).ok()).collect()
        }
    }

    fn of(text: &str) -> Option<String> {
        Some(text.into())
    }

    #[test]
    fn both_events_are_filtered_until_all_is_recorded_again() {
        let filters = Filters::of(&EVENTS);
        OwnRuns(Some(0x10..0x20)).leave_out(&filters.instance, 7).unwrap();
        let filter = filter(7, &(0x10..0x20));
        assert_eq!(filters.texts(), [of(&filter), of(&filter)]);
        OwnRuns::record_all(&filters.instance);
        assert_eq!(filters.texts(), [of("0"), of("0")]);
    }

    #[test]
    fn where_one_event_takes_no_filter_none_is_filtered() {
        for event in EVENTS {
            let filters = Filters::of(&[event]);
            let error = OwnRuns(Some(0x10..0x20)).leave_out(&filters.instance, 7).unwrap_err();
            assert!(error.to_string().contains("/filter: "), "{error}");
            let texts = filters.texts();
            assert!(texts.iter().flatten().all(|text| text == "0"), "{texts:?}");
        }
    }

    #[test]
    fn where_the_function_is_hidden_nothing_is_filtered_and_the_error_says_so() {
        let filters = Filters::of(&EVENTS);
        let error = OwnRuns(None).leave_out(&filters.instance, 7).unwrap_err();
        assert_eq!(error.to_string(), "/proc/kallsyms: no bpf_prog_test_run_syscall");
        assert_eq!(filters.texts(), [of("none"), of("none")]);
    }
}
