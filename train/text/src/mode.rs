//! How text becomes words.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{basic, openai};

/// How text becomes words before the pairs are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mode {
    /// BERT's basic tokenizer, as Hugging Face has it for GPT-1: see [`basic`].
    #[default]
    Basic,
    /// ftfy and spaCy, as OpenAI's code has them: see [`openai`].
    Spacy,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Mode; 2] = [Mode::Basic, Mode::Spacy];

    /// The mode's name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Basic => "basic",
            Mode::Spacy => "spacy",
        }
    }

    /// Calls `word` with every word of a text, in order. `html`: the text goes on after one that holds a `<`.
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
