//! The metrics of the paper's tables, with the results of scikit-learn and SciPy.

use std::fmt;

use super::kinds::Label;

/// A metric that compares predictions with labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// The fraction of correct predictions: [`accuracy`].
    Accuracy,
    /// The F1 score of class 1: [`f1`].
    F1,
    /// Matthews' correlation coefficient: [`matthews`].
    Matthews,
    /// Pearson's correlation coefficient: [`pearson`].
    Pearson,
    /// Spearman's rank correlation coefficient: [`spearman`].
    Spearman,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Metric; 5] = [Metric::Accuracy, Metric::F1, Metric::Matthews, Metric::Pearson, Metric::Spearman];

    /// Returns the name in lower case: `accuracy`, `f1`, …
    pub fn name(self) -> &'static str {
        match self {
            Metric::Accuracy => "accuracy",
            Metric::F1 => "f1",
            Metric::Matthews => "matthews",
            Metric::Pearson => "pearson",
            Metric::Spearman => "spearman",
        }
    }

    /// Returns the score of `predictions` against `labels`; 1 is perfect. NaN if there are no predictions.
    ///
    /// # Panics
    /// Panics if the numbers of predictions and labels differ, or if a metric of classes receives a [`Label::Score`].
    pub fn score(self, predictions: &[Label], labels: &[Label]) -> f64 {
        match self {
            Metric::Accuracy => accuracy(&classes(predictions), &classes(labels)),
            Metric::F1 => f1(&classes(predictions), &classes(labels)),
            Metric::Matthews => matthews(&classes(predictions), &classes(labels)),
            Metric::Pearson => pearson(&values(predictions), &values(labels)),
            Metric::Spearman => spearman(&values(predictions), &values(labels)),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

fn values(labels: &[Label]) -> Vec<f64> {
    labels.iter().map(|label| label.value()).collect()
}

fn classes(labels: &[Label]) -> Vec<usize> {
    let class = |label: &Label| match *label {
        Label::Class(class) => class,
        Label::Score(score) => panic!("a metric of classes cannot use the score {score}; for scores take Pearson or Spearman"),
    };
    labels.iter().map(class).collect()
}

/// Returns the number of pairs, after checking that both sides have equal length.
fn pairs<T>(predictions: &[T], labels: &[T]) -> usize {
    assert_eq!(predictions.len(), labels.len(), "each prediction is compared with one label: their numbers must be equal");
    labels.len()
}

/// Returns the fraction of predictions that equal their labels; NaN if there are no predictions.
pub fn accuracy(predictions: &[usize], labels: &[usize]) -> f64 {
    let n = pairs(predictions, labels);
    predictions.iter().zip(labels).filter(|(p, l)| p == l).count() as f64 / n as f64
}

/// Returns the harmonic mean of the precision and recall of class 1 against all other classes:
///
/// ```text
/// F1 = 2·TP / (2·TP + FP + FN)
/// ```
///
/// 0 if class 1 is neither predicted nor a label (0/0), as in scikit-learn. NaN if there are no predictions.
pub fn f1(predictions: &[usize], labels: &[usize]) -> f64 {
    if pairs(predictions, labels) == 0 {
        return f64::NAN;
    }
    let of = |counted: fn(bool, bool) -> bool| predictions.iter().zip(labels).filter(|&(&p, &l)| counted(p == 1, l == 1)).count();
    let (hits, missed_or_false) = (of(|p, l| p && l), of(|p, l| p != l));
    2.0 * hits as f64 / (2 * hits + missed_or_false).max(1) as f64
}

/// Returns Matthews' correlation coefficient, for any number of classes (Gorodkin 2004):
///
/// ```text
///              n·c − Σₖ pₖ·lₖ                 n predictions, c of them correct,
/// ─────────────────────────────────────      class k predicted pₖ times, and lₖ times the label
/// √(n² − Σₖ pₖ²) · √(n² − Σₖ lₖ²)
/// ```
///
/// For two classes it is (TP·TN − FP·FN) / √((TP+FP)(TP+FN)(TN+FP)(TN+FN)). 0 if all predictions, or all labels, are of one class
/// (0/0), as in scikit-learn. NaN if there are no predictions.
pub fn matthews(predictions: &[usize], labels: &[usize]) -> f64 {
    let n = pairs(predictions, labels);
    if n == 0 {
        return f64::NAN;
    }
    let size = predictions.iter().chain(labels).max().map_or(0, |&most| most + 1);
    let count = |classes: &[usize]| {
        let mut counts = vec![0.0; size];
        classes.iter().for_each(|&class| counts[class] += 1.0);
        counts
    };
    let right = predictions.iter().zip(labels).filter(|(p, l)| p == l).count() as f64;
    matthews_of_counts(right, &count(predictions), &count(labels))
}

/// Returns [`matthews`] of `right` correct predictions, with class k predicted p\[k\] times and the label l\[k\] times.
pub fn matthews_of_counts(right: f64, p: &[f64], l: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let n: f64 = p.iter().sum();
    // The sums are integers below 2⁵³, so each difference is exact, and exactly 0 for a single class.
    let (of_predictions, of_labels) = (n * n - dot(p, p), n * n - dot(l, l));
    if of_predictions == 0.0 || of_labels == 0.0 {
        return 0.0;
    }
    (n * right - dot(p, l)) / (of_predictions.sqrt() * of_labels.sqrt())
}

/// Returns Pearson's correlation coefficient:
///
/// ```text
///        Σ (pᵢ − p̄)(lᵢ − l̄)
/// ─────────────────────────────────
/// √(Σ (pᵢ − p̄)²) · √(Σ (lᵢ − l̄)²)
/// ```
///
/// 0 if all predictions, or all labels, are equal (0/0), so that such a run can be compared with others; SciPy returns NaN. NaN
/// if there are no predictions, or if a value is non-finite.
pub fn pearson(predictions: &[f64], labels: &[f64]) -> f64 {
    if pairs(predictions, labels) == 0 || predictions.iter().chain(labels).any(|value| !value.is_finite()) {
        return f64::NAN;
    }
    let constant = |values: &[f64]| values.iter().all(|&value| value == values[0]);
    if constant(predictions) || constant(labels) {
        return 0.0;
    }
    // Dividing by the largest deviation first avoids underflow and overflow of the squares.
    let centred = |values: &[f64]| {
        let mean = mean(values);
        let deviations: Vec<f64> = values.iter().map(|value| value - mean).collect();
        let largest = deviations.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
        deviations.into_iter().map(|value| value / largest).collect::<Vec<_>>()
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let (p, l) = (centred(predictions), centred(labels));
    (dot(&p, &l) / (dot(&p, &p).sqrt() * dot(&l, &l).sqrt())).clamp(-1.0, 1.0)
}

/// Returns Spearman's rank correlation coefficient: [`pearson`] of the ranks, with the mean rank for equal values. It is 0 or NaN
/// in the same cases as [`pearson`].
pub fn spearman(predictions: &[f64], labels: &[f64]) -> f64 {
    if predictions.iter().chain(labels).any(|value| !value.is_finite()) {
        return f64::NAN;
    }
    pearson(&ranks(predictions), &ranks(labels))
}

/// Returns the rank of each of these finite values, from 1, with the mean rank for equal values.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].partial_cmp(&values[b]).expect("finite values"));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for equal in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let shared = first as f64 + (equal.len() + 1) as f64 / 2.0;
        equal.iter().for_each(|&at| ranks[at] = shared);
        first += equal.len();
    }
    ranks
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns GLUE's average: the mean over tasks of the mean of each task's scores.
///
/// The benchmark takes F1 and accuracy for MRPC and QQP, Pearson and Spearman for STS-B, matched and mismatched accuracy for
/// MNLI, and includes WNLI, nine tasks in all. The average of the paper's table 5 differs: it takes one score per task, the mean
/// of the two for MNLI, and excludes WNLI. NaN if there are no tasks, or if a task has no scores.
///
/// ```
/// use gradus_data::sets::scores::glue_average;
///
/// // Table 5, the full model: CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE.
/// let table_5 = glue_average(&[&[45.4], &[91.3], &[82.3], &[82.0], &[70.3], &[82.1, 81.4], &[88.1], &[56.0]]);
/// assert!((table_5 - 74.65).abs() < 0.01); // printed as 74.7, from an MNLI printed as 81.8
/// ```
pub fn glue_average(tasks: &[&[f64]]) -> f64 {
    mean(&tasks.iter().map(|scores| mean(scores)).collect::<Vec<_>>())
}

/// Returns the mean, and the sample standard deviation √(Σ(x − x̄)² / (n − 1)) if n > 1. The mean of no values is NaN.
pub fn mean_and_deviation(values: &[f64]) -> (f64, Option<f64>) {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn fixture() -> Value {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/scores.json");
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    fn numbers(value: &Value) -> Vec<f64> {
        value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
    }

    fn assert_close(found: f64, expected: f64, what: &str, case: &Value) {
        assert!(
            (found - expected).abs() <= 1e-12 * expected.abs().max(1.0),
            "{what} of {}: {found}, not {expected}",
            case["name"]
        );
    }

    #[test]
    fn classes_are_scored_as_scikit_learn_does() {
        let fixture = fixture();
        let cases = fixture["classes"].as_array().unwrap();
        assert_eq!(cases.len(), 14);
        for case in cases {
            let labels = |key: &str| numbers(&case[key]).into_iter().map(|k| Label::Class(k as usize)).collect::<Vec<_>>();
            for metric in [Metric::Accuracy, Metric::F1, Metric::Matthews] {
                let found = metric.score(&labels("predictions"), &labels("labels"));
                assert_close(found, case[metric.name()].as_f64().unwrap(), metric.name(), case);
            }
        }
    }

    #[test]
    fn values_are_scored_as_scipy_does() {
        let fixture = fixture();
        let cases = fixture["values"].as_array().unwrap();
        assert_eq!(cases.len(), 10);
        for case in cases {
            let (predictions, labels) = (numbers(&case["predictions"]), numbers(&case["labels"]));
            let wrap = |values: &[f64]| values.iter().map(|&value| Label::Score(value)).collect::<Vec<_>>();
            for metric in [Metric::Pearson, Metric::Spearman] {
                let found = metric.score(&wrap(&predictions), &wrap(&labels));
                // SciPy returns NaN for constant values; this crate returns 0.
                assert_close(found, case[metric.name()].as_f64().unwrap_or(0.0), metric.name(), case);
            }
            let (mean, deviation) = mean_and_deviation(&predictions);
            assert_close(mean, case["mean"].as_f64().unwrap(), "mean", case);
            assert_close(deviation.unwrap(), case["deviation"].as_f64().unwrap(), "deviation", case);
        }
        let degenerate = cases.iter().filter(|case| case["pearson"].is_null()).count();
        assert_eq!(degenerate, 2);
    }

    #[test]
    fn no_predictions_have_no_score_and_infinite_ones_no_correlation() {
        for metric in Metric::ALL {
            assert!(metric.score(&[], &[]).is_nan(), "{metric}");
        }
        for wrong in [f64::NAN, f64::INFINITY] {
            assert!(pearson(&[1.0, wrong, 3.0], &[1.0, 2.0, 3.0]).is_nan());
            assert!(spearman(&[1.0, wrong, 3.0], &[1.0, 2.0, 3.0]).is_nan());
        }
    }

    #[test]
    #[should_panic(expected = "for scores take Pearson or Spearman")]
    fn accuracy_of_a_score_panics() {
        Metric::Accuracy.score(&[Label::Score(1.0)], &[Label::Class(1)]);
    }

    #[test]
    #[should_panic(expected = "each prediction is compared with one label")]
    fn predictions_and_labels_of_different_lengths_panic() {
        Metric::Pearson.score(&[Label::Score(1.0)], &[]);
    }

    #[test]
    fn equal_values_share_their_ranks() {
        assert_eq!(ranks(&[3.0, -0.0, 3.0, 9.0, 0.0, 3.0]), [4.0, 1.5, 4.0, 6.0, 1.5, 4.0]);
    }

    /// GPT-1's entry on the leaderboard, with the average 72.8 in the paper: CoLA, SST-2, MRPC (F1, accuracy), STS-B (Pearson,
    /// Spearman), QQP (F1, accuracy), MNLI (m, mm), QNLI, RTE, WNLI.
    #[test]
    fn the_average_of_the_benchmark_is_over_nine_tasks() {
        let tasks: [&[f64]; 9] =
            [&[45.4], &[91.3], &[82.3, 75.7], &[82.0, 80.0], &[70.3, 88.5], &[82.1, 81.4], &[88.1], &[56.0], &[53.4]];
        assert_eq!(format!("{:.1}", glue_average(&tasks)), "72.8");
        assert!(glue_average(&[]).is_nan() && glue_average(&[&[1.0], &[]]).is_nan());
    }

    #[test]
    fn one_value_has_no_deviation() {
        assert_eq!(mean_and_deviation(&[0.5]), (0.5, None));
        assert_eq!(mean_and_deviation(&[1.0, 3.0]), (2.0, Some(2f64.sqrt())));
        let (mean, deviation) = mean_and_deviation(&[]);
        assert!(mean.is_nan() && deviation.is_none());
    }
}
