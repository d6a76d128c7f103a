use super::*;
use core::cell::UnsafeCell;

/// What one thread has at a time.
struct Row(UnsafeCell<u32>);

// SAFETY: whether one thread has it at a time is what Miri judges.
unsafe impl Sync for Row {}

/// Who takes a slot that another thread gave back comes after what that one did with its row.
#[test]
fn a_row_passes_with_its_slot() {
    const THREADS: usize = 3;
    let rows = [const { Row(UnsafeCell::new(0)) }; THREADS];
    assert!(nr_rows(None, 4096) >= THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..8 {
                    let slot = take().expect("a slot for each thread") as usize;
                    // SAFETY: the row is its thread's.
                    unsafe { *rows[slot].0.get() += 1 };
                    free(slot);
                }
            });
        }
    });
    let used = rows.into_iter().map(|row| row.0.into_inner());
    assert_eq!(used.sum::<u32>(), 8 * THREADS as u32);
}
