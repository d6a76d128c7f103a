//! How long objects of a site live that are freed: counts by the power of two of nanoseconds, and
//! the age before which 99 of 100 were freed.

/// Powers of two: the last is about 18 minutes and more.
const POWERS: usize = 41;

/// Freed objects by their age.
#[derive(Default)]
pub(super) struct Lifetimes {
    /// Short at the sites that free at once, which are most.
    by_power: Vec<u64>,
}

impl Lifetimes {
    pub(super) fn add(&mut self, age_ns: u64, objects: u64) {
        let power = (age_ns.max(1).ilog2() as usize).min(POWERS - 1);
        if self.by_power.len() <= power {
            self.by_power.resize(power + 1, 0);
        }
        self.by_power[power] += objects;
    }

    /// The age before which 99 of 100 were freed, rounded up to a power of two.
    pub(super) fn usual(&self) -> Option<u64> {
        let all: u64 = self.by_power.iter().sum();
        let mut sum = 0;
        let power = self.by_power.iter().position(|freed| {
            sum += freed;
            all > 0 && sum * 100 >= all * 99
        });
        power.map(|power| 2 << power)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_old_object_in_a_hundred_is_not_usual() {
        let mut lifetimes = Lifetimes::default();
        assert_eq!(lifetimes.usual(), None);
        lifetimes.add(1000, 99);
        lifetimes.add(1 << 35, 1);
        assert_eq!(lifetimes.usual(), Some(1024));
        lifetimes.add(1 << 35, 1);
        assert_eq!(lifetimes.usual(), Some(1 << 36));
        lifetimes.add(u64::MAX, 1000);
        assert_eq!(lifetimes.usual(), Some(2 << (POWERS - 1)));
    }
}
