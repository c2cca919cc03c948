//! Zero-shot answers of a language model during pre-training (figure 2, right).

use gradus_data::sets::scores::mean_and_deviation;
use gradus_study::rule::Unit;
use gradus_study::{Mean, Measured};

use super::{average, chance, uniform};
use crate::paper;
use crate::results::{Body, PretrainResult, Results, ZeroShotPoint};
use crate::stage::{ZERO_SHOT, in_nats};
use crate::tasks::{bayes, entropy};

/// A value as a function of the tokens of pre-training, from zero tokens on.
type Curve = Vec<(f64, f64)>;

/// The tasks whose zero-shot answers have a distribution; the answers on CoLA come from a threshold.
pub const IN_NATS: [&str; 3] = ["sst-2", "race", "dprd"];

/// Returns the mean normalised zero-shot score of a body in a seed.
pub fn normalised(results: &Results, seed: u64, body: Body, tasks: &[&str]) -> Curve {
    // The paper divides by the score of the best single model; here the best possible score is known.
    let one = |score: f64, task: &str| (score - chance(task)) / (bayes(task).unwrap_or(1.0) - chance(task));
    let point = |p: &ZeroShotPoint| average(tasks, |task| Some(one(*p.scores.get(task)?, task)));
    results.pretraining(seed, body).map_or(Vec::new(), |run| curve(run, point))
}

/// Returns KL(exact ∥ model) of a body's answers in nats, as the mean over tasks with a distribution: the cross-entropy of the
/// labels minus their entropy.
fn distance(results: &Results, seed: u64, body: Body, tasks: &[&str]) -> Curve {
    let point = |p: &ZeroShotPoint| average(tasks, |task| Some(p.scores.get(&in_nats(task))? - entropy(task)?));
    results.pretraining(seed, body).map_or(Vec::new(), |run| curve(run, point))
}

fn curve(run: &PretrainResult, value: impl Fn(&ZeroShotPoint) -> Option<f64>) -> Curve {
    let mut curve: Curve = run.zero_shot.iter().filter_map(|p| Some((p.tokens as f64, value(p)?))).collect();
    // The last step is always measured, even just after a regular measurement.
    if let &[_, (first, _), .., (before, _), (last, _)] = &curve[..]
        && last - before < 0.5 * first
    {
        curve.remove(curve.len() - 2);
    }
    curve
}

/// Returns the last value of a curve.
fn end(curve: &[(f64, f64)]) -> f64 {
    curve[curve.len() - 1].1
}

pub(super) fn claims(results: &Results) -> Vec<Measured> {
    let [began, steady, guessing, ahead] = in_scores(results);
    let [began_nats, steady_nats, guessing_nats, ahead_nats] = in_kl(results);
    vec![began, began_nats, steady, steady_nats, guessing, guessing_nats, ahead, ahead_nats, variance(results)]
}

fn claim(name: &str, statement: &str, differences: Vec<f64>) -> Measured {
    let (name, statement) = (name.into(), statement.into());
    let words = "% of the way from guessing to the best possible score".into();
    Measured { name, statement, quote: paper::HEURISTICS, paper: "yes, no figure", unit: Unit::Way, words, differences }
}

/// Returns a body's curve of scores in a seed, if it was measured more than once.
fn scores(results: &Results, seed: u64, body: Body) -> Option<Curve> {
    Some(normalised(results, seed, body, &ZERO_SHOT)).filter(|curve| curve.len() > 1)
}

fn in_scores(results: &Results) -> [Measured; 4] {
    let gpt = |value: fn(&[(f64, f64)]) -> f64| results.each(|seed| Some(value(&scores(results, seed, Body::Gpt)?)));
    let ahead = |seed| Some(end(&scores(results, seed, Body::Gpt)?) - end(&scores(results, seed, Body::Lstm)?));
    [
        claim("zero-shot", "Zero-shot scores end above where they began", gpt(|c| end(c) - c[0].1)),
        claim("zero-shot-steady", "They keep rising: a line fitted from the first measurement on rises", gpt(|c| trend(&c[1..]))),
        claim("zero-shot-guessing", "They end above guessing", gpt(end)),
        Measured {
            quote: paper::VARIANCE,
            ..claim("zero-shot-transformer", "The Transformer's scores end above the LSTM's", results.each(ahead))
        },
    ]
}

/// Measures the zero-shot claims in nats, also per task: a score may rise while the probabilities become worse.
fn in_kl(results: &Results) -> [Measured; 4] {
    type Gain<'r> = &'r dyn Fn(u64, &[&str]) -> Option<f64>;
    let of = |seed, body, tasks: &[&str]| Some(distance(results, seed, body, tasks)).filter(|curve| curve.len() > 1);
    let claim = |name: &str, statement: &str, gain: Gain<'_>| {
        let mean = |task: &str| Mean::of(&results.each(|seed| gain(seed, &[task])));
        let told = |task: &str| {
            mean(task).map(|mean| {
                let mean = Mean { deviation: None, ..mean }.told(1.0, 2);
                format!("{} {mean}", task.to_uppercase())
            })
        };
        let by_task: Vec<String> = IN_NATS.iter().filter_map(|task| told(task)).collect();
        let words = format!("nats of KL from the exact answer's distribution ({})", by_task.join(", "));
        Measured { unit: Unit::Nats, words, ..claim(name, statement, results.each(|seed| gain(seed, &IN_NATS))) }
    };
    let falls = |seed, tasks: &[&str]| of(seed, Body::Gpt, tasks).map(|c| c[0].1 - end(&c));
    let goes_on = |seed, tasks: &[&str]| of(seed, Body::Gpt, tasks).map(|c| -trend(&c[1..]));
    let nearer = |seed, tasks: &[&str]| Some(average(tasks, uniform)? - end(&of(seed, Body::Gpt, tasks)?));
    let ahead = |seed, tasks: &[&str]| Some(end(&of(seed, Body::Lstm, tasks)?) - end(&of(seed, Body::Gpt, tasks)?));
    [
        claim("zero-shot-nats", "… in nats: the answers end closer to the exact ones", &falls),
        claim("zero-shot-steady-nats", "… in nats: by the same fit, they keep approaching the exact ones", &goes_on),
        claim("zero-shot-guessing-nats", "… in nats: they end closer to the exact ones than a uniform guess is", &nearer),
        Measured {
            quote: paper::VARIANCE,
            ..claim("zero-shot-transformer-nats", "… in nats: the Transformer's answers end closer to the exact ones", &ahead)
        },
    ]
}

