//! Exceptions and warnings, with the command's words.

use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyUserWarning};

create_exception!(
    slabyard,
    Error,
    PyException,
    "Something cannot be read or done; the command's exit code 3."
);
create_exception!(
    slabyard,
    UsageError,
    Error,
    "What was asked for cannot be, or does not go together; the command's exit code 2."
);
create_exception!(
    slabyard,
    Note,
    PyUserWarning,
    "What people should know beside a result; the command says it on standard error."
);

/// The exception of an error.
pub fn raised(error: slabyard_ask::Error) -> PyErr {
    match error {
        slabyard_ask::Error::Usage(text) => UsageError::new_err(text),
        slabyard_ask::Error::Cannot(error) => cannot(error),
    }
}

/// The exception of what cannot be read or done.
pub fn cannot(error: impl Into<anyhow::Error>) -> PyErr {
    // With all its causes, as the command prints it.
    Error::new_err(format!("{:#}", error.into()))
}
