//! A yard's page lists and the model's receive the same calls: each call returns a page from the
//! same list position, and both keep equal counters.

use slabyard::engine::{Counter, Tiny};
use slabyard::yard::{Settings, Yard};
use slabyard_kernels::PageLists;
use slabyard_kernels::page_lists::{Rules, Warmth};
use slabyard_model::page_lists::CountedLists;
use slabyard_testkit::Random;
use slabyard_testkit::machine::{Config, Machine};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// A zone in which a batch is few pages, so that small yards reach every bound.
const SMALL_ZONE: u64 = 64 << 20;
/// A zone with the largest batch.
const BIG_ZONE: u64 = 4 << 30;

/// The counters of lists.
fn counters() -> impl Iterator<Item = (Counter, &'static str)> {
    let all = Counter::ALL.iter().map(|(counter, name, _)| (*counter, *name));
    all.filter(|(_, name)| name.starts_with("page_"))
}

const CPUS: usize = 3;

struct Pair {
    yard: Yard<Machine, Tiny>,
    model: CountedLists,
    counted: RefCell<BTreeMap<usize, u64>>,
    /// Order and run, of both.
    live: RefCell<Vec<(u32, u32, u32)>>,
}

impl Pair {
    fn new(kind: PageLists, zone: u64, planted: impl FnOnce(&mut Rules)) -> Self {
        let machine = Machine::new(Config { cpus: CPUS, ..Config::default() });
        let yard: Yard<Machine, Tiny> = Yard::new(machine);
        assert!(slabyard_page_lists::choose(&yard.heap, kind, zone));
        assert!(yard.init(Settings { reserve_bytes: 256 << 20, decay_ms: 20 }));
        let mut rules = yard.heap.page_lists().expect("chosen").rules;
        planted(&mut rules);
        let model = CountedLists::new(rules, CPUS, 1);
        Pair { yard, model, counted: RefCell::default(), live: RefCell::default() }
    }

    fn count(&self, counter: Counter, n: u32) {
        *self.counted.borrow_mut().entry(counter as usize).or_default() += u64::from(n);
    }

    fn call(&self, random: &mut Random, tide: usize) -> Result<(), String> {
        let cpu = random.below(CPUS);
        self.yard.platform().set_cpu(cpu);
        let warmth = if random.chance(10) { Warmth::Cold } else { Warmth::Hot };
        let count = |counter, n| self.count(counter, n);
        let mut live = self.live.borrow_mut();
        if random.chance(tide) {
            let order = [0, 0, 0, 1, 2, 3, 4][random.below(7)];
            let run = slabyard_page_lists::take(&self.yard.heap, order, warmth, &count)
                .ok_or("no memory")?;
            let page = self.model.alloc(cpu, 0, order, warmth);
            live.push((order, run, page));
        } else if !live.is_empty() {
            let (order, run, page) = {
                let nth = random.below(live.len());
                live.swap_remove(nth)
            };
            slabyard_page_lists::free(&self.yard.heap, run, order, warmth, &count);
            self.model.free(cpu, 0, order, page, warmth);
        }
        for (counter, name) in counters() {
            let on_pages = self.counted.borrow().get(&(counter as usize)).copied().unwrap_or(0);
            let in_numbers = self.model.counted(counter);
            if on_pages != in_numbers {
                return Err(format!("{name}: {on_pages} on pages, {in_numbers} in numbers"));
            }
        }
        let listed =
            self.yard.quiesce(|it| it.parked_runs().granules).ok_or("not quiesced")? as u64;
        let in_numbers = u64::from(self.model.listed_pages(0));
        if listed != in_numbers {
            return Err(format!("{listed} pages listed, {in_numbers} in numbers"));
        }
        Ok(())
    }
}

fn run(kind: PageLists, zone: u64, planted: impl FnOnce(&mut Rules)) -> Result<u64, String> {
    let pair = Pair::new(kind, zone, planted);
    let mut random = Random::new(11);
    for call in 0..6000 {
        let tide = [75, 30, 60, 25][call / 500 % 4];
        pair.call(&mut random, tide).map_err(|why| format!("call {call}: {why}"))?;
    }
    let counted = pair.counted.borrow();
    Ok(counters().filter(|(counter, _)| counted.get(&(*counter as usize)) > Some(&0)).count()
        as u64)
}

#[test]
fn lists_of_runs_make_the_calls_of_the_lab_s() {
    for kind in PageLists::ALL {
        for zone in [SMALL_ZONE, BIG_ZONE] {
            let counters = run(kind, zone, |_| ()).unwrap_or_else(|why| panic!("{kind:?}: {why}"));
            let least = match kind {
                PageLists::None => 1,
                PageLists::HotCold => 9,
                _ => 4,
            };
            assert!(counters >= least, "{kind:?}: {counters} counters of {least} moved");
        }
    }
}

#[test]
fn a_planted_difference_is_found() {
    let plants: [fn(&mut Rules); 4] = [
        |rules| rules.batch += 1,
        |rules| rules.low += 1,
        |rules| rules.high += 1,
        |rules| rules.orders -= 1,
    ];
    for kind in [PageLists::HotCold, PageLists::Merged, PageLists::Today] {
        for (nth, planted) in plants.iter().enumerate() {
            let found = run(kind, SMALL_ZONE, planted);
            assert!(found.is_err(), "{kind:?}: difference {nth} was not found");
        }
    }
}
