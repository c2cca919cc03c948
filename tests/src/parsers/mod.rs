//! Every parser of Gradus as a function of bytes, for the fuzz targets of `tests/fuzz` and the tests of mutated files.
//!
//! A parser that reads several files takes them from one input, joined (`files`).

mod files;
mod models;
mod runs;
mod sets;
mod settings;
mod texts;

use crate::allocations::most_held;

/// A parser, and the use of its result.
#[derive(Debug)]
pub struct Parser {
    /// The name of the parser's fuzz target and corpus.
    pub name: &'static str,
    /// The function that reads the bytes and uses the result. Values and errors are both accepted; a violated expectation panics.
    pub read: fn(&[u8]),
    /// The valid inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// The maximum number of bytes allocated at once for an empty input.
    pub always: usize,
    /// The further bytes that may be allocated for each byte of input.
    pub per_byte: usize,
}

/// One mebibyte.
const MIB: usize = 1 << 20;

/// All parsers.
pub static ALL: &[&Parser] = &[
    &models::CHECKPOINT,
    &models::OPENAI_RELEASE,
    &runs::TRAINER_STATE,
    &runs::METRICS,
    &runs::CHECKSUMS,
    &settings::SETTINGS,
    &settings::KEPT_STEP,
    &texts::TOKENIZER,
    &texts::TEXT,
    &texts::STORIES,
    &texts::TOKEN_FILE,
    &sets::SETS,
    &sets::PACKED,
];

impl Parser {
    /// Returns the parser of this name.
    ///
    /// # Panics
    /// Panics if there is no such parser.
    pub fn named(name: &str) -> &'static Parser {
        ALL.iter().find(|parser| parser.name == name).unwrap_or_else(|| panic!("no parser {name}"))
    }

    /// Reads an input.
    ///
    /// # Panics
    /// Panics if the parser panics, or if it holds more memory than an input of this size allows.
    pub fn check(&self, bytes: &[u8]) {
        let held = most_held(|| (self.read)(bytes));
        let most = self.always + self.per_byte * bytes.len();
        assert!(held <= most, "{}: held {held} bytes for {} of input, more than {most}", self.name, bytes.len());
    }
}
