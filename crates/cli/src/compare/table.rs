//! The comparison for people: a line per contender or, as a picture, a block per measure, with bars
//! beside the numbers.
//!
//! Invariants: a bar's length is its number's share of the largest number, so that losers are drawn
//! as plainly as winners. An unknown value is `-` and has no bar; no line is wider than the
//! terminal; colours mark better and worse than the first contender, and say nothing that the
//! numbers do not.

use super::figures::{Figures, LoadComparison, MeasureKey, Unit};
use crate::bars::Bars;
use slabyard_observe::view::cell::{UNKNOWN, human};
use slabyard_observe::view::grid::{Grid, Weight, bold};
use slabyard_observe::view::{Colour, Style};
use std::fmt::Write;

/// Differences below this are shown without colour: no two runs are the same.
const ALIKE: f64 = 0.02;
/// A bar has at least so many characters, or there is none.
const LEAST_BAR: usize = 8;
/// Marks of the longest bar, however wide the terminal is.
const MOST_BAR: usize = 48;

/// Appends the table of a comparison, and what it means.
pub fn write(text: &mut String, compared: &LoadComparison, style: Style) {
    let columns = columns(compared);
    let mut shown = columns.len();
    let mut grid = grid(compared, &columns);
    // A name and a figure are the least that says anything.
    while shown > 1 && style.width.is_some_and(|width| grid.width() > width) {
        shown -= 1;
        grid = self::grid(compared, &columns[..shown]);
    }
    let mut bytes = Vec::new();
    // Into memory, which does not fail.
    let _ = grid.write(&mut bytes, style.colour);
    text.push_str(&String::from_utf8_lossy(&bytes));
    if shown < columns.len() {
        let left: Vec<String> = columns[shown..].iter().map(Column::head).collect();
        let _ = writeln!(text, "left out for want of width: {}", left.join(", "));
    }
}

