//! The measurements of the stages, in the form that is stored on disk and read for the report.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use gradus_data::sets::scores::glue_average;
use gradus_study::Mean;
use gradus_train::finetune::{CurvePoint, Scored};
use serde::{Deserialize, Serialize};

use crate::tasks::entropy;

/// A variant of fine-tuning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Variant {
    /// The paper's model: the pre-trained Transformer, λ = 0.5.
    Full,
    /// A fresh model of the paper's sizes, without pre-training.
    NoPretraining,
    /// The pre-trained Transformer with λ = 0.
    NoAux,
    /// The pre-trained LSTM.
    Lstm,
    /// A model with the embeddings and this many blocks of the pre-trained Transformer.
    Layers(usize),
    /// The pre-trained Transformer on this many labelled rows.
    Rows(usize),
    /// A fresh model on this many labelled rows.
    NoPretrainingRows(usize),
    /// The Transformer, pre-trained on the sentences in an order that no story has.
    Shuffled,
    /// The head only, on the frozen pre-trained hidden states.
    Frozen,
}

/// The names of the variants without a number.
const NAMED: [(Variant, &str); 6] = [
    (Variant::Full, "full"),
    (Variant::NoPretraining, "no-pretraining"),
    (Variant::NoAux, "no-aux"),
    (Variant::Lstm, "lstm"),
    (Variant::Shuffled, "shuffled"),
    (Variant::Frozen, "frozen"),
];

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Variant::Layers(n) => write!(f, "layers-{n}"),
            Variant::Rows(n) => write!(f, "rows-{n}"),
            Variant::NoPretrainingRows(n) => write!(f, "no-pretraining-rows-{n}"),
            named => NAMED.iter().filter(|(variant, _)| variant == named).try_for_each(|(_, name)| f.write_str(name)),
        }
    }
}

impl From<Variant> for String {
    fn from(variant: Variant) -> String {
        variant.to_string()
    }
}

impl TryFrom<String> for Variant {
    type Error = String;
    fn try_from(name: String) -> Result<Self, String> {
        if let Some((variant, _)) = NAMED.iter().find(|(_, known)| *known == name) {
            return Ok(*variant);
        }
        let (kind, number) = name.rsplit_once('-').unwrap_or_default();
        match (kind, number.parse()) {
            ("layers", Ok(n)) => Ok(Variant::Layers(n)),
            ("rows", Ok(n)) => Ok(Variant::Rows(n)),
            ("no-pretraining-rows", Ok(n)) => Ok(Variant::NoPretrainingRows(n)),
            _ => Err(format!("no such variant: {name}")),
        }
    }
}

/// The model under the heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    Gpt,
    Lstm,
    /// The Transformer, pre-trained on shuffled sentences.
    Shuffled,
}

impl Body {
    /// All bodies.
    pub const ALL: [Body; 3] = [Body::Gpt, Body::Lstm, Body::Shuffled];

    /// Returns the name of the body's folder.
    pub fn name(self) -> &'static str {
        match self {
            Body::Gpt => "gpt",
            Body::Lstm => "lstm",
            Body::Shuffled => "shuffled",
        }
    }
}

/// The result of one fine-tuning, and its duration in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskResult {
    /// The name of the world that the model was pre-trained on.
    pub world: String,
    pub seed: u64,
    pub task: String,
    pub variant: Variant,
    /// The number of training rows.
    pub rows: usize,
    /// The scores on the test split, of the model with the best dev score.
    pub test: Scored,
    /// The scores on MultiNLI's mismatched genres.
    pub mismatched: Option<Scored>,
    /// The scores of this model on some of its training rows.
    pub train: Scored,
    /// The scores on the dev split during training.
    pub curve: Vec<CurvePoint>,
    pub seconds: f64,
}

