//! The text of a page's file: elements, data, styles and scripts.
//!
//! Invariants: each text goes through [`escape`] into an element or attribute, and all JSON through
//! [`script`] into a script.

use crate::chart::Chart;
use crate::error::Error;
use crate::escape::{escape, script};
use crate::page::{Content, Page, Section};
use serde_json::Value;
use std::fmt::Write;

const CSS: &str = include_str!("../assets/page.css");
const JS: &str = include_str!("../assets/page.js");
const CHART_JS: &str = include_str!("../assets/chart.umd.min.js");
const CHART_JS_LICENSE: &str = include_str!("../assets/LICENSE-chart.js.md");
/// Nothing is loaded, wherever from; the styles and scripts of the page itself hold.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

impl Page {
    /// The text of the file.
    ///
    /// # Errors
    /// The data is no JSON, or a chart's series do not find in it what they need.
    pub fn html(&self) -> Result<String, Error> {
        let data: Value = serde_json::from_str(&self.json)?;
        let mut charts = Vec::new();
        let mut html = String::new();
        head(&mut html, self);
        for section in &self.sections {
            write_section(&mut html, section, &data, &mut charts)?;
        }
        html.push_str("</main>\n");
        foot(&mut html, self, &serde_json::to_string(&charts)?);
        Ok(html)
    }
}

fn head(html: &mut String, page: &Page) {
    let title = escape(&page.title);
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{CSS}</style>\n</head>\n<body>\n<header>\n\
         <h1>{title}</h1>\n"
    );
    if let Some((program, command)) = &page.made_by {
        let (program, command) = (escape(program), escape(command));
        let _ = writeln!(html, "<p class=\"made\">{program}: <code>{command}</code></p>");
    }
    html.push_str(
        "<p class=\"buttons\"><button type=\"button\" id=\"theme\">Light or dark</button>\n\
         <button type=\"button\" id=\"save\">Save the data (JSON)</button></p>\n\
         <noscript><p>Charts need JavaScript; text and tables do not.</p></noscript>\n\
         </header>\n<main>\n",
    );
}

fn write_section(
    html: &mut String,
    section: &Section,
    data: &Value,
    charts: &mut Vec<Value>,
) -> Result<(), Error> {
    let _ = writeln!(html, "<section>\n<h2>{}</h2>", escape(&section.title));
    for content in &section.contents {
        match content {
            Content::Text(text) => {
                let _ = writeln!(html, "<p>{}</p>", escape(text));
            }
            Content::Code(text) => {
                let _ = writeln!(html, "<pre>{}</pre>", escape(text));
            }
            Content::Table(table) => table.write(html),
            Content::Chart(chart) => {
                figure(html, chart);
                charts.push(chart.checked(data)?);
            }
        }
    }
    html.push_str("</section>\n");
    Ok(())
}

/// The place of a chart: the script draws the charts into these, in their order.
fn figure(html: &mut String, chart: &Chart) {
    let title = escape(chart.title());
    let _ = writeln!(
        html,
        "<figure><figcaption>{title}</figcaption><div class=\"chart\">\
         <canvas role=\"img\" aria-label=\"{title}\"></canvas></div></figure>"
    );
}

fn foot(html: &mut String, page: &Page, charts: &str) {
    // The last line names a file that only debuggers look for.
    let library = CHART_JS.rsplit_once("\n//# sourceMappingURL").map_or(CHART_JS, |(js, _)| js);
    let _ = write!(
        html,
        "<script type=\"application/json\" id=\"data\">\n{}\n</script>\n\
         <script type=\"application/json\" id=\"charts\">\n{}\n</script>\n\
         <script>\n/*\n{CHART_JS_LICENSE}*/\n{library}\n</script>\n<script>\n{JS}</script>\n\
         </body>\n</html>\n",
        script(page.json.trim_end()),
        script(charts),
    );
}
