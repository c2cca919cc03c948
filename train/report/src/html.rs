//! The few pieces of HTML that a report is made of. Every text is escaped on its way in.

use std::fmt::Write;
use std::ops::Range;

use gradus_io::numbers::{count, duration};

use crate::markup::{escape, prose};
use crate::metrics::SampleRecord;
use crate::svg::Plot;

/// The looks of a page.
pub const STYLE: &str = include_str!("page.css");

/// A number with its name and a hint.
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
    /// What the row is about.
    pub head: String,
    /// One cell for each further column.
    pub cells: Vec<String>,
    /// Whether it is the subject of the report.
    pub own: bool,
}

impl Row {
    /// A row that is not the subject of the report.
    pub fn new(head: impl Into<String>, cells: impl IntoIterator<Item: Into<String>>) -> Self {
        Row { head: head.into(), cells: cells.into_iter().map(Into::into).collect(), own: false }
    }
}

/// A link to a row of the page, or to another page.
#[derive(Clone, Debug)]
pub struct Link {
    /// The text.
    pub text: String,
    /// The row's id, or the page's path.
    pub to: String,
}

/// A box of a diagram.
#[derive(Clone, Debug)]
pub struct Part {
    /// What it is.
    pub name: String,
    /// What it does.
    pub text: String,
    /// Where to read about it.
    pub links: Vec<Link>,
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
    /// The same; each row has an id, to which [`Block::Links`] and [`Block::Diagram`] link.
    Anchored(Vec<String>, Vec<(String, Row)>),
    /// A word, and where to read on: texts with ids.
    Links(String, Vec<Link>),
    /// A text, followed by links to other pages by relative path.
    Files(String, Vec<Link>),
    /// Boxes one above the other, some of them in a frame with a title, beside others.
    Diagram {
        /// From the top down.
        stack: Vec<Part>,
        /// Those in the frame.
        framed: Range<usize>,
        /// The frame's title.
        title: String,
        /// What is beside them.
        beside: Vec<Part>,
    },
    /// Names with their values.
    Pairs(Vec<(String, String)>),
    /// Texts that the model wrote.
    Samples(Vec<SampleRecord>),
    /// Lines to be typed.
    Listing(String),
}

impl Block {
    /// A table of numbers.
    pub fn table(heads: impl IntoIterator<Item: Into<String>>, rows: impl IntoIterator<Item = Row>) -> Self {
        Self::Table(heads.into_iter().map(Into::into).collect(), rows.into_iter().collect())
    }

    /// The block as HTML.
    pub fn html(&self) -> String {
        match self {
            Self::Text(text) => format!("<p>{}</p>\n", prose(text)),
            Self::Listing(text) => format!("<pre><code>{}</code></pre>\n", escape(text)),
            Self::Figures(figures) => {
                let item = |figure: &Figure| {
                    let [name, value, hint] = [&figure.name, &figure.value, &figure.hint].map(|text| prose(text));
                    format!("<div><dt>{name}</dt><dd>{value}</dd><dd>{hint}</dd></div>\n")
                };
                format!("<dl class=\"figures\">\n{}</dl>\n", each(figures, item))
            }
            Self::Plots(plots, caption) => {
                let drawn = each(plots, Plot::inline);
                format!("<figure>\n<div class=\"row\">\n{drawn}</div>\n<figcaption>{}</figcaption>\n</figure>\n", prose(caption))
            }
            Self::Table(heads, rows) => table(heads, rows.iter().map(|row| ("", row)), " class=\"number\""),
            Self::Words(heads, rows) => table(heads, rows.iter().map(|row| ("", row)), ""),
            Self::Anchored(heads, rows) => table(heads, rows.iter().map(|(id, row)| (id.as_str(), row)), ""),
            Self::Files(words, links) => format!("<p>{} {}</p>\n", prose(words), anchors("", links)),
            Self::Links(words, links) => format!("<p class=\"links\">{} {}</p>\n", prose(words), anchors("#", links)),
            Self::Diagram { stack, framed, title, beside } => {
                let [before, inside, after] = [&stack[..framed.start], &stack[framed.clone()], &stack[framed.end..]].map(boxes);
                let (title, beside) = (escape(title), boxes(beside));
                format!(
                    "<div class=\"diagram\">\n<div>{before}<div class=\"frame\"><p>{title}</p>{inside}</div>{after}</div>\n\
                     <div>{beside}</div>\n</div>\n"
                )
            }
            Self::Pairs(pairs) => {
                let item = |(name, value): &(String, String)| {
                    format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value))
                };
                format!("<dl class=\"pairs\">\n{}</dl>\n", each(pairs, item))
            }
            Self::Samples(samples) => {
                let item = |sample: &SampleRecord| {
                    let when = format!("{} tokens<br>{}", count(sample.at.tokens), duration(sample.at.elapsed));
                    let text = format!("<span class=\"prompt\">{}</span>{}", escape(&sample.prompt), escape(&sample.text));
                    let step = count(sample.at.step);
                    format!("<li><div class=\"when\"><b>step {step}</b>{when}</div><blockquote>{text}</blockquote></li>\n")
                };
                format!("<ol class=\"samples\">\n{}</ol>\n", each(samples, item))
            }
        }
    }
}

/// Links whose addresses have the prefix `before`.
fn anchors(before: &str, links: &[Link]) -> String {
    let link = |link: &Link| format!("<a href=\"{before}{}\">{}</a>", escape(&link.to), escape(&link.text));
    links.iter().map(link).collect::<Vec<_>>().join(" · ")
}

/// The boxes of a diagram, one after the other.
fn boxes(parts: &[Part]) -> String {
    let part = |part: &Part| {
        let (name, text, links) = (escape(&part.name), escape(&part.text), anchors("#", &part.links));
        format!("<section class=\"part\"><b>{name}</b><span>{text}</span><small>{links}</small></section>\n")
    };
    each(parts, part)
}

/// A table; all cells of a row but the first have an attribute, and a row may have an id.
fn table<'a>(heads: &[String], rows: impl Iterator<Item = (&'a str, &'a Row)>, attribute: &str) -> String {
    let mut head = String::new();
    for (index, text) in heads.iter().enumerate() {
        let attribute = if index == 0 { "" } else { attribute };
        let _ = write!(head, "<th scope=\"col\"{attribute}>{}</th>", prose(text));
    }
    let row = |(id, row): (&str, &Row)| {
        let own = if row.own { " class=\"own\"" } else { "" };
        let id = if id.is_empty() { String::new() } else { format!(" id=\"{}\"", escape(id)) };
        let cells = each(&row.cells, |cell| format!("<td{attribute}>{}</td>", prose(cell)));
        format!("<tr{id}{own}><th scope=\"row\">{}</th>{cells}</tr>\n", prose(&row.head))
    };
    let body: String = rows.map(row).collect();
    format!("<div class=\"wide\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n")
}

/// The items one after another.
fn each<T>(items: &[T], html: impl Fn(&T) -> String) -> String {
    items.iter().map(html).collect()
}
