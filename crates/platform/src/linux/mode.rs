//! The mode of a process: how its fast path selects a row.

/// How CPUs are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// 1: the C library's registration.
    Library,
    /// 2: our own registration.
    Own,
    /// 3: a private slot for each thread.
    Slots,
}
