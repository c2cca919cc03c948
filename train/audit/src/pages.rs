//! The pages of the repository that are made from its code, and the tables of all pages.

use gradus_report::{Block, Row};

/// The page of the ops, from the root of the repository.
pub(crate) const OPS: &str = "autograd/OPS.md";
/// The paper against the code.
pub(crate) const LEDGER: &str = "model/LEDGER.md";

/// A path from the root of the repository, as `page`, one folder below the root, links to it.
pub(crate) fn linked(page: &str, path: &str) -> String {
    let folder = page.split_once('/').map_or("", |(folder, _)| folder);
    match path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')) {
        Some(near) => near.to_owned(),
        None => format!("../{path}"),
    }
}

/// A row of a page in HTML: its head and its cells.
pub(crate) fn row<const N: usize>(cells: [String; N]) -> Row {
    let mut cells = cells.into_iter();
    Row::new(cells.next().unwrap_or_default(), cells)
}

/// A table of a page in HTML.
pub(crate) fn table<const N: usize>(heads: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> Block {
    Block::table(heads, rows.into_iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_relative_to_their_page() {
        assert_eq!(linked(OPS, "autograd/src/lib.rs"), "src/lib.rs");
        assert_eq!(linked(LEDGER, "autograd/src/lib.rs"), "../autograd/src/lib.rs");
        assert_eq!(linked(LEDGER, "models/src/lib.rs"), "../models/src/lib.rs");
    }
}
