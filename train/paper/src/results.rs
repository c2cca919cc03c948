//! What the stages measured, as they are kept on disk and read for the report.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use gradus_data::sets::scores::mean_and_deviation;
use gradus_train::finetune::{Point, Scored};
use serde::{Deserialize, Serialize};

/// How a task was fine-tuned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// As the paper: pre-trained Transformer, λ = 0.5.
    Full,
    /// The same sizes from fresh parameters.
    NoPretraining,
    /// λ = 0.
    NoAux,
    /// The pre-trained LSTM.
    Lstm,
    /// Embeddings and so many blocks from the pre-trained Transformer.
    Layers(usize),
    /// The pre-trained Transformer on so many labelled rows.
    Rows(usize),
    /// Fresh parameters on so many labelled rows.
    NoPretrainingRows(usize),
    /// Pre-trained on the same sentences in an order that no story has.
    Shuffled,
    /// The head alone, on the pre-trained hidden states.
    Frozen,
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Variant::Full => f.write_str("full"),
            Variant::NoPretraining => f.write_str("no-pretraining"),
            Variant::NoAux => f.write_str("no-aux"),
            Variant::Lstm => f.write_str("lstm"),
            Variant::Layers(n) => write!(f, "layers-{n}"),
            Variant::Rows(n) => write!(f, "rows-{n}"),
            Variant::NoPretrainingRows(n) => write!(f, "no-pretraining-rows-{n}"),
            Variant::Shuffled => f.write_str("shuffled"),
            Variant::Frozen => f.write_str("frozen"),
        }
    }
}

impl FromStr for Variant {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        let number = |prefix: &str| name.strip_prefix(prefix).and_then(|n| n.parse().ok());
        Ok(match name {
            "full" => Variant::Full,
            "no-pretraining" => Variant::NoPretraining,
            "no-aux" => Variant::NoAux,
            "lstm" => Variant::Lstm,
            "shuffled" => Variant::Shuffled,
            "frozen" => Variant::Frozen,
            _ => match (number("layers-"), number("no-pretraining-rows-"), number("rows-")) {
                (Some(n), ..) => Variant::Layers(n),
                (_, Some(n), _) => Variant::NoPretrainingRows(n),
                (.., Some(n)) => Variant::Rows(n),
                _ => return Err(format!("no such variant: {name}")),
            },
        })
    }
}

impl Serialize for Variant {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Variant {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What stands under the heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// The Transformer.
    Gpt,
    /// The LSTM of as many parameters.
    Lstm,
    /// The Transformer, pre-trained on shuffled sentences.
    Shuffled,
}

impl Body {
    /// Its folder.
    pub fn name(self) -> &'static str {
        match self {
            Body::Gpt => "gpt",
            Body::Lstm => "lstm",
            Body::Shuffled => "shuffled",
        }
    }
}

/// One fine-tuning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskResult {
    /// The seed.
    pub seed: u64,
    /// The task's name.
    pub task: String,
    /// How it was fine-tuned.
    pub variant: Variant,
    /// Rows trained on.
    pub rows: usize,
    /// The test split, by the model with the best dev score.
    pub test: Scored,
    /// MultiNLI's other genres.
    pub mismatched: Option<Scored>,
    /// The same model on rows it was trained on.
    pub train: Scored,
    /// The dev split on the way.
    pub curve: Vec<Point>,
    /// Seconds it took.
    pub seconds: f64,
}

/// What a language model answers without being trained for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ZeroShotPoint {
    /// Updates of pre-training.
    pub update: u64,
    /// Tokens seen.
    pub tokens: u64,
    /// Scores by task.
    pub scores: BTreeMap<String, f64>,
}

/// One pre-training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PretrainResult {
    /// The seed.
    pub seed: u64,
    /// What was pre-trained.
    pub body: Body,
    /// Number of parameters.
    pub parameters: usize,
    /// Loss on held-out stories, in nats a token.
    pub loss: f64,
    /// The smallest that any model can have.
    pub limit: f64,
    /// Zero-shot scores on the way.
    pub zero_shot: Vec<ZeroShotPoint>,
    /// Seconds it took.
    pub seconds: f64,
}

/// Everything that was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Pre-trainings.
    pub pretrained: Vec<PretrainResult>,
    /// Fine-tunings.
    pub tasks: Vec<TaskResult>,
}

