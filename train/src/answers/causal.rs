//! The answers of a network that predicts the next token.

use std::cell::RefCell;

use gradus_model::{Batch, Decoder, Input, Model};
use gradus_tensor::{Real, Tensor};

use super::evaluate::{SlidingWindow, token_losses};
use super::{Answers, ROWS, Slide, vectors};
use crate::views;

/// A network that predicts the next token.
pub struct Causal<'m, T: Real = f32> {
    model: &'m Model<Tensor<T>>,
    windows: SlidingWindow,
    /// The text that was continued last.
    continued: RefCell<Continued<'m, T>>,
}

/// A text that is continued token by token. Each time the context is full, its last half is read again and nothing before it.
struct Continued<'m, T: Real> {
    text: Vec<u32>,
    /// The index of the first token that the decoder has read.
    start: usize,
    decoder: Decoder<'m, T>,
}

impl<'m, T: Real> Causal<'m, T> {
    /// Returns the answers of a model, whose losses are in windows that do not overlap.
    pub fn new(model: &'m Model<Tensor<T>>) -> Self {
        Self::with_windows(model, SlidingWindow::apart(model.sizes().context))
    }

    /// Returns the answers of a model, with losses in these windows.
    pub fn with_windows(model: &'m Model<Tensor<T>>, windows: SlidingWindow) -> Self {
        let continued = Continued { text: Vec::new(), start: 0, decoder: Decoder::new(model) };
        Causal { model, windows, continued: continued.into() }
    }

    /// Computes the logits of the next token. Tokens that the last call read are not read again.
    fn continuing(&self, text: &[u32]) -> Vec<f64> {
        let mut last = self.continued.borrow_mut();
        let context = self.model.sizes().context;
        if !text.starts_with(&last.text) || text.len() == last.text.len() {
            *last = Continued { text: Vec::new(), start: 0, decoder: Decoder::new(self.model) };
        }
        if text.len() - last.start > context {
            (last.start, last.decoder) = (text.len() - kept(context), Decoder::new(self.model));
        }
        let first = last.start + last.decoder.position();
        last.text = text.to_vec();
        last.decoder.read(&text[first..]).into_iter().map(|z| z.to_f64()).collect()
    }
}

impl<T: Real> Answers for Causal<'_, T> {
    /// A single beginning may be longer than the context: the window slides.
    fn next(&self, beginnings: &[&[u32]]) -> Vec<Vec<f64>> {
        if let [one] = beginnings {
            return vec![self.continuing(one)];
        }
        let of_rows = |texts: &[&[u32]]| {
            let t = texts.iter().map(|text| text.len()).max().unwrap_or(0);
            let padded = |text: &&[u32]| text.iter().copied().chain(std::iter::repeat(0)).take(t).collect::<Vec<_>>();
            let last = |(row, text): (usize, &&[u32])| (row * t + text.len() - 1) as u32;
            let input = Input::causal(texts.len(), texts.iter().flat_map(padded).collect::<Vec<_>>());
            views::logits(self.model, &input, texts.iter().enumerate().map(last).collect())
        };
        beginnings.chunks(ROWS).flat_map(of_rows).collect()
    }

    fn along(&self, text: &[u32]) -> Vec<Vec<f64>> {
        views::logits(self.model, &Input::causal(1, text), (0..text.len() as u32).collect())
    }

    fn losses(&self, texts: &[&[u32]], reach: &mut dyn FnMut(usize)) -> Vec<Vec<f64>> {
        token_losses(self.model, texts, self.windows, reach)
    }

    /// Reads the text before each position only once, for all tokens.
    fn cloze(&self, text: &[u32], at: &[usize], among: &[u32], reach: &mut dyn FnMut(usize)) -> Vec<Vec<f64>> {
        let of_place = |&at: &usize| by_bayes(self.model, (&text[..at], &text[at + 1..]), among, reach);
        at.iter().map(of_place).collect()
    }

    fn room(&self) -> Option<usize> {
        Some(self.model.sizes().context)
    }

    fn slide(&self, prompt: usize, tokens: usize) -> Option<Slide> {
        let context = self.model.sizes().context;
        let at = prompt.max(context.saturating_add(1));
        (at < prompt.saturating_add(tokens)).then(|| Slide { at, unseen: at - kept(context) })
    }

    fn vectors(&self) -> Option<Tensor> {
        Some(vectors(self.model))
    }
}

/// Returns the number of tokens that are read again when the window slides.
fn kept(context: usize) -> usize {
    (context / 2).max(1)
}

/// Computes ln P of the text with each of these tokens in its gap, up to a constant.
fn by_bayes<T: Real>(
    model: &Model<Tensor<T>>,
    (before, after): (&[u32], &[u32]),
    among: &[u32],
    reach: &mut dyn FnMut(usize),
) -> Vec<f64> {
    let mut decoder = Decoder::new(model);
    let mut log_probs = vec![0.0; among.len()];
    if !before.is_empty() {
        let z = decoder.read(before);
        log_probs.iter_mut().zip(among).for_each(|(log_p, &token)| *log_p = z[token as usize].to_f64());
    }
    let mut done = 0;
    for (tokens, log_probs) in among.chunks(ROWS).zip(log_probs.chunks_mut(ROWS)) {
        if let Some((_, but_last)) = after.split_last() {
            let inputs: Vec<u32> = tokens.iter().flat_map(|&token| [&[token], but_last].concat()).collect();
            let targets = after.repeat(tokens.len());
            let weights = vec![1.0; targets.len()];
            let losses = decoder.token_losses(&Batch::next(tokens.len(), inputs, targets, weights)).to_vec();
            let of_rows = losses.chunks(after.len()).map(|row| row.iter().map(|&loss| loss.to_f64()).sum::<f64>());
            log_probs.iter_mut().zip(of_rows).for_each(|(log_p, loss)| *log_p -= loss);
        }
        done += tokens.len();
        reach(done);
    }
    log_probs
}
