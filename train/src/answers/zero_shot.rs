//! The paper's four heuristics (§5), by which a language model answers a task without training for it.
//!
//! ```text
//! CoLA          mean log P of the sentence's tokens, against a threshold
//! SST-2         "very" is appended; P(positive) against P(negative) as the next word
//! RACE          mean log P of an answer's tokens, given document and question; the highest
//! DPRD, WSC     mean log P of the tokens after each referent in the pronoun's place; the highest
//! ```
//!
//! Story Cloze is answered like RACE. The paper leaves these points open:
//!
//! - **The threshold** of CoLA has the best Matthews correlation on the training split, never on the split that is scored.
//! - **The first token** of a sequence is predicted only if the model has a token that opens sequences (`opening`); otherwise
//!   no token precedes it and it does not count.
//! - **positive, negative** are one token each in the published vocabulary; in others the mean over their tokens is used.
//! - **Too long** sequences lose their beginning, and are counted.

use gradus_data::sets::scores::matthews_of_counts;
use gradus_data::sets::{Example, Input, Label, Task, Transformation};
use gradus_text::Tokenizer;

use crate::answers::Answers;
use crate::tasks::{TaskError, largest, log_probabilities};

/// The word appended to SST-2's texts, and the words that may follow it, in the order of the classes.
const VERY: &str = "very";
const WORDS: [&str; 2] = ["negative", "positive"];

/// The heuristic of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heuristic {
    /// The probability of the sentence.
    Sentence,
    /// The most probable word after *very*.
    Sentiment,
    /// The most probable answer.
    Answer,
    /// The referent with the most probable text after it.
    Referent,
}

impl Heuristic {
    fn of(task: &Task) -> Option<Self> {
        match (task.transformation, task.name) {
            (Transformation::Classify, "cola") => Some(Heuristic::Sentence),
            (Transformation::Classify, "sst-2") => Some(Heuristic::Sentiment),
            (Transformation::Choose, _) => Some(Heuristic::Answer),
            (Transformation::Refer, _) => Some(Heuristic::Referent),
            _ => None,
        }
    }
}

/// A language model that answers tasks without training for them.
#[derive(Clone, Copy)]
pub struct ZeroShot<'m> {
    /// The model.
    pub model: &'m dyn Answers,
    /// The model's tokenizer.
    pub tokenizer: &'m Tokenizer,
    /// The token that opens every sequence, if the model was trained with one.
    pub opening: Option<u32>,
}

/// Tokens to be scored, after tokens that are not scored.
struct Continuation {
    ids: Vec<u32>,
    /// The index of the first token that counts.
    from: usize,
    /// Whether the sequence lost its beginning.
    truncated: bool,
}

/// The mean and the sum of log P over the tokens of a choice that count.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scored {
    mean: f64,
    sum: f64,
}

/// The answers to a task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskAnswers {
    /// The answer to each example.
    pub labels: Vec<Label>,
    /// The mean log-probability of each choice of each example, or of the sentence in a task without choices.
    pub scores: Vec<Vec<f64>>,
    /// The summed log-probability of the tokens that count; its softmax is the model's distribution over the choices.
    pub log_probs: Vec<Vec<f64>>,
    /// The least score of an acceptable sentence (CoLA).
    pub threshold: Option<f64>,
    /// The number of examples with a sequence that lost its beginning.
    pub truncated: usize,
}

impl TaskAnswers {
    /// Computes the mean cross-entropy of these examples' labels under the model's distribution over the choices, in nats; `None`
    /// if the task has no choices or a label is missing.
    pub fn cross_entropy(&self, examples: &[Example]) -> Option<f64> {
        let one = |(log_probs, example): (&Vec<f64>, &Example)| match example.label {
            Some(Label::Class(class)) if log_probs.len() > 1 => Some(-log_probabilities(log_probs).get(class)?),
            _ => None,
        };
        let each: Option<Vec<f64>> = self.log_probs.iter().zip(examples).map(one).collect();
        each.filter(|each| !each.is_empty()).map(|each| each.iter().sum::<f64>() / each.len() as f64)
    }
}

