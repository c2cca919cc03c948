//! The paper's claims, each with its figure, what came out here, and a verdict by a rule.
//!
//! ```text
//! d        the difference by which the claim is judged, measured once per seed; d̄ its mean, s its sample deviation
//! shown            d̄ > 2s, of three seeds or more
//! towards it       d̄ > s otherwise, or d̄ > 0 with one seed
//! undecided        −s ≤ d̄ ≤ s
//! away from it     d̄ < −s otherwise, or d̄ < 0 with one seed
//! against it       d̄ < −2s, of three seeds or more
//! ```
//!
//! With three seeds d̄ > 2s is t > 3.46 with two degrees of freedom, which chance alone gives in 4 of 100 claims; d̄ > s in 11.

use gradus_data::sets::Task;
use gradus_data::sets::scores::{Metric, mean_and_deviation};
use serde::Serialize;

use crate::paper::{self, Quote};
use crate::plan::{EXPERIMENTS, PARTS, Sizes, TRANSFERRED};
use crate::results::{Body, Mean, Results, TaskResult, Variant, ZeroShotPoint};
use crate::stage::ZERO_SHOT;
use crate::tasks::bayes;

/// The outcome of a claim; open if it was not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Shown,
    Towards,
    Undecided,
    Away,
    Against,
    Open,
}

/// Scores are sums of fractions: equal ones may differ by this much in rounding.
const DUST: f64 = 1e-9;

impl Verdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Shown => "shown",
            Verdict::Towards => "towards it",
            Verdict::Undecided => "undecided",
            Verdict::Away => "away from it",
            Verdict::Against => "against it",
            Verdict::Open => "not measured",
        }
    }

    /// From the differences of the seeds.
    fn of(differences: &[f64]) -> Self {
        let (mean, deviation) = mean_and_deviation(differences);
        let enough = differences.len() >= 3;
        match (mean, deviation) {
            _ if differences.is_empty() || mean.is_nan() => Verdict::Open,
            (m, _) if m.abs() < DUST => Verdict::Undecided,
            (m, Some(s)) if m.abs() <= s => Verdict::Undecided,
            (m, Some(s)) if enough && m > 2.0 * s => Verdict::Shown,
            (m, Some(s)) if enough && m < -2.0 * s => Verdict::Against,
            (m, _) if m > 0.0 => Verdict::Towards,
            _ => Verdict::Away,
        }
    }
}

/// One of the paper's claims.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// The claim, as it is measured here.
    pub statement: String,
    /// The paper's sentence.
    pub sentence: &'static str,
    /// Where it is in the paper.
    pub section: &'static str,
    /// Its figure.
    pub paper: String,
    /// Ours, mean ± deviation over seeds.
    pub ours: String,
    /// What came out.
    pub verdict: Verdict,
}

/// How differences are written: multiplied by `times`, with `digits` digits.
struct Unit<'u> {
    times: f64,
    digits: usize,
    name: &'u str,
}

impl<'u> Unit<'u> {
    const POINTS: Self = Unit::percent("points");

    const fn percent(name: &'u str) -> Self {
        Unit { times: 100.0, digits: 1, name }
    }

    /// The mean with its sign, and the deviation.
    fn tell(&self, differences: &[f64]) -> String {
        let Some(mean) = Mean::of(differences) else { return "–".into() };
        let sign = if mean.mean < 0.0 { "" } else { "+" };
        format!("{sign}{} {}", mean.told(self.times, self.digits), self.name)
    }
}

impl Claim {
    /// From the differences that the claim is about, one per seed.
    fn new(statement: &str, quote: Quote, paper: &str, differences: &[f64], unit: &Unit<'_>) -> Self {
        let ours = unit.tell(differences);
        let verdict = Verdict::of(differences);
        Claim { statement: statement.into(), sentence: quote.text, section: quote.section, paper: paper.into(), ours, verdict }
    }
}

