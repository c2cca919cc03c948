//! The paper's claims, each with its figure, what came out here, and a verdict by a rule.
//!
//! ```text
//! d        the difference that the claim is about, one a seed; d̄ its mean, s its sample deviation
//! shown            d̄ > 2s, of three seeds or more
//! towards it       d̄ > s otherwise, or d̄ > 0 with one seed
//! undecided        −s ≤ d̄ ≤ s
//! away from it     d̄ < −s otherwise, or d̄ < 0 with one seed
//! against it       d̄ < −2s, of three seeds or more
//! ```
//!
//! With three seeds d̄ > 2s is t > 3.46 with two degrees of freedom, which chance alone gives in 4 of 100 claims; d̄ > s in 11.

use gradus_data::sets::scores::{Metric, mean_and_deviation};
use gradus_data::sets::{Family, Task};
use serde::Serialize;

use crate::paper;
use crate::plan::{EXPERIMENTS, PARTS, Sizes, TRANSFERRED};
use crate::results::{Body, Mean, Results, TaskResult, Variant};
use crate::stage::ZERO_SHOT;
use crate::tasks::bayes;

/// What came of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// By more than two deviations.
    Shown,
    /// In its direction, by one deviation to two or with fewer seeds.
    Towards,
    /// Within one deviation.
    Undecided,
    /// Not in its direction, by one deviation to two or with fewer seeds.
    Away,
    /// The other way by more than two deviations.
    Against,
    /// Not measured.
    Open,
}

/// Scores are sums of fractions: what is left of equal ones by rounding.
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

    /// By the differences of the seeds.
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
    /// Where it stands.
    pub section: &'static str,
    /// Its figure.
    pub paper: String,
    /// Ours, mean ± deviation over seeds.
    pub ours: String,
    /// What came out.
    pub verdict: Verdict,
}

/// The rule of [`Verdict`] in words, for the report.
pub const RULE: &str = "Verdicts, by the difference d that a claim is about, one per seed: shown where its mean is above two sample \
    standard deviations, against it where it is below minus two, of three seeds or more (chance alone shows 4 of 100 claims of three \
    seeds); towards it or away from it between one and two, or with fewer seeds; undecided within one.";

/// The eight columns of table 5.
pub const TABLE_5: [&str; 8] = ["cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli-both", "qnli", "rte"];
const INFERENCE_5: [&str; 3] = ["mnli-both", "qnli", "rte"];
const AUX_HELPS: [&str; 4] = ["mnli-both", "qnli", "rte", "qqp"];
const AUX_DOES_NOT: [&str; 4] = ["cola", "sst-2", "mrpc", "sts-b"];

/// The columns of a family of tasks.
pub fn columns(family: Family) -> &'static [&'static str] {
    match family {
        Family::Inference => &["mnli", "mnli-mm", "snli", "scitail", "qnli", "rte"],
        Family::QuestionAnswering => &["story-cloze", "race"],
        Family::Similarity => &["mrpc", "sts-b", "qqp"],
        Family::Classification => &["cola", "sst-2"],
        Family::Commonsense => &[],
    }
}

/// All claims that this reproduction can speak to.
pub fn all(results: &Results, sizes: &Sizes) -> Vec<Claim> {
    let mut claims = ablations(results);
    claims.extend(layers(results, sizes));
    claims.extend(zero_shot(results));
    claims.extend(auxiliary(results));
    if sizes.full {
        claims.extend(experiments(results, sizes));
    }
    claims
}

/// A claim about a difference of scores.
fn points(statement: impl Into<String>, sentence: &'static str, section: &'static str, paper: &str, seeds: &[f64]) -> Claim {
    let ours = Mean::of(seeds).map_or("–".into(), |m| signed(m, "points"));
    Claim { statement: statement.into(), sentence, section, paper: paper.into(), ours, verdict: Verdict::of(seeds) }
}