impl TaskResult {
    /// Returns whether the scores and losses are possible for any model.
    pub(crate) fn is_possible(&self) -> bool {
        let possible = |scored: &Scored| {
            // Rounding may raise a correlation of 1 slightly.
            let scores = scored.metrics.values().chain([&scored.score]).all(|score| score.abs() <= 1.0 + 1e-9);
            scores && scored.loss >= 0.0
        };
        [&self.test, &self.train].into_iter().chain(&self.mismatched).chain(self.curve.iter().map(|p| &p.dev)).all(possible)
    }
}

/// The zero-shot scores of a language model at one point of pre-training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ZeroShotPoint {
    #[serde(rename = "update")]
    pub step: u64,
    pub tokens: u64,
    /// The scores by task.
    pub scores: BTreeMap<String, f64>,
}

/// The result of one pre-training, and its duration in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PretrainResult {
    /// The name of the training world.
    pub world: String,
    pub seed: u64,
    pub body: Body,
    pub parameters: usize,
    /// The loss on held-out stories, in nats per token.
    pub loss: f64,
    /// The smallest possible loss of any model.
    pub limit: f64,
    /// The zero-shot scores during training.
    pub zero_shot: Vec<ZeroShotPoint>,
    pub seconds: f64,
}

/// All measurements of a reproduction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    pub pretrained: Vec<PretrainResult>,
    pub tasks: Vec<TaskResult>,
}

/// Returns the task of a column.
pub fn base(column: &str) -> &str {
    match column {
        "mnli-mm" | "mnli-both" => "mnli",
        "race-middle" | "race-high" => "race",
        other => other.strip_suffix("-accuracy").unwrap_or(other),
    }
}

/// The columns of the benchmark's average, task by task; without WNLI, which is not trained on here.
const GLUE: [&[&str]; 8] = [
    &["cola"],
    &["sst-2"],
    &["mrpc", "mrpc-accuracy"],
    &["sts-b", "sts-b-spearman"],
    &["qqp", "qqp-accuracy"],
    &["mnli", "mnli-mm"],
    &["qnli"],
    &["rte"],
];