/// The rule of [`Verdict`] in words, for the report.
pub const RULE: &str = "A claim is judged by a difference d, measured once per seed. With three seeds or more, it is shown \
    where the mean of d is above two sample standard deviations, and the result is against it below minus two (chance \
    alone shows 4 of 100 claims with three seeds). Between one and two, or with fewer seeds, the result is towards it or \
    away from it; within one it is undecided.";

/// The eight columns of table 5.
pub const TABLE_5: [&str; 8] = ["cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli-both", "qnli", "rte"];
/// The columns of table 2.
pub const TABLE_2: [&str; 6] = ["mnli", "mnli-mm", "snli", "scitail", "qnli", "rte"];
const INFERENCE_5: [&str; 3] = ["mnli-both", "qnli", "rte"];
const SIMILARITY: [&str; 3] = ["mrpc", "sts-b", "qqp"];
const CLASSIFICATION: [&str; 2] = ["cola", "sst-2"];
const AUX_HELPS: [&str; 4] = ["mnli-both", "qnli", "rte", "qqp"];
const AUX_DOES_NOT: [&str; 4] = ["cola", "sst-2", "mrpc", "sts-b"];

/// All claims that this reproduction can test.
pub fn all(results: &Results, sizes: &Sizes) -> Vec<Claim> {
    let mut claims = ablations(results, sizes.layers);
    claims.extend(zero_shot(results));
    claims.extend(auxiliary(results));
    if sizes.full {
        claims.extend(experiments(results, sizes));
    }
    claims
}

/// Table 5: what is lost without pre-training, the auxiliary objective, or the Transformer. Figure 2, left: what each
/// transferred layer adds.
fn ablations(results: &Results, layers: usize) -> Vec<Claim> {
    use Variant::{Full, Layers, Lstm, NoAux, NoPretraining};
    let claim = |statement: &str, quote, paper: &str, columns: &[&str], better, worse| {
        let gain = |seed| Some(results.average(seed, columns, better)? - results.average(seed, columns, worse)?);
        Claim::new(statement, quote, paper, &results.each(gain), &Unit::POINTS)
    };
    let pre_training = |statement: &str, paper: &str, columns: &[&str]| {
        claim(statement, paper::PRE_TRAINING, paper, columns, Full, NoPretraining)
    };
    let mut claims = vec![
        pre_training("Without pre-training the average of table 5 falls", "14.8 points (74.7 to 59.9)", &TABLE_5),
        pre_training("Pre-training helps natural language inference", "no figure", &TABLE_2),
        pre_training("… MNLI, QNLI and RTE, those of table 5, alone", "8.4 points", &INFERENCE_5),
        pre_training("Pre-training helps question answering", "no figure", &["story-cloze", "race"]),
        pre_training("Pre-training helps sentence similarity", "19.6 points (MRPC, STS-B, QQP)", &SIMILARITY),
        pre_training("Pre-training helps classification", "16.9 points (CoLA, SST-2)", &CLASSIFICATION),
        claim(
            "The auxiliary objective helps on MNLI, QNLI, RTE and QQP (the paper's larger sets, not all of them larger here)",
            paper::AUXILIARY,
            "+1.0 points",
            &AUX_HELPS,
            Full,
            NoAux,
        ),
        claim(
            "It does not on CoLA, SST-2, MRPC and STS-B (its smaller ones)",
            paper::AUXILIARY,
            "+1.8 points without it",
            &AUX_DOES_NOT,
            NoAux,
            Full,
        ),
        claim("An LSTM in the same framework scores lower on average", paper::RECURRENT, "5.6 points", &TABLE_5, Full, Lstm),
        claim("MultiNLI (matched): all transferred, against nothing", paper::LAYERS, "up to 9 %", &["mnli"], Full, NoPretraining),
    ];
    let transfer = |statement: &str, more, less| claim(statement, paper::LAYERS, "yes, no figure", &TRANSFERRED, more, less);
    claims.push(transfer("Transferring the embeddings alone helps (MultiNLI and CoLA)", Layers(0), NoPretraining));
    claims.extend((1..layers).map(|n| transfer(&format!("Block {n} helps further"), Layers(n), Layers(n - 1))));
    claims.push(transfer("The last block helps further", Full, Layers(layers - 1)));
    claims
}

