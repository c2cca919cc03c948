//! The paper's claims, each with its figure, the result of the reproduction, and a verdict by a
//! [predefined rule](gradus_study::rule).

mod learnt;
mod zero_shot;

use gradus_data::sets::Task;
use gradus_data::sets::scores::Metric;
use gradus_io::numbers::count_of;
use gradus_study::rule::Unit;
use gradus_study::{Claim, Measured, Quote};

use crate::paper;
use crate::plan::{EXPERIMENTS, PARTS, Sizes, TRANSFERRED};
use crate::results::{Results, TaskResult, Variant};
use crate::tasks::entropy;

pub use learnt::learnt;
pub use zero_shot::{IN_NATS, normalised};

/// Returns a note on the limits of few seeds; `None` for `least` seeds or more, which the decision rule requires.
pub fn too_few(seeds: u64, least: usize) -> Option<String> {
    let seeds = seeds as usize;
    let verb = if seeds == 1 { "shows" } else { "show" };
    (seeds < least).then(|| {
        format!(
            "{} {verb} that every stage works, and the sign of each difference; no claim is decided by fewer than {least} seeds, \
             since another seed may give the other sign. On our eight seeds only these differences had the same sign in all: \
             {STEADY}. Run eight seeds separately, on seeds that no choice was based on: `--seeds 8 --seed {FRESH}`, and the \
             rest as here.",
            count_of(seeds, "seed")
        )
    })
}

/// The findings on which all eight seeds of the committed page agree in sign.
const STEADY: &str = "pre-training helps on average, in scores and in nats, and with question answering, similarity and \
    classification; zero-shot scores rise, keep rising, and end above guessing";

/// The first seed that no choice was based on.
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

/// Returns all claims that this reproduction can test.
pub fn all(results: &Results, sizes: &Sizes) -> Vec<Claim> {
    let mut all = ablations(results, sizes.layers);
    all.extend(zero_shot::claims(results));
    all.extend(auxiliary(results));
    if sizes.full {
        all.extend(experiments(results, sizes));
    }
    Measured::judged(all, &sizes.rule)
}

/// A comparison of two variants on the average of some columns.
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

    /// Measures the decrease of the loss above its exact minimum, which shows differences that accuracies hide.
    fn nats(self, name: &str) -> Measured {
        let Between { results, quote, columns, better, worse } = self;
        let loss = |seed, variant| average(columns, |column| results.excess(seed, column, variant));
        let gain = |seed| Some(loss(seed, worse)? - loss(seed, better)?);
        let (statement, words) = ("… in nats: the loss L₂ on test rows is smaller".into(), "nats".into());
        let (name, unit, paper) = (format!("{name}-nats"), Unit::Nats, "no figure");
        Measured { name, statement, quote, paper, unit, words, differences: results.each(gain) }
    }
}

/// Measures the drop in scores without pre-training, the auxiliary objective, or the Transformer (table 5), and the gain of each
/// transferred layer (figure 2, left).
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

/// Returns the loss, above the smallest possible, of a uniform distribution over the answers.
pub fn uniform(task: &str) -> Option<f64> {
    Some((Task::named(task).ok()?.answers() as f64).ln() - entropy(task)?)
}

/// Returns the score of guessing on a task of the world, in the task's metric; the classes are equally frequent.
pub fn chance(task: &str) -> f64 {
    let Ok(task) = Task::named(task) else { return 0.0 };
    match task.metric {
        Metric::Accuracy => 1.0 / task.answers() as f64,
        Metric::F1 => 2.0 / 3.0, // always yes: every positive is found, half of the answers are right
        _ => 0.0,                // correlations
    }
}

/// Returns the mean of a value over some tasks or columns; `None` unless all have one.
fn average(of: &[&str], value: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    let all: Option<Vec<f64>> = of.iter().map(|name| value(name)).collect();
    all.map(|all| all.iter().sum::<f64>() / all.len() as f64)
}

/// Measures generalisation and convergence with and without the auxiliary objective (§3.2), over all tasks.
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

