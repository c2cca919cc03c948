//! The world's words, and their tokens.

use std::collections::HashMap;

use gradus_text::{TextError, Tokenizer};
use gradus_train::pretrain::{Split, TextSource};

/// The reason why a run cannot be evaluated word by word.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum LexiconError {
    #[error(transparent)]
    Text(#[from] TextError),
    #[error(
        "expected a tokenizer of which each token is a word of the micro-world, found the token \"{token}\": train the run without --corpus"
    )]
    NoWord { token: String },
}

/// The words of a world by number, with their tokens.
#[derive(Clone, Debug, Default)]
pub struct Lexicon {
    words: Vec<String>,
    tokens: Vec<u32>,
    numbers: HashMap<String, usize>,
}

impl Lexicon {
    /// Reads the words of a run's stories, in the order of their tokens.
    ///
    /// # Errors
    /// Returns an error if a token is not a word of the world.
    pub fn of(source: &dyn TextSource) -> Result<Self, LexiconError> {
        let mut seen = vec![false; source.tokenizer().vocab_size()];
        for part in [Split::Train, Split::HeldOut] {
            (0..source.texts(part))
                .for_each(|number| source.text(part, number).into_iter().for_each(|id| seen[id as usize] = true));
        }
        let mut lexicon = Lexicon::default();
        for id in (0..seen.len() as u32).filter(|&id| seen[id as usize]) {
            lexicon.add(source.tokenizer(), id)?;
        }
        Ok(lexicon)
    }

    fn add(&mut self, tokenizer: &Tokenizer, token: u32) -> Result<(), LexiconError> {
        let word = tokenizer.decode(&[token])?.trim().to_owned();
        let is_whole = !word.is_empty() && tokenizer.encode(&word)? == [token];
        if !is_whole {
            return Err(LexiconError::NoWord { token: tokenizer.token(token).unwrap_or(word) });
        }
        self.numbers.insert(word.clone(), self.words.len());
        self.words.push(word);
        self.tokens.push(token);
        Ok(())
    }

    /// Returns the number of words.
    #[allow(clippy::len_without_is_empty, reason = "a world has words")]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns a word's text.
    pub fn word(&self, number: usize) -> &str {
        &self.words[number]
    }

    /// Returns the words' tokens, by the words' numbers.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Returns a word's token.
    pub fn token(&self, number: usize) -> u32 {
        self.tokens[number]
    }

    /// Returns the word of a token; panics if the token is not a word.
    pub fn of_token(&self, token: u32) -> usize {
        self.tokens.binary_search(&token).expect("a token of the world")
    }

    /// Returns the number of the word with this text.
    pub fn number(&self, word: &str) -> Option<usize> {
        self.numbers.get(word).copied()
    }

    /// Returns the tokens of words.
    pub fn encode(&self, words: &[usize]) -> Vec<u32> {
        words.iter().map(|&word| self.tokens[word]).collect()
    }

    /// Returns words as text in the world's syntax.
    pub fn text(&self, words: &[usize]) -> String {
        words.iter().map(|&word| self.word(word)).collect::<Vec<_>>().join(" ")
    }

    /// Returns the probability of each word, from the logits of all tokens: a softmax over the words only.
    pub fn distribution(&self, logits: &[f64]) -> Vec<f64> {
        let own: Vec<f64> = self.tokens.iter().map(|&token| logits[token as usize]).collect();
        gradus_train::tasks::probabilities(&own)
    }
}