/// Appends the picture. Bars begin below each other, whatever the figures beside them.
pub fn picture(text: &mut String, compared: &LoadComparison, style: Style, bars: Bars) {
    let blocks: Vec<(MeasureKey, Vec<[String; 4]>)> = compared
        .measures()
        .map(|what| (what, compared.figures.iter().map(|f| row(compared, f, what)).collect()))
        .collect();
    let cells =
        |column: usize| blocks.iter().flat_map(move |(_, rows)| rows).map(move |r| &r[column]);
    let width = |column| cells(column).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..4).map(width).filter(|width| *width > 0).collect();
    let figures = widths.iter().map(|width| width + 2).sum();
    let room = style.width.unwrap_or(100).saturating_sub(figures).min(MOST_BAR);
    for (nth, (what, rows)) in blocks.iter().enumerate() {
        if nth > 0 {
            text.push('\n');
        }
        let _ = writeln!(text, "{}", bold(what.row().head, style.colour));
        let most = compared.figures.iter().filter_map(|f| f.median(*what)).fold(0.0, f64::max);
        for (figures, row) in compared.figures.iter().zip(rows) {
            let mut line = format!("{:<1$}", row[0], widths[0]);
            for (cell, width) in row[1..].iter().zip(&widths[1..]) {
                let _ = write!(line, "  {cell:>width$}");
            }
            let median = figures.median(*what).filter(|median| *median > 0.0);
            if let Some(median) = median.filter(|_| room >= LEAST_BAR) {
                let bar = bars.draw(median / most * room as f64);
                let ratio = figures.to(&compared.figures[0], *what);
                let _ = write!(line, "  {}", paint(&bar, ratio, style.colour));
            } else if let Some(width) = style.width {
                line = line.chars().take(width).collect();
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
}

/// Name, figure, spread and ratio.
fn row(compared: &LoadComparison, figures: &Figures, what: MeasureKey) -> [String; 4] {
    let ratio = Column { what, part: Statistic::Ratio };
    let spread = Column { what, part: Statistic::Spread };
    let value = cell(what.row().unit, figures.median(what));
    // The spread of one sample is none, and not unknown.
    let once = compared.figures.iter().all(|f| f.samples(what).len() <= 1);
    let spread = if once { String::new() } else { spread.cell(compared, figures) };
    [figures.name.clone(), value, ratio.cell(compared, figures), spread]
}

/// What a column tells of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statistic {
    Median,
    Spread,
    Ratio,
    Error,
}

struct Column {
    what: MeasureKey,
    part: Statistic,
}

impl Column {
    fn head(&self) -> String {
        match self.part {
            Statistic::Median => self.what.row().head.into(),
            Statistic::Spread => "spread".into(),
            Statistic::Ratio => "ratio".into(),
            Statistic::Error => "error".into(),
        }
    }

    fn cell(&self, compared: &LoadComparison, figures: &Figures) -> String {
        match self.part {
            Statistic::Median => cell(self.what.row().unit, figures.median(self.what)),
            Statistic::Spread => figures
                .spread(self.what)
                .map_or_else(|| UNKNOWN.into(), |share| format!("{:.1}%", share * 100.0)),
            Statistic::Error => figures.error.clone().unwrap_or_else(|| UNKNOWN.into()),
            Statistic::Ratio => {
                let ratio = figures.to(&compared.figures[0], self.what);
                ratio.map_or_else(|| UNKNOWN.into(), |ratio| format!("x{ratio:.3}"))
            }
        }
    }
}

/// Counts have no spread, and more figures than eyes: their ratios are in the picture.
fn columns(compared: &LoadComparison) -> Vec<Column> {
    let mut columns = Vec::new();
    for what in compared.measures() {
        let parts: &[Statistic] = match what {
            MeasureKey::Time => &[Statistic::Median, Statistic::Spread, Statistic::Ratio],
            // How far off peaks are stands with them.
            MeasureKey::Peak if compared.figures.iter().any(|f| f.error.is_some()) => {
                &[Statistic::Median, Statistic::Ratio, Statistic::Error]
            }
            MeasureKey::Cpu | MeasureKey::Peak | MeasureKey::Mean => {
                &[Statistic::Median, Statistic::Ratio]
            }
            _ => &[Statistic::Median],
        };
        columns.extend(parts.iter().map(|part| Column { what, part: *part }));
    }
    columns
}

fn grid(compared: &LoadComparison, columns: &[Column]) -> Grid {
    let heads = columns.iter().map(Column::head);
    let mut grid = Grid::new(std::iter::once("contender".to_owned()).chain(heads));
    for figures in &compared.figures {
        let cells = columns.iter().map(|column| column.cell(compared, figures));
        grid.push(Weight::Row, std::iter::once(figures.name.clone()).chain(cells));
    }
    grid
}

/// A figure by its unit.
pub fn cell(unit: Unit, value: Option<f64>) -> String {
    let Some(value) = value else { return UNKNOWN.into() };
    match unit {
        Unit::Seconds if value < 0.9995 => format!("{:.1} ms", value * 1000.0),
        Unit::Seconds => format!("{value:.3} s"),
        Unit::Bytes => human(value.round() as u64),
        Unit::Count => (value.round() as u64).to_string(),
    }
}

/// Green for less than the first contender, red for more.
fn paint(bar: &str, ratio: Option<f64>, colour: Colour) -> String {
    let code = match ratio {
        Some(ratio) if ratio > 1.0 + ALIKE => "31",
        Some(ratio) if ratio < 1.0 - ALIKE => "32",
        _ => return bar.into(),
    };
    match colour {
        Colour::Yes if !bar.is_empty() => format!("\x1b[{code}m{bar}\x1b[0m"),
        _ => bar.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> LoadComparison {
        let mut figures = vec![Figures::new("base"), Figures::new("other")];
        for (at, times) in [[2.0, 2.0, 2.0], [4.0, 1.0, 1.0]].iter().enumerate() {
            times.iter().for_each(|time| figures[at].add(MeasureKey::Time, Some(*time)));
        }
        figures[1].count(MeasureKey::Waste, Some(3 << 20));
        LoadComparison { figures, findings: Vec::new(), notes: Vec::new() }
    }

    fn styled(width: Option<usize>, colour: Colour) -> Style {
        Style { width, colour, ..Style::PLAIN }
    }

    #[test]
    fn a_row_is_its_contenders() {
        let mut text = String::new();
        write(&mut text, &two(), Style::PLAIN);
        let want = "\
contender     time  spread   ratio    waste
base       2.000 s    0.0%  x1.000        -
other      1.000 s  300.0%  x0.500  3.0 MiB
";
        assert_eq!(text, want);
    }

    #[test]
    fn the_error_to_expect_stands_with_the_peak() {
        let mut compared = two();
        compared
            .figures
            .iter_mut()
            .for_each(|figures| figures.count(MeasureKey::Peak, Some(1 << 20)));
        compared.figures[1].error = Some("-13 to +29 %".into());
        let mut text = String::new();
        write(&mut text, &compared, Style::PLAIN);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("peak   ratio         error"), "{text}");
        assert!(lines[2].contains("1.0 MiB  x1.000  -13 to +29 %"), "{text}");
    }

    #[test]
    fn a_narrow_table_says_what_it_leaves_out() {
        let mut text = String::new();
        write(&mut text, &two(), styled(Some(30), Colour::No));
        assert!(text.lines().take(3).all(|line| line.chars().count() <= 30), "{text}");
        assert!(text.ends_with("left out for want of width: ratio, waste\n"), "{text}");
    }

    #[test]
    fn bars_are_in_proportion_and_only_known_figures_have_one() {
        let mut text = String::new();
        picture(&mut text, &two(), styled(Some(60), Colour::No), Bars::Ascii);
        let lines: Vec<&str> = text.lines().collect();
        let hashes = |line: &str| line.matches('#').count();
        assert_eq!(lines[0], "time");
        assert!(
            hashes(lines[1]) > 20 && hashes(lines[1]).abs_diff(2 * hashes(lines[2])) <= 1,
            "{text}"
        );
        assert_eq!((lines[4], lines[5].trim_end()), ("waste", "base         -       -"), "{text}");
        assert!(hashes(lines[6]) > 20, "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 60), "{text}");
    }

    #[test]
    fn a_terminal_without_room_or_colours_gets_figures() {
        let (mut narrow, mut plain, mut colours) = (String::new(), String::new(), String::new());
        picture(&mut narrow, &two(), styled(Some(34), Colour::Yes), Bars::Blocks);
        assert!(!narrow.contains('█') && narrow.contains("x0.500"), "{narrow}");
        picture(&mut plain, &two(), styled(Some(80), Colour::No), Bars::Blocks);
        picture(&mut colours, &two(), styled(Some(80), Colour::Yes), Bars::Blocks);
        assert!(!plain.contains('\x1b') && plain.contains('█'), "{plain}");
        assert!(colours.contains("\x1b[32m█"), "the other takes less time: {colours}");
    }
}
