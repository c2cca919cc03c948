//! The paper's input transformations (§3.3, figure 1), from the texts of an example to the sequences that a language model reads.
//!
//! ```text
//! classify      [start; x; extract]
//! entail        [start; premise; delimiter; hypothesis; extract]
//! similar       [start; a; delimiter; b; extract] and [start; b; delimiter; a; extract]
//! choose        [start; document; question; delimiter; answerₖ; extract]  for each k
//! ```
//!
//! The paper leaves these points open, or its code covers only one task:
//!
//! - **Length.** With a context of n, a single text is cut to n − 2 tokens and each of two to n/2 − 2, whatever the other's
//!   length (OpenAI's code, for Story Cloze). After a long document that rule would cut off RACE's question, so question,
//!   delimiter and answer stay whole and the document is shortened, to the same length for every answer. Only if these three are
//!   too long without a document are answers cut to n/2 − 2 and the question to the rest. Cut examples are counted.
//! - **Between document and question** there is no delimiter ([z; q; $; aₖ]).
//! - **Padding** is to the right, with id 0, up to the longest row of a batch. Tokens see only what precedes them, so padding
//!   needs no mask; only the loss of the next tokens is weighted.
//! - **The extract token** is found by its position, the end of the row, and not by its id or by the padding: a text may contain
//!   the ids of both.
//! - **STS-B's** scores become distributions over 0 … 5: y is shared by ⌊y⌋ and ⌈y⌉ in proportion (Tai, Socher & Manning 2015,
//!   and a helper in OpenAI's code). The predicted score is Σ i·pᵢ.
//!
//! A model in which each slot sees the whole row reads [other sequences](EncoderFormat).

mod batch;
mod encoder_format;
#[cfg(test)]
mod testing;
mod transform;

use gradus_data::sets::{Answer, Label, Task, Transformation};
use gradus_model::{Form, HeadConfig, Predicts};
use gradus_text::{TextError, Tokenizer};

pub use batch::batch;
pub use encoder_format::EncoderFormat;
pub use transform::{Encoded, Encoder, Reading, Sequence};

/// The ids of the three tokens that only fine-tuning uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskTokens {
    /// The token that opens a sequence.
    pub start: u32,
    /// The token that separates two texts.
    pub delimiter: u32,
    /// The token that closes a sequence; the head reads its slot (OpenAI's `_classify_`).
    pub extract: u32,
}

impl TaskTokens {
    /// The names of these tokens in a tokenizer, in the order in which they are appended.
    pub const NAMES: [&'static str; 3] = ["<start>", "<delimiter>", "<extract>"];

    /// Returns the special tokens of a tokenizer; `None` if one is missing or has no row in the model.
    pub fn of(tokenizer: &Tokenizer) -> Option<Self> {
        let [start, delimiter, extract] = Self::NAMES.map(|name| tokenizer.token_id(name).filter(|&id| tokenizer.has_row(id)));
        Some(TaskTokens { start: start?, delimiter: delimiter?, extract: extract? })
    }

    /// Returns the special tokens of a tokenizer, and appends missing ones to it.
    pub fn append(tokenizer: &mut Tokenizer) -> Result<Self, TextError> {
        let mut add = |i: usize| tokenizer.add_special(Self::NAMES[i]);
        Ok(TaskTokens { start: add(0)?, delimiter: add(1)?, extract: add(2)? })
    }
}

/// The special tokens around the texts of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// GPT-1's format, for a model that reads from left to right.
    Decoder(TaskTokens),
    /// BERT's format, for a model in which each slot sees the whole row.
    Encoder(EncoderFormat),
}

impl From<TaskTokens> for RowFormat {
    fn from(specials: TaskTokens) -> Self {
        RowFormat::Decoder(specials)
    }
}

impl From<EncoderFormat> for RowFormat {
    fn from(format: EncoderFormat) -> Self {
        RowFormat::Encoder(format)
    }
}

