//! Code shared by the fuzz targets.

use gradus_tests::allocations::Counting;
use gradus_tests::parsers::Parser;

#[global_allocator]
static MEMORY: Counting = Counting;

/// Reads an input with the parser of this name.
pub fn check(name: &str, bytes: &[u8]) {
    Parser::named(name).check(bytes);
}
