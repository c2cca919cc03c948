//! The `gradus` program.
fn main() {}
