use super::*;

/// Who finds the reservation of an address finds what it is, and no other one that is half written.
#[test]
fn a_reservation_that_is_found_is_whole() {
    let reservations = Reservations::new();
    let begin = |nth: usize| (RESERVATIONS - nth) << 20;
    let mapped = |nth: usize| (nth + 1) << 12;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for nth in 0..RESERVATIONS {
                let end = begin(nth) + (1 << 20);
                assert!(reservations.remember(begin(nth), end, mapped(nth), Use::Table));
            }
        });
        scope.spawn(|| {
            for nth in (0..RESERVATIONS).cycle().take(10 * RESERVATIONS) {
                if let Some(found) = reservations.reservation(begin(nth)) {
                    let mapped_end = found.mapped_end.load(Ordering::Relaxed);
                    assert_eq!(mapped_end, begin(nth) + mapped(nth));
                    assert_eq!(found.table_bytes.load(Ordering::Relaxed), mapped(nth));
                }
                std::thread::yield_now();
            }
        });
    });
}
