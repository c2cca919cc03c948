//! The paper's claims, each with its figure, what came out here, and a verdict by [a rule](gradus_study::ruler) laid down before.

mod learnt;

use gradus_data::sets::Task;
use gradus_data::sets::scores::{Metric, mean_and_deviation};
use gradus_io::numbers::many;
use gradus_study::ruler::{LEAST_SEEDS, Unit};
use gradus_study::{Claim, Measured, Quote};

use crate::paper;
use crate::plan::{EXPERIMENTS, PARTS, Sizes, TRANSFERRED};
use crate::results::{Body, Results, TaskResult, Variant, ZeroShotPoint};
use crate::stage::{ZERO_SHOT, in_nats};
use crate::tasks::{bayes, entropy};

pub use learnt::learnt;

/// What so few seeds can show; `None` where there are enough.
pub fn too_few(seeds: u64) -> Option<String> {
    let (seeds, least) = (seeds as usize, LEAST_SEEDS);
    let verb = if seeds == 1 { "shows" } else { "show" };
    (seeds < least).then(|| {
        format!(
            "{} {verb} that every stage works, and which way each difference points; no claim is decided by fewer than {least}, for another \
             seed may point the other way. Of eight seeds all agreed on this alone: {STEADY}. Eight seeds are a run of their own, on seeds that nothing was chosen on: `--seeds 8 --seed {FRESH}`, and the rest as here.",
            many(seeds, "seed")
        )
    })
}

/// What all of the eight seeds of the page in the repository point the same way in.
const STEADY: &str = "pre-training helps on average, in scores and in nats, and with question answering, similarity and classification; \
    zero-shot scores rise, steadily, and end above guessing";

/// The first of the seeds that nothing was chosen on.
const FRESH: u64 = 101;

/// The eight columns of table 5.
pub const TABLE_5: [&str; 8] = ["cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli-both", "qnli", "rte"];
/// The columns of table 2.
pub const TABLE_2: [&str; 6] = ["mnli", "mnli-mm", "snli", "scitail", "qnli", "rte"];
const INFERENCE_5: [&str; 3] = ["mnli-both", "qnli", "rte"];
const SIMILARITY: [&str; 3] = ["mrpc", "sts-b", "qqp"];
const ANSWERING: [&str; 2] = ["story-cloze", "race"];
const CLASSIFICATION: [&str; 2] = ["cola", "sst-2"];
const AUX_HELPS: [&str; 4] = ["mnli-both", "qnli", "rte", "qqp"];
const AUX_DOES_NOT: [&str; 4] = ["cola", "sst-2", "mrpc", "sts-b"];

/// All claims that this reproduction can test.
pub fn all(results: &Results, sizes: &Sizes) -> Vec<Claim> {
    let mut all = ablations(results, sizes.layers);
    all.extend(zero_shot(results));
    all.extend(auxiliary(results));
    if sizes.full {
        all.extend(experiments(results, sizes));
    }
    Measured::judged(all, &sizes.ruler)
}

/// Two variants on the average of some columns.
#[derive(Clone, Copy)]
struct Between<'c> {
    results: &'c Results,
    quote: Quote,
    columns: &'c [&'c str],
    better: Variant,
    worse: Variant,
}

impl Between<'_> {
    fn points(self, name: &str, statement: &str, paper: &'static str) -> Measured {
        let Between { results, quote, columns, better, worse } = self;
        let gain = |seed| Some(results.average(seed, columns, better)? - results.average(seed, columns, worse)?);
        let (name, statement, words) = (name.into(), statement.into(), "points".into());
        Measured { name, statement, quote, paper, unit: Unit::Score, words, differences: results.each(gain) }
    }

    /// The same, where accuracies cannot tell: how much smaller the loss is, above its exact best.
    fn nats(self, name: &str) -> Measured {
        let Between { results, quote, columns, better, worse } = self;
        let loss = |seed, variant| average(columns, |column| results.excess(seed, column, variant));
        let gain = |seed| Some(loss(seed, worse)? - loss(seed, better)?);
        let (statement, words) = ("… in nats: the loss L₂ on test rows is smaller".into(), "nats".into());
        let (name, unit, paper) = (format!("{name}-nats"), Unit::Nats, "no figure");
        Measured { name, statement, quote, paper, unit, words, differences: results.each(gain) }
    }
}