/// What guessing scores on a task of the world, in its metric; its classes are equally frequent.
pub fn chance(task: &str) -> f64 {
    let Ok(task) = Task::named(task) else { return 0.0 };
    match task.metric {
        Metric::Accuracy => 1.0 / task.answers() as f64,
        Metric::F1 => 2.0 / 3.0, // always yes: every positive is found, half of the answers are right
        _ => 0.0,                // correlations
    }
}

/// The mean normalised zero-shot score of a body in a seed over the tokens of its pre-training, from none on.
pub fn normalised(results: &Results, seed: u64, body: Body, tasks: &[&str]) -> Vec<(f64, f64)> {
    let Some(run) = results.pretraining(seed, body) else { return Vec::new() };
    // The paper divides by the best single model; here the best possible score is known.
    let one = |score: f64, task: &str| (score - chance(task)) / (bayes(task).unwrap_or(1.0) - chance(task));
    let point = |p: &ZeroShotPoint| {
        let scores: Option<Vec<f64>> = tasks.iter().map(|t| Some(one(*p.scores.get(*t)?, t))).collect();
        scores.map(|s| (p.tokens as f64, s.iter().sum::<f64>() / s.len() as f64))
    };
    let mut curve: Vec<(f64, f64)> = run.zero_shot.iter().filter_map(point).collect();
    // The last step is measured, also where a regular measurement was just before.
    if let &[_, (first, _), .., (before, _), (last, _)] = &curve[..]
        && last - before < 0.5 * first
    {
        curve.remove(curve.len() - 2);
    }
    curve
}

/// Where a curve ends.
fn end(curve: &[(f64, f64)]) -> f64 {
    curve[curve.len() - 1].1
}

/// Figure 2, right.
fn zero_shot(results: &Results) -> Vec<Claim> {
    let of = |body| {
        let curves = results.seeds().into_iter().map(|seed| normalised(results, seed, body, &ZERO_SHOT));
        curves.filter(|curve| curve.len() > 1).collect::<Vec<_>>()
    };
    let (gpt, lstm) = (of(Body::Gpt), of(Body::Lstm));
    let each = |curves: &[Vec<_>], value: fn(&[(f64, f64)]) -> f64| curves.iter().map(|c| value(c)).collect::<Vec<f64>>();
    let less = |a: Vec<f64>, b: Vec<f64>| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a - b).collect() };
    let claim = |statement: &str, quote, differences: Vec<f64>| {
        let unit = Unit::percent("% of the way from guessing to the best possible score");
        Claim::new(statement, quote, "yes, no figure", &differences, &unit)
    };
    // One number per body over all seeds: reported with the claim, but the rule does not apply to it.
    let spread = |curves: &[Vec<_>]| mean_and_deviation(&each(curves, |c| 100.0 * end(c))).1;
    let over_seeds = match (spread(&lstm), spread(&gpt)) {
        (Some(a), Some(b)) => format!("; deviation of the ends over seeds {a:.1}, the Transformer's {b:.1}"),
        _ => String::new(),
    };
    let rougher = less(each(&lstm, roughness), each(&gpt, roughness));
    let unit = format!("points of roughness (noise about a smooth curve){over_seeds}");
    vec![
        claim("Zero-shot scores end above where they began", paper::HEURISTICS, each(&gpt, |c| end(c) - c[0].1)),
        claim(
            "They rise steadily: still after the first measurement, by a fitted line",
            paper::HEURISTICS,
            each(&gpt, |c| trend(&c[1..])),
        ),
        claim("They end above guessing", paper::HEURISTICS, each(&gpt, end)),
        claim("The Transformer's scores end above the LSTM's", paper::VARIANCE, less(each(&gpt, end), each(&lstm, end))),
        Claim::new(
            "The LSTM's scores vary more on the way",
            paper::VARIANCE,
            "higher variance, no figure",
            &rougher,
            &Unit::percent(&unit),
        ),
    ]
}

