//! A report as one document.

use std::path::Path;

use gradus_io::files::{FileError, write_atomically};

use crate::html::{self, Block};
use crate::markdown;
use crate::markup::{escape, prose};
use crate::svg;

/// A report as one document: a title, an introduction, and sections.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// The kind of report, above the title.
    pub kicker: String,
    /// The title.
    pub title: String,
    /// A summary in a few sentences.
    pub lead: String,
    /// The headings and blocks of the sections; a heading may be empty.
    pub sections: Vec<(String, Vec<Block>)>,
    /// The definitions of the numbers, at the end.
    pub foot: String,
    /// The number of seconds after which a browser reloads the page; `None` for never.
    pub reload: Option<u32>,
}

impl Document {
    /// Adds a section unless it is empty.
    pub fn section(&mut self, heading: &str, blocks: Vec<Block>) {
        if !blocks.is_empty() {
            self.sections.push((heading.into(), blocks));
        }
    }

    /// Renders the document as one self-contained HTML file. Its content security policy allows no other resource.
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

    /// Renders the document as Markdown, without plots and diagrams.
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

    /// Writes [`Document::render`] to a file atomically.
    pub fn write(&self, path: &Path) -> Result<(), FileError> {
        write_atomically(path, |out| out.write_all(self.render().as_bytes()))
    }
}