/// A mean over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// The sample deviation; `None` for one seed.
    pub deviation: Option<f64>,
    /// Number of seeds.
    pub seeds: usize,
}

impl Mean {
    /// Of one value a seed; `None` for no values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let (mean, deviation) = mean_and_deviation(values);
        (!values.is_empty()).then_some(Mean { mean, deviation, seeds: values.len() })
    }
}

impl fmt::Display for Mean {
    /// In points of 100: `81.2 ± 0.7`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{:.1}", 100.0 * self.mean).replace('-', "−"))?;
        self.deviation.map_or(Ok(()), |d| write!(f, " ± {:.1}", 100.0 * d))
    }
}

impl Results {
    /// The seeds, in order.
    pub fn seeds(&self) -> Vec<u64> {
        let mut seeds: Vec<u64> = self.tasks.iter().map(|t| t.seed).chain(self.pretrained.iter().map(|p| p.seed)).collect();
        seeds.sort_unstable();
        seeds.dedup();
        seeds
    }

    /// The result of one fine-tuning.
    pub fn task(&self, seed: u64, task: &str, variant: Variant) -> Option<&TaskResult> {
        self.tasks.iter().find(|t| (t.seed, t.task.as_str(), t.variant) == (seed, task, variant))
    }

    /// One value a seed, of the seeds that have it.
    pub fn each(&self, value: impl Fn(u64) -> Option<f64>) -> Vec<f64> {
        self.seeds().into_iter().filter_map(value).collect()
    }

    /// The mean test score of a column such as `mnli`, `mnli-mm`, `race-middle`, `mrpc-accuracy`.
    pub fn score(&self, column: &str, variant: Variant) -> Option<Mean> {
        Mean::of(&self.each(|seed| self.one(seed, column, variant)))
    }

    /// The test score of a column in one seed.
    pub fn one(&self, seed: u64, column: &str, variant: Variant) -> Option<f64> {
        match column {
            "mnli-mm" => Some(self.task(seed, "mnli", variant)?.mismatched.as_ref()?.score),
            // The mean of both test sets, as in table 5.
            "mnli-both" => {
                let both = [self.one(seed, "mnli", variant)?, self.one(seed, "mnli-mm", variant)?];
                Some((both[0] + both[1]) / 2.0)
            }
            "race-middle" | "race-high" => {
                let name = format!("accuracy-{}", &column[5..]);
                self.task(seed, "race", variant)?.test.metrics.get(&name).copied()
            }
            "mrpc-accuracy" | "qqp-accuracy" => {
                let (task, metric) = column.split_once('-')?;
                self.task(seed, task, variant)?.test.metrics.get(metric).copied()
            }
            task => Some(self.task(seed, task, variant)?.test.score),
        }
    }

    /// The mean over a seed's tasks of something that each result tells; `None` where no task does.
    pub fn over_tasks(&self, seed: u64, variant: Variant, value: impl Fn(&TaskResult) -> Option<f64>) -> Option<f64> {
        let of = |result: &TaskResult| (result.seed, result.variant) == (seed, variant);
        let values: Vec<f64> = self.tasks.iter().filter(|result| of(result)).filter_map(value).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// The unweighted mean of several columns in one seed; `None` unless all are there.
    pub fn average(&self, seed: u64, columns: &[&str], variant: Variant) -> Option<f64> {
        let scores: Option<Vec<f64>> = columns.iter().map(|c| self.one(seed, c, variant)).collect();
        scores.map(|s| s.iter().sum::<f64>() / s.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_read_as_they_are_written() {
        use Variant::*;
        for variant in
            [Full, NoPretraining, NoAux, Lstm, Layers(0), Layers(4), Rows(125), NoPretrainingRows(250), Shuffled, Frozen]
        {
            assert_eq!(variant.to_string().parse(), Ok(variant));
        }
        assert!("half".parse::<Variant>().is_err());
    }

    #[test]
    fn a_mean_is_shown_in_points() {
        assert_eq!(Mean::of(&[0.5]).unwrap().to_string(), "50.0");
        assert_eq!(Mean::of(&[0.5, 0.6]).unwrap().to_string(), "55.0 ± 7.1");
        assert_eq!(Mean::of(&[-0.05]).unwrap().to_string(), "−5.0");
        assert_eq!(Mean::of(&[]), None);
    }
}
