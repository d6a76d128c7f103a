//! Why a question has no answer.

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for cannot be, or does not go together.
    #[error("{0}")]
    Usage(String),
    /// Anything else, with its context.
    #[error(transparent)]
    Cannot(#[from] anyhow::Error),
}

impl Error {
    /// [`Error::Usage`], in the words of another error.
    pub fn usage(error: impl std::fmt::Display) -> Error {
        Error::Usage(error.to_string())
    }
}
