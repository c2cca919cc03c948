//! The comparison of pre-training runs.

use std::collections::{BTreeMap, BTreeSet};

use gradus_io::numbers::{count, duration, figure};
use serde::Serialize;

use crate::document::Document;
use crate::html::{Block, Row};
use crate::metrics::{self, EvaluationRecord, Record, Summary, VALIDATION};
use crate::scale::{Axis, Scale};
use crate::svg::{self, Curve, Ink, Plot};

/// The colours of the runs, in order; further runs repeat them.
const INKS: [Ink; 5] = [Ink::Validation, Ink::Train, Ink::Baseline, Ink::Limit, Ink::Text];

/// A run in a comparison.
#[derive(Clone, Debug, Default)]
pub struct Compared {
    /// The path of the run's directory.
    pub name: String,
    /// An identifier of the run's text and tokenization.
    pub data: String,
    /// Whether the model predicts masked tokens instead of the next token.
    pub masked: bool,
    /// The total number of steps of the run.
    pub total_steps: u64,
    /// The number of parameters.
    pub parameters: u64,
    /// Every setting and its value.
    pub settings: Vec<(String, String)>,
    /// The metrics of the run.
    pub records: Vec<Record>,
}

/// Runs to compare, in display order.
#[derive(Clone, Debug, Default)]
pub struct Comparison(pub Vec<Compared>);

/// The figures of a run. Losses are in nats per token.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Numbers {
    pub run: String,
    pub parameters: u64,
    pub steps: u64,
    pub total_steps: u64,
    pub tokens: u64,
    pub seconds: f64,
    pub tokens_per_second: Option<f64>,
    /// The mean of the last training losses, with dropout.
    pub train_loss: Option<f64>,
    /// The held-out loss at the step where it was lowest, all evaluations of the run compared over the same tokens.
    pub held_out_loss: Option<f64>,
    /// The number of tokens in the mean of the held-out loss.
    pub held_out_tokens: Option<u64>,
    /// The step of the lowest held-out loss.
    pub at_step: Option<u64>,
    pub bits_per_byte: Option<f64>,
    /// The excess of the held-out loss over the exact limit, if the limit is known: 0.1 for 10 %.
    pub excess: Option<f64>,
    /// The held-out losses as (step, tokens, loss).
    pub curve: Vec<(u64, u64, f64)>,
}

impl Compared {
    fn evaluations(&self) -> impl Iterator<Item = &EvaluationRecord> {
        metrics::evaluations(&self.records, VALIDATION)
    }

    fn numbers(&self) -> Numbers {
        let Summary { steps, tokens, elapsed, tokens_per_second, train_loss, best } = Summary::of(&self.records);
        Numbers {
            run: self.name.clone(),
            parameters: self.parameters,
            steps,
            total_steps: self.total_steps,
            tokens,
            seconds: elapsed,
            tokens_per_second,
            train_loss,
            held_out_loss: best.as_ref().map(|best| best.nll),
            held_out_tokens: best.as_ref().and_then(|best| best.over),
            at_step: best.as_ref().map(|best| best.at.step),
            bits_per_byte: best.as_ref().and_then(|best| best.bits_per_byte),
            excess: best.as_ref().and_then(|best| best.excess),
            curve: self.evaluations().map(|found| (found.at.step, found.at.tokens, found.nll)).collect(),
        }
    }
}

impl Comparison {
    /// Returns the figures of each run.
    pub fn numbers(&self) -> Vec<Numbers> {
        self.0.iter().map(Compared::numbers).collect()
    }

    /// Returns the settings that differ between runs, each with its value in every run; `–` if a run lacks the setting.
    pub fn differing(&self) -> Vec<(String, Vec<String>)> {
        let all: Vec<BTreeMap<&str, &str>> =
            self.0.iter().map(|run| run.settings.iter().map(|(name, value)| (&**name, &**value)).collect()).collect();
        let mut seen = BTreeSet::new();
        let names = self.0.iter().flat_map(|run| &run.settings).map(|(name, _)| &**name).filter(|name| seen.insert(*name));
        let values = |name: &str| all.iter().map(|run| (*run.get(name).unwrap_or(&"–")).to_owned()).collect::<Vec<_>>();
        let pairs = names.map(|name| (name.to_owned(), values(name)));
        pairs.filter(|(_, values)| values.iter().any(|value| *value != values[0])).collect()
    }

