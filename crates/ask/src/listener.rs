//! Who is told what happens on the way to an answer.

use std::sync::{Mutex, PoisonError};

/// Who is told what happens on the way to an answer.
pub trait Listener: Sync {
    /// What is being done now, which may take long.
    fn stage(&self, what: &str);
    /// How much of a stage of several parts is done.
    fn done(&self, done: usize, all: usize) {
        self.stage(&format!("replaying, {done} of {all} done"));
    }
    /// True if nobody waits for the answer any more: work of several parts ends.
    fn is_stopped(&self) -> bool {
        false
    }
    /// It is done.
    fn clear(&self);
    /// What people should know beside the answer.
    fn say(&self, text: &str);
}

/// Nobody listens.
pub struct Silent;

impl Listener for Silent {
    fn stage(&self, _: &str) {}
    fn clear(&self) {}
    fn say(&self, _: &str) {}
}

/// Keeps what is said.
#[derive(Default)]
pub struct Notes(Mutex<Vec<String>>);

impl Notes {
    /// What was said, in its order.
    #[must_use]
    pub fn into_texts(self) -> Vec<String> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener for Notes {
    fn stage(&self, _: &str) {}
    fn clear(&self) {}

    fn say(&self, text: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text.into());
    }
}