/// Measures the claims that the paper makes in words, on the average of some tasks.
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
    // Without the auxiliary objective, which frozen features cannot learn.
    let features = "Fine-tuning beats frozen features".into();
    let features = claim("features".into(), features, paper::FEATURES, argued, &|_| Variant::NoAux, &|_| Variant::Frozen);
    by_size.into_iter().chain([contiguous, features]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_study::rule::DecisionRule;
    use gradus_train::finetune::{CurvePoint, Scored};

    /// The paper's figures in the claims are differences of the rows of table 5. The paper's text gives 5.6 for the LSTM.
    #[test]
    fn the_papers_drops_are_differences_of_table_5() {
        let claims = all(&Results::default(), &Sizes::new(1, 1, 1.0, false));
        let figure = |statement: &str| -> f64 {
            let claim = claims.iter().find(|claim| claim.statement.starts_with(statement)).expect("a claim");
            claim.paper.split(' ').next().unwrap().parse().expect("a figure")
        };
        let [.., table_5] = paper::tables();
        let line = |name: &str| &table_5.systems.iter().find(|line| line.name == name).unwrap().scores;
        let check = |system: &str, columns: &[&str], statement: &str| {
            let stated = figure(statement);
            let fall = |column| {
                let at = 1 + TABLE_5.iter().position(|c| *c == column).unwrap();
                line("full")[at].unwrap() - line(system)[at].unwrap()
            };
            let mean = columns.iter().map(|c| fall(*c)).sum::<f64>() / columns.len() as f64;
            assert!((mean.abs() - stated).abs() < 0.12, "{system}, {columns:?}: {mean}, stated {stated}");
        };
        check("no pre-training", &TABLE_5, "Without pre-training");
        check("no pre-training", &INFERENCE_5, "… MNLI, QNLI and RTE");
        check("no pre-training", &["mrpc", "sts-b", "qqp"], "Pre-training helps sentence similarity");
        check("no pre-training", &["cola", "sst-2"], "Pre-training helps classification");
        check("no auxiliary LM", &AUX_HELPS, "The auxiliary objective helps");
        check("no auxiliary LM", &AUX_DOES_NOT, "It does not on CoLA");
        check("LSTM, 1 × 2048", &TABLE_5, "An LSTM");
    }

    /// With λ = 0.5 the gap is 0.1 and the first loss 0.5; with λ = 0 they are 0.3 and 0.6. Both differences are gains.
    #[test]
    fn a_smaller_gap_with_the_auxiliary_objective_is_a_gain() {
        let scored = |loss: f64| Scored { loss, ..Scored::default() };
        let result = |variant, train: f64, test: f64, first: f64| TaskResult {
            world: String::new(),
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
        let claims = Measured::judged(claims, &DecisionRule::of(&[]));
        let begins = claims.iter().zip(["+0.200 nats", "+0.100 nats"]).all(|(claim, ours)| claim.ours.starts_with(ours));
        assert!(begins, "{claims:?}");
    }

    /// The rows of the committed page: each claim, and the number of seeds whose sign agrees with the mean.
    #[test]
    fn claims_named_for_one_seed_are_those_all_eight_seeds_agree_on() {
        let page = include_str!("../../MINIATURE.md");
        let (_, table) = page.split_once("| Seeds on the mean's side | Verdict |").expect("the table of claims");
        let rows: Vec<&str> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
        let claims = all(&Results::default(), &Sizes::new(8, 101, 1.0, false));
        assert_eq!(rows.len(), claims.len());
        let agreed = claims.iter().zip(rows).filter(|(_, row)| row.contains("| 8 of 8 |")).map(|(claim, _)| claim.name.as_str());
        // `too_few` names these in words.
        let named = ["pre-training", "pre-training-nats", "answering", "similarity", "classification"];
        assert!(agreed.eq(named.into_iter().chain(["zero-shot", "zero-shot-steady", "zero-shot-guessing"])));
    }

    #[test]
    fn chance_scores_follow_from_the_metric() {
        assert_eq!([chance("cola"), chance("sst-2"), chance("race"), chance("dprd")], [0.0, 0.5, 0.25, 0.5]);
    }
}
