//! Predictions of a model at a position of a text: one interface of all systems, behind filling, generation, evaluation,
//! zero-shot answers, surveys and audits.
//!
//! ```text
//! next      P(xₙ₊₁ | x₁ … xₙ)
//! cloze     P(xᵢ | all other tokens)
//! losses    −ln P of each token of a text that the model predicts
//! vectors   the embedding of each token
//! ```
//!
//! A model that predicts the next token answers a cloze by Bayes' rule, and a model that fills masks continues a text by filling
//! the masks after it. `losses` is a separate query because a fused cross-entropy does not keep the logits of the other tokens.

mod causal;
mod counts;
pub mod evaluate;
pub mod fill;
pub mod generate;
mod masked;
pub mod zero_shot;

use gradus_model::{Model, Predicts};
use gradus_tensor::{Real, Tensor};
use gradus_text::Tokenizer;

use crate::views::SpecialTokens;

pub use causal::Causal;
pub use counts::Counts;
pub use masked::Masked;

/// The number of texts that are read at once.
const ROWS: usize = 32;

/// A token that is predicted without the beginning of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Slide {
    /// The index of the token.
    pub at: usize,
    /// The number of tokens at the beginning that the model does not read for it.
    pub unseen: usize,
}

/// A model that predicts tokens of a text.
pub trait Answers {
    /// Computes the logits of the token after each of these beginnings, of at least one token and at most the model's context.
    fn next(&self, beginnings: &[&[u32]]) -> Vec<Vec<f64>>;

    /// Computes the logits of the token after each token of a text.
    fn along(&self, text: &[u32]) -> Vec<Vec<f64>> {
        self.next(&(1..=text.len()).map(|n| &text[..n]).collect::<Vec<_>>())
    }

    /// Computes −ln P of the tokens of these texts, in nats: of each but the first given those before it, or for a model that
    /// fills masks of each given all others. `reach` receives the number of tokens predicted so far.
    fn losses(&self, texts: &[&[u32]], reach: &mut dyn FnMut(usize)) -> Vec<Vec<f64>>;

    /// Computes the logits of the tokens `among` at these positions of a text, each masked alone. `reach` receives the number of
    /// tokens tried so far at a position. The default implementation uses Bayes' rule:
    ///
    /// ```text
    /// P(xᵢ = w | the rest) = P(x with w) / Σ_v P(x with v)        v among these tokens
    /// ```
    fn cloze(&self, text: &[u32], at: &[usize], among: &[u32], reach: &mut dyn FnMut(usize)) -> Vec<Vec<f64>> {
        let mut of_place = |&at: &usize| {
            let mut logits = Vec::with_capacity(among.len());
            for tokens in among.chunks(ROWS) {
                let texts: Vec<Vec<u32>> =
                    tokens.iter().map(|&token| [&text[..at], &[token], &text[at + 1..]].concat()).collect();
                let losses = self.losses(&texts.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut |_| {});
                logits.extend(losses.iter().map(|losses| -losses.iter().sum::<f64>()));
                reach(logits.len());
            }
            logits
        };
        at.iter().map(&mut of_place).collect()
    }

    /// Returns the mask token; `None` for a model that predicts the next token.
    fn mask(&self) -> Option<u32> {
        None
    }

    /// Returns the maximum number of tokens of a text that the model reads at once; `None` if there is no limit.
    fn room(&self) -> Option<usize>;

    /// Returns the first token of `tokens` after a prompt that is predicted without the beginning of the text; `None` if each is
    /// predicted from all tokens before it.
    fn slide(&self, _prompt: usize, _tokens: usize) -> Option<Slide> {
        None
    }

    /// Returns the embeddings of the tokens (vocab, width); `None` for a model without embeddings.
    fn vectors(&self) -> Option<Tensor> {
        None
    }
}

/// The reason why a model does not answer.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum AnswersError {
    #[error("expected a tokenizer beside the model, for the ids of its special tokens; found none: copy the model's own there")]
    NoTokenizer,
    #[error(
        "expected a tokenizer with [CLS], [SEP] and [MASK], or <s>, </s> and <mask>, since the model fills masks; found {found}: \
         copy the model's own tokenizer there"
    )]
    NoSpecialTokens { found: String },
    #[error(
        "expected a model that was pre-trained, found one that was fine-tuned for a task, which no longer predicts tokens: give the \
         model that it was fine-tuned from"
    )]
    FineTuned,
}

/// Returns the answers of a network. For one that fills masks, a whole text has `length` tokens.
///
/// # Errors
/// Returns an error if a network that fills masks has no tokenizer or one without special tokens, or was fine-tuned for a task.
pub fn of<'m, T: Real>(
    model: &'m Model<Tensor<T>>,
    tokenizer: Option<&Tokenizer>,
    length: usize,
) -> Result<Box<dyn Answers + 'm>, AnswersError> {
    match model.predicts() {
        Predicts::Next => Ok(Box::new(Causal::new(model))),
        Predicts::Masked => Ok(Box::new(Masked::new(model, special_tokens(model, tokenizer)?).with_length(length))),
    }
}

