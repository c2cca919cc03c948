//! The written form of a story: words and marks to text, and back.
//!
//! Capitals and blanks follow from the words, so the text and its lower-cased words and marks carry the same information, and
//! both have the same probability.

use crate::error::WorldError;
use crate::words::NAMES;

/// A lower-cased word or a punctuation mark, and the byte at which it starts in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) word: String,
    pub(crate) byte: usize,
}

/// Splits a text into lower-cased words and the marks `. , ? "`.
pub(crate) fn split(text: &str) -> Result<Vec<Token>, WorldError> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut in_word = false;
    for (byte, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => match tokens.last_mut() {
                Some(last) if in_word => last.word.push(c.to_ascii_lowercase()),
                _ => tokens.push(Token { word: c.to_ascii_lowercase().into(), byte }),
            },
            '.' | ',' | '?' | '"' => tokens.push(Token { word: c.into(), byte }),
            _ if c.is_ascii_whitespace() => {}
            found => return Err(WorldError::Character { found, byte }),
        }
        in_word = c.is_ascii_alphabetic();
    }
    Ok(tokens)
}

/// Writes words and marks as a text: sentences, speech and names begin with a capital.
#[derive(Default)]
pub(crate) struct Writer {
    pub(crate) text: String,
    /// The number of words and marks written.
    pub(crate) tokens: usize,
    in_quotes: bool,
    /// A sentence or a speech begins with the next word.
    begins: bool,
    /// The next word follows without a blank.
    tight: bool,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Writer { begins: true, tight: true, ..Writer::default() }
    }

    /// Appends the blank-separated words and marks of `phrase`.
    pub(crate) fn push(&mut self, phrase: &str) {
        for word in phrase.split_ascii_whitespace() {
            self.tokens += 1;
            match word {
                "\"" if !self.in_quotes => {
                    self.text.push_str(if self.tight { "\"" } else { " \"" });
                    (self.in_quotes, self.begins, self.tight) = (true, true, true);
                }
                "\"" => {
                    self.text.push('"');
                    (self.in_quotes, self.tight) = (false, false);
                }
                "." | "," | "?" => {
                    self.text.push_str(word);
                    (self.begins, self.tight) = (word != ",", false);
                }
                _ => {
                    if !self.tight {
                        self.text.push(' ');
                    }
                    let start = self.text.len();
                    self.text.push_str(word);
                    if self.begins || NAMES.iter().any(|&(name, _)| name == word) {
                        self.text[start..=start].make_ascii_uppercase();
                    }
                    (self.begins, self.tight) = (false, false);
                }
            }
        }
    }
}