impl Results {
    /// Returns the seeds in order.
    pub fn seeds(&self) -> Vec<u64> {
        let seeds = self.tasks.iter().map(|t| t.seed).chain(self.pretrained.iter().map(|p| p.seed));
        seeds.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns the result of one fine-tuning.
    pub fn task(&self, seed: u64, task: &str, variant: Variant) -> Option<&TaskResult> {
        self.tasks.iter().find(|t| (t.seed, t.task.as_str(), t.variant) == (seed, task, variant))
    }

    /// Returns the result of one pre-training.
    pub fn pretraining(&self, seed: u64, body: Body) -> Option<&PretrainResult> {
        self.pretrained.iter().find(|p| (p.seed, p.body) == (seed, body))
    }

    /// Returns one value per seed, for the seeds that have a value.
    pub fn each(&self, value: impl Fn(u64) -> Option<f64>) -> Vec<f64> {
        self.seeds().into_iter().filter_map(value).collect()
    }

    /// Returns the mean test score of a column such as `mnli`, `mnli-mm`, `race-middle`, `mrpc-accuracy`.
    pub fn score(&self, column: &str, variant: Variant) -> Option<Mean> {
        Mean::of(&self.each(|seed| self.one(seed, column, variant)))
    }

    /// Returns the test score of a column in one seed.
    pub fn one(&self, seed: u64, column: &str, variant: Variant) -> Option<f64> {
        let metric = |task, name| self.task(seed, task, variant)?.test.metrics.get(name).copied();
        match column {
            "mnli-mm" => Some(self.task(seed, "mnli", variant)?.mismatched.as_ref()?.score),
            // The mean over both test sets, as in table 5.
            "mnli-both" => {
                let both = [self.one(seed, "mnli", variant)?, self.one(seed, "mnli-mm", variant)?];
                Some((both[0] + both[1]) / 2.0)
            }
            "glue" => {
                let of = |columns: &&[&str]| columns.iter().map(|column| self.one(seed, column, variant)).collect();
                let tasks: Vec<Vec<f64>> = GLUE.iter().map(of).collect::<Option<_>>()?;
                Some(glue_average(&tasks.iter().map(Vec::as_slice).collect::<Vec<_>>()))
            }
            "race-middle" => metric("race", "accuracy-middle"),
            "race-high" => metric("race", "accuracy-high"),
            "mrpc-accuracy" => metric("mrpc", "accuracy"),
            "qqp-accuracy" => metric("qqp", "accuracy"),
            "sts-b-spearman" => metric("sts-b", "spearman"),
            task => Some(self.task(seed, task, variant)?.test.score),
        }
    }

    /// Returns the excess of the loss L₂ over the smallest possible loss, on a column's test rows in one seed, in nats per
    /// example. Columns of one task that differ only in the metric have equal losses.
    pub fn excess(&self, seed: u64, column: &str, variant: Variant) -> Option<f64> {
        let of = |column: &str| {
            let result = self.task(seed, base(column), variant)?;
            Some(if column == "mnli-mm" { result.mismatched.as_ref()?.loss } else { result.test.loss })
        };
        let loss = if column == "mnli-both" { (of("mnli")? + of("mnli-mm")?) / 2.0 } else { of(column)? };
        Some(loss - entropy(base(column))?)
    }

    /// Returns the mean over a seed's tasks of a value of each result; `None` if no task has a value.
    pub fn over_tasks(&self, seed: u64, variant: Variant, value: impl Fn(&TaskResult) -> Option<f64>) -> Option<f64> {
        let of = |result: &TaskResult| (result.seed, result.variant) == (seed, variant);
        let values: Vec<f64> = self.tasks.iter().filter(|result| of(result)).filter_map(value).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// Returns the unweighted mean of several columns in one seed; `None` unless all have a score.
    pub fn average(&self, seed: u64, columns: &[&str], variant: Variant) -> Option<f64> {
        let scores: Option<Vec<f64>> = columns.iter().map(|c| self.one(seed, c, variant)).collect();
        scores.map(|s| s.iter().sum::<f64>() / s.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_scores_and_losses_are_detected() {
        let scored = |score: f64, loss: f64| Scored {
            metric: "mc".into(),
            metrics: [("mc".to_owned(), score)].into(),
            score,
            loss,
            examples: 9,
        };
        let with = |test: Scored, dev: Scored| TaskResult {
            world: String::new(),
            seed: 1,
            task: "cola".into(),
            variant: Variant::Full,
            rows: 10,
            test,
            mismatched: None,
            train: scored(0.5, 0.7),
            curve: vec![CurvePoint { step: 1, epoch: 0.5, train_loss: 0.7, dev }],
            seconds: 1.0,
        };
        let good = || scored(-1.0, 0.0);
        assert!(with(good(), scored(1.0 + 1e-12, 9.0)).is_possible());
        for bad in [scored(1.1, 0.5), scored(-1.1, 0.5), scored(0.5, -0.1), scored(f64::NAN, 0.5), scored(0.5, f64::NAN)] {
            assert!(!with(bad.clone(), good()).is_possible() && !with(good(), bad).is_possible());
        }
    }

    #[test]
    fn variants_are_parsed_from_their_names() {
        let numbered = [Variant::Layers(0), Variant::Layers(4), Variant::Rows(125), Variant::NoPretrainingRows(250)];
        for variant in NAMED.map(|(variant, _)| variant).into_iter().chain(numbered) {
            assert_eq!(Variant::try_from(variant.to_string()), Ok(variant));
        }
        for wrong in ["half", "layers-", "layers--1", "rows-x", "-4", ""] {
            assert_eq!(Variant::try_from(wrong.to_owned()), Err(format!("no such variant: {wrong}")));
        }
    }
}
