//! The table of messages: each has a code that stays, what is printed, what it means, and what to do.
//!
//! A message belongs to the first row whose `says` has a part of it. The libraries print their text
//! alone, without a code, as each byte of them is in every program; the command ends its own with the
//! code. Neighbours: `docs/messages.md` is made of these rows (`SLABYARD_BLESS=1 cargo test -p
//! slabyard-cli explain`). Invariants, which the tests beside hold against the sources: each part is
//! printed somewhere, and each failure of the command that says more than others' words has a row.
//! What is typed wrongly (exit code 2) has none: it names the word and what is possible.

/// A message, or several that mean the same.
#[derive(Debug)]
pub struct Message {
    /// A letter and a number, whose second digit is the group, a code is never used for something else.
    pub code: &'static str,
    /// What is wrong, in a few words.
    pub title: &'static str,
    /// What is printed, in part.
    pub says: &'static [&'static str],
    /// Sentences for a reader who has it on his screen: the cause, and the next command.
    pub means: &'static str,
}

impl Message {
    /// The digit of its group.
    pub fn group(&self) -> char {
        self.code.chars().nth(2).unwrap_or('0')
    }

    /// What it means, a sentence a line.
    pub fn sentences(&self) -> String {
        self.means.replace(". ", ".\n")
    }
}

/// Groups of codes, by their first digit but the 0.
pub const GROUPS: [(char, &str); 6] = [
    ('1', "Misuse that a library found"),
    ('2', "What a library cannot do"),
    ('3', "Processes"),
    ('4', "Kernels"),
    ('5', "Files"),
    ('6', "Replays and sweeps"),
];

/// The row of a code, whatever its letters' case.
pub fn of_code(code: &str) -> Option<&'static Message> {
    MESSAGES.iter().find(|message| message.code.eq_ignore_ascii_case(code))
}

/// The row of a printed text.
pub fn of_text(text: &str) -> Option<&'static Message> {
    MESSAGES.iter().find(|message| message.says.iter().any(|part| text.contains(part)))
}

