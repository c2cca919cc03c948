//! The blocks of a report in Markdown.

use crate::html::{Block, Row};

/// Renders text, commands and tables; returns `None` for all other blocks.
pub fn block(block: &Block) -> Option<String> {
    match block {
        Block::Text(text) => Some(text.clone()),
        Block::Listing(text) => Some(text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")),
        Block::Figures(figures) => {
            let row = |f: &crate::Figure| Row::new(&f.name, [&f.value, &f.hint]);
            Some(table(&["", "", ""].map(String::from), &figures.iter().map(row).collect::<Vec<_>>()))
        }
        Block::Table(heads, rows) | Block::Words(heads, rows) => Some(table(heads, rows)),
        _ => None,
    }
}

/// Renders a table, with the subject of the report highlighted.
fn table(heads: &[String], rows: &[Row]) -> String {
    let line = |cells: Vec<String>| {
        let cells = cells.iter().map(|cell| cell.replace('|', "\\|"));
        format!("|{}", cells.map(|cell| if cell.is_empty() { " |".into() } else { format!(" {cell} |") }).collect::<String>())
    };
    let row = |row: &Row| {
        let head = if row.own { format!("**{}**", row.head) } else { row.head.clone() };
        line([&[head], &row.cells[..]].concat())
    };
    let rule = format!("|{}", "-|".repeat(heads.len()));
    [line(heads.to_vec()), rule].into_iter().chain(rows.iter().map(row)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use crate::{Block, Document, Row};

    #[test]
    fn a_document_is_a_page_of_headings_text_and_tables() {
        let mut report = Document { title: "What it costs".into(), foot: "Medians.".into(), ..Document::default() };
        report.section("", vec![Block::Text("In short: little.".into())]);
        let rows = [Row { own: true, ..Row::new("ours", ["1.5", ""]) }, Row::new("a|b", ["2.0", "–"])];
        report.section("Costs", vec![Block::table(["", "time", "memory"], rows), Block::Plots(Vec::new(), "A plot.".into())]);
        report.section("How", vec![Block::Listing("gradus bench\ngradus audit".into())]);
        let page = "# What it costs\n\nIn short: little.\n\n## Costs\n\n| | time | memory |\n|-|-|-|\n| **ours** | 1.5 | |\n\
                    | a\\|b | 2.0 | – |\n\n## How\n\n    gradus bench\n    gradus audit\n\nMedians.\n";
        assert_eq!(report.markdown(), page);
    }
}
