//! The few pieces of HTML that a report is made of. Every text is escaped on its way in.

use super::svg::{self, Plot};
use crate::metrics::SampleRecord;
use crate::progress::{count, duration};
use std::fmt::Write;

/// Text for HTML and XML: what would be markup, and control characters that neither allows, made visible.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(letter),
            '\0'..' ' => out.push(char::from_u32(0x2400 + letter as u32).unwrap_or('\u{fffd}')), // ␀, ␁, …
            '\u{7f}'..'\u{a0}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(letter),
        }
    }
    out
}

/// A number with its name and a word on it.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// The number, with its unit.
    pub value: String,
    /// What helps to read it; may be empty.
    pub hint: String,
}

/// A row of a table: its head and its cells.
#[derive(Clone, Debug)]
pub struct Row {
    /// What the row is of.
    pub head: String,
    /// One cell for each further column.
    pub cells: Vec<String>,
    /// Whether it is the subject of the report.
    pub own: bool,
}

/// A piece of a report.
#[derive(Clone, Debug)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// Numbers side by side.
    Figures(Vec<Figure>),
    /// Plots side by side, with a caption.
    Plots(Vec<Plot>, String),
    /// A table of numbers: the heads of its columns, and its rows.
    Table(Vec<String>, Vec<Row>),
    /// A table of words, whose lines break.
    Words(Vec<String>, Vec<Row>),
    /// Names with their values.
    Pairs(Vec<(String, String)>),
    /// Texts that the model wrote.
    Samples(Vec<SampleRecord>),
    /// Lines to be typed.
    Listing(String),
}

impl Block {
    /// The block as HTML.
    pub fn html(&self) -> String {
        match self {
            Self::Text(text) => format!("<p>{}</p>\n", escape(text)),
            Self::Listing(text) => format!("<pre><code>{}</code></pre>\n", escape(text)),
            Self::Figures(figures) => {
                let item = |figure: &Figure| {
                    let [name, value, hint] = [&figure.name, &figure.value, &figure.hint].map(|text| escape(text));
                    format!("<div><dt>{name}</dt><dd>{value}</dd><dd>{hint}</dd></div>\n")
                };
                format!("<dl class=\"figures\">\n{}</dl>\n", each(figures, item))
            }
            Self::Plots(plots, caption) => {
                let drawn = each(plots, Plot::inline);
                format!("<figure>\n<div class=\"row\">\n{drawn}</div>\n<figcaption>{}</figcaption>\n</figure>\n", escape(caption))
            }
            Self::Table(heads, rows) => table(heads, rows, " class=\"number\""),
            Self::Words(heads, rows) => table(heads, rows, ""),
            Self::Pairs(pairs) => {
                let item = |(name, value): &(String, String)| {
                    format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value))
                };
                format!("<dl class=\"pairs\">\n{}</dl>\n", each(pairs, item))
            }
            Self::Samples(samples) => {
                let item = |sample: &SampleRecord| {
                    let when = format!("{} tokens<br>{}", count(sample.tokens), duration(sample.elapsed));
                    let text = format!("<span class=\"prompt\">{}</span>{}", escape(&sample.prompt), escape(&sample.text));
                    let step = count(sample.step);
                    format!("<li><div class=\"when\"><b>update {step}</b>{when}</div><blockquote>{text}</blockquote></li>\n")
                };
                format!("<ol class=\"samples\">\n{}</ol>\n", each(samples, item))
            }
        }
    }
}

/// A table whose cells but the first of a row have an attribute.
fn table(heads: &[String], rows: &[Row], attribute: &str) -> String {
    let mut head = String::new();
    for (index, text) in heads.iter().enumerate() {
        let attribute = if index == 0 { "" } else { attribute };
        let _ = write!(head, "<th scope=\"col\"{attribute}>{}</th>", escape(text));
    }
    let row = |row: &Row| {
        let own = if row.own { " class=\"own\"" } else { "" };
        let cells = each(&row.cells, |cell| format!("<td{attribute}>{}</td>", escape(cell)));
        format!("<tr{own}><th scope=\"row\">{}</th>{cells}</tr>\n", escape(&row.head))
    };
    let body = each(rows, row);
    format!("<div class=\"wide\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n")
}

/// The items one after another.
fn each<T>(items: &[T], html: impl Fn(&T) -> String) -> String {
    items.iter().map(html).collect()
}

/// A whole page: one file that needs no other. The browser is told to load nothing from anywhere.
pub fn page(kicker: &str, title: &str, lead: &str, body: &str, foot: &str) -> String {
    let [kicker, title, lead, foot] = [kicker, title, lead, foot].map(escape);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>{}{}</style>\n</head>\n<body>\n<main>\n\
         <header>\n<p class=\"kicker\">{kicker}</p>\n<h1>{title}</h1>\n<p class=\"lead\">{lead}</p>\n</header>\n\
         {body}<footer><p>{foot}</p></footer>\n</main>\n</body>\n</html>\n",
        include_str!("page.css"),
        svg::STYLE
    )
}