impl ZeroShot<'_> {
    /// Returns whether there is a heuristic for this task.
    pub fn has(task: &Task) -> bool {
        Heuristic::of(task).is_some()
    }

    /// Returns whether the task's heuristic uses the training split.
    pub fn needs_train(task: &Task) -> bool {
        Heuristic::of(task) == Some(Heuristic::Sentence)
    }

    /// Answers each example. `train` sets CoLA's threshold; the other tasks ignore it.
    ///
    /// # Errors
    /// Returns an error for a text that cannot be encoded, a training row without a label, or a task without a heuristic.
    pub fn answers(&self, task: &'static Task, train: &[Example], examples: &[Example]) -> Result<TaskAnswers, TaskError> {
        let heuristic = Heuristic::of(task).ok_or(TaskError::NoHeuristic { task: task.name })?;
        let threshold = (heuristic == Heuristic::Sentence).then(|| self.acceptable_from(train)).transpose()?;
        let (scored, truncated) = self.scores(heuristic, examples)?;
        let each = |value: fn(&Scored) -> f64| -> Vec<Vec<f64>> {
            scored.iter().map(|choices| choices.iter().map(value).collect()).collect()
        };
        let (scores, log_probs) = (each(|choice| choice.mean), each(|choice| choice.sum));
        let class = |scores: &Vec<f64>| threshold.map_or_else(|| largest(scores), |least| usize::from(scores[0] >= least));
        let labels = scores.iter().map(|scores| Label::Class(class(scores))).collect();
        Ok(TaskAnswers { labels, scores, log_probs, threshold, truncated })
    }

    /// Computes the least score of an acceptable sentence.
    fn acceptable_from(&self, train: &[Example]) -> Result<f64, TaskError> {
        let labels = train.iter().map(|e| match e.label {
            Some(Label::Class(class)) => Ok(class),
            _ => Err(TaskError::NoLabel { id: e.id.clone(), remedy: "CoLA's threshold is set on labelled training rows" }),
        });
        let labels: Vec<usize> = labels.collect::<Result<_, _>>()?;
        let scored = self.scores(Heuristic::Sentence, train)?.0.concat();
        Ok(threshold(&scored.iter().map(|choice| choice.mean).collect::<Vec<_>>(), &labels))
    }

    /// Computes the log-probability of each choice of each example, or of the sentence in a task without choices; and the number
    /// of examples that did not fit.
    fn scores(&self, heuristic: Heuristic, examples: &[Example]) -> Result<(Vec<Vec<Scored>>, usize), TaskError> {
        let choices = examples.iter().map(|e| self.continuations(heuristic, e));
        let choices: Vec<Vec<Continuation>> = choices.collect::<Result<_, _>>()?;
        let flat: Vec<&Continuation> = choices.iter().flatten().collect();
        let mut scored = self.scored(&flat).into_iter();
        let truncated = choices.iter().filter(|c| c.iter().any(|c| c.truncated)).count();
        let scores: Vec<Vec<Scored>> = choices.iter().map(|c| scored.by_ref().take(c.len()).collect()).collect();
        let broken = |scores: &Vec<Scored>| scores.iter().map(|choice| choice.mean).find(|mean| mean.is_nan());
        match examples.iter().zip(&scores).find_map(|(example, scores)| Some((example, broken(scores)?))) {
            Some((example, found)) => Err(TaskError::NotFinite { id: example.id.clone(), found }),
            None => Ok((scores, truncated)),
        }
    }

    fn continuations(&self, heuristic: Heuristic, example: &Example) -> Result<Vec<Continuation>, TaskError> {
        let ids = |text: &str| {
            self.tokenizer.encode_plain(text).map_err(|e| TaskError::Text { id: example.id.clone(), source: Box::new(e) })
        };
        let after = |before: &[u32], scored: Vec<u32>| {
            let mut all: Vec<u32> = self.opening.into_iter().chain(before.iter().copied()).collect();
            let mut from = all.len();
            all.extend(scored);
            let most = self.model.room().map_or(usize::MAX, |room| room + 1); // the last token is only predicted
            let lost = all.len().saturating_sub(most);
            all.drain(..lost);
            from = from.saturating_sub(lost).max(1); // no token precedes the first
            Continuation { ids: all, from, truncated: lost > 0 }
        };
        Ok(match &example.input {
            Input::One(text) if heuristic == Heuristic::Sentiment => {
                let before = [ids(text)?, ids(VERY)?].concat();
                WORDS.iter().map(|word| Ok(after(&before, ids(word)?))).collect::<Result<_, TaskError>>()?
            }
            Input::One(text) => vec![after(&[], ids(text)?)],
            Input::Pair(..) => unreachable!("no task with a heuristic has pairs"),
            Input::Choices { document, question, answers } => {
                let before = [ids(document)?, ids(question)?].concat();
                answers.iter().map(|a| Ok(after(&before, ids(a)?))).collect::<Result<_, TaskError>>()?
            }
            Input::Reference { before, after: rest, candidates } => {
                let rest = ids(rest)?;
                let with = |c: &String| Ok(after(&ids(&format!("{before}{c}"))?, rest.clone()));
                candidates.iter().map(with).collect::<Result<_, TaskError>>()?
            }
        })
    }

    /// Computes Σ log P and its mean over the tokens that count, in the order given; −∞ if none counts, NaN if Σ is non-finite.
    fn scored(&self, all: &[&Continuation]) -> Vec<Scored> {
        let ids: Vec<&[u32]> = all.iter().map(|continuation| &continuation.ids[..]).collect();
        let losses = self.model.losses(&ids, &mut |_| {});
        let mean = |(continuation, losses): (&&Continuation, &Vec<f64>)| match losses.get(continuation.from - 1..) {
            None | Some([]) => Scored { mean: f64::NEG_INFINITY, sum: f64::NEG_INFINITY },
            Some(counted) => {
                let sum = -counted.iter().sum::<f64>();
                let mean = sum / counted.len() as f64;
                if mean.is_finite() { Scored { mean, sum } } else { Scored { mean: f64::NAN, sum: f64::NAN } }
            }
        };
        all.iter().zip(&losses).map(mean).collect()
    }
}

