//! A report, section by section.

use std::path::Path;

use gradus_io::files::{FileError, write_atomically};

use crate::html::{self, Block};
use crate::markup::escape;

/// A report: a title, words to begin with, and sections.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What kind of report, above the title.
    pub kicker: String,
    /// The title.
    pub title: String,
    /// What was done and found, in a few sentences.
    pub lead: String,
    /// Headings with what follows them; a section with an empty heading has none.
    pub sections: Vec<(String, Vec<Block>)>,
    /// How the numbers are defined, below everything.
    pub foot: String,
}

impl Report {
    /// Adds a section unless it is empty.
    pub fn section(&mut self, heading: &str, blocks: Vec<Block>) {
        if !blocks.is_empty() {
            self.sections.push((heading.into(), blocks));
        }
    }

    /// The report as one HTML file that loads nothing.
    pub fn render(&self) -> String {
        let mut body = String::new();
        for (heading, blocks) in &self.sections {
            body.push_str("<section>\n");
            if !heading.is_empty() {
                body.push_str(&format!("<h2>{}</h2>\n", escape(heading)));
            }
            body.extend(blocks.iter().map(Block::html));
            body.push_str("</section>\n");
        }
        html::page(&self.kicker, &self.title, &self.lead, &body, &self.foot)
    }

    /// Writes [`Report::render`] to a file, whole or not at all.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), FileError> {
        write_atomically(path, |out| out.write_all(self.render().as_bytes()))
    }
}
