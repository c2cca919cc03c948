//! Every parser of Gradus as a function of bytes: what the fuzz targets of `tests/fuzz` and the tests of mutated files run.
//!
//! A parser that reads several files takes them from one input, joined (`files`).

mod files;
mod models;
mod runs;
mod sets;
mod settings;
mod texts;

use crate::allocations::most_held;

/// A parser, and what is done with that which it reads.
#[derive(Debug)]
pub struct Parser {
    /// That of its fuzz target and corpus.
    pub name: &'static str,
    /// Reads the bytes, and uses what was read. Errors are as good as values; what must not happen panics.
    pub read: fn(&[u8]),
    /// Sound inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Bytes that it may hold at once: so many in any case …
    pub always: usize,
    /// … and so many for each byte of input.
    pub per_byte: usize,
}

/// One mebibyte.
const MIB: usize = 1 << 20;

/// All of them.
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
    /// The parser of this name.
    ///
    /// # Panics
    /// Where there is none.
    pub fn named(name: &str) -> &'static Parser {
        ALL.iter().find(|parser| parser.name == name).unwrap_or_else(|| panic!("no parser {name}"))
    }

    /// Reads an input.
    ///
    /// # Panics
    /// Where the parser does, or where it holds more memory than an input of this size is worth.
    pub fn check(&self, bytes: &[u8]) {
        let held = most_held(|| (self.read)(bytes));
        let most = self.always + self.per_byte * bytes.len();
        assert!(held <= most, "{}: held {held} bytes for {} of input, more than {most}", self.name, bytes.len());
    }
}
