//! Who is told what happens on the way to an answer.

/// Who is told what happens on the way to an answer.
pub trait Listener {
    /// What is being done now, which may take long.
    fn stage(&self, what: &str);
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
