//! A document, section by section.

use std::path::Path;

use gradus_io::files::{FileError, write_atomically};

use crate::html::{self, Block};
use crate::markdown;
use crate::markup::{escape, prose};
use crate::svg;

/// A report as one document: a title, an introduction, and sections.
#[derive(Clone, Debug, Default)]
pub struct Document {
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
    /// Seconds after which a browser reloads the page; `None`: never.
    pub reload: Option<u32>,
}

impl Document {
    /// Adds a section unless it is empty.
    pub fn section(&mut self, heading: &str, blocks: Vec<Block>) {
        if !blocks.is_empty() {
            self.sections.push((heading.into(), blocks));
        }
    }

    /// The document as one HTML file that needs no other. The browser is told to load nothing from anywhere.
    pub fn render(&self) -> String {
        let section = |(heading, blocks): &(String, Vec<Block>)| {
            let heading = if heading.is_empty() { String::new() } else { format!("<h2>{}</h2>\n", escape(heading)) };
            format!("<section>\n{heading}{}</section>\n", blocks.iter().map(Block::html).collect::<String>())
        };
        let body: String = self.sections.iter().map(section).collect();
        let [kicker, title] = [&self.kicker, &self.title].map(|text| escape(text));
        let [lead, foot] = [&self.lead, &self.foot].map(|text| prose(text));
        let reload = self.reload.map_or(String::new(), |s| format!("<meta http-equiv=\"refresh\" content=\"{s}\">\n"));
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             {reload}<title>{title}</title>\n<style>{}{}</style>\n</head>\n<body>\n<main>\n\
             <header>\n<p class=\"kicker\">{kicker}</p>\n<h1>{title}</h1>\n<p class=\"lead\">{lead}</p>\n</header>\n\
             {body}<footer><p>{foot}</p></footer>\n</main>\n</body>\n</html>\n",
            html::STYLE,
            svg::STYLE
        )
    }

    /// The document as Markdown, without what is drawn.
    pub fn markdown(&self) -> String {
        let mut pieces = vec![format!("# {}", self.title), self.lead.clone()];
        for (heading, blocks) in &self.sections {
            let blocks: Vec<String> = blocks.iter().filter_map(markdown::block).collect();
            pieces.extend((!heading.is_empty() && !blocks.is_empty()).then(|| format!("## {heading}")));
            pieces.extend(blocks);
        }
        pieces.push(self.foot.clone());
        pieces.retain(|piece| !piece.is_empty());
        pieces.join("\n\n") + "\n"
    }

    /// Writes [`Document::render`] to a file, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<(), FileError> {
        write_atomically(path, |out| out.write_all(self.render().as_bytes()))
    }
}