/// How far a line fitted by least squares rises over a curve.
fn trend(curve: &[(f64, f64)]) -> f64 {
    let mean = |of: fn(&(f64, f64)) -> f64| curve.iter().map(of).sum::<f64>() / curve.len() as f64;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let (mut xy, mut xx) = (0.0, 0.0);
    curve.iter().for_each(|p| (xy, xx) = (xy + (p.0 - x) * (p.1 - y), xx + (p.0 - x).powi(2)));
    let range = curve.last().map_or(0.0, |last| last.0 - curve[0].0);
    if xx > 0.0 { xy / xx * range } else { 0.0 }
}

/// How much a curve fluctuates about a smooth one: its second differences yₜ₋₁ − 2yₜ + yₜ₊₁ have six times the variance of noise
/// that is independent from point to point, and next to nothing of what is smooth. The first point, of the untrained model, is
/// left out: the leap from it is no noise.
fn roughness(curve: &[(f64, f64)]) -> f64 {
    let second: Vec<f64> = curve[1.min(curve.len())..].windows(3).map(|w| w[0].1 - 2.0 * w[1].1 + w[2].1).collect();
    (second.iter().map(|d| d * d).sum::<f64>() / second.len().max(1) as f64 / 6.0).sqrt()
}

/// Generalisation and convergence with and without the auxiliary objective (§3.2), over all tasks.
fn auxiliary(results: &Results) -> Vec<Claim> {
    let claim = |statement: &str, unit: &str, loss: fn(&TaskResult) -> Option<f64>| {
        let mean = |seed, variant| results.over_tasks(seed, variant, loss);
        let saved = results.each(|seed| Some(mean(seed, Variant::NoAux)? - mean(seed, Variant::Full)?));
        Claim::new(statement, paper::LEARNING, "no figure", &saved, &Unit { times: 1.0, digits: 3, name: unit })
    };
    vec![
        claim(
            "The auxiliary objective improves generalisation",
            "nats of L₂: the gap from training to test rows without it, less the gap with it",
            |r| Some(r.test.loss - r.train.loss),
        ),
        claim("It speeds convergence", "nats of L₂ on dev after the first epoch: without it, less with it", |r| {
            r.curve.iter().find(|p| p.epoch >= 1.0).map(|p| p.dev.loss)
        }),
    ]
}

