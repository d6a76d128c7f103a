//! Formats text without allocating: into a buffer on the stack, which is written to a file
//! descriptor.

use core::fmt::{self, Write};

unsafe extern "C" {
    fn write(fd: i32, bytes: *const u8, n: usize) -> isize;
    #[link_name = "abort"]
    safe fn c_abort() -> !;
}

/// Ends the process by SIGABRT.
pub fn abort() -> ! {
    c_abort()
}

/// A line under way. What does not fit is cut off.
pub struct Line {
    buffer: [u8; 512],
    len: usize,
}

impl Line {
    /// An empty line.
    #[must_use]
    pub fn new() -> Self {
        Line { buffer: [0; 512], len: 0 }
    }

    /// The line so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// Writes the line to standard error.
    pub fn to_stderr(&self) {
        // SAFETY: the buffer is ours; a failed write cannot be reported.
        unsafe { write(2, self.buffer.as_ptr(), self.len) };
    }
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}

impl Line {
    /// Adds as many bytes as there is room for; returns the others.
    fn add<'a>(&mut self, text: &'a [u8]) -> &'a [u8] {
        let room = &mut self.buffer[self.len..];
        let (now, later) = text.split_at(text.len().min(room.len()));
        room[..now.len()].copy_from_slice(now);
        self.len += now.len();
        later
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }

    // As it would be without. But then each library had a copy, and a second table of the three.
    fn write_char(&mut self, c: char) -> fmt::Result {
        self.write_str(c.encode_utf8(&mut [0; 4]))
    }

    fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> fmt::Result {
        fmt::write(self, text)
    }
}

/// Text of any length, written to a file in parts.
pub struct Output {
    fd: i32,
    part: Line,
}

impl Output {
    /// Text for a file.
    #[must_use]
    pub fn new(fd: i32) -> Self {
        Output { fd, part: Line::new() }
    }

    /// Writes what is still kept; false if the file takes no more.
    pub fn flush(&mut self) -> bool {
        let (mut at, end) = (0, self.part.len);
        while at < end {
            // SAFETY: a part of our own buffer.
            let n = unsafe { write(self.fd, self.part.buffer[at..end].as_ptr(), end - at) };
            match usize::try_from(n) {
                Ok(n) if n > 0 => at += n,
                _ => return false,
            }
        }
        self.part.len = 0;
        true
    }
}

impl Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = self.part.add(text.as_bytes());
        while !rest.is_empty() {
            if !self.flush() {
                return Err(fmt::Error);
            }
            rest = self.part.add(rest);
        }
        Ok(())
    }

    // As above.
    fn write_char(&mut self, c: char) -> fmt::Result {
        self.write_str(c.encode_utf8(&mut [0; 4]))
    }

    fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> fmt::Result {
        fmt::write(self, text)
    }
}

/// What [`say`] does. Apart from its callers, so that none of them has the line on its stack while
/// it does something else.
#[cold]
#[inline(never)]
pub fn say_line(text: fmt::Arguments<'_>) {
    let mut line = Line::new();
    let _ = writeln!(line, "slabyard: {text}");
    line.to_stderr();
}

/// Writes one line to standard error, beginning with `slabyard: `.
#[macro_export]
macro_rules! say {
    ($($arguments:tt)*) => {{
        $crate::text::say_line(format_args!($($arguments)*));
    }};
}
pub use say;
