//! What a step reads, in words.

use std::collections::HashSet;

use gradus_model::Batch;
use gradus_report::markup::escape;
use gradus_text::Tokenizer;
use serde::Serialize;

/// A batch in words.
#[derive(Clone, Debug, Serialize)]
pub struct Tokens {
    /// Number of sequences.
    pub sequences: usize,
    /// What is read (B·T).
    pub inputs: Vec<String>,
    /// What is to be predicted (B·T).
    pub targets: Vec<String>,
    /// Both in words by their row of the embedding, in the order of the text.
    pub rows: Vec<(usize, String)>,
}

impl Tokens {
    /// A batch in these words; empty ones are not shown.
    pub fn new(batch: &Batch, inputs: Vec<String>, targets: Vec<String>) -> Self {
        let mut seen = HashSet::new();
        let all = batch.side.tokens.iter().zip(&inputs).chain(batch.targets.iter().zip(&targets));
        let first = all.filter(|(id, word)| !word.is_empty() && seen.insert(**id));
        let rows = first.map(|(&id, word)| (id as usize, word.clone())).collect();
        Tokens { sequences: batch.side.sequences, inputs, targets, rows }
    }

    /// A batch in words, where `shown` says so for inputs and targets at a position (B·T).
    pub fn of(tokenizer: &Tokenizer, batch: &Batch, shown: [&dyn Fn(usize) -> bool; 2]) -> Self {
        let word = |id: u32| tokenizer.token(id).unwrap_or_else(|| format!("#{id}")).replace("</w>", "");
        let words = |ids: &[u32], shown: &dyn Fn(usize) -> bool| {
            ids.iter().enumerate().map(|(i, &id)| if shown(i) { word(id) } else { String::new() }).collect()
        };
        Tokens::new(batch, words(&batch.side.tokens, shown[0]), words(&batch.targets, shown[1]))
    }

    /// A whole batch in words.
    pub fn all(tokenizer: &Tokenizer, batch: &Batch) -> Self {
        Tokens::of(tokenizer, batch, [&|_| true, &|_| true])
    }

    /// A line per sequence: what is read, and what is to be predicted where that is not what is read next.
    pub fn html(&self) -> String {
        let length = self.inputs.len() / self.sequences.max(1);
        let word = |i: usize| {
            let (input, target) = (&self.inputs[i], &self.targets[i]);
            let goes_on = !(i + 1).is_multiple_of(length) && self.inputs[i + 1] == *target;
            let next = if goes_on || target.is_empty() { String::new() } else { format!(" <em>→ {}</em>", escape(target)) };
            format!("<span>{}{next}</span>", escape(input))
        };
        let line = |s: usize| format!("<p class=\"words\">{}</p>", (s * length..(s + 1) * length).map(word).collect::<String>());
        (0..self.sequences).map(line).collect()
    }
}