/// How much better `a` is than `b` on the average of some columns, one a seed.
fn gains(results: &Results, columns: &[&str], a: Variant, b: Variant) -> Vec<f64> {
    results.each(|seed| Some(results.average(seed, columns, a)? - results.average(seed, columns, b)?))
}

/// Table 5: what falls away without pre-training, the auxiliary objective, or the Transformer.
fn ablations(results: &Results) -> Vec<Claim> {
    let section = "§5, table 5";
    let without = |columns: &[&str], variant| gains(results, columns, Variant::Full, variant);
    let mut claims = vec![points(
        "Without pre-training the average of table 5 falls",
        paper::PRE_TRAINING,
        section,
        "14.8 points (74.7 to 59.9)",
        &without(&TABLE_5, Variant::NoPretraining),
    )];
    for family in [Family::Inference, Family::QuestionAnswering, Family::Similarity, Family::Classification] {
        let paper = match family {
            Family::Similarity => "19.6 points (MRPC, STS-B, QQP)",
            Family::Classification => "16.9 points (CoLA, SST-2)",
            _ => "no figure",
        };
        let statement = format!("Pre-training helps {}", family.name());
        let seeds = without(columns(family), Variant::NoPretraining);
        claims.push(points(statement, paper::PRE_TRAINING, section, paper, &seeds));
        if family == Family::Inference {
            let (statement, paper) = ("… MNLI, QNLI and RTE, those of table 5, alone", "8.4 points");
            let seeds = without(&INFERENCE_5, Variant::NoPretraining);
            claims.push(points(statement, paper::PRE_TRAINING, section, paper, &seeds));
        }
    }
    claims.extend([
        points(
            "The auxiliary objective helps on MNLI, QNLI, RTE and QQP (the paper's larger sets, not all of them larger here)",
            paper::AUXILIARY,
            section,
            "+1.0 points",
            &without(&AUX_HELPS, Variant::NoAux),
        ),
        points(
            "It does not on CoLA, SST-2, MRPC and STS-B (its smaller ones)",
            paper::AUXILIARY,
            section,
            "+1.8 points without it",
            &gains(results, &AUX_DOES_NOT, Variant::NoAux, Variant::Full),
        ),
        points(
            "An LSTM in the same framework scores lower on average",
            paper::RECURRENT,
            section,
            "5.6 points",
            &without(&TABLE_5, Variant::Lstm),
        ),
    ]);
    claims
}

/// Figure 2, left: what each transferred layer adds.
fn layers(results: &Results, sizes: &Sizes) -> Vec<Claim> {
    let claim = |statement: String, paper: &str, columns: &[&str], a, b| {
        points(statement, paper::LAYERS, "§5, figure 2", paper, &gains(results, columns, a, b))
    };
    let (unstated, none) = ("yes, no figure", Variant::NoPretraining);
    let mut claims = vec![
        claim("MultiNLI (matched): all transferred, against nothing".into(), "up to 9 %", &["mnli"], Variant::Full, none),
        claim(
            "Transferring the embeddings alone helps (MultiNLI and CoLA)".into(),
            unstated,
            &TRANSFERRED,
            Variant::Layers(0),
            none,
        ),
    ];
    for n in 0..sizes.layers {
        let (statement, next) = match n + 1 == sizes.layers {
            true => ("The last block helps further".to_owned(), Variant::Full),
            false => (format!("Block {} helps further", n + 1), Variant::Layers(n + 1)),
        };
        claims.push(claim(statement, unstated, &TRANSFERRED, next, Variant::Layers(n)));
    }
    claims
}

/// A difference in points, with its sign.
fn signed(difference: Mean, unit: &str) -> String {
    let sign = if difference.mean < 0.0 { "−" } else { "+" };
    format!("{sign}{} {unit}", Mean { mean: difference.mean.abs(), ..difference })
}

