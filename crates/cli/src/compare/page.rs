//! The comparison as a page: bars for each measure, and a table.

use super::figures::{LoadComparison, Measure, MeasureKey, Unit};
use super::table;
use crate::html;
use slabyard_page::{Axis, Cell, Chart, Page, Section, Series, Table};

/// The page of contenders on a load.
pub fn of(load: &str, heading: &str, legend: &str, compared: &LoadComparison, json: &str) -> Page {
    let lines = |section: Section, text: &str| text.lines().fold(section, |s, line| s.text(line));
    let mut first = lines(Section::new("Contenders"), heading);
    for told in compared.notes.iter().chain(&compared.findings) {
        first = first.text(format!("Beware: {told}."));
    }
    let mut charts = Section::new("Measures").text("Less is better in each.");
    for what in compared.measures() {
        charts = charts.chart(chart(what.row()));
    }
    html::page(format!("Contenders on {load}"), json)
        .with(lines(first.table(table(compared)), legend))
        .with(charts)
}

fn chart(measure: &Measure) -> Chart {
    let unit = match measure.unit {
        Unit::Seconds => slabyard_page::Unit::Seconds,
        Unit::Bytes => slabyard_page::Unit::Bytes,
        Unit::Count => slabyard_page::Unit::Count,
    };
    let path = format!("/contenders/*/{}/median", measure.key);
    Chart::bars(measure.head, html::names(), Axis::new("", unit)).with(Series::new(
        measure.head,
        "/contenders/*/name",
        path,
    ))
}

/// A line for each contender: each measure, and its ratio to the first one's.
fn table(compared: &LoadComparison) -> Table {
    let measures: Vec<MeasureKey> = compared.measures().collect();
    let heads = measures.iter().flat_map(|what| [what.row().head, "ratio"]);
    let mut table = Table::new(std::iter::once("contender").chain(heads));
    for figures in &compared.figures {
        let mut row = vec![Cell::text(figures.name.clone())];
        for what in &measures {
            let median = figures.median(*what);
            let ratio = figures.to(&compared.figures[0], *what);
            let known = |number: Option<f64>, text: String| {
                number.map_or_else(Cell::unknown, |number| Cell::number(text, number))
            };
            row.push(known(median, table::cell(what.row().unit, median)));
            row.push(known(ratio, ratio.map_or(String::new(), |ratio| format!("{ratio:.3}"))));
        }
        table.push(row);
    }
    table
}