/// The reason why a model cannot be fine-tuned on a task, or an example cannot be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
#[non_exhaustive]
pub enum TaskError {
    #[error("example {id}: {source}")]
    Text { id: String, source: Box<TextError> },
    #[error(
        "{task}: the paper uses it zero-shot only, so there is nothing to fine-tune; evaluate a pre-trained model with `gradus \
         evaluate --task {task} --zero-shot`, or row by row with `gradus predict`"
    )]
    ZeroShotOnly { task: &'static str },
    #[error("{task}: the paper has no zero-shot heuristic for it, only for cola, sst-2, race, story-cloze, dprd and wsc273")]
    NoHeuristic { task: &'static str },
    #[error(
        "the model's context of {context} tokens is too short for this task, which needs at least {least}; use a model with a longer context"
    )]
    Context { context: usize, least: usize },
    #[error(
        "expected a tokenizer with [CLS], [SEP] and [MASK], or <s>, </s> and <mask>, the special tokens of a model that fills \
         masks; found {found}: copy the tokenizer that the model was trained with"
    )]
    NoSpecialTokens { found: String },
    #[error("example {id} has no label: {remedy}")]
    NoLabel { id: String, remedy: &'static str },
    #[error("example {id}: expected finite logits, found {found}: the model is damaged or diverged; take another checkpoint")]
    NotFinite { id: String, found: f64 },
}

/// Returns the head of a task.
pub fn head(task: &Task) -> Result<HeadConfig, TaskError> {
    let form = match task.transformation {
        Transformation::Classify | Transformation::Entail => Form::Classify,
        Transformation::Similar => Form::Similar,
        Transformation::Choose => Form::Choose,
        Transformation::Refer => return Err(TaskError::ZeroShotOnly { task: task.name }),
    };
    let labels = match task.answer {
        Answer::Classes(names) => names.iter().map(|&name| name.into()).collect(),
        Answer::Score { .. } | Answer::Choice { .. } => Vec::new(),
    };
    Ok(HeadConfig { labels, ..HeadConfig::new(form, task.answers()) })
}

/// Returns the head of a task above a model that predicts such tokens. One that predicts masked tokens has BERT's head: a pooler,
/// a bias, and one row for a pair, whose texts see each other.
pub fn head_above(task: &Task, predicts: Predicts) -> Result<HeadConfig, TaskError> {
    let head = head(task)?;
    Ok(match (predicts, head.form) {
        (Predicts::Next, _) => head,
        (Predicts::Masked, Form::Choose) => HeadConfig { bias: true, pooler: true, ..head },
        (Predicts::Masked, _) => HeadConfig { form: Form::Classify, bias: true, pooler: true, ..head },
    })
}

/// Returns the target distribution of a label: 1 on a class, or a score shared by its two neighbours.
pub fn target(task: &Task, label: Label) -> Vec<f64> {
    let mut target = vec![0.0; task.answers()];
    match label {
        Label::Class(class) => target[class] = 1.0,
        Label::Score(y) => {
            let low = y.floor();
            target[low as usize] = 1.0 - (y - low);
            if y > low {
                target[low as usize + 1] = y - low;
            }
        }
    }
    target
}

/// Returns the answer by the logits of the classes or choices: the most probable (the first on a tie), or the expected score
/// Σ i·pᵢ. A single logit is the score itself.
pub fn answer(task: &Task, logits: &[f64]) -> Label {
    match (task.answer, logits) {
        (Answer::Score { .. }, &[score]) => Label::Score(score),
        (Answer::Score { .. }, _) => Label::Score(probabilities(logits).iter().enumerate().map(|(i, p)| i as f64 * p).sum()),
        (Answer::Classes(_) | Answer::Choice { .. }, _) => Label::Class(largest(logits)),
    }
}

/// Returns the index of the largest value; the first on a tie.
pub(crate) fn largest<T: PartialOrd>(values: &[T]) -> usize {
    values.iter().enumerate().fold(0, |best, (i, x)| if *x > values[best] { i } else { best })
}

/// Computes softmax z.
pub fn probabilities(logits: &[f64]) -> Vec<f64> {
    log_probabilities(logits).into_iter().map(f64::exp).collect()
}

