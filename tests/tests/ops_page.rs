//! autograd/OPS.md is what the ops' files say.

use gradus_audit::ops::Catalogue;
use gradus_autograd::check;

/// The page without figures, which depend on the machine and on how many draws were made.
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
    let committed = include_str!("../../autograd/OPS.md");
    let made = Catalogue::of(1, || {}).markdown();
    for (number, (found, expected)) in words(committed).iter().zip(&words(&made)).enumerate() {
        assert_eq!(
            found,
            expected,
            "autograd/OPS.md, line {}: make it again with `cargo run -- audit ops --markdown autograd/OPS.md --overwrite`",
            number + 1
        );
    }
    assert_eq!(committed.lines().count(), made.lines().count());
}

/// What the page claims: nothing was refused when it was made, and every witness ran on 256 draws.
#[test]
fn the_page_of_ops_claims_what_holds() {
    let committed = include_str!("../../autograd/OPS.md");
    assert!(committed.contains("Every witness on 256 draws") && !committed.contains("| refused |"));
}
