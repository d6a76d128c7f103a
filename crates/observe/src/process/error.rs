//! The reasons why a process cannot be read, or cannot take a request, and what to do about each.

use super::outside::StopOutcome;

/// One reason for each way in which a process cannot be looked at or asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum Error {
    #[error("there is no process {pid}")]
    NoSuchProcess { pid: u32 },
    /// It ended while it was looked at.
    #[error("process {pid} ({program}) has ended")]
    Ended { pid: u32, program: String },
    /// It has ended, and its parent has not yet waited for it.
    #[error("process {pid} ({program}) has ended already: it is a zombie without memory")]
    Zombie { pid: u32, program: String },
    /// It has no memory of its own to read.
    #[error(
        "{pid} ({program}) is a thread of the kernel; the kernel's slabs are shown by \
         `slabyard list kernel`"
    )]
    KernelThread { pid: u32, program: String },
    #[error("the memory of process {pid} ({program}) may not be read: {why}")]
    Denied {
        pid: u32,
        program: String,
        /// Which rule, and what to do.
        why: String,
    },
    /// It runs on another allocator.
    #[error(
        "process {pid} ({program}) does not run on Slabyard; start it with \
         `slabyard run --observable -- ...`"
    )]
    NoYard { pid: u32, program: String },
    #[error(
        "the yard of process {pid} has layout {found}; this slabyard reads {known}; use the \
         slabyard that came with its library"
    )]
    Layout {
        pid: u32,
        /// The version that was found.
        found: u64,
        /// The version that is known.
        known: u64,
    },
    #[error("the yard of process {pid} is damaged: {what}; what it tells cannot be trusted")]
    Damaged { pid: u32, what: String },
    #[error("the memory of process {pid} cannot be read: {source}")]
    Io { pid: u32, source: std::io::Error },
    /// Not served before the deadline.
    #[error(
        "queued: the request waits in process {pid}, which made no slow path; it is done at its \
         next one"
    )]
    Queued { pid: u32 },
    /// Not served before the deadline, and taken back.
    #[error(
        "process {pid} made no slow path in time{}: nothing was changed and nothing waits. {}",
        if *helped {
            ", and its helper thread did not wake: a debugger may hold it"
        } else {
            ""
        },
        advice(*stopped, *helped),
    )]
    NotServed {
        pid: u32,
        /// It has a helper thread.
        helped: bool,
        /// The result of stopping an idle thread.
        stopped: StopOutcome,
    },
    /// A thread serves for long.
    #[error(
        "a thread of process {pid} was stopped and serves the request for more than 10 seconds: it was let \
         go, and serves to the end by itself; what it is waiting for holds the program up as well"
    )]
    UnderWay { pid: u32 },
    /// Somebody else's request was not served before the deadline.
    #[error(
        "another request waits in process {pid}, which made no slow path; this one was not \
         placed: end the command that waits, or ask with a longer --timeout"
    )]
    Busy { pid: u32 },
    /// Its library has no words of samples.
    #[error(
        "process {pid} ({program}) cannot be profiled: its library serves object caches alone, is \
         older than profiles, or runs on another processor than x86-64 and arm64"
    )]
    NoProfile { pid: u32, program: String },
    /// It was asked, and refused.
    #[error("process {pid} ({program}) takes no samples: {why}")]
    NotProfiled {
        pid: u32,
        program: String,
        /// What refuses, with a remedy where there is one.
        why: &'static str,
    },
    /// Somebody else takes its samples.
    #[error("process {pid} is profiled by another command already: end that one, or wait for it")]
    Profiled { pid: u32 },
    /// No cache of that name.
    #[error("process {pid} has no cache {cache}; `slabyard list {pid}` names them")]
    UnknownCache { pid: u32, cache: String },
    /// No tunable of that name.
    #[error("there is no tunable {tunable} {place}; there are: {known}")]
    UnknownTunable {
        tunable: String,
        /// "of a cache" or "of a whole yard".
        place: &'static str,
        /// All that are, in words.
        known: String,
    },
    /// A tunable of what CPUs have of other caches.
    #[error(
        "{cache} of process {pid} has {has}, and so no {tunable}; `slabyard run --engine {} -- \
         PROGRAM` starts a program whose caches have it",
        match tunable.as_str() {
            "cpu_partial" => "slub --set front=cpu-slabs",
            "limit" | "batchcount" | "sharedfactor" => "slab",
            _ => "slub --set front=sheaves",
        },
    )]
    OtherFront {
        pid: u32,
        tunable: String,
        /// What CPUs have of the cache instead.
        has: &'static str,
        cache: String,
    },
    /// A value beyond its bounds.
    #[error("{tunable} cannot be {value}: it goes from {least} to {most}")]
    OutOfRange { tunable: String, value: u64, least: u64, most: u64 },
    /// The process did not know what was asked.
    #[error(
        "process {pid} refuses this request: its engine does not have the tunable or not with this \
         value, or the cache was destroyed meanwhile"
    )]
    Refused { pid: u32 },
    /// It has nothing to look through.
    #[error(
        "no cache of process {pid} has debugging; `slabyard run --slab-debug -- PROGRAM` starts a \
         program that has it"
    )]
    NotDebugged { pid: u32 },
}

/// Why no idle thread served, and what to do.
fn advice(stopped: StopOutcome, helped: bool) -> String {
    let why = match stopped {
        StopOutcome::Unwanted => "It was not stopped, as --no-stop says",
        StopOutcome::None => {
            "None of its threads can be stopped to serve: its library is older, or it has a filter of system \
             calls, or its processor is neither x86-64 nor arm64"
        }
        StopOutcome::Denied => {
            "The system does not let its threads be stopped (ptrace: a debugger has them, Yama, or a \
             container without CAP_SYS_PTRACE)"
        }
        StopOutcome::NoThread => {
            "None of its threads waits in a system call that goes on exactly if it is stopped there to serve \
             (a read, sleep, poll or wait, say)"
        }
        StopOutcome::Taken => "A thread that another command stopped is at a request still",
        StopOutcome::Looked | StopOutcome::Left => {
            "A thread was stopped to serve, and others kept it from that"
        }
        StopOutcome::Foreign => {
            "No thread is stopped to serve where that may call functions that wait for a lock which it has: \
             a cache has a destructor, or debugging, whose reports ask the loader"
        }
    };
    let helper = if helped {
        ""
    } else {
        ". Started with `slabyard run --helper -- PROGRAM`, or with SLABYARD_HELPER=1, it answers at rest, too"
    };
    format!(
        "{why}. Ask while it allocates and frees, or wait for that with a longer --timeout{helper}"
    )
}
