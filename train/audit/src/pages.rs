//! The pages of the repository that are generated from its code, and the tables in them.

use gradus_report::{Block, Row};

/// The page of the ops, from the root of the repository.
pub(crate) const OPS: &str = "autograd/OPS.md";
/// The page of the ledger, from the root of the repository.
pub(crate) const LEDGER: &str = "model/LEDGER.md";

/// Returns the link from `page`, one folder below the root, to a path given from the root of the repository.
pub(crate) fn linked(page: &str, path: &str) -> String {
    let folder = page.split_once('/').map_or("", |(folder, _)| folder);
    match path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')) {
        Some(near) => near.to_owned(),
        None => format!("../{path}"),
    }
}

/// Returns a row of an HTML table: its head and its cells.
pub(crate) fn row<const N: usize>(cells: [String; N]) -> Row {
    let mut cells = cells.into_iter();
    Row::new(cells.next().unwrap_or_default(), cells)
}

/// Returns a table of an HTML page.
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
