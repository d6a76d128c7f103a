//! What is said of a kernel that cannot be recorded.

use crate::failure::Failure;
use anyhow::anyhow;
use slabyard_lab::record::Error;

/// Says what a kernel that does not let us needs.
pub fn told(error: Error) -> Failure {
    match error {
        Error::NotAllowed { .. } => {
            anyhow!(error).context("recording a kernel takes root: sudo slabyard record ...").into()
        }
        error => anyhow!(error).context("cannot record the kernel").into(),
    }
}
