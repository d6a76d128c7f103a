//! A zone that workers share, like nginx's: a master creates a yard in shared memory and forks
//! workers, which store readings in it. One worker is killed repeatedly, at any instruction, and
//! the others continue.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
#[unsafe(no_mangle)]
fn image() -> bool {
    use core::fmt::Write;
    slabyard_firmware::start::Serial.write_str("processes are Linux's\n").is_ok()
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    match zone::works() {
        Some(cut) => {
            println!("a zone outlived 200 deaths, {cut} of them in a call");
            std::process::ExitCode::SUCCESS
        }
        None => std::process::ExitCode::FAILURE,
    }
}

#[cfg(target_os = "linux")]
mod zone {
    use slabyard_fixed::{CacheId, CacheSettings, Robust, Settings, Slub, Yard};
    use std::ffi::c_int;

    type Zone = Yard<Robust, Slub>;

    unsafe extern "C" {
        fn fork() -> c_int;
        fn kill(pid: c_int, signal: c_int) -> c_int;
        fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    }

    /// Allocates, writes, looks, frees, until it is killed.
    fn work(zone: &Zone, cache: CacheId, number: u64) -> ! {
        loop {
            if let Some(object) = zone.alloc(cache) {
                let word = object.cast::<u64>();
                // SAFETY: an object of 64 bytes, this worker's until it frees it.
                unsafe {
                    word.write(number);
                    assert_eq!(word.read(), number);
                    zone.free(cache, object);
                }
            }
        }
    }

    /// How many calls were cut short.
    pub fn works() -> Option<u32> {
        let zone = Zone::share(1 << 20, Settings::DEFAULT).ok()?;
        let cache = zone.create("readings", CacheSettings { size: 64, align: 8 })?;
        // SAFETY: a child makes calls of the zone alone.
        let begin = |number| match unsafe { fork() } {
            0 => work(zone, cache, number),
            pid => pid,
        };
        let mut workers = [0, 1, 2].map(begin);
        for nth in 0..203 {
            std::thread::sleep(std::time::Duration::from_micros(500));
            let pid = workers[nth % 3];
            // SAFETY: our own child.
            unsafe {
                kill(pid, 9);
                waitpid(pid, std::ptr::null_mut(), 0);
            }
            if nth < 200 {
                workers[nth % 3] = begin(nth as u64);
            }
        }
        let counts = zone.verify().ok()?;
        // Each death lost an object at most.
        (counts.live <= 203).then(|| zone.cut_calls())
    }
}
