//! The answers as a page: how far ours are from theirs, table by table.
//!
//! Invariant: the charts have the numbers of [`slabyard_ask::threads::json`].

use super::table::{cells, notes, sum};
use crate::html;
use crate::terminal::Colour;
use slabyard_ask::threads::wanted::{Tables, of_table};
use slabyard_ask::threads::{self, Answer, Theirs, Thread};
use slabyard_page::{Axis, Cell, Chart, Page, Section, Series, Table, Unit};

/// The page: the range of ours to theirs of each table, then each table with its rows.
pub(super) fn of(wanted: &Tables, answers: &[Answer], json: &str) -> Page {
    let compared = |answers: &mut dyn Iterator<Item = &Answer>| -> Vec<usize> {
        let known = answers.enumerate().filter(|(_, answer)| answer.difference().is_some());
        known.map(|(nth, _)| nth).collect()
    };
    let mut page = html::page("What mail threads measured, with ours beside it", json);
    let all = |key: &str| format!("/threads/*/tables/*/{key}");
    let has_ratio = |(thread, table): &(&Thread, &threads::Table)| {
        !compared(&mut of_table(answers, thread, table)).is_empty()
    };
    let with_ratios: Vec<usize> = wanted
        .iter()
        .enumerate()
        .filter(|(_, table)| has_ratio(table))
        .map(|(nth, _)| nth)
        .collect();
    let mut section = Section::new("All tables").text(sum(answers, Colour::No));
    if !with_ratios.is_empty() {
        let chart = Chart::bars(
            "Ours to theirs: the lowest and the highest of each table",
            html::names(),
            Axis::new("ours to theirs; 1 is equal", Unit::Count),
        );
        let ratios = Series::new("ours to theirs", all("id"), all("ratio")).rows(with_ratios);
        section = section
            .chart(chart.with(ratios))
            .text("What cannot be had here, and what has no number, is in the tables alone.");
    }
    page = page.with(section);
    let mut at = (0, 0);
    let mut last = "";
    for (thread, table) in wanted {
        let mut section = Section::new(format!("{}.{}: {}", thread.name, table.name, table.title));
        if thread.name != last {
            at = (at.0 + usize::from(!last.is_empty()), 0);
            last = thread.name;
            section = section.text(format!("Thread: {}.", thread.title));
            for what in thread.inconsistencies {
                section = section.text(format!("In the thread itself: {what}."));
            }
        }
        let of_it = || of_table(answers, thread, table);
        section = section.table(rows(of_it()));
        for note in notes(of_it()) {
            section = section.text(note);
        }
        let known = compared(&mut of_it());
        // Bars of no length would say nothing.
        let differ = of_it().any(|answer| answer.difference().is_some_and(|off| off != 0.0));
        if known.len() > 1 && differ {
            let path = |key: &str| format!("/threads/{}/tables/{}/rows/*/{key}", at.0, at.1);
            let off = Series::new("off", path("name"), path("difference")).rows(known);
            let chart = Chart::bars(
                format!("How far off ours are: {}.{}", thread.name, table.name),
                html::names(),
                Axis::new("ours less theirs, as a share of theirs", Unit::Share),
            );
            section = section.chart(chart.with(off));
        }
        page = page.with(section);
        at.1 += 1;
    }
    page
}

fn rows<'a>(answers: impl Iterator<Item = &'a Answer>) -> Table {
    let mut table = Table::new(["row", "theirs", "ours", "off", "near", "unit", "basis"]);
    for answer in answers {
        let number = |text: String, number: Option<f64>| match number {
            Some(number) => Cell::number(text, number),
            None if text == "-" => Cell::unknown(),
            None => Cell::text(text),
        };
        let theirs = match answer.row.theirs {
            Theirs::Number(number) => Some(number),
            Theirs::Claim(_) => None,
        };
        let numbers = [None, theirs, answer.ours.as_ref().ok().copied(), answer.difference()];
        let numbers = numbers.into_iter().chain(std::iter::repeat(None));
        table.push(cells(answer).into_iter().zip(numbers).map(|(text, n)| number(text, n)));
    }
    table
}
