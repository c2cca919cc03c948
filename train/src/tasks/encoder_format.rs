//! BERT's input transformations (Devlin et al. 2018, §4 and figure 4), for models in which each slot sees the whole row.
//!
//! ```text
//! classify            [CLS] x [SEP]
//! entail, similar     [CLS] a [SEP] b [SEP]                        segments 0 … 0 1 … 1, if the model has segments
//! choose              [CLS] document question [SEP] answerₖ [SEP]  for each k: one logit each (§4.4)
//! ```
//!
//! The head reads the first slot. A pair is read once, since each of its texts sees the other in either order. In detail:
//!
//! - **Special tokens** and the format of a pair are read from the tokenizer's files. If these lack the format, it
//!   depends on the names of the special tokens. RoBERTa: two separators between the texts, `<s> a </s></s> b </s>`, and one
//!   segment, whatever the size of the segment table, as fairseq and `transformers` trained its checkpoints. BERT: one separator
//!   between the texts, and two segments.
//! - **Length.** If two texts are too long together, the longer one loses its end, token by token, until they fit (BERT's code,
//!   `_truncate_seq_pair`). A document loses its end before its question does, to the same length for every answer.
//! - **STS-B's** scores are distributions over 0 … 5, as for GPT-1 ([`super`]); `run_glue.py` of `transformers` learns one number.

use gradus_data::sets::{Example, Input};
use gradus_text::{Pairs, Tokenizer};

use super::TaskError;
use super::transform::{Encoder, Reading, Sequence};
use crate::views::SpecialTokens;

/// The special tokens around the texts of a row, for a model in which each slot sees the whole row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderFormat {
    /// The tokens that open a row and close a text.
    pub special: SpecialTokens,
    /// The number of separators between two texts: one, or RoBERTa's two.
    pub between: usize,
    /// Whether the two texts are in two segments.
    pub segmented: bool,
}

impl EncoderFormat {
    /// Returns the format for a tokenizer and this number of segments; `None` without BERT's or RoBERTa's special tokens.
    pub fn of(tokenizer: &Tokenizer, segments: usize) -> Option<Self> {
        let special = SpecialTokens::of(tokenizer)?;
        let has_robertas = tokenizer.token_id(SpecialTokens::ROBERTA[1]) == Some(special.close);
        let usual = if has_robertas { Pairs::ROBERTA } else { Pairs::BERT };
        let Pairs { between, segments: told_apart } = tokenizer.roles().pairs.unwrap_or(usual);
        Some(EncoderFormat { special, between, segmented: told_apart && segments > 1 })
    }

    pub(super) fn reading(&self) -> Reading {
        Reading::Whole { segmented: self.segmented }
    }

    /// Returns the end of a row: the rest of the first text, and the second.
    fn rest(&self, first: &[u32], second: &[u32]) -> Vec<u32> {
        [first, &vec![self.special.close; self.between], second, &[self.special.close]].concat()
    }
}

/// Returns the numbers of tokens that two texts of `a` and `b` tokens keep in `room` tokens: the longer one is cut.
fn fit(a: usize, b: usize, room: usize) -> (usize, usize) {
    let (more, less) = (room.div_ceil(2), room / 2);
    match () {
        () if a + b <= room => (a, b),
        () if a <= more => (a, room - a),
        () if b <= less => (room - b, b),
        () => (more, less),
    }
}

