//! The clock of Linux; its coarse reading needs no system call where there is a vDSO (vdso(7)).

use super::on_linux::{Counting, OnLinux};
use crate::Time;

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
}

fn clock(which: i32) -> [u64; 2] {
    let mut time = [0i64; 2];
    // SAFETY: the buffer has the size of a timespec; the call cannot fail.
    unsafe { clock_gettime(which, &raw mut time) };
    time.map(i64::cast_unsigned)
}

impl<C: Counting> Time for OnLinux<C> {
    fn now_ms(&self) -> u64 {
        const CLOCK_MONOTONIC_COARSE: i32 = 6;
        let [seconds, nanoseconds] = clock(CLOCK_MONOTONIC_COARSE);
        seconds * 1000 + nanoseconds / 1_000_000
    }

    fn now_ns(&self) -> u64 {
        const CLOCK_MONOTONIC: i32 = 1;
        if self.is_sealed() {
            return self.now_ms() * 1_000_000;
        }
        let [seconds, nanoseconds] = clock(CLOCK_MONOTONIC);
        seconds * 1_000_000_000 + nanoseconds
    }
}