/// Table 5: what is lost without pre-training, the auxiliary objective, or the Transformer. Figure 2, left: what each
/// transferred layer adds.
fn ablations(results: &Results, layers: usize) -> Vec<Measured> {
    use Variant::{Full, Layers, Lstm, NoAux, NoPretraining};
    let pre = |columns| Between { results, quote: paper::PRE_TRAINING, columns, better: Full, worse: NoPretraining };
    let larger = Between { results, quote: paper::AUXILIARY, columns: &AUX_HELPS, better: Full, worse: NoAux };
    let smaller = Between { columns: &AUX_DOES_NOT, better: NoAux, worse: Full, ..larger };
    let recurrent = Between { quote: paper::RECURRENT, worse: Lstm, ..pre(&TABLE_5) };
    let mnli = Between { quote: paper::LAYERS, ..pre(&["mnli"]) };
    let helps = "The auxiliary objective helps on MNLI, QNLI, RTE and QQP (the paper's larger sets, not all of them larger here)";
    let mut claims = vec![
        pre(&TABLE_5).points("pre-training", "Without pre-training the average of table 5 falls", "14.8 points (74.7 to 59.9)"),
        pre(&TABLE_5).nats("pre-training"),
        pre(&TABLE_2).points("inference", "Pre-training helps natural language inference", "no figure"),
        pre(&INFERENCE_5).points("inference-glue", "… MNLI, QNLI and RTE, those of table 5, alone", "8.4 points"),
        pre(&ANSWERING).points("answering", "Pre-training helps question answering", "no figure"),
        pre(&SIMILARITY).points("similarity", "Pre-training helps sentence similarity", "19.6 points (MRPC, STS-B, QQP)"),
        pre(&CLASSIFICATION).points("classification", "Pre-training helps classification", "16.9 points (CoLA, SST-2)"),
        larger.points("auxiliary", helps, "+1.0 points"),
        larger.nats("auxiliary"),
        smaller.points(
            "auxiliary-small",
            "It does not on CoLA, SST-2, MRPC and STS-B (its smaller ones)",
            "+1.8 points without it",
        ),
        smaller.nats("auxiliary-small"),
        recurrent.points("transformer", "An LSTM in the same framework scores lower on average", "5.6 points"),
        recurrent.nats("transformer"),
        mnli.points("layers", "MultiNLI (matched): all transferred, against nothing", "up to 9 %"),
        mnli.nats("layers"),
    ];
    let transfer = |name: &str, statement: &str, better, worse| {
        let between = Between { quote: paper::LAYERS, better, worse, ..pre(&TRANSFERRED) };
        between.points(name, statement, "yes, no figure")
    };
    claims.push(transfer("embeddings", "Transferring the embeddings alone helps (MultiNLI and CoLA)", Layers(0), NoPretraining));
    for n in 1..layers {
        claims.push(transfer(&format!("block-{n}"), &format!("Block {n} helps further"), Layers(n), Layers(n - 1)));
    }
    claims.push(transfer("last-block", "The last block helps further", Full, Layers(layers - 1)));
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
fn zero_shot(results: &Results) -> Vec<Measured> {
    let curve = |seed, body| Some(normalised(results, seed, body, &ZERO_SHOT)).filter(|curve| curve.len() > 1);
    let gpt = |value: fn(&[(f64, f64)]) -> f64| results.each(|seed| Some(value(&curve(seed, Body::Gpt)?)));
    let more = |than: fn(&[(f64, f64)]) -> f64, (a, b): (Body, Body)| {
        results.each(|seed| Some(than(&curve(seed, a)?) - than(&curve(seed, b)?)))
    };
    let claim = |name: &str, statement: &str, quote, differences| {
        let words = "% of the way from guessing to the best possible score".into();
        let (name, statement) = (name.into(), statement.into());
        Measured { name, statement, quote, paper: "yes, no figure", unit: Unit::Way, words, differences }
    };
    // One number per body over all seeds: reported with the claim, but the rule does not apply to it.
    let spread = |body| mean_and_deviation(&results.each(|seed| Some(100.0 * end(&curve(seed, body)?)))).1;
    let over_seeds = match (spread(Body::Lstm), spread(Body::Gpt)) {
        (Some(a), Some(b)) => format!("; deviation of the ends over seeds {a:.1}, the Transformer's {b:.1}"),
        _ => String::new(),
    };
    // KL(exact ∥ model) of the answers at a point, mean over the tasks with a distribution; from the labels, less their entropy.
    let kl = |seed, body, at: fn(&[ZeroShotPoint]) -> Option<&ZeroShotPoint>| {
        let point = at(&results.pretraining(seed, body)?.zero_shot)?;
        average(&IN_NATS, |task| Some(point.scores.get(&in_nats(task))? - entropy(task)?))
    };
    let in_kl = |name: &str, statement: &str, quote, differences| {
        let words = "nats of KL from the exact answer's distribution (SST-2, RACE, DPRD)".into();
        Measured { unit: Unit::Nats, words, ..claim(name, statement, quote, differences) }
    };
    let falls = |seed| Some(kl(seed, Body::Gpt, <[_]>::first)? - kl(seed, Body::Gpt, <[_]>::last)?);
    let ahead = |seed| Some(kl(seed, Body::Lstm, <[_]>::last)? - kl(seed, Body::Gpt, <[_]>::last)?);
    vec![
        claim("zero-shot", "Zero-shot scores end above where they began", paper::HEURISTICS, gpt(|c| end(c) - c[0].1)),
        in_kl("zero-shot-nats", "… in nats: the answers end nearer to the exact ones", paper::HEURISTICS, results.each(falls)),
        claim(
            "zero-shot-steady",
            "They rise steadily: still after the first measurement, by a fitted line",
            paper::HEURISTICS,
            gpt(|c| trend(&c[1..])),
        ),
        claim("zero-shot-guessing", "They end above guessing", paper::HEURISTICS, gpt(end)),
        claim(
            "zero-shot-transformer",
            "The Transformer's scores end above the LSTM's",
            paper::VARIANCE,
            more(end, (Body::Gpt, Body::Lstm)),
        ),
        in_kl(
            "zero-shot-transformer-nats",
            "… in nats: the Transformer's answers end nearer to the exact ones",
            paper::VARIANCE,
            results.each(ahead),
        ),
        Measured {
            paper: "higher variance, no figure",
            unit: Unit::Roughness,
            words: format!("points of roughness (noise about a smooth curve){over_seeds}"),
            ..claim(
                "zero-shot-variance",
                "The LSTM's scores vary more on the way",
                paper::VARIANCE,
                more(roughness, (Body::Lstm, Body::Gpt)),
            )
        },
    ]
}

/// The tasks whose zero-shot answers have a distribution; CoLA's are above a threshold or below.
pub const IN_NATS: [&str; 3] = ["sst-2", "race", "dprd"];

/// The mean of a value over some tasks or columns; `None` unless all have one.
fn average(of: &[&str], value: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    let all: Option<Vec<f64>> = of.iter().map(|name| value(name)).collect();
    all.map(|all| all.iter().sum::<f64>() / all.len() as f64)
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
fn auxiliary(results: &Results) -> Vec<Measured> {
    let claim = |name: &str, statement: &str, words: &str, loss: fn(&TaskResult) -> Option<f64>| {
        let mean = |seed, variant| results.over_tasks(seed, variant, loss);
        let differences = results.each(|seed| Some(mean(seed, Variant::NoAux)? - mean(seed, Variant::Full)?));
        let (name, statement, words) = (name.into(), statement.into(), words.into());
        Measured { name, statement, quote: paper::LEARNING, paper: "no figure", unit: Unit::Nats, words, differences }
    };
    vec![
        claim(
            "generalisation",
            "The auxiliary objective improves generalisation",
            "nats of L₂: the gap from training to test rows without it, less the gap with it",
            |r| Some(r.test.loss - r.train.loss),
        ),
        claim(
            "convergence",
            "It speeds convergence",
            "nats of L₂ on dev after the first epoch: without it, less with it",
            |r| r.curve.iter().find(|p| p.epoch >= 1.0).map(|p| p.dev.loss),
        ),
    ]
}

/// The paper's claims in words, on the average of some tasks.
fn experiments(results: &Results, sizes: &Sizes) -> Vec<Measured> {
    type Of<'v> = &'v dyn Fn(&str) -> Variant;
    let claim = |name: String, statement: String, quote, paper, better: Of<'_>, worse: Of<'_>| {
        let gain = |seed| {
            let of = |task: &str| Some(results.one(seed, task, better(task))? - results.one(seed, task, worse(task))?);
            average(&EXPERIMENTS, of)
        };
        let (differences, words) = (results.each(gain), "points".into());
        Measured { name, statement, quote, paper, unit: Unit::Score, words, differences }
    };
    let by_size = PARTS.map(|part| {
        claim(
            format!("rows-{part}"),
            format!("Pre-training helps with one labelled row in {part}"),
            paper::SIZES,
            "works from 5.7 k to 550 k examples",
            &|task| Variant::Rows(sizes.part(task, part)),
            &|task| Variant::NoPretrainingRows(sizes.part(task, part)),
        )
    });
    let argued = "argued, no figure";
    let contiguous = "Contiguous text teaches more than shuffled sentences".into();
    let contiguous =
        claim("contiguous".into(), contiguous, paper::CONTIGUOUS, argued, &|_| Variant::Full, &|_| Variant::Shuffled);
    // Neither with the auxiliary objective, which features cannot learn.
    let features = "Fine-tuning beats frozen features".into();
    let features = claim("features".into(), features, paper::FEATURES, argued, &|_| Variant::NoAux, &|_| Variant::Frozen);
    by_size.into_iter().chain([contiguous, features]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::PretrainResult;
    use gradus_study::ruler::Ruler;
    use gradus_train::finetune::{CurvePoint, Scored};

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
            world: None,
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
        assert_eq!(claims.iter().map(|c| c.differences.len()).collect::<Vec<_>>(), [1, 1]);
        let claims = Measured::judged(claims, &Ruler::of(&[]));
        let begins = claims.iter().zip(["+0.200 nats", "+0.100 nats"]).all(|(claim, ours)| claim.ours.starts_with(ours));
        assert!(begins, "{claims:?}");
    }

    /// The table of the page in the repository, row by row: the claims, and in how many seeds each points the way of the mean.
    #[test]
    fn what_one_seed_is_said_to_show_is_what_all_eight_agree_on() {
        let page = include_str!("../../MINIATURE.md");
        let (_, table) = page.split_once("| Seeds on the mean's side | Verdict |").expect("the table of claims");
        let rows: Vec<&str> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
        let claims = all(&Results::default(), &Sizes::new(8, 101, 1.0, false));
        assert_eq!(rows.len(), claims.len());
        let agreed = claims.iter().zip(rows).filter(|(_, row)| row.contains("| 8 of 8 |")).map(|(claim, _)| claim.name.as_str());
        // `too_few` says these in words.
        let told = ["pre-training", "pre-training-nats", "answering", "similarity", "classification"];
        assert!(agreed.eq(told.into_iter().chain(["zero-shot", "zero-shot-steady", "zero-shot-guessing"])));
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
        let run = PretrainResult {
            world: None,
            seed: 1,
            body: Body::Gpt,
            parameters: 1,
            loss: 1.0,
            limit: 1.0,
            zero_shot,
            seconds: 0.0,
        };
        let curve = normalised(&Results { pretrained: vec![run], ..Results::default() }, 1, Body::Gpt, &["sst-2"]);
        let steps: Vec<f64> = curve.iter().map(|p| p.0).collect();
        assert_eq!((steps.len(), &steps[10..]), (13, &[3330.0, 3663.0, 4000.0][..]));
    }

    #[test]
    fn guessing_has_a_score_in_each_metric() {
        assert_eq!([chance("cola"), chance("sst-2"), chance("race"), chance("dprd")], [0.0, 0.5, 0.25, 0.5]);
    }
}
