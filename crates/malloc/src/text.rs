//! Text without allocating: a buffer on the stack, written to a file descriptor.

use core::fmt::{self, Write};

unsafe extern "C" {
    fn write(fd: i32, bytes: *const u8, n: usize) -> isize;
}

/// A line under way. What does not fit is cut off.
pub(crate) struct Line {
    buffer: [u8; 512],
    len: usize,
}

impl Line {
    pub(crate) fn new() -> Self {
        Line { buffer: [0; 512], len: 0 }
    }

    /// The line so far.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// Writes the line to standard error.
    pub(crate) fn to_stderr(&self) {
        // SAFETY: the buffer is ours; a failed write has nowhere to be told.
        unsafe { write(2, self.buffer.as_ptr(), self.len) };
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let n = text.len().min(self.buffer.len() - self.len);
        self.buffer[self.len..self.len + n].copy_from_slice(&text.as_bytes()[..n]);
        self.len += n;
        Ok(())
    }
}

/// Writes one line to standard error, beginning with `slabyard: `.
macro_rules! say {
    ($($arguments:tt)*) => {{
        let mut line = $crate::text::Line::new();
        let _ = core::fmt::Write::write_fmt(
            &mut line,
            format_args!("slabyard: {}\n", format_args!($($arguments)*)),
        );
        line.to_stderr();
    }};
}
pub(crate) use say;
