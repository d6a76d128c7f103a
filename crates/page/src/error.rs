//! What keeps a page from being made.

use thiserror::Error;

/// Why a page cannot be made: an error of the program that describes it.
#[derive(Debug, Error)]
pub enum Error {
    /// The data is no JSON, or a chart does not become JSON.
    #[error("the page's data: {0}")]
    Json(#[from] serde_json::Error),
    /// A path that leads nowhere.
    #[error("the page's data has nothing at {0}")]
    NotFound(String),
    /// Two paths of one series that find unlike numbers of values.
    #[error("{0} and {1} find unlike numbers of values")]
    UnlikeLengths(String, String),
    /// A value that a chart cannot draw.
    #[error("{0}: {1} is not what the chart draws there")]
    NoNumber(String, String),
}
