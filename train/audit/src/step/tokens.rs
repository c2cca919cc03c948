//! The batch of a step as text.

use std::collections::HashSet;

use gradus_model::Batch;
use gradus_report::markup::escape;
use gradus_text::Tokenizer;
use serde::Serialize;

/// A batch as text.
#[derive(Clone, Debug, Serialize)]
pub struct Tokens {
    /// The number of sequences.
    pub sequences: usize,
    /// The input tokens (B·T).
    pub inputs: Vec<String>,
    /// The target of each slot (B·T).
    pub targets: Vec<String>,
    /// The row of the embedding and the text of each distinct token, inputs before targets, in order of first appearance.
    pub rows: Vec<(usize, String)>,
    /// Whether every slot has a target. The targets are then the next tokens.
    #[serde(skip)]
    follows: bool,
}

/// Returns the target of each slot (B·T), if it has one.
fn asked(batch: &Batch) -> Vec<Option<u32>> {
    let mut all = vec![None; batch.input.tokens.len()];
    for tokens in batch.tokens() {
        let every: Vec<u32> = (0..all.len() as u32).collect();
        let slots = tokens.slots.as_deref().unwrap_or(&every);
        slots.iter().zip(&tokens.targets[..]).for_each(|(&slot, &id)| all[slot as usize] = Some(id));
    }
    all
}

impl Tokens {
    /// Creates the text of a batch from the words of inputs and targets; an empty string hides a token.
    pub fn new(batch: &Batch, inputs: Vec<String>, targets: Vec<String>) -> Self {
        let mut seen = HashSet::new();
        let asked = asked(batch).into_iter().zip(&targets).filter_map(|(id, word)| Some((id?, word)));
        let all = batch.input.tokens.iter().copied().zip(&inputs).chain(asked);
        let first = all.filter(|(id, word)| !word.is_empty() && seen.insert(*id));
        let rows = first.map(|(id, word)| (id as usize, word.clone())).collect();
        Tokens {
            sequences: batch.input.sequences,
            inputs,
            targets,
            rows,
            follows: batch.tokens().all(|tokens| tokens.slots.is_none()),
        }
    }

    /// Creates the text of a batch. `shown` selects the inputs and the targets by slot (0 to B·T − 1).
    pub fn of(tokenizer: &Tokenizer, batch: &Batch, shown: [&dyn Fn(usize) -> bool; 2]) -> Self {
        let word = |id: u32| tokenizer.token(id).unwrap_or_else(|| format!("#{id}")).replace("</w>", "");
        let words = |ids: Vec<Option<u32>>, shown: &dyn Fn(usize) -> bool| {
            ids.into_iter().enumerate().map(|(i, id)| id.filter(|_| shown(i)).map_or_else(String::new, word)).collect()
        };
        let read = batch.input.tokens.iter().map(|&id| Some(id)).collect();
        Tokens::new(batch, words(read, shown[0]), words(asked(batch), shown[1]))
    }

    /// Creates the text of a whole batch.
    pub fn all(tokenizer: &Tokenizer, batch: &Batch) -> Self {
        Tokens::of(tokenizer, batch, [&|_| true, &|_| true])
    }

    /// Returns a line per sequence: the inputs, and each target that is not the next input.
    pub fn html(&self) -> String {
        let length = self.inputs.len() / self.sequences.max(1);
        let word = |i: usize| {
            let (input, target) = (&self.inputs[i], &self.targets[i]);
            let goes_on = self.follows && !(i + 1).is_multiple_of(length) && self.inputs[i + 1] == *target;
            let next = if goes_on || target.is_empty() { String::new() } else { format!(" <em>→ {}</em>", escape(target)) };
            format!("<span>{}{next}</span>", escape(input))
        };
        let line = |s: usize| format!("<p class=\"words\">{}</p>", (s * length..(s + 1) * length).map(word).collect::<String>());
        (0..self.sequences).map(line).collect()
    }
}