/// Returns the least score of class 1: the lowest midpoint of two neighbouring scores with the highest correlation with the
/// labels.
fn threshold(scores: &[f64], labels: &[usize]) -> f64 {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    let (n, ones) = (labels.len() as f64, labels.iter().sum::<usize>() as f64);
    // All answers start as 1; from the lowest score up, one after another becomes 0.
    let (mut zeros, mut right) = (0.0, ones);
    let (mut most, mut best) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    for pair in order.windows(2) {
        let (below, above) = (scores[pair[0]], scores[pair[1]]);
        zeros += 1.0;
        right += if labels[pair[0]] == 0 { 1.0 } else { -1.0 };
        let quality = matthews_of_counts(right, &[zeros, n - zeros], &[n - ones, ones]);
        if below < above && quality > most {
            most = quality;
            best = if below.is_finite() { (below + above) / 2.0 } else { above };
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use gradus_model::{Decoder, Model, ModelConfig, Role, Sizes, TransformerConfig, Tree};
    use gradus_tensor::Tensor;
    use gradus_tensor::rng::Philox;

    use super::*;
    use crate::answers::Causal;

    fn model() -> Model<Tensor> {
        let sizes = ModelConfig::new(
            Sizes { vocab: 256, context: 24, width: 12 },
            TransformerConfig { layers: 1, heads: 2, initializer_range: 0.5, ..Default::default() },
        );
        Model::init(&sizes, 4)
    }

    /// Returns the scores of examples with these inputs, and the number that did not fit.
    fn scores(
        model: &Model<Tensor>,
        opening: Option<u32>,
        heuristic: Heuristic,
        inputs: impl IntoIterator<Item = Input>,
    ) -> Result<(Vec<Vec<f64>>, usize), TaskError> {
        let example = |input| Example { id: "7".into(), input, label: Some(Label::Class(0)), group: None };
        let examples: Vec<Example> = inputs.into_iter().map(example).collect();
        let (scored, truncated) =
            ZeroShot { model: &Causal::new(model), tokenizer: &Tokenizer::bytes(), opening }.scores(heuristic, &examples)?;
        Ok((scored.iter().map(|choices| choices.iter().map(|choice| choice.mean).collect()).collect(), truncated))
    }

    /// Computes the mean of log P(next | ids), one token at a time.
    fn by_hand(model: &Model<Tensor>, ids: &[u32], from: usize) -> f64 {
        let each = (from..ids.len()).map(|at| {
            let logits = Decoder::new(model).read(&ids[..at]);
            let z: Vec<f64> = logits.iter().map(|&z| f64::from(z)).collect();
            crate::tasks::probabilities(&z)[ids[at] as usize].ln()
        });
        each.sum::<f64>() / (ids.len() - from) as f64
    }

    #[test]
    fn zero_shot_scores_are_means_over_the_scored_tokens() {
        let model = model();
        let bytes = |text: &str| text.bytes().map(u32::from).collect::<Vec<u32>>();
        for opening in [None, Some(1)] {
            let open = usize::from(opening.is_some());
            let check = |heuristic, input: Input, expected: &[(&str, usize)]| {
                let found = scores(&model, opening, heuristic, [input]).unwrap().0.remove(0);
                assert_eq!(found.len(), expected.len());
                for (found, (text, from)) in found.iter().zip(expected) {
                    let ids: Vec<u32> = opening.into_iter().chain(bytes(text)).collect();
                    let expected = by_hand(&model, &ids, (from + open).max(1));
                    assert!((found - expected).abs() < 1e-5, "{text}: {found} against {expected}");
                }
            };
            check(Heuristic::Sentence, Input::One("it is".into()), &[("it is", 0)]);
            check(Heuristic::Sentiment, Input::One("ok ".into()), &[("ok verynegative", 7), ("ok verypositive", 7)]);
            let answers = vec!["x".into(), "yzz".into()];
            let choices = Input::Choices { document: "ab".into(), question: "c?".into(), answers };
            check(Heuristic::Answer, choices, &[("abc?x", 4), ("abc?yzz", 4)]);
            let candidates = ["u".into(), "vw".into()];
            let reference = Input::Reference { before: "a ".into(), after: " sat".into(), candidates };
            check(Heuristic::Referent, reference, &[("a u sat", 3), ("a vw sat", 4)]);
        }
    }

    #[test]
    fn a_long_document_is_truncated_at_its_beginning() {
        let model = model();
        let score = |document: String| {
            let input = Input::Choices { document: document.into(), question: "?".into(), answers: vec!["no".into()] };
            let (scores, truncated) = scores(&model, None, Heuristic::Answer, [input]).unwrap();
            (scores[0][0], truncated)
        };
        let (fits, cut) = (score("x".repeat(22)), score("y".repeat(50) + &"x".repeat(22)));
        assert_eq!((fits.0, fits.1, cut.1), (cut.0, 0, 1));
    }

    #[test]
    fn texts_without_tokens_are_the_least_probable() {
        let (model, text) = (model(), |text: &str| Input::One(text.into()));
        let found = scores(&model, None, Heuristic::Sentence, ["", "a", "it is"].map(text)).unwrap().0;
        assert_eq!((found[0][0], found[1][0]), (f64::NEG_INFINITY, f64::NEG_INFINITY));
        assert!(found[2][0].is_finite());
        assert_eq!(scores(&model, None, Heuristic::Sentence, [text("")]).unwrap().0, [[f64::NEG_INFINITY]]);
        let nothing = Input::Choices { document: "".into(), question: String::new(), answers: vec![String::new(), "yes".into()] };
        let found = scores(&model, None, Heuristic::Answer, [nothing]).unwrap().0.remove(0);
        assert!(found[0] < found[1]);
    }

    #[test]
    fn a_model_with_nan_parameters_has_no_score() {
        let mut model = model();
        let declared = Model::declare(&model.config());
        model.as_mut().zip(declared).visit(|_, (p, declared)| {
            if declared.role == Role::Gain {
                p.set(0, f32::NAN);
            }
        });
        let error = scores(&model, None, Heuristic::Sentence, [Input::One("it is".into())]).unwrap_err();
        assert!(matches!(&error, TaskError::NotFinite { id, found } if id == "7" && found.is_nan()), "{error}");
        assert!(error.to_string().contains("example 7"), "{error}");
    }

    #[test]
    fn the_threshold_lies_between_distinct_scores() {
        assert_eq!(threshold(&[-3.0, -1.0, -2.0, -5.0], &[0, 1, 1, 0]), -2.5);
        assert_eq!(threshold(&[-1.0], &[1]), f64::NEG_INFINITY);
        assert_eq!(threshold(&[-1.0, -1.0], &[0, 1]), f64::NEG_INFINITY, "no threshold lies between equal scores");
        // Two thresholds are wrong in one answer each, with equal correlation: the lower one is returned.
        assert_eq!(threshold(&[-4.0, -3.0, -2.0, -1.0], &[0, 1, 0, 1]), -3.5);
        assert_eq!(threshold(&[f64::NEG_INFINITY, -1.0, -0.5], &[0, 1, 1]), -1.0, "of a text of which nothing is predicted");
    }

    /// The scores are thousands, with equal ones among them.
    #[test]
    fn the_threshold_has_the_best_correlation() {
        let mut rng = Philox::new(5);
        let labels: Vec<usize> = (0..3000).map(|_| rng.below(2) as usize).collect();
        let scores: Vec<f64> = labels.iter().map(|&l| -((rng.below(2500) + 300 * (1 - l as u64)) as f64)).collect();
        let quality = |t: f64| {
            let predicted: Vec<usize> = scores.iter().map(|&s| usize::from(s >= t)).collect();
            gradus_data::sets::scores::matthews(&predicted, &labels)
        };
        let best = quality(threshold(&scores, &labels));
        assert!(best > 0.05 && (-2801..=0).all(|t| quality(f64::from(t) - 0.5) <= best));
        for n in 2..300 {
            let labels: Vec<usize> = (0..2 + n % 7).map(|_| rng.below(2) as usize).collect();
            let scores: Vec<f64> = labels.iter().map(|_| rng.below(5) as f64).collect();
            let quality = |t: f64| {
                let predicted: Vec<usize> = scores.iter().map(|&s| usize::from(s >= t)).collect();
                gradus_data::sets::scores::matthews(&predicted, &labels)
            };
            let divides = |t: &f64| scores.iter().any(|s| s < t) && scores.iter().any(|s| s > t);
            let all = (0..4).map(|t| f64::from(t) + 0.5).filter(divides).map(quality);
            let found = threshold(&scores, &labels);
            assert_eq!(divides(&found), all.clone().count() > 0);
            assert!(all.clone().all(|one| one <= quality(found)), "{scores:?} {labels:?}: {found}");
        }
    }

    #[test]
    fn answers_are_the_best_choices_or_scores_above_a_threshold() {
        let model = model();
        let zero_shot = ZeroShot { model: &Causal::new(&model), tokenizer: &Tokenizer::bytes(), opening: None };
        let row = |text: &str, class: Option<usize>| {
            let label = class.map(Label::Class);
            Example { id: text.into(), input: Input::One(text.into()), label, group: None }
        };
        let task = |name| Task::named(name).unwrap();
        let score = |text: &str| scores(&model, None, Heuristic::Sentence, [Input::One(text.into())]).unwrap().0[0][0];
        let mut texts = ["it is", "xq zz", "the cat", "jjjj"];
        texts.sort_by(|a, b| score(a).total_cmp(&score(b)));
        let rows: Vec<Example> = (0..4).map(|i| row(texts[i], Some(i / 2))).collect();
        let found = zero_shot.answers(task("cola"), &rows, &rows).unwrap();
        assert_eq!(found.threshold, Some(f64::midpoint(score(texts[1]), score(texts[2]))));
        assert_eq!(found.labels, [0, 0, 1, 1].map(Label::Class));
        assert_eq!((found.scores, found.truncated), (texts.map(|text| vec![score(text)]).to_vec(), 0));
        // A score equal to the threshold is acceptable.
        let alone = zero_shot.answers(task("cola"), &[row(texts[2], Some(1))], &rows).unwrap();
        assert_eq!((alone.threshold, &alone.labels[0]), (Some(f64::NEG_INFINITY), &Label::Class(1)));

        let found = zero_shot.answers(task("sst-2"), &[], &rows).unwrap();
        assert_eq!(found.threshold, None);
        for (scores, label) in found.scores.iter().zip(&found.labels) {
            assert_eq!(*label, Label::Class(usize::from(scores[1] > scores[0])), "{scores:?}");
        }
        for (log_probs, scores) in found.log_probs.iter().zip(&found.scores) {
            let tokens = [8.0, 8.0]; // negative, positive
            log_probs.iter().zip(scores).zip(tokens).for_each(|((sum, mean), n)| assert!((sum - n * mean).abs() < 1e-9));
        }
        let long = row(&"x".repeat(50), Some(0));
        assert_eq!(zero_shot.answers(task("sst-2"), &[], &[rows[0].clone(), long]).unwrap().truncated, 1);

        let unlabelled = zero_shot.answers(task("cola"), &[row("it", None)], &rows).unwrap_err();
        assert!(matches!(&unlabelled, TaskError::NoLabel { id, .. } if id == "it"), "{unlabelled}");
        let without = zero_shot.answers(task("rte"), &[], &rows).unwrap_err();
        assert!(matches!(without, TaskError::NoHeuristic { task: "rte" }), "{without}");
    }

    /// The mean of −ln 1/(1 + e⁻²), from choices with the ratio e² : 1, and −ln 1/3, from three equal choices.
    #[test]
    fn the_cross_entropy_of_the_labels_follows_from_the_choices() {
        let row = |class| Example { id: "7".into(), input: Input::One("x".into()), label: class, group: None };
        let of = |log_probs: &[&[f64]], labels: &[usize]| {
            let log_probs: Vec<Vec<f64>> = log_probs.iter().map(|choices| choices.to_vec()).collect();
            let answers = TaskAnswers { labels: vec![], scores: log_probs.clone(), log_probs, threshold: None, truncated: 0 };
            answers.cross_entropy(&labels.iter().map(|&class| row(Some(Label::Class(class)))).collect::<Vec<_>>())
        };
        let expected = ((1.0 + (-2f64).exp()).ln() + 3f64.ln()) / 2.0;
        assert!((of(&[&[-1.0, -3.0], &[-5.0; 3]], &[0, 2]).unwrap() - expected).abs() < 1e-12);
        assert_eq!(of(&[&[0.0, 1e4]], &[0]), Some(1e4), "where a probability is 0 in f64");
        assert_eq!([of(&[&[-1.0]], &[0]), of(&[&[-1.0, -2.0]], &[2]), of(&[], &[])], [None; 3]);
        let unlabelled =
            TaskAnswers { labels: vec![], scores: vec![], log_probs: vec![vec![0.0, 0.0]], threshold: None, truncated: 0 };
        assert_eq!(unlabelled.cross_entropy(&[row(None)]), None);
    }

    #[test]
    fn six_tasks_have_a_heuristic() {
        let names = gradus_data::sets::ALL.iter().filter(|t| ZeroShot::has(t)).map(|t| t.name).collect::<Vec<_>>();
        assert_eq!(names, ["story-cloze", "race", "cola", "sst-2", "dprd", "wsc273"]);
        let trained = gradus_data::sets::ALL.iter().filter(|t| ZeroShot::needs_train(t)).map(|t| t.name).collect::<Vec<_>>();
        assert_eq!(trained, ["cola"]);
    }
}