impl Encoder<'_> {
    /// Returns an example's rows, and whether a text was cut.
    pub(super) fn encoder_rows(&mut self, format: &EncoderFormat, example: &Example) -> Result<(Vec<Sequence>, bool), TaskError> {
        let SpecialTokens { open, close, .. } = format.special;
        let of_one = self.context - 2;
        let of_two = of_one - format.between;
        Ok(match &example.input {
            Input::One(x) => {
                let x = self.ids(example, x)?;
                let kept = x.len().min(of_one);
                (vec![[&[open], &x[..kept], &[close]].concat().into()], kept < x.len())
            }
            Input::Pair(a, b) => {
                let (a, b) = (self.ids(example, a)?, self.ids(example, b)?);
                let (first, second) = fit(a.len(), b.len(), of_two);
                let row = Sequence::from([&[open], &format.rest(&a[..first], &b[..second])[..]].concat());
                (vec![row.in_two(1 + first + format.between)], first + second < a.len() + b.len())
            }
            Input::Choices { document, question, answers } => {
                let document = self.document(example, document, open)?;
                let question = self.ids(example, question)?;
                let answers: Vec<Vec<u32>> = answers.iter().map(|a| self.ids(example, a)).collect::<Result<_, _>>()?;
                let (all, longest) = (document.len() - 1 + question.len(), answers.iter().map(Vec::len).max().unwrap_or(0));
                let (first, second) = fit(all, longest, of_two);
                let asked = question.len().min(first);
                let row = |answer: &Vec<u32>| {
                    let own = format.rest(&question[..asked], &answer[..answer.len().min(second)]);
                    Sequence::after(&document, 1 + first - asked, own).in_two(1 + first + format.between)
                };
                (answers.iter().map(row).collect(), first < all || second < longest)
            }
            Input::Reference { .. } => return Err(TaskError::ZeroShotOnly { task: self.task.name }),
        })
    }
}

#[cfg(test)]
mod tests {
    use gradus_data::sets::{Label, Task};

    use super::super::testing::{choices, pair};
    use super::*;

    const SPECIAL: SpecialTokens = SpecialTokens { open: 256, close: 257, mask: 258, words: 256 };
    const BERT: EncoderFormat = EncoderFormat { special: SPECIAL, between: 1, segmented: true };
    const ROBERTA: EncoderFormat = EncoderFormat { special: SPECIAL, between: 2, segmented: false };

    /// Returns the rows as text, with ^ and $ for the tokens that open and close, their segments, and whether a text was cut.
    fn read(format: EncoderFormat, task: &str, input: Input, context: usize) -> (Vec<String>, Vec<String>, bool) {
        let task = Task::named(task).unwrap();
        let example = Example { id: "0".into(), input, label: Some(Label::Class(0)), group: None };
        let encoded = Encoder::new(task, &Tokenizer::bytes(), format, context).unwrap().encode(&example).unwrap();
        assert_eq!(encoded.reading, Reading::Whole { segmented: format.segmented });
        let letter = |&id: &u32| if id < 256 { id as u8 as char } else { ['^', '$'][id as usize - 256] };
        let text = |row: &Sequence| row.to_vec().iter().map(letter).collect();
        let segments = |row: &Sequence| row.segments().iter().map(u32::to_string).collect();
        (encoded.rows.iter().map(text).collect(), encoded.rows.iter().map(segments).collect(), encoded.truncated)
    }

    fn rows(format: EncoderFormat, task: &str, input: Input, context: usize) -> Vec<String> {
        read(format, task, input, context).0
    }

    #[test]
    fn the_transformations_are_those_of_figure_4() {
        let story = choices("doc", "q?", &["a", "bb"]);
        let (one, segments, _) = read(BERT, "cola", Input::One("abc".into()), 32);
        assert_eq!((one, segments), (vec!["^abc$".into()], vec!["00000".into()]));
        let (two, segments, _) = read(BERT, "mnli", pair("ab", "cde"), 32);
        assert_eq!((two, segments), (vec!["^ab$cde$".into()], vec!["00001111".into()]));
        assert_eq!(rows(BERT, "mrpc", pair("ab", "cde"), 32), ["^ab$cde$"], "read once");
        let (chosen, segments, _) = read(BERT, "race", story.clone(), 32);
        assert_eq!(chosen, ["^docq?$a$", "^docq?$bb$"]);
        assert_eq!(segments, ["000000011", "0000000111"]);
        assert_eq!(rows(ROBERTA, "mnli", pair("ab", "cde"), 32), ["^ab$$cde$"]);
        assert_eq!(rows(ROBERTA, "race", story, 32), ["^docq?$$a$", "^docq?$$bb$"]);
    }

