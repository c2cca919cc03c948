//! model/LEDGER.md agrees with the rows, and everything that they name exists.

use std::path::Path;

use gradus_audit::ledger::{Ledger, Outcomes};

fn ledger() -> Ledger {
    Ledger::of(Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root"), &Outcomes::new())
}

#[test]
fn every_source_and_test_of_the_ledger_exists() {
    let faults = ledger().faults();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn the_page_of_the_ledger_is_not_stale() {
    let (committed, made) = (include_str!("../../model/LEDGER.md"), ledger().markdown());
    assert!(committed == made, "make it again with `cargo run -- audit ledger --markdown model/LEDGER.md --overwrite`");
}