fn variance(results: &Results) -> Measured {
    // One value per body over all seeds: reported with the claim, but outside the decision rule.
    let spread = |body| mean_and_deviation(&results.each(|seed| Some(100.0 * end(&scores(results, seed, body)?)))).1;
    let over_seeds = match (spread(Body::Lstm), spread(Body::Gpt)) {
        (Some(a), Some(b)) => format!("; deviation of the ends over seeds {a:.1}, the Transformer's {b:.1}"),
        _ => String::new(),
    };
    let more = |seed| Some(roughness(&scores(results, seed, Body::Lstm)?) - roughness(&scores(results, seed, Body::Gpt)?));
    Measured {
        quote: paper::VARIANCE,
        paper: "higher variance, no figure",
        unit: Unit::Roughness,
        words: format!("points of roughness{over_seeds}"),
        ..claim("zero-shot-variance", "The LSTM's scores vary more during training, about a smooth curve", results.each(more))
    }
}

/// Returns the rise of the least-squares line over the range of a curve.
fn trend(curve: &[(f64, f64)]) -> f64 {
    let mean = |of: fn(&(f64, f64)) -> f64| curve.iter().map(of).sum::<f64>() / curve.len() as f64;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let (mut xy, mut xx) = (0.0, 0.0);
    curve.iter().for_each(|p| (xy, xx) = (xy + (p.0 - x) * (p.1 - y), xx + (p.0 - x).powi(2)));
    let range = curve.last().map_or(0.0, |last| last.0 - curve[0].0);
    if xx > 0.0 { xy / xx * range } else { 0.0 }
}

/// Returns the fluctuation of a curve about a smooth one. The second differences yₜ₋₁ − 2yₜ + yₜ₊₁ have six times the variance of
/// noise that is independent from point to point, and a smooth curve contributes almost nothing to them. The first point, of the
/// untrained model, is left out, because the jump from it is not noise.
fn roughness(curve: &[(f64, f64)]) -> f64 {
    let second: Vec<f64> = curve[1.min(curve.len())..].windows(3).map(|w| w[0].1 - 2.0 * w[1].1 + w[2].1).collect();
    (second.iter().map(|d| d * d).sum::<f64>() / second.len().max(1) as f64 / 6.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smooth_curves_of_any_shape_have_little_roughness() {
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
        // Σ(x − x̄)(y − ȳ) = −0.35 and Σ(x − x̄)² = 5, times the range 3.
        let falling = trend(&[(0.0, 0.5), (1.0, 0.4), (2.0, 0.6), (3.0, 0.2)]);
        assert!((falling + 0.21).abs() < 1e-12, "{falling}");
        assert_eq!([trend(&[]), trend(&[(1.0, 1.0)])], [0.0, 0.0]);
    }

    /// For 4,000 steps, measured every 333, the last measurement but one is at step 3,996.
    #[test]
    fn a_last_measurement_replaces_a_close_predecessor() {
        let point = |step: u64| ZeroShotPoint { step, tokens: step, scores: [("sst-2".into(), 0.5 + 1e-5 * step as f64)].into() };
        let zero_shot = (0..=12).map(|i| point(333 * i)).chain([point(4000)]).collect();
        let run = PretrainResult {
            world: String::new(),
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

    /// A score may rise while the answers diverge from the exact ones, and one task may dominate the mean.
    #[test]
    fn distances_in_nats_are_judged_beside_scores() {
        let at = |step: u64, nats: [f64; 3]| {
            let scores = IN_NATS.iter().zip(nats).map(|(task, kl)| (in_nats(task), kl + entropy(task).unwrap()));
            ZeroShotPoint { step, tokens: step, scores: scores.chain(ZERO_SHOT.map(|task| (task.into(), 0.6))).collect() }
        };
        let run = |body, ends: [f64; 3]| PretrainResult {
            world: String::new(),
            seed: 1,
            body,
            parameters: 1,
            loss: 1.0,
            limit: 1.0,
            zero_shot: vec![at(0, [2.0; 3]), at(10, [0.2; 3]), at(20, ends)],
            seconds: 0.0,
        };
        let pretrained = vec![run(Body::Gpt, [0.3, 1.5, 0.3]), run(Body::Lstm, [0.3, 3.6, 0.0])];
        let found = in_kl(&Results { pretrained, ..Results::default() });
        let differences = found.each_ref().map(|claim| (1e3 * claim.differences[0]).round());
        let uniform = 1e3 * (IN_NATS.map(|task| uniform(task).unwrap()).iter().sum::<f64>() / 3.0 - 0.7);
        assert_eq!(differences, [1300.0, -500.0, uniform.round(), 600.0]);
        assert!(found[3].words.ends_with("(SST-2 0.00, RACE 2.10, DPRD −0.30)"), "{}", found[3].words);
    }
}
