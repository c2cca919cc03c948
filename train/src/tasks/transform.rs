//! The conversion of one example to sequences of tokens.

use std::sync::Arc;

use gradus_data::sets::{Example, Input, Task, Transformation};
use gradus_text::Tokenizer;

use super::{RowFormat, TaskError, TaskTokens, target};

/// Token ids, the first of which may be shared with other sequences: a document is stored once for its questions and answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    shared: Arc<[u32]>,
    /// The number of shared tokens in this sequence.
    kept: usize,
    own: Vec<u32>,
    /// The number of slots of the first segment.
    first: usize,
}

impl Sequence {
    /// Returns the number of tokens.
    #[allow(clippy::len_without_is_empty, reason = "a sequence has special tokens at least")]
    pub fn len(&self) -> usize {
        self.kept + self.own.len()
    }

    /// Returns the tokens.
    pub fn to_vec(&self) -> Vec<u32> {
        [&self.shared[..self.kept], &self.own].concat()
    }

    /// Returns the segment of each slot.
    pub fn segments(&self) -> Vec<u32> {
        (0..self.len()).map(|slot| u32::from(slot >= self.first)).collect()
    }

    /// Returns the first `kept` shared tokens, followed by tokens of its own.
    pub(super) fn after(shared: &Arc<[u32]>, kept: usize, own: Vec<u32>) -> Self {
        let kept = kept.min(shared.len());
        Sequence { shared: shared.clone(), kept, first: kept + own.len(), own }
    }

    /// Returns the sequence in two segments, the first of `first` slots.
    pub(super) fn in_two(self, first: usize) -> Self {
        Sequence { first, ..self }
    }
}

impl From<Vec<u32>> for Sequence {
    fn from(own: Vec<u32>) -> Self {
        Sequence { shared: Arc::default(), kept: 0, first: own.len(), own }
    }
}

/// The way a model reads a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Each slot sees those before it, and the head reads the last slot.
    Forward,
    /// Each slot sees all, and the head reads the first slot.
    Whole {
        /// Whether the input has segments.
        segmented: bool,
    },
}

/// An example as the model reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoded {
    /// The rows: one, one for each order, or one per answer.
    pub rows: Vec<Sequence>,
    /// The target probability of each class or answer; `None` without a label.
    pub target: Option<Vec<f64>>,
    /// Whether a text was cut.
    pub truncated: bool,
    /// The way a model reads the rows.
    pub reading: Reading,
}

impl Encoded {
    /// Returns the number of tokens of the longest row.
    pub fn length(&self) -> usize {
        self.rows.iter().map(Sequence::len).max().unwrap_or(0)
    }
}

/// An encoder of a task's examples for a model.
#[derive(Clone, Debug)]
pub struct Encoder<'t> {
    pub(super) task: &'static Task,
    tokenizer: &'t Tokenizer,
    format: RowFormat,
    pub(super) context: usize,
    /// The last document, and its tokens after the start token.
    last: Option<(Arc<str>, Arc<[u32]>)>,
}

impl<'t> Encoder<'t> {
    /// Returns an encoder for a task, with a model's tokenizer and context, and the special tokens around texts.
    ///
    /// # Errors
    /// Returns an error if the context is too short.
    pub fn new(
        task: &'static Task,
        tokenizer: &'t Tokenizer,
        format: impl Into<RowFormat>,
        context: usize,
    ) -> Result<Self, TaskError> {
        const LEAST: usize = 8; // two texts of at least two tokens
        match context < LEAST {
            true => Err(TaskError::Context { context, least: LEAST }),
            false => Ok(Encoder { task, tokenizer, format: format.into(), context, last: None }),
        }
    }

    /// Encodes an example.
    ///
    /// # Errors
    /// Returns an error if the tokenizer cannot encode a text, or if the data set is only zero-shot.
    pub fn encode(&mut self, example: &Example) -> Result<Encoded, TaskError> {
        let ((rows, truncated), reading) = match self.format {
            RowFormat::Decoder(specials) => (self.decoder_rows(specials, example)?, Reading::Forward),
            RowFormat::Encoder(format) => (self.encoder_rows(&format, example)?, format.reading()),
        };
        Ok(Encoded { rows, target: example.label.map(|label| target(self.task, label)), truncated, reading })
    }

    /// Returns a text's tokens.
    pub(super) fn ids(&self, example: &Example, text: &str) -> Result<Vec<u32>, TaskError> {
        let error = |e| TaskError::Text { id: example.id.clone(), source: Box::new(e) };
        self.tokenizer.encode_plain(text).map_err(error)
    }

