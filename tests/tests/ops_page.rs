//! autograd/OPS.md agrees with the ops' files.

use gradus_audit::ops::Catalogue;
use gradus_autograd::check;

const COMMITTED: &str = include_str!("../../autograd/OPS.md");

/// Returns the page without figures, which depend on the machine and on the number of draws.
fn words(page: &str) -> Vec<String> {
    let is_figures = |line: &str| check::WITNESSES.iter().any(|(name, _)| line.starts_with(&format!("| {name} |")));
    let line = |line: &str| match line {
        line if is_figures(line) => line.split('|').nth(1).unwrap_or_default().to_owned(),
        line if line.starts_with("- difference to PyTorch: value") => "- difference to PyTorch".to_owned(),
        line if line.starts_with("Every witness on ") => line.chars().filter(|c| !c.is_ascii_digit()).collect(),
        line => line.to_owned(),
    };
    page.lines().map(line).collect()
}

#[test]
fn the_page_of_ops_is_not_stale() {
    let (committed, made) = (words(COMMITTED), words(&Catalogue::of(1, || {}).markdown()));
    let stale = (1..).zip(committed.iter().zip(&made)).find(|(_, (found, expected))| found != expected);
    assert_eq!(stale, None, "make it again with `cargo run -- audit ops --markdown autograd/OPS.md --overwrite`");
    assert_eq!(committed.len(), made.len());
}

/// The page states that no op failed when it was made, and that every witness ran on 256 draws. Each witness has a row: seven for
/// the derivative, and the audit of the cost.
#[test]
fn the_page_of_ops_lists_every_witness_and_no_failure() {
    let table = COMMITTED.split_once("| witness |").expect("a table").1.split("\n\n").next().unwrap_or_default();
    let rows: Vec<&str> = table.lines().skip(2).filter_map(|line| line.split('|').nth(1)).map(str::trim).collect();
    assert_eq!(rows, check::WITNESSES.map(|(name, _)| name));
    assert_eq!((rows.len(), rows.last()), (8, Some(&"audit")));
    assert!(COMMITTED.contains(": seven of its derivative, and `audit`,"));
    assert!(COMMITTED.contains("Every witness on 256 draws") && !COMMITTED.contains("| refused |"));
}
