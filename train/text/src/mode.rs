//! The modes of splitting text into words.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{basic, openai};

/// A mode of splitting text into words before the pairs are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mode {
    /// BERT's basic tokenizer, as in Hugging Face's GPT-1 tokenizer: see [`basic`].
    #[default]
    Basic,
    /// ftfy and spaCy, as in OpenAI's code: see [`openai`].
    Spacy,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Mode; 2] = [Mode::Basic, Mode::Spacy];

    /// Returns the mode's name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Basic => "basic",
            Mode::Spacy => "spacy",
        }
    }

    /// Calls `word` with every word of a text, in order. `html`: whether the text before it contains a `<`.
    pub(crate) fn for_each_word(self, text: &str, html: bool, word: impl FnMut(&str)) {
        match self {
            Mode::Basic => basic::for_each_word(text, word),
            Mode::Spacy => openai::for_each_word(text, html, word),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = |mode: &Mode| mode.name() == name;
        Mode::ALL.into_iter().find(known).ok_or_else(|| format!("expected basic or spacy, found {name:?}"))
    }
}
