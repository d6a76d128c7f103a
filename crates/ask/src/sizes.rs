//! Parsers of sizes, as people type them.

use slabyard_kernels::settings::bytes;

/// Bytes of an object or a page: `192`, `4k`, `64K`, `1M`.
pub fn size(text: &str) -> Result<u32, String> {
    let size = bytes(text.as_bytes()).ok().and_then(|size| u32::try_from(size).ok());
    size.ok_or_else(|| "expected bytes, such as 192, 4k or 1M".into())
}

/// Bytes of a memory or a file: `65536`, `512K`, `40M`, `2G`.
pub fn memory_size(text: &str) -> Result<u64, String> {
    let size = bytes(text.as_bytes()).ok().filter(|size| *size > 0);
    size.ok_or_else(|| "expected bytes, such as 512K, 40M or 2G".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, want) in [("192", Some(192)), ("4k", Some(4096)), ("64K", Some(65536))] {
            assert_eq!(size(text).ok(), want, "{text}");
        }
        for text in ["", "k", "-1", "+1", "4kk", "4.5k", "4096M", "1e3", "ü"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_of_memory_are_read_with_their_units() {
        for (text, bytes) in [("1", Some(1)), ("40M", Some(40 << 20)), ("2g", Some(2 << 30))] {
            assert_eq!(memory_size(text).ok(), bytes, "{text}");
        }
        for text in ["", "0", "M", "-1", "+1", "1.5G", "99999999999G"] {
            assert!(memory_size(text).is_err(), "{text}");
        }
    }
}