    #[test]
    fn separators_are_doubled_only_under_robertas_names() {
        let with = |names: [&str; 3]| {
            let mut tokenizer = Tokenizer::bytes();
            for name in names {
                tokenizer.add_special(name).unwrap();
            }
            tokenizer
        };
        assert_eq!(EncoderFormat::of(&Tokenizer::bytes(), 2), None);
        assert_eq!(EncoderFormat::of(&with(SpecialTokens::BERT), 2), Some(BERT));
        assert_eq!(EncoderFormat::of(&with(SpecialTokens::BERT), 1), Some(EncoderFormat { segmented: false, ..BERT }));
        assert_eq!(EncoderFormat::of(&with(SpecialTokens::ROBERTA), 1), Some(ROBERTA));
        assert_eq!(EncoderFormat::of(&with(SpecialTokens::ROBERTA), 2), Some(ROBERTA), "one segment, whatever the table has");
    }

    #[test]
    fn the_longer_text_is_truncated_at_its_end() {
        // n = 12: one text n − 2 = 10, two n − 3 = 9 together.
        assert_eq!(rows(BERT, "cola", Input::One("0123456789ab".into()), 12), ["^0123456789$"]);
        assert_eq!(rows(BERT, "mnli", pair("0123456789", "a"), 12), ["^01234567$a$"]);
        assert_eq!(rows(BERT, "mnli", pair("a", "0123456789"), 12), ["^a$01234567$"]);
        assert_eq!(rows(BERT, "mnli", pair("0123456789", "abcdefgh"), 12), ["^01234$abcd$"]);
        assert_eq!(rows(ROBERTA, "mnli", pair("0123456789", "abcdefgh"), 12), ["^0123$$abcd$"]);
        let is_cut = |a, b| read(BERT, "mnli", pair(a, b), 12).2;
        assert!(!is_cut("01234", "abcd") && is_cut("012345", "abcd"));
        // BERT's code cuts one token at a time.
        for (a, b, room) in (0..12).flat_map(|a| (0..12).flat_map(move |b| (4..14).map(move |room| (a, b, room)))) {
            let (mut x, mut y) = (a, b);
            while x + y > room {
                if x > y { x -= 1 } else { y -= 1 }
            }
            assert_eq!(fit(a, b, room), (x, y), "{a} and {b} in {room}");
        }
    }

    #[test]
    fn a_document_is_truncated_before_its_question() {
        assert_eq!(rows(BERT, "race", choices("0123456789", "why?", &["a", "bcd"]), 14), ["^0123why?$a$", "^0123why?$bcd$"]);
        assert_eq!(rows(BERT, "race", choices("0123", "who is it?", &["abcdefghij", "k"]), 12), ["^who i$abcd$", "^who i$k$"]);
        assert_eq!(rows(BERT, "story-cloze", choices("0123456789", "", &["ab", "c"]), 12), ["^0123456$ab$", "^0123456$c$"]);
    }

    /// n = 12: one text has 10 tokens at most; n = 14: document, question and the longest answer have 11 together.
    #[test]
    fn a_row_is_reported_as_cut_only_if_a_token_is_lost() {
        let one = |text: &str| read(BERT, "cola", Input::One(text.into()), 12).2;
        assert!(!one("0123456789") && one("0123456789a"));
        let chosen = |document, question, answers| read(BERT, "race", choices(document, question, answers), 14).2;
        assert!(!chosen("0123", "who?", &["abc", "d"]), "all fits");
        assert!(chosen("01234", "who?", &["abc", "d"]), "the document is cut");
        assert!(chosen("0", "?", &["abcdefghijk", "d"]), "an answer is cut");
    }

    #[test]
    fn no_text_exceeds_the_context() {
        for (context, n) in (8..40).flat_map(|context| (0..30).map(move |n| (context, n))) {
            let x = "x".repeat(n);
            for format in [BERT, ROBERTA] {
                for input in [pair(&x, "yyy"), pair("yyy", &x), pair(&x, &x)] {
                    assert!(rows(format, "mrpc", input, context).iter().all(|r| r.len() <= context), "{n} in {context}");
                }
                for input in [choices(&x, &x, &[&x, "z"]), choices("doc", &x, &["z", "z"]), choices(&x, "q", &["z", &x])] {
                    assert!(rows(format, "race", input, context).iter().all(|r| r.len() <= context), "{n} in {context}");
                }
            }
        }
    }
}