/// Computes log softmax z = z − log Σ exp zᵢ.
pub fn log_probabilities(logits: &[f64]) -> Vec<f64> {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let log_sum = logits.iter().map(|z| (z - most).exp()).sum::<f64>().ln();
    logits.iter().map(|z| (z - most) - log_sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_text::BpeTrainer;

    /// A vocabulary that lacks the tokens would map them all to id 0.
    #[test]
    fn special_tokens_get_ids_after_the_vocabulary() {
        let mut tokenizer = Tokenizer::bytes();
        assert_eq!(TaskTokens::of(&tokenizer), None);
        let specials = TaskTokens::append(&mut tokenizer).unwrap();
        assert_eq!(specials, TaskTokens { start: 256, delimiter: 257, extract: 258 });
        assert_eq!(TaskTokens::append(&mut tokenizer).unwrap(), specials, "appended once");
        assert_eq!(TaskTokens::of(&tokenizer), Some(specials));

        // A BPE does not split the special tokens.
        let words = BpeTrainer::new(40);
        let mut counts = words.word_counts();
        counts.add("a rose is a rose is a rose");
        let mut bpe = words.train(&counts, |_, _| {}).unwrap();
        let vocabulary = bpe.vocab_size() as u32;
        assert_eq!(TaskTokens::of(&bpe), None);
        let TaskTokens { start, delimiter, extract } = TaskTokens::append(&mut bpe).unwrap();
        assert_eq!([start, delimiter, extract], [vocabulary, vocabulary + 1, vocabulary + 2]);
    }

    #[test]
    fn a_task_has_the_head_of_its_paper_above_each_kind_of_model() {
        let of = |name, predicts| {
            let head = head_above(Task::named(name).unwrap(), predicts).unwrap();
            (head.form, head.classes, head.labels.len(), head.bias, head.pooler)
        };
        let (next, masked) = (Predicts::Next, Predicts::Masked);
        assert_eq!(of("mrpc", next), (Form::Similar, 2, 2, false, false));
        assert_eq!(of("mrpc", masked), (Form::Classify, 2, 2, true, true));
        assert_eq!(of("race", next), (Form::Choose, 1, 0, false, false));
        assert_eq!(of("race", masked), (Form::Choose, 1, 0, true, true));
        assert_eq!(of("mnli", masked), (Form::Classify, 3, 3, true, true));
    }

    #[test]
    fn a_score_is_split_between_its_neighbours_and_recovered() {
        let task = Task::named("sts-b").unwrap();
        assert_eq!(target(task, Label::Score(0.0)), [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(target(task, Label::Score(5.0)), [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
        for y in [0.2, 1.0, 2.75, 4.999] {
            let shares = target(task, Label::Score(y));
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            let logits: Vec<f64> = shares.iter().map(|p| p.ln()).collect();
            let Label::Score(back) = answer(task, &logits) else { panic!("a score") };
            assert!((back - y).abs() < 1e-12, "{y}: {back}");
        }
    }

    /// The common gloss that softmax(2.5, −1.0) is (0.97, 0.03) is right to two digits.
    #[test]
    fn probabilities_are_a_softmax() {
        let p = probabilities(&[2.5, -1.0]);
        assert!((p[0] - 0.970_687_769_248_643_6).abs() < 1e-15 && (p[0] + p[1] - 1.0).abs() < 1e-15);
        assert_eq!(probabilities(&[1e4, 1e4]), [0.5, 0.5]);
        assert_eq!(log_probabilities(&[0.0, 1e4]), [-1e4, 0.0], "where a probability is 0 in f64");
    }

    #[test]
    fn ties_are_resolved_to_the_first_class() {
        let task = Task::named("mnli").unwrap();
        let answers = [[0.5, 0.7, 0.7], [0.5, 0.5, 0.7], [0.7, 0.5, 0.6]].map(|logits| answer(task, &logits));
        assert_eq!(answers, [1, 2, 0].map(Label::Class));
    }
}