    /// Returns the reason why the losses are not comparable; `None` if they are.
    pub fn doubt(&self) -> Option<&'static str> {
        let pairs = || self.0.windows(2).map(|pair| (&pair[0], &pair[1]));
        if pairs().any(|(a, b)| a.masked != b.masked) {
            Some("Some predict the next token and others masked tokens: their losses are not comparable.")
        } else if pairs().any(|(a, b)| a.data != b.data) {
            Some("Their texts or tokens differ: losses per token are not comparable; bits per byte have the same unit.")
        } else if self.are_over_unlike_tokens() {
            Some(
                "Their held-out losses are means over different numbers of tokens: the last evaluation of a run reads all held-out text, \
                 those before it a sample.",
            )
        } else {
            None
        }
    }

    fn are_over_unlike_tokens(&self) -> bool {
        let known: BTreeSet<u64> = self.numbers().iter().filter_map(|run| run.held_out_tokens).collect();
        known.len() > 1
    }

    /// Plots the held-out loss and the smoothed training loss over tokens.
    pub fn plots(&self) -> [Plot; 2] {
        let short: Vec<&str> = self.0.iter().map(|run| run.name.rsplit('/').next().unwrap_or(&run.name)).collect();
        let are_short = short.iter().collect::<BTreeSet<_>>().len() == short.len();
        let named = |at: usize| if are_short { short[at] } else { &*self.0[at].name };
        let plot = |title: &str, dots: bool, points: &dyn Fn(&Compared) -> Vec<(f64, f64)>| {
            let curve = |(at, run): (usize, &Compared)| {
                let points = points(run);
                let end =
                    points.iter().rev().find(|point| point.1.is_finite()).map_or(String::new(), |p| format!(": {:.3}", p.1));
                Curve { name: named(at).to_owned() + &end, points, ink: INKS[at % INKS.len()], dots }
            };
            let curves: Vec<Curve> = self.0.iter().enumerate().map(curve).collect();
            let ends = curves.iter().map(|curve| curve.name.clone()).collect::<Vec<_>>().join(", ");
            Plot {
                title: title.into(),
                description: format!("{title} over tokens seen, in nats per token, ending at {ends}."),
                x: Axis::new("tokens seen", Scale::Linear),
                y: Axis::new("loss, nats per token", Scale::Log),
                curves,
                levels: Vec::new(),
                size: svg::WIDE,
            }
        };
        let held_out = |run: &Compared| run.evaluations().map(|found| (found.at.tokens as f64, found.nll)).collect();
        let train = |run: &Compared| {
            svg::smooth(&metrics::steps(&run.records).map(|step| (step.tokens as f64, step.loss)).collect::<Vec<_>>())
        };
        [plot("Held-out loss", true, &held_out), plot("Train loss, moving mean", false, &train)]
    }

    /// Returns the comparison as a document.
    pub fn document(&self) -> Document {
        let mut document = Document {
            kicker: "Gradus · pre-training".into(),
            title: format!("{} runs compared", self.0.len()),
            foot: "Loss is the mean negative log-likelihood in nats per predicted token, on held-out text without dropout, in \
                   training with it. The run with the lowest held-out loss is highlighted if all read the same text."
                .into(),
            ..Document::default()
        };
        let doubt = self.doubt().map(|words| Block::Text(words.into()));
        let caption = "The moving mean reduces the noise of single batches. The vertical axes are logarithmic.";
        let plots: Vec<Block> = (self.plots().into_iter().filter(|plot| !plot.is_empty()))
            .zip([
                "Each dot is an evaluation. The last of a finished run reads all held-out text, those before it a sample.",
                caption,
            ])
            .map(|(plot, caption)| Block::Plots(vec![plot], caption.into()))
            .collect();
        document.section("", doubt.into_iter().chain([self.table()]).chain(plots).collect());
        let heads = [String::new()].into_iter().chain(self.0.iter().map(|run| run.name.clone())).collect();
        let rows: Vec<Row> = self.differing().into_iter().map(|(name, values)| Row::new(name, values)).collect();
        let same = Block::Text("All settings are the same.".into());
        document.section("Where the settings differ", vec![if rows.is_empty() { same } else { Block::Words(heads, rows) }]);
        document
    }

    fn table(&self) -> Block {
        let all = self.numbers();
        let best = all.iter().filter_map(|run| run.held_out_loss).fold(f64::INFINITY, f64::min);
        let heads = [
            "run",
            "held-out loss",
            "over tokens",
            "at step",
            "bits per byte",
            "above the limit",
            "train loss",
            "steps",
            "tokens",
            "parameters",
            "time",
            "tokens/s",
        ];
        let some = |value: Option<f64>, told: fn(f64) -> String| value.map_or("–".into(), told);
        let row = |run: &Numbers| {
            let steps = match run.steps == run.total_steps {
                true => count(run.steps),
                false => format!("{} of {}", count(run.steps), count(run.total_steps)),
            };
            let cells = [
                some(run.held_out_loss, |loss| format!("{loss:.4}")),
                run.held_out_tokens.map_or("–".into(), count),
                run.at_step.map_or("–".into(), count),
                some(run.bits_per_byte, |bits| format!("{bits:.4}")),
                some(run.excess, |excess| format!("{:.1} %", 100.0 * excess)),
                some(run.train_loss, |loss| format!("{loss:.4}")),
                steps,
                count(run.tokens),
                count(run.parameters),
                duration(run.seconds),
                some(run.tokens_per_second, figure),
            ];
            let own = self.doubt().is_none() && run.held_out_loss == Some(best);
            Row { own, ..Row::new(&run.run, cells) }
        };
        Block::table(heads, all.iter().map(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Moment, StepRecord};

    fn run(name: &str, losses: &[f64], settings: &[(&str, &str)]) -> Compared {
        let mut records = Vec::new();
        for (step, &loss) in (1..).zip(losses) {
            let (tokens, elapsed) = (100 * step, step as f64);
            records.push(Record::Step(StepRecord {
                step,
                tokens,
                loss,
                lr: 0.1,
                grad_norm: 1.0,
                tokens_per_second: 100.0,
                elapsed,
            }));
            records.push(Record::Evaluation(EvaluationRecord::new(Moment { step, tokens, elapsed }, VALIDATION, loss + 0.5)));
        }
        let settings = settings.iter().map(|&(name, value)| (name.into(), value.into())).collect();
        Compared { name: name.into(), data: "d".into(), total_steps: 3, parameters: 1_234_567, settings, records, masked: false }
    }

    fn two() -> Comparison {
        let slow = run("runs/slow", &[4.0, 3.0, 2.5], &[("lr", "0.1"), ("width", "8")]);
        Comparison(vec![slow, run("runs/<fast>", &[3.0, 2.0], &[("lr", "0.2"), ("width", "8"), ("decay", "0.01")])])
    }

    #[test]
    fn runs_are_compared_side_by_side() {
        let two = two();
        let differing: Vec<(String, Vec<String>)> = [("lr", ["0.1", "0.2"]), ("decay", ["–", "0.01"])]
            .map(|(name, values)| (name.into(), values.map(String::from).into()))
            .into();
        assert_eq!(two.differing(), differing);
        let numbers = two.numbers();
        assert_eq!((numbers[1].held_out_loss, numbers[1].at_step, numbers[1].steps), (Some(2.5), Some(2), 2));
        assert_eq!(numbers[1].curve, [(1, 100, 3.5), (2, 200, 2.5)]);
        let html = two.document().render();
        for words in ["2 runs compared", "slow: 3.000", "&lt;fast&gt;: 2.500", "<td class=\"number\">2 of 3</td>", "1,234,567"] {
            assert!(html.contains(words), "missing: {words}");
        }
        assert!(html.contains("<tr class=\"own\"><th scope=\"row\">runs/&lt;fast&gt;</th>"), "the best stands out");
        assert!(!html.contains("texts or tokens differ"));
    }

    #[test]
    fn losses_over_different_token_counts_are_marked() {
        let mut two = two();
        let over = |run: &mut Compared, tokens| {
            for record in &mut run.records {
                if let Record::Evaluation(found) = record {
                    found.over = Some(tokens);
                }
            }
        };
        over(&mut two.0[0], 1000);
        assert_eq!(two.doubt(), None, "of the other run it is unknown");
        over(&mut two.0[1], 1000);
        assert_eq!(two.doubt(), None);
        over(&mut two.0[1], 64);
        assert_eq!(two.numbers()[1].held_out_tokens, Some(64));
        let html = two.document().render();
        assert!(html.contains("means over different numbers of tokens") && !html.contains("class=\"own\""), "{html}");
        assert!(html.contains("over tokens") && html.contains("<td class=\"number\">64</td>"), "{html}");
    }

    #[test]
    fn incomparable_losses_are_marked() {
        let mut two = two();
        two.0[1].data = "another".into();
        assert!(two.document().render().contains("texts or tokens differ") && !two.document().render().contains("class=\"own\""));
        two.0[1].masked = true;
        assert!(two.document().render().contains("losses are not comparable"));
        assert!(Comparison(vec![two.0[0].clone(); 2]).document().render().contains("All settings are the same."));
        // A run without metrics, and two runs with the same last path component.
        let empty = Compared { name: "a/slow".into(), ..Compared::default() };
        let html = Comparison(vec![two.0[0].clone(), empty]).document().render();
        assert!(html.contains("runs/slow: 3.000") && html.contains("a/slow"));
    }
}
