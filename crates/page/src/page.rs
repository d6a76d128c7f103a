//! What a page says, in order.

use crate::chart::Chart;
use crate::table::Table;

/// A part of a page under a heading.
#[derive(Clone, Debug)]
pub struct Section {
    pub(crate) title: String,
    pub(crate) contents: Vec<Content>,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Text(String),
    Code(String),
    Table(Table),
    Chart(Chart),
}

impl Section {
    /// A section with a heading.
    pub fn new(title: impl Into<String>) -> Section {
        Section { title: title.into(), contents: Vec::new() }
    }

    /// With a paragraph.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Section {
        self.content(Content::Text(text.into()))
    }

    /// With lines as they are, such as commands to run.
    #[must_use]
    pub fn code(self, text: impl Into<String>) -> Section {
        self.content(Content::Code(text.into()))
    }

    /// With rows and columns, below what is there.
    #[must_use]
    pub fn table(self, table: Table) -> Section {
        self.content(Content::Table(table))
    }

    /// With a picture of numbers, below what is there.
    #[must_use]
    pub fn chart(self, chart: Chart) -> Section {
        self.content(Content::Chart(chart))
    }

    fn content(mut self, content: Content) -> Section {
        self.contents.push(content);
        self
    }
}

/// A report, as one file.
#[derive(Clone, Debug)]
pub struct Page {
    pub(crate) title: String,
    pub(crate) made_by: Option<(String, String)>,
    pub(crate) sections: Vec<Section>,
    pub(crate) json: String,
}

impl Page {
    /// A page with the JSON of the command, to which its charts' paths lead.
    pub fn new(title: impl Into<String>, json: impl Into<String>) -> Page {
        Page { title: title.into(), made_by: None, sections: Vec::new(), json: json.into() }
    }

    /// Says which program made the page, and by which command.
    #[must_use]
    pub fn made_by(self, program: impl Into<String>, command: impl Into<String>) -> Page {
        Page { made_by: Some((program.into(), command.into())), ..self }
    }

    /// With one more section.
    #[must_use]
    pub fn with(mut self, section: Section) -> Page {
        self.sections.push(section);
        self
    }
}
