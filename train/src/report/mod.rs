//! Reports: one HTML file with everything in it, made from a run's records.

pub mod html;
mod pretrain;
mod scale;
pub mod svg;

pub use html::{Block, Figure, Link, Part, Row};
pub use pretrain::{Baseline, PretrainReport};
pub use scale::{Axis, Scale};

use std::path::Path;

use gradus_io::files::{FileError, write_atomically};

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
                body.push_str(&format!("<h2>{}</h2>\n", html::escape(heading)));
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