/// All of them, in the order of their codes.
pub const MESSAGES: &[Message] = &[
    Message {
        code: "E0101",
        title: "double free",
        says: &["double free", "Object already free"],
        means: "The program freed an object that is free already. The second free may be far from the first: \
                run it again by `slabyard run --slab-debug`, which prints who allocated it, who freed it \
                first, and who freed it now. `SLABYARD_ON_ERROR=report` ignores the free and goes on.",
    },
    Message {
        code: "E0102",
        title: "a pointer into an object",
        says: &["interior pointer", "misaligned pointer", "Invalid object pointer"],
        means: "A free, realloc or the like got an address inside of an object or a block, or inside of a slab \
                and of no object. Free the address that was allocated; a base class without a virtual \
                destructor, or a pointer that was advanced, are the usual causes.",
    },
    Message {
        code: "E0103",
        title: "a pointer of somebody else",
        says: &["invalid pointer, not from this allocator"],
        means: "The address is of the stack, of static memory, of a mapping of the program's own, of another \
                allocator, or was never allocated. If a part of the program is linked statically with its own \
                malloc, memory must be freed by the part that allocated it.",
    },
    Message {
        code: "E0104",
        title: "use after free",
        says: &["use after free", "Poison overwritten", "write to free memory"],
        means: "Freed memory was written to, or passed to realloc or malloc_usable_size. The report prints who \
                allocated and freed it where debugging recorded that (`slabyard run --slab-debug`, FZPU); the \
                bytes that differ are shown. Another write may have damaged other memory before.",
    },
    Message {
        code: "E0105",
        title: "a wrong size",
        says: &["wrong size"],
        means: "A sized free named another size than the object's. The memory was freed by its real size, so \
                nothing is damaged; it is reported once a size class. In C++ it is a `delete` by a wrong type, \
                mostly a base class without a virtual destructor.",
    },
    Message {
        code: "E0106",
        title: "a write past an object",
        says: &[
            "Redzone overwritten",
            "adding overwritten",
            "Free page overwritten",
            "Freepointer corrupt",
        ],
        means: "Bytes beside an object, which nobody owns, were changed: a write past its end or before its \
                begin. `Redzone` is directly beside it, `padding` behind that. It was found at a free or a check \
                of all objects, so the write was earlier: `slabyard validate PID` checks at a chosen moment.",
    },
    Message {
        code: "E0107",
        title: "a wrong function to free with",
        says: &["wrong function for memory of"],
        means: "Memory of one family of functions (malloc, new, new[], a cache) was freed by that of another. \
                The name behind `of` is who allocated it.",
    },
    Message {
        code: "E0108",
        title: "a wrong cache",
        says: &[
            "wrong cache, ",
            "no cache, but some other pointer",
            "a cache is missing",
            "\" was destroyed",
            "a sheaf is missing",
            "a pool is missing",
            "a cache of kmalloc's, which stays",
        ],
        means: "A function of object caches got an object of another cache, or in place of a cache what is none: \
                NULL, a destroyed one, or another pointer. The message names the function and both caches.",
    },
    Message {
        code: "E0109",
        title: "a cache is destroyed with objects in it",
        says: &["; the cache stays", "Objects remaining on slabyard_cache_destroy()"],
        means: "Objects are allocated that nobody freed: the cache stays, so that they remain valid. With \
                `SLABYARD_DEBUG=U,NAME` each is listed with who allocated it.",
    },
    Message {
        code: "E0110",
        title: "the heap is damaged",
        says: &["verify at exit: ", "verify: "],
        means: "The allocator's own tables do not agree with one another. Something wrote to them, or the \
                allocator has a bug; `slabyard run --slab-debug` finds most writes. If it finds none, report it \
                (SECURITY.md says how).",
    },
    Message {
        code: "E0111",
        title: "a reader waits for itself",
        says: &["the caller is in a section itself, and would wait for ever"],
        means: "The function waits until all readers have left, and was called by one. Leave the section first, \
                or free later by `slabyard_free_rcu`.",
    },
    Message {
        code: "E0201",
        title: "an option is ignored",
        says: &["is ignored", "are ignored", "is no option here"],
        means: "A variable `SLABYARD_...` has a value that does not parse or fit, or that this engine or library \
                does not have; its default holds. `slabyard run --help` lists keys and values, docs/tuning.md \
                what each does.",
    },
    Message {
        code: "E0202",
        title: "an option is not possible here",
        says: &["is not possible here"],
        means: "The machine or the library lacks what the option needs: `libslabyard_malloc.so` has the engine \
                `slub` alone, the modes need restartable sequences. The program runs with what the message \
                names, or the default.",
    },
    Message {
        code: "E0203",
        title: "a thread of the library is missing",
        says: &[
            "thread cannot be made",
            "pressure cannot be made",
            "no key is left",
            " not watched",
        ],
        means: "The helper or the watch of memory pressure did not start: the system gave no thread, no file or \
                no key, or does not have the trigger (PSI, cgroup files). The program runs without it; free pages \
                then go back only while it allocates.",
    },
    Message {
        code: "E0204",
        title: "no memory",
        says: &[
            "no memory for the allocator's own tables",
            "operator new: out of memory",
            "no memory for the rings",
        ],
        means: "The system refused memory: a limit (`ulimit -v`, a cgroup), overcommit, or the number of mappings \
                (`vm.max_map_count`). An allocation then fails as the C standard says.",
    },
    Message {
        code: "E0205",
        title: "no report",
        says: &["report cannot be ", "no report: ", "no directory for temporary files"],
        means: "The numbers at the end of a program could not be written or read. The program was not changed by \
                that. A program that is linked statically or has more rights than its caller does not load the \
                library; one that is killed leaves the last look that was taken (`slabyard snapshot PID`).",
    },
    Message {
        code: "E0206",
        title: "a cache that must be made cannot be",
        says: &["the program asked to stop where this cache cannot be made"],
        means: "The program created a cache with a flag that ends it where that fails (SLAB_PANIC). The line \
                before says why it failed.",
    },
    Message {
        code: "E0301",
        title: "the process is not on Slabyard",
        says: &["does not run on Slabyard", "holds no yard", "only a process can be asked"],
        means: "Only a process that runs on the library shows its caches. Start it by `slabyard run --observable \
                -- PROGRAM`. Of any other process `slabyard doctor PID` says where its memory is, except inside \
                of its heap.",
    },
    Message {
        code: "E0302",
        title: "no such process",
        says: &[
            "there is no process",
            "has ended",
            "is a thread of the kernel",
            "is neither `kernel` nor the id",
        ],
        means: "The source is none that can be looked at: `kernel`, the id of a process that lives, or a file. \
                Threads of the kernel use the kernel's slabs: `slabyard list kernel`.",
    },
    Message {
        code: "E0303",
        title: "the process may not be read",
        says: &["may not be read", "permission denied"],
        means: "The kernel lets no process read another's memory without the right to trace it (ptrace, Yama). \
                Run the command as root, or start the program by `slabyard run --observable`, which lets its \
                own user look.",
    },
    Message {
        code: "E0304",
        title: "another version",
        says: &["has layout", "use a newer one", "this build reads up to"],
        means: "The file or process is of a version that this command does not read. Readers read all earlier \
                versions of files: a newer command helps. Of a process use the command that came with its library.",
    },
    Message {
        code: "E0305",
        title: "what the process shows is damaged",
        says: &[
            "the yard of process",
            "the yard in ",
            "nothing to read at",
            "the memory of process",
        ],
        means: "The tables that a process publishes make no sense, or went away while they were read. Look again; \
                if it is the same, the program wrote over them: `slabyard run --slab-debug` finds such writes.",
    },
    Message {
        code: "E0306",
        title: "the request was not served",
        says: &[
            "made no slow path",
            "serves the request for more than",
            "the request was taken back",
            "another request waits",
        ],
        means: "A process serves `shrink`, `set` and `validate` at its next slow path, or at once by a helper \
                (`slabyard run --helper`). This one made none in time, and no thread could be stopped to serve. \
                Nothing was changed unless the message says that it waits.",
    },
    Message {
        code: "E0307",
        title: "no such cache, tunable or field",
        says: &[
            "has no cache",
            "there is no tunable",
            ", and so no ",
            "it goes from",
            "refuses this request",
            "has debugging; ",
            "no such cache has",
            "unknown field",
            "no slow path is counted",
            "tells their sums",
            "has no look",
        ],
        means: "What is asked for is not there, or not in this engine. `slabyard list SOURCE` names the caches, \
                `slabyard set --help` the tunables, `slabyard list --help` the fields; the message says by which \
                options a program has it.",
    },
    Message {
        code: "E0308",
        title: "the process cannot be profiled",
        says: &["cannot be profiled", "takes no samples", "is profiled by another command"],
        means: "A profile needs the malloc library on x86-64 or arm64 with room for its samples, and one \
                command at a time. `slabyard run --profile FILE` profiles from the start.",
    },
    Message {
        code: "E0309",
        title: "the library is not found",
        says: &[
            "not found; install the package",
            "no folder for ",
            " is a folder",
            ": no such file",
            "cannot be preloaded",
            "where this command is",
        ],
        means: "`slabyard run` preloads a library that lies beside the command, or where `SLABYARD_LIB` says. \
                A command that cargo installed writes its own into the user's cache folder (`XDG_CACHE_HOME`). \
                The message names the places that were tried.",
    },
    Message {
        code: "E0310",
        title: "the compared program failed",
        says: &["the program is not ready", "stopped by "],
        means: "A run of `compare` did not end as the first did, or was stopped. The message has the program's \
                last lines; `--show-output` and `--output DIR` show all, `--ready` and `--timeout` are for servers.",
    },
    Message {
        code: "E0401",
        title: "the kernel shows this to root only",
        says: &["to root only", "takes root", "this kernel shows no slab memory", "as root"],
        means: "`/proc/slabinfo`, `/sys/kernel/slab`, tracefs and BPF are for root. Run the command by sudo; in a \
                container they must be mounted and permitted. `slabyard snapshot kernel -o FILE`, run by root \
                once, makes a file that anybody can read.",
    },
    Message {
        code: "E0402",
        title: "the kernel lacks something",
        says: &[
            "this kernel has no",
            "does not describe its structures",
            "bpf(2) was refused",
            "kernels from 5.12 on tell",
            "has no memory for buffers",
            "what lies on the caches' lists",
            "the kernel's memory at",
            "ring buffer makes no sense",
            "is not there: this kernel",
        ],
        means: "What was asked for needs an option of the kernel, named in the message (CONFIG_TRACING, \
                CONFIG_DEBUG_INFO_BTF, CONFIG_SLUB_STATS), a newer kernel, or memory for the recorder. The rest of \
                the command's answers needs none of them.",
    },
    Message {
        code: "E0403",
        title: "the kernel cannot be set so",
        says: &["what can be set in this kernel", "the kernel refuses"],
        means: "Not every attribute of a cache can be written, and from 7.0 on few can. The message lists those \
                of this kernel; others are boot parameters, which `slabyard boot` and `ask` can try.",
    },
    Message {
        code: "E0501",
        title: "a file is damaged or cut off",
        says: &[
            "damaged",
            "truncated",
            "cut off",
            "checksum",
            "makes no sense",
            "make no sense",
            "the file of",
            "a chunk is missing",
            "names index",
            "comes twice",
            "`end` ",
            "is not KEY=NUMBER",
            "has no name",
            "version is not a number",
            "lines after",
            "it is not text",
            "cannot read on",
            "what is in it can be used with --partial",
            "has two rows",
            "a point beyond the last",
        ],
        means: "The file's bytes are not those that were written: a full disk, a copy that stopped, a writer that \
                was killed. Copy or take it again; `--partial` takes what is left of a trace.",
    },
    Message {
        code: "E0502",
        title: "a file of another kind",
        says: &[
            "is not a snapshot",
            "not a trace",
            "is no timeline",
            "not a report",
            "is not a core file",
            "is the core file of a",
            "it is no JSON",
            "it is no snapshot",
            "not a load",
            "not a CSV",
            "not have the columns",
            "columns; a row has",
            "column `",
            "bytes in a line",
            "the file is empty",
            "holds an empty snapshot",
            "no kmem event",
            "tells of no moment",
            "is no file",
            "no cache of it has a row",
            "larger than",
        ],
        means: "The command reads snapshots, timelines, traces, core files, and texts such as slabinfo; it knows \
                them by their content, not by their names. docs/formats.md and docs/trace-format.md describe each.",
    },
    Message {
        code: "E0503",
        title: "not in this file",
        says: &[
            "holds no dump",
            "holds no such dump",
            "no trace",
            "are not of one source",
            "name the older one first",
        ],
        means: "A file may hold several snapshots (FILE#DUMP), and two files may not belong together. The message \
                names what the file has.",
    },
    Message {
        code: "E0504",
        title: "a file cannot be read or written",
        says: &[
            "cannot write",
            "cannot read",
            "cannot listen",
            "cannot lock",
            "is being written by another process",
            "and goes on with these alone",
            "changed while the sweep ran",
        ],
        means: "The system's reason stands at the end of the message. A timeline and a sweep have one writer at a \
                time, and go on in the same file only with what they began with.",
    },
    Message {
        code: "E0601",
        title: "the trace or snapshot cannot be replayed",
        says: &[
            "different machines",
            "the snapshot cannot be used",
            "does not tell its page size",
            "has pages of",
            "traces can be put together",
            "does not tell",
            "does not name its kernel",
            "cannot tell the page frame",
            "more than can be laid out",
            "has other slabs in the dump",
            "can be told apart",
            "take the snapshot again",
            "a page shift of",
            "has pages of order",
            "the trace is too long",
            "more names, or longer ones",
            "needs more pages",
            "does not fit into a slab",
            "has no slab; give",
            "is not known, or none that a kernel has",
            "bytes an object, and its objects are",
            "boot parameter",
            "is no kernel version",
            "older than the oldest preset",
            "which are numbered from 0",
            "already at that time",
            "a machine needs one",
            "changes nothing: which caches share slabs",
        ],
        means: "A replay begins with a snapshot that was taken just before the trace on the same machine \
                (`--start`, or NAME.before.json.zst beside NAME.slabtrace), by rules and on a machine that it can \
                follow. `slabyard record` makes both; docs/record.md says what a recording by perf needs.",
    },
    Message {
        code: "E0602",
        title: "shards do not make a sweep",
        says: &[
            "join the files of all shards",
            "join each shard once",
            "of different sweeps",
            "a row of another sweep",
        ],
        means: "`slabyard sweep join` takes each shard of one sweep once, each of which must have ended. The same \
                command goes on where a shard was stopped.",
    },
    Message {
        code: "E0603",
        title: "a fault of the lab",
        says: &[
            "this is a bug in the model",
            "lost its basis",
            "the page's data",
            "unlike numbers of values",
            "what the chart draws",
        ],
        means: "The command found its own answer wrong. Please report it with the trace, or with what \
                `slabyard trace anonymise` leaves of it.",
    },
];
