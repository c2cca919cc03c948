//! Added tokens: pieces of text, such as `<start>`, that are one token each, found before any other processing.

use std::collections::HashMap;

use crate::error::TextError;
use crate::matcher::{Edges, Matcher, Target};

/// A token that is matched in the text itself and kept whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AddedToken {
    /// The text that the token matches.
    pub content: String,
    pub id: u32,
    /// Whether this is a control token (`<start>`), rather than a word of the language.
    pub special: bool,
    /// Whether the token is matched in normalised text (so in any case), rather than in the raw text. Gradus makes no such
    /// tokens, but reads and writes those of other tokenizers.
    pub normalized: bool,
    /// The options for the text next to the token.
    pub edges: Edges,
}

impl AddedToken {
    /// BERT's special tokens.
    pub(crate) const BERT: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
    /// RoBERTa's special tokens.
    pub(crate) const ROBERTA: [&str; 5] = ["<s>", "<pad>", "</s>", "<unk>", MASK];
    /// GPT-2's special token.
    pub(crate) const GPT2: [&str; 1] = ["<|endoftext|>"];

    /// Returns the names of the special tokens of a byte-level vocabulary with these ids: RoBERTa's if it has them all, else
    /// GPT-2's.
    pub(crate) fn of_bytes(id: impl Fn(&str) -> Option<u32>) -> &'static [&'static str] {
        if Self::ROBERTA.iter().all(|name| id(name).is_some()) { &Self::ROBERTA } else { &Self::GPT2 }
    }

    /// Creates a special token that is matched anywhere in the raw text.
    pub(crate) fn special(content: &str, id: u32) -> Self {
        AddedToken { content: content.to_owned(), id, special: true, normalized: false, edges: Edges::default() }
    }

    /// Creates a special token with its published options: RoBERTa's `<mask>` includes the white space before it.
    pub(crate) fn published(content: &str, id: u32) -> Self {
        AddedToken { edges: Edges { left: content == MASK, ..Edges::default() }, ..Self::special(content, id) }
    }
}

const MASK: &str = "<mask>";

/// The added tokens of a tokenizer, by id.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddedTokens {
    tokens: Vec<AddedToken>,
    ids: HashMap<String, u32>,
    pub(crate) raw: Matcher,
    pub(crate) normalized: Matcher,
    /// Whether special tokens stay text (`split_special_tokens`).
    pub(crate) split: bool,
}

impl AddedTokens {
    /// Adds a token, or replaces the options of a token that is already added. `normalize` is the tokenizer's normaliser.
    pub(crate) fn insert(&mut self, token: AddedToken, normalize: impl Fn(&str) -> String) -> Result<(), TextError> {
        let refuse = |reason: String| Err(TextError::Special { token: token.content.clone(), reason });
        let pattern = |token: &AddedToken| if token.normalized { normalize(&token.content) } else { token.content.clone() };
        let found = pattern(&token);
        let place = self.tokens.binary_search_by_key(&token.id, |own| own.id);
        match (place.map(|at| &self.tokens[at]), self.id(&token.content)) {
            // With such a token, `tokenizers` cuts every text into its bytes.
            _ if found.is_empty() => {
                return refuse("it matches nothing, since it is empty (after normalisation). Give it visible characters".into());
            }
            (Ok(own), _) if own.content != token.content => {
                return refuse(format!("its id, {}, is that of the added token {:?}. Give it another", own.id, own.content));
            }
            (Err(_), Some(id)) => return refuse(format!("it is listed twice, with the ids {id} and {}. Remove one", token.id)),
            _ => {}
        }
        if let Ok(at) = place {
            let old = self.tokens.remove(at);
            self.matcher(old.normalized).remove(&pattern(&old), old.id);
        }
        let target = Target { id: token.id, edges: token.edges, skipped: self.split && token.special };
        self.matcher(token.normalized).insert(found, target);
        self.ids.insert(token.content.clone(), token.id);
        self.tokens.insert(place.unwrap_or_else(|at| at), token);
        Ok(())
    }

    fn matcher(&mut self, normalized: bool) -> &mut Matcher {
        if normalized { &mut self.normalized } else { &mut self.raw }
    }

    pub(crate) fn as_slice(&self) -> &[AddedToken] {
        &self.tokens
    }

    pub(crate) fn id(&self, content: &str) -> Option<u32> {
        self.ids.get(content).copied()
    }

    /// Returns whether a token is added as a special one.
    pub(crate) fn is_special(&self, content: &str) -> bool {
        self.id(content).and_then(|id| self.get(id)).is_some_and(|token| token.special)
    }

    pub(crate) fn get(&self, id: u32) -> Option<&AddedToken> {
        self.tokens.binary_search_by_key(&id, |t| t.id).ok().map(|i| &self.tokens[i])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::Piece;

    /// A file may list this many tokens. Comparing each with all others would take minutes.
    #[test]
    fn a_hundred_thousand_tokens_are_found() {
        let mut added = AddedTokens::default();
        let content = |id: u32| format!("<{}{id}>", "x".repeat(id as usize % 50));
        for id in 0..100_000 {
            let token = AddedToken::special(&content(id), id);
            added.insert(token, str::to_owned).unwrap();
        }
        let text: String = (0..100_000).step_by(7).map(content).collect();
        let found = added.raw.split(&text).map(|(_, piece)| piece);
        assert!(found.eq((0..100_000).step_by(7).map(Piece::Token)));
        assert_eq!((added.id(&content(77_777)), added.as_slice().len()), (Some(77_777), 100_000));
        let again = AddedToken::special(&content(5), 100_000);
        assert!(added.insert(again, str::to_owned).is_err());
    }
}
