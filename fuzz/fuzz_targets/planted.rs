//! A reader with a planted bug, which the fuzzer must find: a count of a trace's events is taken for
//! the size of a table before it is checked.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let [b'S', b'L', b'A', b'B', low, high, rest @ ..] = bytes {
        let events = usize::from(u16::from_le_bytes([*low, *high]));
        if events > 0 {
            let _last = rest[events - 1];
        }
    }
});