/// Returns the special tokens of a model that fills masks.
///
/// # Errors
/// Returns an error if there is no tokenizer or one without special tokens, or if the model was fine-tuned for a task.
pub fn special_tokens<V>(model: &Model<V>, tokenizer: Option<&Tokenizer>) -> Result<SpecialTokens, AnswersError> {
    if model.task_head().is_some() {
        return Err(AnswersError::FineTuned);
    }
    let tokenizer = tokenizer.ok_or(AnswersError::NoTokenizer)?;
    SpecialTokens::of(tokenizer).ok_or_else(|| AnswersError::NoSpecialTokens { found: SpecialTokens::found(tokenizer) })
}

/// Returns the embeddings of a network's tokens.
fn vectors<T: Real>(model: &Model<Tensor<T>>) -> Tensor {
    model.body.token_embeddings().slice(0, 0..model.sizes().vocab).cast()
}

#[cfg(test)]
mod tests {
    use gradus_model::check::{tiny_bert, tiny_gpt, tiny_lstm};
    use gradus_model::{ModelConfig, Sizes, Tree};

    use super::*;
    use crate::views;

    fn model(config: ModelConfig) -> Model<Tensor<f64>> {
        Model::init(&ModelConfig { sizes: Sizes { vocab: 9, context: 8, width: 12 }, ..config }, 3)
    }

    fn assert_near(a: &[f64], b: &[f64]) {
        assert!(a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9), "{a:?} {b:?}");
    }

    /// A model with the default implementations of [`Answers`].
    struct Plain<'m>(Causal<'m, f64>);

    impl Answers for Plain<'_> {
        fn next(&self, beginnings: &[&[u32]]) -> Vec<Vec<f64>> {
            beginnings.iter().map(|text| self.0.next(&[text]).remove(0)).collect()
        }
        fn losses(&self, texts: &[&[u32]], reach: &mut dyn FnMut(usize)) -> Vec<Vec<f64>> {
            self.0.losses(texts, reach)
        }
        fn room(&self) -> Option<usize> {
            self.0.room()
        }
    }

    #[test]
    fn the_causal_answers_equal_the_default_implementation() {
        for config in [tiny_gpt(), tiny_lstm()] {
            let model = model(config);
            let (own, plain, text) = (Causal::new(&model), Plain(Causal::new(&model)), [3, 1, 4, 1, 5, 2]);
            let (all, among) = (own.along(&text), [0, 2, 7]);
            let of_plain = plain.along(&text);
            assert_eq!((all.len(), of_plain.len()), (6, 6));
            all.iter().zip(of_plain).for_each(|(a, b)| assert_near(a, &b));
            let together = own.next(&[&text[..2], &text[..5], &text[..1]]);
            [1, 4, 0].into_iter().zip(together).for_each(|(at, z)| assert_near(&z, &all[at]));
            for at in [0, 3, 5] {
                let [own, plain] = [&own as &dyn Answers, &plain].map(|model| {
                    let mut tried = 0;
                    let logits = model.cloze(&text, &[at], &among, &mut |n| tried = n).remove(0);
                    assert_eq!(tried, 3);
                    crate::tasks::log_probabilities(&logits)
                });
                assert_near(&own, &plain);
            }
        }
    }

    /// A text that does not continue the last one is read from its beginning.
    #[test]
    fn a_text_that_does_not_extend_the_last_is_read_from_its_start() {
        let model = model(tiny_gpt());
        let (one, texts) = (Causal::new(&model), [&[1, 2][..], &[1, 2, 3], &[1, 2, 3], &[1, 5], &[1], &[1, 5, 5, 5]]);
        texts.iter().for_each(|text| assert_near(&one.next(&[text])[0], &Causal::new(&model).next(&[text])[0]));
    }

    #[test]
    fn a_gap_of_a_masked_model_is_filled_from_all_other_tokens() {
        let model = model(tiny_bert());
        let special = SpecialTokens { open: 6, close: 7, mask: 8, words: 6 };
        let masked = Masked::new(&model, special);
        let found = masked.cloze(&[1, 2, 3], &[0, 2], &[4, 5], &mut |_| {});
        for (at, found) in [0, 2].into_iter().zip(found) {
            let (input, slot) = special.hide(&[1, 2, 3], at);
            assert_near(&found, &views::logits(&model, &input, vec![slot as u32])[0][4..6]);
        }
        let losses = masked.losses(&[&[1, 2, 3]], &mut |_| {});
        let all = masked.cloze(&[1, 2, 3], &[0, 1, 2], &(0..9).collect::<Vec<_>>(), &mut |_| {});
        let expected: Vec<f64> = (1..4).zip(all).map(|(token, z)| -crate::tasks::log_probabilities(&z)[token]).collect();
        assert_near(&losses[0], &expected);
    }

    #[test]
    fn vectors_are_the_rows_of_the_token_embedding() {
        for config in [tiny_gpt(), tiny_lstm(), tiny_bert()] {
            let model = model(config);
            let mut table = None;
            model.as_ref().visit(|name, p| table = table.take().or(name.ends_with("tokens_embed.weight").then(|| p.cast())));
            let special = SpecialTokens { open: 6, close: 7, mask: 8, words: 6 };
            let answers: [Box<dyn Answers>; 2] = [Box::new(Causal::new(&model)), Box::new(Masked::new(&model, special))];
            assert_eq!(answers.map(|answers| answers.vectors()), [table.clone(), table.clone()]);
            assert_eq!(table.unwrap().shape()[..], [9, model.sizes().width]);
        }
    }
}