/// The paper's claims in words, on the average of some tasks.
fn experiments(results: &Results, sizes: &Sizes) -> Vec<Claim> {
    let claim = |statement: &str, quote, paper: &str, better: &dyn Fn(&str) -> Variant, worse: &dyn Fn(&str) -> Variant| {
        let gain = |seed| {
            let of = |task: &&str| Some(results.one(seed, task, better(task))? - results.one(seed, task, worse(task))?);
            let all: Option<Vec<f64>> = EXPERIMENTS.iter().map(of).collect();
            all.map(|gains| gains.iter().sum::<f64>() / gains.len() as f64)
        };
        Claim::new(statement, quote, paper, &results.each(gain), &Unit::POINTS)
    };
    let by_size = PARTS.map(|part| {
        claim(
            &format!("Pre-training helps with one labelled row in {part}"),
            paper::SIZES,
            "works from 5.7 k to 550 k examples",
            &|task| Variant::Rows(sizes.part(task, part)),
            &|task| Variant::NoPretrainingRows(sizes.part(task, part)),
        )
    });
    let argued = "argued, no figure";
    let contiguous = "Contiguous text teaches more than shuffled sentences";
    let contiguous = claim(contiguous, paper::CONTIGUOUS, argued, &|_| Variant::Full, &|_| Variant::Shuffled);
    // Neither with the auxiliary objective, which features cannot learn.
    let features = "Fine-tuning beats frozen features";
    let features = claim(features, paper::FEATURES, argued, &|_| Variant::NoAux, &|_| Variant::Frozen);
    by_size.into_iter().chain([contiguous, features]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::PretrainResult;
    use gradus_train::finetune::{CurvePoint, Scored};

    #[test]
    fn verdicts_follow_the_rule() {
        let rounding = (0.1 + 0.2 - 0.3) / 3.0;
        let cases: [(Verdict, &[&[f64]]); 6] = [
            (Verdict::Open, &[&[]]),
            (Verdict::Shown, &[&[0.10, 0.11, 0.12]]),
            (Verdict::Towards, &[&[0.1], &[0.10, 0.11], &[0.05, 0.15, 0.2]]),
            (Verdict::Undecided, &[&[0.0], &[rounding], &[0.0, 0.3, 0.1], &[0.0, -0.3, -0.1], &[-0.1, 0.05], &[0.1, -0.05]]),
            (Verdict::Away, &[&[-0.1], &[-0.10, -0.11], &[-0.05, -0.15, -0.2]]),
            (Verdict::Against, &[&[-0.10, -0.11, -0.12]]),
        ];
        for (verdict, differences) in cases {
            differences.iter().for_each(|d| assert_eq!(Verdict::of(d), verdict, "{d:?}"));
        }
    }

    /// The figures beside ours, from the lines of table 5. The paper's text says 5.6 of the LSTM.
    #[test]
    fn the_papers_falls_are_those_of_its_table() {
        let claims = all(&Results::default(), &Sizes::new(1, 1, 1.0, false));
        let said = |statement: &str| -> f64 {
            let claim = claims.iter().find(|claim| claim.statement.starts_with(statement)).expect("a claim");
            claim.paper.split(' ').next().unwrap().parse().expect("a figure")
        };
        let [.., table_5] = paper::tables();
        let line = |name: &str| &table_5.systems.iter().find(|line| line.name == name).unwrap().scores;
        let check = |system: &str, columns: &[&str], statement: &str| {
            let said = said(statement);
            let fall = |column| {
                let at = 1 + TABLE_5.iter().position(|c| *c == column).unwrap();
                line("full")[at].unwrap() - line(system)[at].unwrap()
            };
            let mean = columns.iter().map(|c| fall(*c)).sum::<f64>() / columns.len() as f64;
            assert!((mean.abs() - said).abs() < 0.12, "{system}, {columns:?}: {mean}, said {said}");
        };
        check("no pre-training", &TABLE_5, "Without pre-training");
        check("no pre-training", &INFERENCE_5, "… MNLI, QNLI and RTE");
        check("no pre-training", &["mrpc", "sts-b", "qqp"], "Pre-training helps sentence similarity");
        check("no pre-training", &["cola", "sst-2"], "Pre-training helps classification");
        check("no auxiliary LM", &AUX_HELPS, "The auxiliary objective helps");
        check("no auxiliary LM", &AUX_DOES_NOT, "It does not on CoLA");
        check("LSTM, 1 × 2048", &TABLE_5, "An LSTM");
    }

    /// With λ = 0.5 a gap of 0.1 and a loss of 0.5 at first, with λ = 0 a gap of 0.3 and a loss of 0.6: both are gains.
    #[test]
    fn the_auxiliary_objective_gains_where_the_gap_is_smaller_with_it() {
        let scored = |loss: f64| Scored { loss, ..Scored::default() };
        let result = |variant, train: f64, test: f64, first: f64| TaskResult {
            seed: 1,
            task: crate::plan::TASKS[0].0.into(),
            variant,
            rows: 10,
            test: scored(test),
            mismatched: None,
            train: scored(train),
            curve: vec![CurvePoint { step: 1, epoch: 1.0, train_loss: first, dev: scored(first) }],
            seconds: 0.0,
        };
        let tasks = vec![result(Variant::Full, 0.4, 0.5, 0.5), result(Variant::NoAux, 0.2, 0.5, 0.6)];
        let claims = auxiliary(&Results { tasks, ..Results::default() });
        let ours: Vec<&str> = claims.iter().map(|c| &c.ours[..6]).collect();
        assert_eq!(ours, ["+0.200", "+0.100"]);
        assert!(claims.iter().all(|c| c.verdict == Verdict::Towards));
    }

    #[test]
    fn differences_have_signs() {
        let told = [&[0.012][..], &[-0.012], &[-0.01, -0.03], &[]].map(|differences| Unit::POINTS.tell(differences));
        assert_eq!(told, ["+1.2 points", "−1.2 points", "−2.0 ± 1.4 points", "–"]);
    }

    #[test]
    fn a_smooth_curve_is_not_rough_whatever_its_shape() {
        let curve = |y: &dyn Fn(f64) -> f64| (0..13).map(|i| (f64::from(i), y(f64::from(i)))).collect::<Vec<_>>();
        assert_eq!(roughness(&curve(&|x| 0.25 * x)), 0.0);
        assert_eq!(roughness(&curve(&|x| if x == 0.0 { -1.0 } else { 0.5 })), 0.0, "the leap from the untrained model");
        assert!(roughness(&curve(&|x| 1.0 - (-x / 4.0).exp())) < 0.01, "saturation");
        let noise = |x: f64| 0.1 * f64::from([1, 0, -1, 1, -1, 0, 0, 1, 0, -1, 1, 0, -1][x as usize]);
        let rough = roughness(&curve(&noise));
        assert!((0.05..0.2).contains(&rough), "{rough}");
        assert_eq!(roughness(&[]), 0.0);
    }

    #[test]
    fn a_trend_is_the_rise_of_the_fitted_line() {
        let line: Vec<_> = (0..5).map(|i| (10.0 * f64::from(i), 0.25 * f64::from(i))).collect();
        assert!((trend(&line) - 1.0).abs() < 1e-12);
        // Σ(x − x̄)(y − ȳ) = −0.35 and Σ(x − x̄)² = 5, over 3.
        let falling = trend(&[(0.0, 0.5), (1.0, 0.4), (2.0, 0.6), (3.0, 0.2)]);
        assert!((falling + 0.21).abs() < 1e-12, "{falling}");
        assert_eq!([trend(&[]), trend(&[(1.0, 1.0)])], [0.0, 0.0]);
    }

    /// 4,000 steps measured every 333: the last measurement but one is at 3,996.
    #[test]
    fn a_last_measurement_close_to_the_one_before_takes_its_place() {
        let point = |step: u64| ZeroShotPoint { step, tokens: step, scores: [("sst-2".into(), 0.5 + 1e-5 * step as f64)].into() };
        let zero_shot = (0..=12).map(|i| point(333 * i)).chain([point(4000)]).collect();
        let run = PretrainResult { seed: 1, body: Body::Gpt, parameters: 1, loss: 1.0, limit: 1.0, zero_shot, seconds: 0.0 };
        let curve = normalised(&Results { pretrained: vec![run], ..Results::default() }, 1, Body::Gpt, &["sst-2"]);
        let steps: Vec<f64> = curve.iter().map(|p| p.0).collect();
        assert_eq!((steps.len(), &steps[10..]), (13, &[3330.0, 3663.0, 4000.0][..]));
    }

    #[test]
    fn guessing_has_a_score_in_each_metric() {
        assert_eq!([chance("cola"), chance("sst-2"), chance("race"), chance("dprd")], [0.0, 0.5, 0.25, 0.5]);
    }
}
