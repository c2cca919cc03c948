//! The written form of a story: conversion of words and marks to text, and back.
//!
//! Capitals and blanks are determined by the words. The text and its lower-case words and marks therefore have the same
//! probability.

use crate::error::WorldError;
use crate::words::NAMES;

/// A lower-case word or a punctuation mark, with its byte offset in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) word: String,
    pub(crate) byte: usize,
}

/// Splits a text into lower-case words and the marks `. , ? "`.
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

/// A writer of words and marks as text, with capitals for sentences, quotations and names.
#[derive(Default)]
pub(crate) struct Writer {
    pub(crate) text: String,
    /// The number of words and marks written.
    pub(crate) tokens: usize,
    in_quotes: bool,
    /// Whether the next word begins a sentence or a quotation.
    begins: bool,
    /// Whether the next word follows without a blank.
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