/// What guessing scores on a task of the world, in its metric; its classes are as frequent as one another.
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
    let Some(run) = results.pretrained.iter().find(|p| (p.seed, p.body) == (seed, body)) else { return Vec::new() };
    // The paper divides by the best single model; here the best possible score is known.
    let one = |score: f64, task: &str| (score - chance(task)) / (bayes(task).unwrap_or(1.0) - chance(task));
    let point = |p: &crate::results::ZeroShotPoint| {
        let scores: Option<Vec<f64>> = tasks.iter().map(|t| Some(one(*p.scores.get(*t)?, t))).collect();
        scores.map(|s| (p.tokens as f64, s.iter().sum::<f64>() / s.len() as f64))
    };
    let mut curve: Vec<(f64, f64)> = run.zero_shot.iter().filter_map(point).collect();
    // The last update is measured, also where a regular measurement was just before.
    if let &[_, (first, _), .., (before, _), (last, _)] = &curve[..]
        && last - before < 0.5 * first
    {
        curve.remove(curve.len() - 2);
    }
    curve
}

fn zero_shot(results: &Results) -> Vec<Claim> {
    let seeds = results.seeds();
    let of = |body| seeds.iter().map(|&s| normalised(results, s, body, &ZERO_SHOT)).filter(|c| c.len() > 1).collect::<Vec<_>>();
    let (gpt, lstm) = (of(Body::Gpt), of(Body::Lstm));
    let mut claims = Vec::new();
    let section = "§5, figure 2";
    let mut add = |statement: &str, sentence, paper: &str, unit: &str, differences: Vec<f64>| {
        let ours = Mean::of(&differences).map_or("–".into(), |m| signed(m, unit));
        let (statement, paper, verdict) = (statement.into(), paper.into(), Verdict::of(&differences));
        claims.push(Claim { statement, sentence, section, paper, ours, verdict });
    };
    let ends = |curves: &[Vec<(f64, f64)>]| curves.iter().map(|c| (c[0].1, c[c.len() - 1].1)).collect::<Vec<_>>();
    let unit = "% of the way from guessing to the best possible score";
    add(
        "Zero-shot scores end above where they began",
        paper::HEURISTICS,
        "yes, no figure",
        unit,
        ends(&gpt).iter().map(|(a, b)| b - a).collect(),
    );
    add(
        "They rise steadily: still after the first measurement, by a fitted line",
        paper::HEURISTICS,
        "yes, no figure",
        unit,
        gpt.iter().map(|curve| trend(&curve[1..])).collect(),
    );
    add("They end above guessing", paper::HEURISTICS, "yes, no figure", unit, ends(&gpt).iter().map(|(_, b)| *b).collect());
    let last = ends(&gpt).iter().zip(ends(&lstm)).map(|((_, a), (_, b))| a - b).collect();
    add("The Transformer's end above the LSTM's", paper::VARIANCE, "yes, no figure", unit, last);
    let rough = |curves: &[Vec<(f64, f64)>]| curves.iter().map(|c| roughness(c)).collect::<Vec<f64>>();
    let unit = "points of roughness (noise about a smooth curve)";
    let rougher = rough(&lstm).iter().zip(rough(&gpt)).map(|(a, b)| a - b).collect();
    // One number a body over all seeds: told beside the claim, but the rule has nothing to say of it.
    let spread = |curves: &[Vec<(f64, f64)>]| mean_and_deviation(&ends(curves).iter().map(|e| 100.0 * e.1).collect::<Vec<_>>()).1;
    let over_seeds = match (spread(&lstm), spread(&gpt)) {
        (Some(a), Some(b)) => format!("; deviation of the ends over seeds {a:.1}, the Transformer's {b:.1}"),
        _ => String::new(),
    };
    add(
        "The LSTM's vary more on the way",
        paper::VARIANCE,
        "higher variance, no figure",
        &format!("{unit}{over_seeds}"),
        rougher,
    );
    claims
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

/// How much a curve trembles about a smooth one: its second differences yₜ₋₁ − 2yₜ + yₜ₊₁ have six times the variance of noise that
/// is independent from point to point, and next to nothing of what is smooth. The first point, of the untrained model, is left
/// out: the leap from it is no noise.
fn roughness(curve: &[(f64, f64)]) -> f64 {
    let second: Vec<f64> = curve[1.min(curve.len())..].windows(3).map(|w| w[0].1 - 2.0 * w[1].1 + w[2].1).collect();
    (second.iter().map(|d| d * d).sum::<f64>() / second.len().max(1) as f64 / 6.0).sqrt()
}

/// Generalisation and convergence with and without the auxiliary objective (§3.2), over all tasks.
fn auxiliary(results: &Results) -> Vec<Claim> {
    let over = |value: fn(&TaskResult) -> Option<f64>| {
        let mean = |seed, variant| results.over_tasks(seed, variant, value);
        results.each(|seed| Some(mean(seed, Variant::NoAux)? - mean(seed, Variant::Full)?))
    };
    let gap = over(|r| Some(r.test.loss - r.train.loss));
    let first = over(|r| r.curve.iter().find(|p| p.epoch >= 1.0).map(|p| p.dev.loss));
    let claim = |statement: &str, unit: &str, differences: &[f64]| {
        let (mean, deviation) = mean_and_deviation(differences);
        let deviation = deviation.map_or(String::new(), |d| format!(" ± {d:.3}"));
        Claim {
            statement: statement.into(),
            sentence: paper::LEARNING,
            section: "§3.2",
            paper: "no figure".into(),
            ours: if differences.is_empty() {
                "–".into()
            } else {
                format!("{mean:+.3}{deviation} nats {unit}").replace('-', "−")
            },
            verdict: Verdict::of(differences),
        }
    };
    vec![
        claim(
            "The auxiliary objective improves generalisation",
            "of L₂: the gap from training to test rows without it, less the gap with it",
            &gap,
        ),
        claim("It speeds convergence", "of L₂ on dev after the first epoch: without it, less with it", &first),
    ]
}

fn experiments(results: &Results, sizes: &Sizes) -> Vec<Claim> {
    let mut claims = Vec::new();
    let average = |a: &dyn Fn(&str) -> Variant, b: &dyn Fn(&str) -> Variant| {
        results.each(|seed| {
            let difference = |task: &&str| Some(results.one(seed, task, a(task))? - results.one(seed, task, b(task))?);
            let all: Option<Vec<f64>> = EXPERIMENTS.iter().map(difference).collect();
            all.map(|d| d.iter().sum::<f64>() / d.len() as f64)
        })
    };
    for part in PARTS {
        let with = |task: &str| Variant::Rows(sizes.part(task, part));
        let without = |task: &str| Variant::NoPretrainingRows(sizes.part(task, part));
        let statement = format!("Pre-training helps with one labelled row in {part}");
        let paper = "works from 5.7 k to 550 k examples";
        claims.push(points(statement, paper::SIZES, "§4.2", paper, &average(&with, &without)));
    }
    let (full, paper) = (|_: &str| Variant::Full, "argued, no figure");
    let contiguous = average(&full, &|_| Variant::Shuffled);
    claims.push(points("Contiguous text teaches more than shuffled sentences", paper::CONTIGUOUS, "§4.1", paper, &contiguous));
    // Neither with the auxiliary objective, which features cannot learn.
    let features = average(&|_| Variant::NoAux, &|_| Variant::Frozen);
    claims.push(points("Fine-tuning beats frozen features", paper::FEATURES, "§2", paper, &features));
    claims
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{PretrainResult, ZeroShotPoint};
    use gradus_train::finetune::{Point, Scored};

    #[test]
    fn verdicts_follow_the_rule() {
        assert_eq!(Verdict::of(&[]), Verdict::Open);
        assert_eq!(Verdict::of(&[0.1]), Verdict::Towards);
        assert_eq!(Verdict::of(&[-0.1]), Verdict::Away);
        assert_eq!(Verdict::of(&[0.0]), Verdict::Undecided);
        assert_eq!(Verdict::of(&[(0.1 + 0.2 - 0.3) / 3.0]), Verdict::Undecided, "rounding is no effect");
        assert_eq!(Verdict::of(&[0.10, 0.11]), Verdict::Towards);
        assert_eq!(Verdict::of(&[-0.10, -0.11]), Verdict::Away);
        assert_eq!(Verdict::of(&[0.10, 0.11, 0.12]), Verdict::Shown);
        assert_eq!(Verdict::of(&[0.0, 0.3, 0.1]), Verdict::Undecided);
        assert_eq!(Verdict::of(&[-0.10, -0.11, -0.12]), Verdict::Against);
        assert_eq!(Verdict::of(&[-0.1, 0.05]), Verdict::Undecided);
        assert_eq!(Verdict::of(&[0.1, -0.05]), Verdict::Undecided);
        assert_eq!(Verdict::of(&[0.0, -0.3, -0.1]), Verdict::Undecided);
        assert_eq!(Verdict::of(&[0.05, 0.15, 0.2]), Verdict::Towards);
        assert_eq!(Verdict::of(&[-0.05, -0.15, -0.2]), Verdict::Away);
    }

    /// The figures that stand beside ours, from the lines of table 5. The paper's text says 5.6 of the LSTM.
    #[test]
    fn the_papers_falls_are_those_of_its_table() {
        let claims = all(&Results::default(), &Sizes::new(1, 1, 1.0, false));
        let said = |statement: &str| -> f64 {
            let claim = claims.iter().find(|claim| claim.statement.starts_with(statement)).expect("a claim");
            claim.paper.split(' ').next().unwrap().parse().expect("a figure")
        };
        let line = |name: &str| paper::TABLE_5.lines.iter().find(|line| line.system == name).unwrap().scores;
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
            curve: vec![Point { update: 1, epoch: 1.0, train_loss: first, dev: scored(first) }],
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
        let of = |differences: &[f64]| signed(Mean::of(differences).unwrap(), "points");
        assert_eq!([of(&[0.012]), of(&[-0.012])], ["+1.2 points", "−1.2 points"]);
        assert_eq!(of(&[-0.01, -0.03]), "−2.0 ± 1.4 points");
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
        assert!(trend(&[(0.0, 0.5), (1.0, 0.4), (2.0, 0.6), (3.0, 0.2)]) < 0.0);
        assert_eq!([trend(&[]), trend(&[(1.0, 1.0)])], [0.0, 0.0]);
    }

    /// 4,000 updates measured every 333: the last measurement but one is at 3,996.
    #[test]
    fn a_last_measurement_close_to_the_one_before_takes_its_place() {
        let point =
            |update: u64| ZeroShotPoint { update, tokens: update, scores: [("sst-2".into(), 0.5 + 1e-5 * update as f64)].into() };
        let zero_shot = (0..=12).map(|i| point(333 * i)).chain([point(4000)]).collect();
        let run = PretrainResult { seed: 1, body: Body::Gpt, parameters: 1, loss: 1.0, limit: 1.0, zero_shot, seconds: 0.0 };
        let curve = normalised(&Results { pretrained: vec![run], ..Results::default() }, 1, Body::Gpt, &["sst-2"]);
        let updates: Vec<f64> = curve.iter().map(|p| p.0).collect();
        assert_eq!((updates.len(), &updates[10..]), (13, &[3330.0, 3663.0, 4000.0][..]));
    }

    #[test]
    fn guessing_has_a_score_in_each_metric() {
        assert_eq!([chance("cola"), chance("sst-2"), chance("race"), chance("dprd")], [0.0, 0.5, 0.25, 0.5]);
    }
}
