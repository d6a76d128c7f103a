//! Resident bytes of a process and its descendants, read from `statm`: one short file per process,
//! whereas `smaps_rollup` walks page tables under the lock that the program's page faults take.
//!
//! Invariant: a process that exits while it is read is left out.

use std::fs;

/// Resident bytes of the process and its descendants; pages that they share count in each.
/// `None` once it has ended.
pub fn resident(pid: i32, page_bytes: u64) -> Option<u64> {
    let mut bytes = 0;
    let mut left = vec![pid];
    while let Some(pid) = left.pop() {
        if let Some(pages) = pages(pid) {
            bytes += pages * page_bytes;
        }
        let tasks = fs::read_dir(format!("/proc/{pid}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            // Needs CONFIG_PROC_CHILDREN; without it the one process is all that is seen.
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            left.extend(children.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        }
    }
    // A process that has ended and was not waited for has none.
    (bytes > 0).then_some(bytes)
}

fn pages(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    text.split(' ').nth(1)?.parse().ok()
}

/// The mean of what was seen, each look standing for the time since the one before.
#[derive(Clone, Copy, Debug, Default)]
pub struct MeanUse {
    byte_seconds: f64,
    seconds: f64,
    most: u64,
}

impl MeanUse {
    /// Adds the bytes of a look, and the seconds since the one before.
    pub fn add(&mut self, bytes: u64, seconds: f64) {
        self.byte_seconds += bytes as f64 * seconds;
        self.seconds += seconds;
        self.most = self.most.max(bytes);
    }

    /// The mean; `None` if nobody looked.
    pub fn mean(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.byte_seconds / self.seconds)
    }

    /// The most; 0 if nobody looked.
    pub fn most(&self) -> u64 {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn children_count_and_the_dead_do_not() {
        let own = std::process::id().cast_signed();
        let alone = pages(own).unwrap() * 4096;
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id().cast_signed();
        // Until it has begun.
        while resident(pid, 4096).unwrap() < 100_000 {
            std::thread::yield_now();
        }
        let with = resident(own, 4096).unwrap();
        assert!(with > alone / 2 + 100_000, "{with} {alone}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(resident(pid, 4096), None);
    }

    #[test]
    fn a_look_stands_for_its_time() {
        let mut looks = MeanUse::default();
        assert_eq!((looks.mean(), looks.most()), (None, 0));
        looks.add(100, 1.0);
        looks.add(400, 3.0);
        assert_eq!((looks.mean(), looks.most()), (Some(325.0), 400));
    }
}
