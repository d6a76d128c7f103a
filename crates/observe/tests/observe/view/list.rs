//! The list, as people see it.

use super::scene::{HUMAN, is_as, kernel, process, text};
use glob::Pattern;
use slabyard_observe::fields::{TOTALS, field};
use slabyard_observe::snapshot::{Source, SourceKind};
use slabyard_observe::view::list::{Columns, ListContext, Options, write};
use slabyard_observe::view::pick::CacheFilter;
use slabyard_observe::view::{Colour, Style, orders};
use slabyard_observe::{Cache, Snapshot, Value};

fn plain() -> Options {
    Options { pick: CacheFilter::by_bytes(), ..Options::default() }
}

fn shown(snapshot: &Snapshot, options: &Options, style: Style) -> String {
    text(|out| write(out, snapshot, options, style))
}

#[test]
fn a_kernel_on_a_terminal() {
    is_as("list-kernel.txt", &shown(&kernel(), &plain(), HUMAN));
}

#[test]
fn a_kernel_in_a_pipe() {
    is_as("list-kernel-plain.txt", &shown(&kernel(), &plain(), Style::PLAIN));
}

#[test]
fn a_process_on_a_terminal() {
    is_as("list-process.txt", &shown(&process(), &plain(), HUMAN));
}

#[test]
fn all_columns() {
    let options = Options { columns: Columns::All, ..plain() };
    is_as("list-all.txt", &shown(&process(), &options, HUMAN));
}

#[test]
fn named_columns_alone() {
    let columns = ["slabs", "live", "cpu_partial"].map(|n| field(n).unwrap());
    let options = Options {
        columns: Columns::These(columns.to_vec()),
        around: ListContext::Hidden,
        ..plain()
    };
    let want = "task_struct     40  117        -\n\
                dentry          61  928..1201  120\n\
                kmalloc-rcl-64   3  64..192      -\n\
                secret           -  -            -\n";
    let squeezed = |text: &str| -> Vec<Vec<String>> {
        text.lines().map(|l| l.split_whitespace().map(str::to_owned).collect()).collect()
    };
    assert_eq!(squeezed(&shown(&kernel(), &options, Style::PLAIN)), squeezed(want));
}

#[test]
fn a_narrow_terminal_gets_the_columns_that_fit() {
    let narrow = |width| shown(&kernel(), &plain(), Style { width: Some(width), ..HUMAN });
    is_as("list-kernel-80.txt", &narrow(80));
    let lines = narrow(80);
    let table = lines.lines().take(5);
    assert!(table.clone().all(|l| l.chars().count() <= 80), "{lines}");
    assert!(narrow(1).starts_with("name"), "what stays is shown however narrow it is");
}

#[test]
fn picked_caches_have_a_sum_of_their_own_and_the_memory_is_that_of_all() {
    let patterns = vec![Pattern::new("malloc-[69]*").unwrap(), Pattern::new("none").unwrap()];
    let options = Options { pick: CacheFilter { patterns, ..CacheFilter::by_bytes() }, ..plain() };
    let text = shown(&process(), &options, Style::PLAIN);
    let total = text.lines().find(|l| l.starts_with("total")).unwrap();
    let cells: Vec<_> = total.split_whitespace().collect();
    assert_eq!(cells, ["total", "210..220", "90", "404", "7", "-", "28672", "0.4910..0.5245"]);
    let committed = text.lines().find(|l| l.starts_with("committed")).unwrap();
    let cells: Vec<_> = committed.split_whitespace().collect();
    assert_eq!(cells, ["committed", "1155072", "1.0000"]);
    let options = Options {
        pick: CacheFilter {
            patterns: vec![Pattern::new("none").unwrap()],
            ..CacheFilter::by_bytes()
        },
        ..plain()
    };
    assert!(shown(&process(), &options, Style::PLAIN).contains("\nno cache\n"));
}

fn parts(snapshot: &Snapshot) -> Option<Value> {
    let parts = TOTALS.iter().filter(|t| t.part).map(|t| snapshot.total(t.name));
    parts.into_iter().try_fold(Value::Exact(0), |sum, part| sum.plus(part?))
}

#[test]
fn the_parts_shown_add_up_to_committed() {
    let mut snapshot = process();
    for (name, value) in [("live", 14_080_u64), ("in_transit", 960)] {
        snapshot.totals.insert(name.into(), value.into());
    }
    let parts = parts(&snapshot);
    snapshot.totals.insert("committed".into(), parts.unwrap());
    let text = shown(&snapshot, &plain(), Style::PLAIN);
    let value = |name: &str| {
        let line = text.lines().rfind(|l| l.split_whitespace().next() == Some(name));
        let line = line.unwrap_or_else(|| panic!("no line for {name}"));
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let parts: u64 = TOTALS.iter().filter(|t| t.part).map(|t| value(t.name)).sum();
    assert_eq!(parts, value("committed"));
    assert_eq!(value("resident"), 9 << 20);
}

#[test]
fn what_is_unknown_is_a_dash_and_stays_visible() {
    let mut snapshot = Snapshot::new(Source::of(SourceKind::Report));
    snapshot.caches.push(Cache::new("odd"));
    let text = shown(&snapshot, &plain(), Style::PLAIN);
    let row: Vec<_> = text.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[0], "odd");
    assert!(row.len() > 5 && row[1..].iter().all(|cell| *cell == "-"), "{text}");
    assert!(text.contains("committed"), "{text}");
}

#[test]
fn names_of_merged_caches_stand_below_those_of_a_process() {
    let mut snapshot = process();
    let name = snapshot.caches[0].name.clone();
    snapshot.caches[0].aliases = vec!["peer".into(), "so\u{1b}cket".into()];
    let text = shown(&snapshot, &Options::default(), HUMAN);
    assert!(text.contains(&format!("\nmerged with {name}: peer, so\u{fffd}cket\n")), "{text}");
    snapshot.source.kind = SourceKind::Kernel;
    assert!(!shown(&snapshot, &Options::default(), HUMAN).contains("merged with"));
}

#[test]
fn colours_appear_only_when_asked_for_and_columns_line_up() {
    let coloured = shown(&process(), &plain(), Style { colour: Colour::Yes, ..HUMAN });
    assert!(coloured.contains('\x1b'));
    let text = shown(&process(), &plain(), HUMAN);
    assert!(!text.contains('\x1b'));
    let widths: Vec<_> = text.lines().take(4).map(str::len).collect();
    assert!(widths.iter().all(|w| *w == widths[0]), "{text}");
    assert!(text.lines().all(|l| l == l.trim_end()), "{text}");
}

#[test]
fn a_name_from_elsewhere_cannot_steer_the_terminal() {
    let mut snapshot = process();
    snapshot.caches[0].name = "a\x1b[2Jb".into();
    assert!(!shown(&snapshot, &plain(), HUMAN).contains('\x1b'));
}

#[test]
fn orders_of_a_kernel() {
    let snapshot = kernel();
    let orders = orders::orders(&snapshot, &CacheFilter::default().caches(&snapshot).caches);
    is_as("orders.txt", &text(|out| orders::write(out, &orders, HUMAN)));
    is_as("orders.csv", &text(|out| orders::write_csv(out, &orders)));
    is_as("orders.json", &text(|out| orders::write_json(out, &snapshot, &orders)));
}
