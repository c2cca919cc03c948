//! The world's words, and the tokens that stand for them.

use std::collections::HashMap;

use gradus_text::{TextError, Tokenizer};
use gradus_train::pretrain::{Split, TextSource};

/// Why a run cannot be asked word by word.
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
    /// The words of a run's stories, in the order of their tokens.
    ///
    /// # Errors
    /// A token that is no word of the world.
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

    /// How many words there are.
    #[allow(clippy::len_without_is_empty, reason = "a world has words")]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// A word's text.
    pub fn word(&self, number: usize) -> &str {
        &self.words[number]
    }

    /// The words' tokens, by the words' numbers.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// A word's token.
    pub fn token(&self, number: usize) -> u32 {
        self.tokens[number]
    }

    /// The word that a token stands for; panics where it stands for none.
    pub fn of_token(&self, token: u32) -> usize {
        self.tokens.binary_search(&token).expect("a token of the world")
    }

    /// A text's word.
    pub fn number(&self, word: &str) -> Option<usize> {
        self.numbers.get(word).copied()
    }

    /// Words as tokens.
    pub fn encode(&self, words: &[usize]) -> Vec<u32> {
        words.iter().map(|&word| self.tokens[word]).collect()
    }

    /// Words as text that a world reads.
    pub fn text(&self, words: &[usize]) -> String {
        words.iter().map(|&word| self.word(word)).collect::<Vec<_>>().join(" ")
    }

    /// The probability of each word, from the logits of all tokens: a softmax over the words alone.
    pub fn distribution(&self, logits: &[f64]) -> Vec<f64> {
        let own: Vec<f64> = self.tokens.iter().map(|&token| logits[token as usize]).collect();
        gradus_train::tasks::probabilities(&own)
    }
}
