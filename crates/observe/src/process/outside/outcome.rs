//! The result of an attempt to let a stopped thread serve a request.

/// What came of an attempt to have a stopped thread serve a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopOutcome {
    /// It was not tried: who asks does not want it.
    #[default]
    Unwanted,
    /// The process offers it not: its library is older, it has a filter of system calls, or
    /// we do not know its processor.
    None,
    /// The system does not let us stop a thread.
    Denied,
    /// No thread is in a call that continues after it.
    NoThread,
    /// A thread that was stopped by another command has the memory still.
    Taken,
    /// A thread looked, or could not now because of what others do.
    Looked,
    /// Serving may call functions of the program.
    Foreign,
    /// A thread serves for so long that it was let go: it serves to the end by itself.
    Left,
}