    /// Returns the token that opens a row and the tokens of a document, shared with the last call for the same document.
    pub(super) fn document(&mut self, example: &Example, text: &Arc<str>, open: u32) -> Result<Arc<[u32]>, TaskError> {
        let tokens = match &self.last {
            Some((last, tokens)) if Arc::ptr_eq(last, text) => tokens.clone(),
            _ => [&[open], &self.ids(example, text)?[..]].concat().into(),
        };
        self.last = Some((text.clone(), tokens.clone()));
        Ok(tokens)
    }

    /// Returns an example's rows for a model that reads from left to right, and whether a text was cut.
    fn decoder_rows(&mut self, specials: TaskTokens, example: &Example) -> Result<(Vec<Sequence>, bool), TaskError> {
        let half = self.context / 2 - 2;
        let TaskTokens { start, delimiter, extract } = specials;
        let mut truncated = false;
        let mut cut = |mut ids: Vec<u32>, most: usize| {
            truncated |= ids.len() > most;
            ids.truncate(most);
            ids
        };
        let pair = |a: &[u32], b: &[u32]| Sequence::from([&[start], a, &[delimiter], b, &[extract]].concat());
        let rows = match &example.input {
            Input::One(x) => vec![[&[start], &cut(self.ids(example, x)?, self.context - 2)[..], &[extract]].concat().into()],
            Input::Pair(a, b) => {
                let (a, b) = (cut(self.ids(example, a)?, half), cut(self.ids(example, b)?, half));
                let both = self.task.transformation == Transformation::Similar;
                if both { vec![pair(&a, &b), pair(&b, &a)] } else { vec![pair(&a, &b)] }
            }
            Input::Choices { document, question, answers } => {
                let shared = self.document(example, document, start)?;
                let question = self.ids(example, question)?;
                let answers: Vec<Vec<u32>> = answers.iter().map(|a| self.ids(example, a)).collect::<Result<_, _>>()?;
                let whole = |answers: &[Vec<u32>]| 3 + answers.iter().map(Vec::len).max().unwrap_or(0);
                let asked = !question.is_empty();
                let answers: Vec<_> = if !asked || question.len() + whole(&answers) > self.context {
                    answers.into_iter().map(|a| cut(a, half)).collect()
                } else {
                    answers
                };
                let question = cut(question, self.context - whole(&answers));
                let most = 1 + if asked { self.context - whole(&answers) - question.len() } else { half };
                truncated |= shared.len() > most;
                let row = |answer: &Vec<u32>| {
                    Sequence::after(&shared, most, [&question, &[delimiter][..], answer, &[extract]].concat())
                };
                answers.iter().map(row).collect()
            }
            Input::Reference { .. } => return Err(TaskError::ZeroShotOnly { task: self.task.name }),
        };
        Ok((rows, truncated))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{choices, pair};
    use super::*;
    use gradus_data::sets::Label;

    const S: TaskTokens = TaskTokens { start: 256, delimiter: 257, extract: 258 };

    fn rows(task: &str, input: Input, context: usize) -> (Vec<Vec<u32>>, bool) {
        let task = Task::named(task).unwrap();
        let example = Example { id: "0".into(), input, label: Some(Label::Class(0)), group: None };
        let encoded = Encoder::new(task, &Tokenizer::bytes(), S, context).unwrap().encode(&example).unwrap();
        assert_eq!(encoded.length(), encoded.rows.iter().map(|row| row.to_vec().len()).max().unwrap());
        (encoded.rows.iter().map(Sequence::to_vec).collect(), encoded.truncated)
    }

    /// Returns a row as text: bytes as they are, ^ $ # for the special tokens.
    fn text(row: &[u32]) -> String {
        row.iter().map(|&id| if id < 256 { id as u8 as char } else { ['^', '$', '#'][id as usize - 256] }).collect()
    }

    fn texts(task: &str, input: Input, context: usize) -> Vec<String> {
        rows(task, input, context).0.iter().map(|row| text(row)).collect()
    }

    #[test]
    fn a_sequence_after_shared_tokens_is_one_segment() {
        let sequence = Sequence::after(&[1, 2, 3].into(), 2, vec![9]);
        assert_eq!((sequence.to_vec(), sequence.segments()), (vec![1, 2, 9], vec![0; 3]));
        assert_eq!(sequence.in_two(1).segments(), [0, 1, 1]);
    }

    #[test]
    fn the_four_transformations() {
        assert_eq!(texts("cola", Input::One("abc".into()), 32), ["^abc#"]);
        assert_eq!(texts("mnli", pair("ab", "cde"), 32), ["^ab$cde#"]);
        assert_eq!(texts("mrpc", pair("ab", "cde"), 32), ["^ab$cde#", "^cde$ab#"]);
        assert_eq!(texts("race", choices("doc", "q?", &["a", "bb"]), 32), ["^docq?$a#", "^docq?$bb#"]);
        assert_eq!(texts("story-cloze", choices("doc", "", &["a", "bb"]), 32), ["^doc$a#", "^doc$bb#"]);
    }

    #[test]
    fn the_name_of_a_special_token_in_the_data_is_text() {
        let mut tokenizer = Tokenizer::bytes();
        let specials = TaskTokens::append(&mut tokenizer).unwrap();
        let example = Example { id: "0".into(), input: Input::One("<extract>".into()), label: None, group: None };
        let mut encoder = Encoder::new(Task::named("cola").unwrap(), &tokenizer, specials, 32).unwrap();
        assert_eq!(text(&encoder.encode(&example).unwrap().rows[0].to_vec()), "^<extract>#");
    }

    #[test]
    fn texts_are_truncated_as_in_openais_code() {
        // n = 12: one text n − 2 = 10, two n/2 − 2 = 4 each.
        assert_eq!(rows("cola", Input::One("0123456789ab".into()), 12).0[0].len(), 12);
        assert_eq!(texts("cola", Input::One("0123456789ab".into()), 12), ["^0123456789#"]);
        assert_eq!(texts("mnli", pair("012345", "a"), 12), ["^0123$a#"]);
        assert_eq!(texts("mrpc", pair("a", "012345"), 12), ["^a$0123#", "^0123$a#"]);
        assert_eq!(texts("story-cloze", choices("012345", "", &["abcdef", "x"]), 12), ["^0123$abcd#", "^0123$x#"]);
        assert!(rows("mnli", pair("012345", "a"), 12).1 && !rows("mnli", pair("0123", "a"), 12).1);
    }

    /// OpenAI's rule for two segments would cut the question off.
    #[test]
    fn a_long_document_does_not_truncate_the_question() {
        let long = choices("0123456789", "why?", &["a", "bcd"]);
        assert_eq!(texts("race", long, 14), ["^0123why?$a#", "^0123why?$bcd#"]);
        // Question and answer are too long even without the document.
        let (all, truncated) = rows("race", choices("0123", "who is it?", &["abcdefghij", "k"]), 12);
        assert_eq!((text(&all[0]), truncated), ("^who i$abcd#".into(), true));
        assert!(all.iter().all(|row| row.len() <= 12));
        // A text that just fits stays whole.
        assert_eq!(texts("race", choices("0123", "why?", &["abcdefg"]), 14), ["^why?$abcdefg#"]);
        assert_eq!(texts("race", choices("0123", "?", &["abcdefghijk"]), 14), ["^0123?$abcde#"]);
        let is_cut = |task, document, question, context| rows(task, choices(document, question, &["a", "bcd"]), context).1;
        assert!(is_cut("race", "01234", "why?", 14) && !is_cut("race", "0123", "why?", 14));
        assert!(is_cut("story-cloze", "01234", "", 12) && !is_cut("story-cloze", "0123", "", 12));
    }

    /// A passage of RACE has up to ten questions, each with four answers.
    #[test]
    fn questions_on_one_document_share_its_tokens() {
        let tokenizer = Tokenizer::bytes();
        let mut encoder = Encoder::new(Task::named("race").unwrap(), &tokenizer, S, 16).unwrap();
        let document: Arc<str> = "a long document".into();
        let mut rows = |document: &Arc<str>, question: &str| {
            let answers = ["x".into(), "yy".into()].to_vec();
            let input = Input::Choices { document: document.clone(), question: question.into(), answers };
            encoder.encode(&Example { id: "0".into(), input, label: None, group: None }).unwrap().rows
        };
        let (one, two, other) = (rows(&document, "why?"), rows(&document, "who is it?"), rows(&"another".into(), "why?"));
        assert!(one.iter().chain(&two).all(|row| Arc::ptr_eq(&row.shared, &one[0].shared)));
        assert!(!Arc::ptr_eq(&other[0].shared, &one[0].shared));
        assert_eq!(
            [&one[1], &two[0], &other[0]].map(|row| text(&row.to_vec())),
            ["^a long why?$yy#", "^awho is it?$x#", "^anotherwhy?$x#"]
        );
    }

    #[test]
    fn no_text_exceeds_the_context() {
        for context in 8..40 {
            for n in 0..30 {
                let x = "x".repeat(n);
                for input in [pair(&x, "yyy"), pair("yyy", &x)] {
                    assert!(rows("mrpc", input, context).0.iter().all(|r| r.len() <= context), "{n} in {context}");
                }
                for input in [choices(&x, &x, &[&x, "z"]), choices("doc", &x, &["z", "z"]), choices(&x, "q", &["z", &x])] {
                    assert!(rows("race", input, context).0.iter().all(|r| r.len() <= context), "{n} in {context}");
                }
            }
        }
    }
}
