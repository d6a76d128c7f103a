//! Pages as files: what is escaped, and what is refused.

use slabyard_page::{Axis, Cell, Chart, Error, Page, Section, Series, Table, Unit, path};

/// A name that would end a script, a title, an attribute or an element, and run.
const HOSTILE: &str = r#"</script></title>"'><img src=x onerror="alert(1)"><!--"#;

fn names() -> Axis {
    Axis::new("", Unit::Name)
}

fn bytes() -> Axis {
    Axis::new(HOSTILE, Unit::Bytes)
}

fn between<'a>(html: &'a str, begin: &str, end: &str) -> &'a str {
    let (_, rest) = html.split_once(begin).unwrap();
    rest.split_once(end).unwrap().0
}

#[test]
fn hostile_names_stay_text_wherever_they_stand() {
    let data = serde_json::json!({ "caches": [{ "name": HOSTILE, HOSTILE: 7 }] });
    let json = serde_json::to_string_pretty(&data).unwrap();
    let mut table = Table::new([HOSTILE]);
    table.push([Cell::text(HOSTILE)]);
    table.push([Cell::number(HOSTILE, 1.0)]);
    let value = format!("/caches/*/{}", path::key(HOSTILE));
    let series = Series::new(HOSTILE, "/caches/*/name", value).labels("/caches/*/name");
    let chart = Chart::bars(HOSTILE, names(), bytes()).with(series);
    let section = Section::new(HOSTILE).text(HOSTILE).code(HOSTILE).table(table).chart(chart);
    let page = Page::new(HOSTILE, json).made_by(HOSTILE, HOSTILE).with(section);
    let html = page.html().unwrap();
    assert!(!html.contains("<img") && !html.contains("</script></title>"));
    assert_eq!(html.matches("</script>").count(), 4, "those of the page itself");
    assert_eq!(html.matches("<!--").count(), 0);
    let escaped = "&lt;/script&gt;&lt;/title&gt;&quot;&#39;&gt;&lt;img src=x onerror=&quot;";
    assert_eq!(html.matches(escaped).count(), 12);
    let embedded = between(&html, "id=\"data\">", "</script>");
    let read: serde_json::Value = serde_json::from_str(embedded).unwrap();
    assert_eq!(read, data, "the data is what it was");
    let charts = between(&html, "id=\"charts\">", "</script>");
    let charts: serde_json::Value = serde_json::from_str(charts).unwrap();
    assert_eq!(charts[0]["series"][0]["name"], HOSTILE);
}

#[test]
fn a_page_names_nothing_outside_itself() {
    let html = Page::new("empty", "{}").html().unwrap();
    let (before, rest) = html.split_once("<script>\n/*").unwrap();
    let (library, after) = rest.split_once("</script>").unwrap();
    for part in [before, after] {
        for word in ["http://", "https://", "src=", "url(", "@import", "import("] {
            assert!(!part.contains(word), "{word}");
        }
    }
    assert!(library.contains("Permission is hereby granted") && library.contains("Chart.js v"));
    assert!(!library.contains("sourceMappingURL"));
    assert!(html.contains("content=\"default-src 'none'; "));
}

#[test]
fn a_series_without_its_numbers_is_refused() {
    let json =
        r#"{"rows": [{"n": "a", "v": 1}, {"n": "b", "v": null}], "one": [1], "r": [[1, 2], 3]}"#;
    let made = |chart: Chart| Page::new("x", json).with(Section::new("x").chart(chart)).html();
    let bars = |x: &str, y: &str| Chart::bars("x", names(), bytes()).with(Series::new("x", x, y));
    assert!(made(bars("/rows/*/n", "/rows/*/v")).is_ok(), "what is unknown is a gap");
    assert!(made(bars("/rows/*/n", "/r/*")).is_ok(), "a range is a bar with two ends");
    let lines = Chart::lines("x", bytes(), bytes()).with(Series::new("x", "/r/*", "/rows/*/v"));
    assert!(matches!(made(lines), Err(Error::NoNumber(..))));
    assert!(matches!(made(bars("/rows/*/n", "/rows/*/w")), Err(Error::NotFound(_))));
    assert!(matches!(made(bars("/rows/*/n", "/one/*")), Err(Error::UnlikeLengths(..))));
    assert!(matches!(made(bars("/rows/*/n", "/rows/*/n")), Err(Error::NoNumber(..))));
    let picked = Series::new("x", "/rows/*/n", "/rows/*/v");
    let chart = |rows| Chart::bars("x", names(), bytes()).with(picked.clone().rows(rows));
    assert!(made(chart([1, 0])).is_ok());
    assert!(matches!(made(chart([0, 2])), Err(Error::NotFound(_))));
    assert!(matches!(Page::new("x", "{").html(), Err(Error::Json(_))));
}

#[test]
fn cells_keep_the_numbers_by_which_they_sort() {
    let mut table = Table::new(["cache", "memory"]);
    table.push([Cell::text("dentry"), Cell::number("1.5 MiB", 1_572_864.0)]);
    table.push([Cell::text("inode"), Cell::unknown()]);
    let html = Page::new("x", "{}").with(Section::new("x").table(table)).html().unwrap();
    assert!(
        html.contains(r#"<th scope="col">cache</th><th scope="col" class="number">memory</th>"#)
    );
    assert!(html.contains(r#"<td class="number" data-value="1572864">1.5 MiB</td>"#));
    assert!(html.contains(r#"<td class="number">-</td>"#));
}
